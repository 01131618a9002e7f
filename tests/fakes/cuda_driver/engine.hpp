// SPDX-License-Identifier: Apache-2.0
/// Runs queued operations, one at a time, in an order that the dependences allow and a seed
/// chooses. Nothing runs by itself: somebody calls `step` or `finish`.
///
/// Everything here is guarded by the one mutex of the fake (`state::mutex`).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "backend/cuda/abi.hpp"
#include "base/random.hpp"

namespace fake_cuda {

/// What an operation does with its turn.
enum class turn {
  done,
  again,        ///< it needs another turn (a kernel that spins)
  handed_over,  ///< another thread has it and will call `engine::complete`
};

/// Where a fault of an operation stays: the context it belongs to. From then on its operations
/// pass without effect, and the calls on it answer the fault.
struct fault_scope {
  millstream::backend::cuda::abi::result sticky = millstream::backend::cuda::abi::result::success;
};

/// Thrown by an operation that goes wrong while it runs.
struct device_fault {
  millstream::backend::cuda::abi::result code;
  std::string text;
};

struct operation;
using op_ptr = std::shared_ptr<operation>;

struct operation {
  const char* what = "";
  /// Operations of one stream share it; only told apart, never looked into. 0 = of no stream.
  std::uint64_t lane = 0;
  int device = 0;
  std::shared_ptr<fault_scope> faults;
  std::vector<op_ptr> after;  ///< what it waits for; taken by `engine::submit`
  /// The host may be waiting for it by other means than the driver's: it is hurried at once.
  bool host_sees_it = false;
  /// As a part of a graph: the call that launches it comes back only after it.
  bool holds_launch = false;
  /// If set, the operation is parked at its turn until this says true; looked at now and then.
  std::function<bool()> may_start;
  std::function<turn()> run;
  /// Runs only when `run` is left out because of an earlier fault (frees what run would free).
  std::function<void()> skipped;

  [[nodiscard]] bool done() const noexcept { return phase_ == phase::done; }

 private:
  friend class engine;
  enum class phase { created, blocked, parked, ready, running, done };
  phase phase_ = phase::created;
  bool hurried_ = false;
  std::uint64_t rank_ = 0;
  unsigned blockers_ = 0;
  std::vector<operation*> later_;
  std::vector<op_ptr> earlier_;  // not yet done ones; empty once it may run
};

class engine {
 public:
  /// Seed 0 = round robin over the streams; any other one draws the order.
  void seed(std::uint64_t number);
  /// More streams of one device than this that wait (directly or behind others) for a word of
  /// memory stop all other streams of the device. 0 = no limit.
  void park_limit(std::size_t streams) noexcept { park_limit_ = streams; }
  /// How often the limit held work up.
  [[nodiscard]] std::uint64_t stalls() const noexcept { return stalls_; }

  void submit(const op_ptr& what);
  /// Lets one operation run, if any may. With `hurried_only`, one that somebody waits for.
  bool step(bool hurried_only);
  /// The operation and all it depends on are waited for.
  void hurry(const op_ptr& what);
  /// The end of an operation that was handed over.
  void complete(operation& what);
  /// Runs operations until this one is done. `hold` owns the fake's mutex; it is let go in
  /// between.
  void finish(std::unique_lock<std::mutex>& hold, op_ptr what);
  /// Lets go of the mutex until something may have changed.
  void pause(std::unique_lock<std::mutex>& hold);
  /// Forgets everything queued.
  void clear();

  [[nodiscard]] std::size_t pending() const noexcept { return pending_.size(); }
  [[nodiscard]] bool hurried_pending() const noexcept { return hurried_pending_ != 0; }
  [[nodiscard]] std::uint64_t executed() const noexcept { return executed_; }
  [[nodiscard]] const std::string& last_fault() const noexcept { return last_fault_; }
  std::condition_variable& changed() noexcept { return changed_; }

 private:
  void unblock(operation& what);
  static void drop_parts(operation& what);
  [[nodiscard]] std::uint64_t rank_of(const operation& what);
  void look_at_parked();
  [[nodiscard]] bool stalled(const operation& what);
  [[nodiscard]] std::size_t held_up_streams(int device) const;
  [[nodiscard]] std::optional<std::size_t> choose(bool hurried_only);
  [[nodiscard]] std::size_t draw(const std::vector<std::size_t>& among);
  turn take_turn(operation& what);

  std::unordered_set<op_ptr> pending_;
  std::deque<operation*> ready_;
  std::vector<operation*> parked_;
  std::size_t hurried_pending_ = 0;
  std::size_t park_limit_ = 0;
  std::uint64_t stalls_ = 0;
  std::uint64_t executed_ = 0;
  std::uint64_t submitted_ = 0;
  std::unordered_map<std::uint64_t, std::uint64_t> lanes_;  // in the order of their first use
  std::uint64_t seed_ = 0;
  std::uint64_t epoch_ = 0;
  millstream::base::random_source random_{0};
  std::string last_fault_;
  std::condition_variable changed_;
};

}  // namespace fake_cuda
