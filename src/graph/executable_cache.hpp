// SPDX-License-Identifier: Apache-2.0
/// Executable graphs that may be used again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "backend/graph.hpp"
#include "core/recorder.hpp"

namespace millstream::graph {

/// What a stage looks like: equal for stages that were recorded alike. `hash` covers the kinds of
/// nodes, their places and their edges, but of what bodies issue only how many nodes end them. So
/// stages may be alike here and differ for the machine.
struct shape {
  std::uint64_t hash = 0;
  std::uint64_t nodes = 0;
  int device = -1;  ///< that it is instantiated for
  friend bool operator==(const shape&, const shape&) noexcept = default;
};

/// Why an executable of a shape is not in the cache, as a count of recording_misses.
using miss_reason = std::uint64_t recording_misses::*;

/// After which launches of a context an executable was the right one. Where shapes that look alike
/// take turns, that tells them apart before the machine is asked.
class known_trails {
 public:
  [[nodiscard]] bool has(std::uint64_t trail) const noexcept;
  void add(std::uint64_t trail) noexcept;
  void remove(std::uint64_t trail) noexcept;

 private:
  std::array<std::uint64_t, 8> trails_{};  // the first `count_`, the oldest in front
  std::size_t count_ = 0;
};

/// Keeps executables by shape, any number of one shape up to eight, within a limit of bytes; the
/// one not used for longest goes first. One that is in use is found by nobody else, so contexts
/// that share a cache do not meet in one executable. Any thread.
class executable_cache final : public core::recorder_cache {
 private:
  struct entry {
    shape like;
    std::size_t bytes;
    std::uint32_t id;
    std::unique_ptr<backend::executable_graph> what;  // null while it is in use
    known_trails trails;                              // of whoever uses it
  };
  using entry_list = std::list<entry>;

 public:
  explicit executable_cache(std::size_t limit_bytes) : limit_(limit_bytes) {}

  /// An executable that its holder uses alone, until it is given back.
  struct taken {
    entry_list::iterator at;
    std::unique_ptr<backend::executable_graph> what;  ///< null: none was found
    explicit operator bool() const noexcept { return what != nullptr; }
  };

  /// The one of that shape which was right after `trail`, else the one that was used last.
  [[nodiscard]] taken take(const shape& like, std::uint64_t trail = 0);
  /// One more of a shape.
  [[nodiscard]] taken add(const shape& like, std::unique_ptr<backend::executable_graph> made);
  /// After it was used. Kept, unless it is larger than the limit; what the policy says of it is
  /// asked by `ask_policy`.
  void give(taken used);
  /// It was not used after all.
  void put_back(taken unused);
  /// Why `take` would give none.
  [[nodiscard]] miss_reason why_missing(const shape& like) const;

  void launch(backend::graph& what, std::uint64_t hash, core::place_index device,
              backend::queue& on, recording_stats& counts, std::uint64_t& trail) override;

  void set_policy(std::function<bool(const executable_info&)> keep) override;
  void ask_policy() noexcept override;
  [[nodiscard]] std::size_t bytes() const override;
  [[nodiscard]] std::size_t size() const override;

 private:
  using policy = std::shared_ptr<const std::function<bool(const executable_info&)>>;
  /// What is known of a shape: executables, those in use too, or why there are none.
  struct known_shape {
    std::vector<entry_list::iterator> all;  // the one used last behind
    miss_reason why = nullptr;              // null = no reason is remembered
    std::list<shape>::iterator absence;     // if there is one
  };
  struct shape_hash {
    std::size_t operator()(const shape& of) const noexcept { return of.hash ^ of.nodes; }
  };
  /// To be put to the policy by the thread that launched.
  struct question {
    shape like;
    std::uint32_t id;
    std::thread::id thread;
    executable_info what;
  };

  // Under the lock. What goes is destroyed without it: that calls the driver.
  void drop(entry_list::iterator which, miss_reason why, entry_list& gone) noexcept;
  void trim(entry_list& gone) noexcept;
  void trim_alike(const known_shape& of, entry_list& gone) noexcept;
  void return_to_list(taken& back);
  void note_absence(const shape& like, miss_reason why) noexcept;
  void forget_absence(known_shape& of) noexcept;
  [[nodiscard]] bool note_question(const entry& about) noexcept;

  [[nodiscard]] entry_list::iterator find(const question& asked) noexcept;

  void leave_out(taken unwanted, miss_reason why) noexcept;
  void note_loss(const shape& like) noexcept;
  void answer(const question& asked, const policy& keep) noexcept;
  [[nodiscard]] static miss_reason refusal_of(
      const std::function<bool(const executable_info&)>& keep,
      const executable_info& what) noexcept;
  [[nodiscard]] std::list<question> take_questions(policy& keep) noexcept;
  [[nodiscard]] taken prepare(backend::graph& what, const shape& like, recording_stats& counts,
                              std::uint64_t trail);
  [[nodiscard]] taken find_taker(backend::graph& what, const shape& like, std::uint64_t trail,
                                 std::vector<std::string>& refusals);

  const std::size_t limit_;
  mutable std::mutex mutex_;  // guards all below; innermost
  entry_list entries_;        // the one used last in front
  std::unordered_map<shape, known_shape, shape_hash> shapes_;
  std::size_t kept_ = 0;  // entries that are not in use
  std::size_t bytes_ = 0;
  std::uint32_t last_id_ = 0;
  std::list<shape> absences_;  // that were launched and are not kept; the one noted last behind
  std::list<question> questions_;
  policy policy_;  // null = keep all
};

}  // namespace millstream::graph
