// SPDX-License-Identifier: Apache-2.0
/// What the engine needs of whoever records its tasks (docs/design/0006-recording.md).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <millstream/untyped.hpp>

#include "backend/graph.hpp"
#include "backend/queue.hpp"
#include "core/completion.hpp"
#include "core/machine.hpp"

namespace millstream::core {

/// Records one stage after the other. Every lane it opens belongs to one task or copy of the
/// present stage and is gone with it; its queue makes a node of each operation, behind the one
/// before and what the lane was told to wait for. All functions are called under the context's
/// lock. Those that call the driver throw error(code, ...) with its text.
class recorder {
 public:
  recorder() = default;
  recorder(const recorder&) = delete;
  recorder& operator=(const recorder&) = delete;
  virtual ~recorder() = default;

  /// Number of the present stage, from 0.
  [[nodiscard]] virtual std::uint32_t stage() const noexcept = 0;
  /// Whether nothing was recorded in it.
  [[nodiscard]] virtual bool is_empty() const noexcept = 0;
  /// Whether it has jobs (`queue::run`) in it.
  [[nodiscard]] virtual bool has_jobs() const noexcept = 0;

  [[nodiscard]] virtual lane_index open(place_index place) = 0;
  [[nodiscard]] virtual place_index place_of(lane_index lane) const noexcept = 0;
  /// Good until the next call of this function. Copy, fill, run and launch are served.
  [[nodiscard]] virtual backend::queue& queue(lane_index lane) noexcept = 0;
  /// Later operations of the lane come after `what`, which belongs to this stage.
  virtual void wait(lane_index waiter, completion what) = 0;
  /// The position of what was recorded on the lane last.
  [[nodiscard]] virtual completion tail(lane_index lane) const noexcept = 0;
  virtual completion advance(lane_index lane) noexcept = 0;

  /// From now on what is issued to the lane's stream is recorded (`queue(lane).handle()`, until
  /// `end_body`). Any number of lanes of any threads may do that at once.
  virtual void begin_body(lane_index lane) = 0;
  /// Throws if something in the body could not be recorded: then the stage is lost, unless the body
  /// is captured beside it.
  virtual void end_body(lane_index lane) = 0;
  /// Ends a body of a stage that was lost meanwhile.
  virtual void drop_body(lane_index lane, std::uint32_t stage) noexcept = 0;
  /// No stream stays captured between bodies, unless one is open now: till the next body begins.
  /// Throws as `end_body`.
  virtual void release_streams() = 0;
  /// The thread that issues work which becomes nodes of the stage, without the context's lock; none
  /// if no body is open. Another one may record nothing then but bodies, which are captured beside
  /// the stage.
  [[nodiscard]] virtual std::thread::id user() const noexcept = 0;
  [[nodiscard]] bool is_busy() const noexcept {
    const std::thread::id by = user();
    return by != std::thread::id() && by != std::this_thread::get_id();
  }
  [[nodiscard]] virtual bool is_beside(lane_index lane) const noexcept = 0;
  /// Puts such a body into the stage, after its end.
  virtual void join_body(lane_index lane) = 0;

  /// Makes the nodes of `what`, as they are now, the lane's next operation.
  virtual void add_graph(lane_index lane, const backend::graph& what) = 0;

  /// Has `on` wait for what others left in the streams that bodies were captured from. False if it
  /// need not.
  [[nodiscard]] virtual bool await_streams(backend::queue& on) = 0;
  /// What was recorded, of whoever takes it, jobs included; the next stage begins. If it throws,
  /// the stage is to be given up.
  struct taken_stage {
    std::unique_ptr<backend::graph> graph;
    std::vector<backend::job*> jobs;
    place_index place = 0;  ///< the device that it is to be instantiated for
  };
  [[nodiscard]] virtual taken_stage take_stage() = 0;
  /// Queues what was recorded on `on`, or makes it a part of what somebody else records of `on`,
  /// and begins the next stage, also if that fails: then no job of the stage will run, all were
  /// discarded.
  virtual void launch(backend::queue& on) = 0;
  /// What others issue to the streams of bodies from now on comes behind what `launches` has. Once,
  /// in the end.
  virtual void leave_streams(backend::queue& launches) = 0;
  /// The same where that is a recording of somebody else's, which may run again at any time: the
  /// streams are for whoever keeps it.
  virtual void leave_streams(held_leases& to) = 0;
  /// Discards what was recorded, and begins the next stage.
  virtual void give_up() noexcept = 0;
  /// The number that lanes show as their queue's where nothing is captured: that of the queue which
  /// launches the stages.
  virtual void show_queue(std::uint64_t number) noexcept = 0;

  [[nodiscard]] virtual const recording_stats& stats() const noexcept = 0;
  /// The machine's picture of the stage launched last, or of the present one if none was.
  [[nodiscard]] virtual std::string native_dot() const = 0;
};

/// The state of shared_resources. Any thread.
class recorder_cache {
 public:
  recorder_cache() = default;
  recorder_cache(const recorder_cache&) = delete;
  recorder_cache& operator=(const recorder_cache&) = delete;
  virtual ~recorder_cache() = default;
  virtual void set_policy(std::function<bool(const executable_info&)> keep) = 0;
  /// Puts to the policy what launches of the calling thread left, and drops what it declines. User
  /// code, so without any lock of the library.
  virtual void ask_policy() noexcept = 0;
  [[nodiscard]] virtual std::size_t size() const = 0;
  [[nodiscard]] virtual std::size_t bytes() const = 0;
  /// Queues the graph, which is to be instantiated for `device`, on `on`, by an executable that is
  /// kept, updated or made; where somebody else records `on`, as one node of that. `hash` is equal
  /// for graphs that were made alike. `trail` is 0 at first, and then what it was made by the
  /// launch before of this caller. Throws error(code, ...) with the driver's text. The policy has
  /// to be asked later.
  virtual void launch(backend::graph& what, std::uint64_t hash, place_index device,
                      backend::queue& on, recording_stats& counts, std::uint64_t& trail) = 0;
};

// Given by the assembly.

[[nodiscard]] std::shared_ptr<recorder_cache> make_recorder_cache(std::size_t limit_bytes);
/// Throws error(unsupported) where the machine has no graphs.
[[nodiscard]] std::unique_ptr<recorder> make_recorder(machine& on,
                                                      std::shared_ptr<recorder_cache> cache);

}  // namespace millstream::core
