// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/graph.hpp"

#include <utility>

#include "backend/cuda/queue.hpp"
#include "backend/missing.hpp"
#include "base/text.hpp"

namespace millstream::backend::cuda {

result<std::unique_ptr<graph>> graph::make(std::shared_ptr<device_state> on) {
  abi::graph made = nullptr;
  if (status failed = on->check("make a graph", on->api()->cuGraphCreate(&made, 0)); !failed) {
    return failed;
  }
  return std::make_unique<graph>(std::move(on), made);
}

graph::graph(std::shared_ptr<device_state> on, abi::graph raw)
    : on_(std::move(on)), alive_(on_->machine().live), raw_(raw) {}

graph::~graph() {
  if (!base::forked_child()) on_->api()->cuGraphDestroy(raw_);
}

result<graph_node> graph::add_kernel(const launch_request& /*what*/, node_span /*after*/) {
  return missing(on_->who(), "build graphs", capability::graphs);
}
result<graph_node> graph::add_copy(const copy_request& /*what*/, node_span /*after*/) {
  return missing(on_->who(), "build graphs", capability::graphs);
}
result<graph_node> graph::add_fill(const fill_request& /*what*/, node_span /*after*/) {
  return missing(on_->who(), "build graphs", capability::graphs);
}
result<graph_node> graph::add_host(job& /*what*/, int /*device*/, node_span /*after*/) {
  return missing(on_->who(), "build graphs", capability::graphs);
}
result<graph_node> graph::add_child(const backend::graph& /*child*/, node_span /*after*/) {
  return missing(on_->who(), "build graphs", capability::graphs);
}
std::size_t graph::node_count() const noexcept {
  return 0;
}
result<std::unique_ptr<executable_graph>> graph::instantiate() {
  return missing(on_->who(), "launch graphs", capability::graphs);
}
status graph::update(executable_graph& /*target*/) {
  return missing(on_->who(), "launch graphs", capability::graphs);
}
result<std::string> graph::dot() const {
  return missing(on_->who(), "draw graphs", capability::graphs);
}

status graph::begin_body(backend::queue& on, node_span after) {
  const stream& captured = *static_cast<any_queue&>(on).native();
  const context_guard in(captured.on.api(), captured.on.context());
  const abi::result answer = captured.on.api()->cuStreamBeginCaptureToGraph(
      captured.raw, raw_, reinterpret_cast<const abi::graph_node*>(after.data()), nullptr,
      after.size(), abi::capture_mode::relaxed);
  if (status failed = captured.on.check("begin to capture a stream", answer); !failed) {
    return failed;
  }
  static_cast<any_queue&>(on).native()->expect_capture();
  return {};
}

// The nodes behind which the next operation would be put.
result<node_list> graph::ends_of(const stream& on) {
  auto now = abi::capture_status::none;
  abi::graph into = nullptr;
  const abi::graph_node* ends = nullptr;
  const abi::graph_edge* edges = nullptr;
  std::size_t count = 0;
  std::uint64_t id = 0;
  const abi::result answer =
      on.on.api()->cuStreamGetCaptureInfo(on.raw, &now, &id, &into, &ends, &edges, &count);
  if (status failed = on.on.check("look at a capture", answer); !failed) return failed;
  if (now == abi::capture_status::active && into == raw_) {
    node_list found;
    for (std::size_t i = 0; i < count; ++i)
      found.push_back(graph_node{reinterpret_cast<std::uintptr_t>(ends[i])});
    return found;
  }
  return status(errc::usage,
                base::cat(on.on.who(), " is not recording into this graph",
                          now == abi::capture_status::invalidated
                              ? " any more: a call that cannot be recorded spoilt it; leave the "
                                "call out of the body"
                              : "; begin the recording first"));
}

status graph::end_body(backend::queue& on, node_list& last) {
  last.clear();
  const stream& captured = *static_cast<any_queue&>(on).native();
  const context_guard in(captured.on.api(), captured.on.context());
  auto ends = ends_of(captured);
  abi::graph into = nullptr;
  const abi::result answer = captured.on.api()->cuStreamEndCapture(captured.raw, &into);
  if (!ends) return ends.take_status();
  if (status failed = captured.on.check("end the capture of a stream", answer); !failed) {
    return failed;
  }
  last = std::move(ends.value());
  return {};
}

}  // namespace millstream::backend::cuda
