// SPDX-License-Identifier: Apache-2.0
/// Records the tasks of one context into graphs of its machine.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/graph.hpp"
#include "core/recorder.hpp"
#include "graph/executable_cache.hpp"
#include "graph/lane_queue.hpp"

namespace millstream::graph {

class recorder final : public core::recorder {
 public:
  recorder(core::machine& on, std::shared_ptr<executable_cache> cache);
  /// Discards what was not launched.
  ~recorder() override;

  [[nodiscard]] std::uint32_t stage() const noexcept override { return stage_; }
  [[nodiscard]] bool is_empty() const noexcept override { return lane_count_ == 0; }
  [[nodiscard]] bool has_jobs() const noexcept override { return !drawing_.jobs.empty(); }

  [[nodiscard]] core::lane_index open(core::place_index place) override;
  [[nodiscard]] core::place_index place_of(core::lane_index lane) const noexcept override {
    return at(lane).place;
  }
  [[nodiscard]] backend::queue& queue(core::lane_index lane) noexcept override;
  void wait(core::lane_index waiter, core::completion what) override;
  [[nodiscard]] core::completion tail(core::lane_index lane) const noexcept override;
  core::completion advance(core::lane_index lane) noexcept override;

  void begin_body(core::lane_index lane) override;
  void end_body(core::lane_index lane) override;
  void drop_body(core::lane_index lane, std::uint32_t stage) noexcept override;
  void release_streams() override;
  [[nodiscard]] std::thread::id user() const noexcept override;
  [[nodiscard]] bool is_beside(core::lane_index lane) const noexcept override;
  void join_body(core::lane_index lane) override;
  void add_graph(core::lane_index lane, const backend::graph& what) override;
  [[nodiscard]] bool await_streams(backend::queue& on) override;
  [[nodiscard]] taken_stage take_stage() override;

  void launch(backend::queue& on) override;
  void give_up() noexcept override;
  void leave_streams(backend::queue& launches) override;
  void leave_streams(core::held_leases& to) override;
  void show_queue(std::uint64_t number) noexcept override { number_ = number; }
  [[nodiscard]] const recording_stats& stats() const noexcept override { return stats_; }
  [[nodiscard]] std::string native_dot() const override;

 private:
  static constexpr std::size_t no_lane = ~std::size_t{0};
  /// A leased queue whose stream bodies are captured from. Libraries keep memory for each stream
  /// and take it for granted that what is issued to one runs one after the other, so that is how
  /// the bodies of one stream are ordered in the graph, whether their data do or not.
  struct body_stream {
    core::place_index place = 0;
    core::leased_queue lease;
    bool is_open = false;  // for the body of this lane of this stage
    core::lane_index lane = 0;
    std::uint32_t stage = 0;
    bool is_kept = false;  // by the graph of the stage
    std::thread::id thread;
    /// Nothing was launched yet since it was leased: whoever had it before may still use it.
    bool is_fresh = true;
    /// The last body of this stage that issued something: until the end of one beside, nobody else
    /// has the stream.
    std::size_t last = no_lane;
    bool is_joining = false;
    std::unique_ptr<backend::graph> beside;  // of a body that is captured beside another thread's
  };

  [[nodiscard]] recorded_lane& at(core::lane_index lane) noexcept {
    return lanes_[lane - core::first_recorded_lane];
  }
  [[nodiscard]] const recorded_lane& at(core::lane_index lane) const noexcept {
    return lanes_[lane - core::first_recorded_lane];
  }
  void end_in_child(core::lane_index lane, backend::graph_node child, std::size_t nodes);
  void begin_stage(core::place_index place);
  void end_stage() noexcept;
  [[nodiscard]] backend::node_span predecessors(core::lane_index lane) noexcept;
  [[nodiscard]] backend::node_span ends_of(recorded_lane& ended);
  void make_node(recorded_lane& lane);
  [[nodiscard]] std::size_t take_stream(recorded_lane& by);
  [[nodiscard]] bool is_free(const body_stream& which, core::place_index place) const noexcept;
  void come_after_last(recorded_lane& lane, const body_stream& of);
  [[nodiscard]] bool has_issued(core::lane_index lane, const backend::node_list& last) noexcept;

  core::machine& machine_;
  const std::shared_ptr<executable_cache> cache_;
  std::unique_ptr<backend::graph> graph_;     // of the present stage; null until it has a lane
  std::unique_ptr<backend::graph> launched_;  // of the stage before, for its picture
  core::place_index graph_place_ = 0;
  drawing drawing_;
  lane_queue queue_;
  std::uint32_t stage_ = 0;
  std::size_t lane_count_ = 0;
  std::vector<recorded_lane> lanes_;  // the first `lane_count_`; the others keep their room
  std::vector<body_stream> streams_;
  std::size_t next_stream_ = 0;
  std::vector<std::pair<core::lane_index, std::unique_ptr<backend::graph>>> unjoined_;
  std::uint64_t number_ = 0;  // of the queue that recorded tasks see where nothing is captured
  recording_stats stats_;
  std::uint64_t trail_ = 0;  // of launches, for the cache
};

}  // namespace millstream::graph
