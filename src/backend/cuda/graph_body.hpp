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
/// all open bodies share one: the stream of the first one is its origin, the others are forked from
/// that by an event and then told what they come after. It ends with the last open body, as the
/// driver lets no single stream out of a capture. One thread at a time.
///
/// What each body ended with is made a predecessor of the origin before the end, so that nothing is
/// left unjoined but what the bodies themselves forgot.
class body_recorder {
 public:
  explicit body_recorder(abi::graph into) : into_(into) {}
  body_recorder(const body_recorder&) = delete;
  body_recorder& operator=(const body_recorder&) = delete;

  status begin(stream& on, node_span after);
  status end(stream& on, node_list& last);

  /// Nothing more is recorded; streams that are still captured are not any more.
  void abandon() noexcept;

  [[nodiscard]] bool is_open() const noexcept { return !bodies_.empty(); }
  /// Not ok once a recording failed, with the reason.
  [[nodiscard]] status failure() const;
  void note_failure(const status& why);

 private:
  struct origin {
    device_state* on = nullptr;
    abi::stream raw = nullptr;
  };
  [[nodiscard]] status check_begin(stream& on) const;
  [[nodiscard]] status start(stream& on, const predecessors& after);
  [[nodiscard]] status fork(stream& on);
  [[nodiscard]] status put_behind(device_state& on, abi::stream raw, const abi::graph_node* after,
                                  std::size_t count);
  [[nodiscard]] status read_ends(stream& on, node_list& last);
  [[nodiscard]] status finish(stream& on, node_list& last);
  [[nodiscard]] status join_all();
  [[nodiscard]] abi::result end_capture() noexcept;

  const abi::graph into_;
  origin origin_;  // null while nothing is recorded
  std::thread::id thread_;
  std::vector<abi::stream> bodies_;    // open ones
  std::vector<abi::stream> members_;   // of the capture
  std::vector<abi::graph_node> ends_;  // of bodies that ended in this capture while others went on
  std::shared_ptr<raw_event> fork_;
  std::string failed_;
};

}  // namespace millstream::backend::cuda
