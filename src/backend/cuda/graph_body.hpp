// SPDX-License-Identifier: Apache-2.0
/// Recording what bodies issue to streams.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backend/cuda/event.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/graph.hpp"

namespace millstream::backend::cuda {

/// The predecessors of a node in the driver's words.
class predecessors {
 public:
  explicit predecessors(node_span after);
  [[nodiscard]] const abi::graph_node* data() const noexcept { return first_; }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }

 private:
  const abi::graph_node* first_;
  std::size_t count_;
  base::small_vector<abi::graph_node, 8> without_none_;
};

/// The bodies that are being recorded into one graph. The driver takes one capture per graph, so
/// they share one: the stream of the first one is its origin, the others are forked from that by an
/// event and then told what they come after. The driver lets no single stream out of a capture, so
/// it ends with the last open body, or when the streams that it was to keep are released: its end
/// takes a time that grows with the graph. One thread at a time.
///
/// Before the end the origin is given what the other streams ended with, so that nothing is left
/// unjoined but what the bodies themselves forgot.
class body_recorder {
 public:
  explicit body_recorder(abi::graph into) : into_(into) {}
  body_recorder(const body_recorder&) = delete;
  body_recorder& operator=(const body_recorder&) = delete;

  status begin(stream& on, node_span after);
  status end(stream& on, node_list& last);
  /// The capture goes on between bodies, until `release`.
  void keep() noexcept { keeps_ = true; }
  /// `who` is who asks.
  status release(const device_state& who);

  /// Nothing more is recorded; streams that are still captured are not any more.
  void abandon() noexcept;

  [[nodiscard]] bool is_open() const noexcept { return !bodies_.empty(); }
  [[nodiscard]] bool is_recording() const noexcept { return origin_ != nullptr; }
  /// The driver destroyed the graph, as it does when a capture into it fails.
  [[nodiscard]] bool is_graph_gone() const noexcept { return is_graph_gone_; }
  /// Not ok once a recording failed, with the reason.
  [[nodiscard]] bool has_failed() const noexcept { return !failed_.empty(); }
  [[nodiscard]] status failure() const;
  void note_failure(const status& why);

 private:
  [[nodiscard]] status check_begin(stream& on) const;
  [[nodiscard]] status start(stream& on, const predecessors& after);
  [[nodiscard]] status fork(stream& on);
  [[nodiscard]] status put_behind(const stream& what, const abi::graph_node* after,
                                  std::size_t count);
  [[nodiscard]] status read_ends(const stream& on, node_list& last);
  [[nodiscard]] status finish(const stream& on, node_list& last);
  [[nodiscard]] status join_all();
  [[nodiscard]] status close();
  [[nodiscard]] abi::result end_capture() noexcept;

  const abi::graph into_;
  stream* origin_ = nullptr;  // null while nothing is recorded
  std::thread::id thread_;
  bool keeps_ = false;
  bool is_graph_gone_ = false;
  std::vector<stream*> bodies_;   // open ones
  std::vector<stream*> members_;  // of the capture
  std::shared_ptr<raw_event> fork_;
  std::string failed_;
};

}  // namespace millstream::backend::cuda
