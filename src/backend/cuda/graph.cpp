// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/graph.hpp"

#include <utility>

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

graph::node_result graph::add_kernel(const launch_request& /*what*/, nodes /*after*/) {
  return missing(on_->who(), "build graphs", capability::graphs);
}
graph::node_result graph::add_copy(const copy_request& /*what*/, nodes /*after*/) {
  return missing(on_->who(), "build graphs", capability::graphs);
}
graph::node_result graph::add_fill(const fill_request& /*what*/, nodes /*after*/) {
  return missing(on_->who(), "build graphs", capability::graphs);
}
graph::node_result graph::add_host(job& /*what*/, nodes /*after*/) {
  return missing(on_->who(), "build graphs", capability::graphs);
}
graph::node_result graph::add_child(backend::graph& /*child*/, nodes /*after*/) {
  return missing(on_->who(), "build graphs", capability::graphs);
}
result<std::unique_ptr<executable_graph>> graph::instantiate() {
  return missing(on_->who(), "launch graphs", capability::graphs);
}
status graph::update(executable_graph& /*target*/) {
  return missing(on_->who(), "launch graphs", capability::graphs);
}

status graph::begin_capture(stream& on, nodes after) {
  std::vector<abi::graph_node> before;
  for (backend::graph_node* each : after)
    before.push_back(static_cast<graph_node*>(each)->raw());
  const context_guard in(on.on.api(), on.on.context());
  const abi::result answer = on.on.api()->cuStreamBeginCaptureToGraph(
      on.raw, raw_, before.data(), nullptr, before.size(), abi::capture_mode::relaxed);
  if (status failed = on.on.check("begin to capture a stream", answer); !failed) return failed;
  on.expect_capture();
  return {};
}

// The nodes behind which the next operation would be put.
result<graph::raw_nodes> graph::ends_of(const stream& on) {
  auto now = abi::capture_status::none;
  abi::graph into = nullptr;
  const abi::graph_node* ends = nullptr;
  const abi::graph_edge* edges = nullptr;
  std::size_t count = 0;
  std::uint64_t id = 0;
  const abi::result answer =
      on.on.api()->cuStreamGetCaptureInfo(on.raw, &now, &id, &into, &ends, &edges, &count);
  if (status failed = on.on.check("look at a capture", answer); !failed) return failed;
  if (now == abi::capture_status::active && into == raw_) return raw_nodes(ends, ends + count);
  return status(errc::usage,
                base::cat(on.on.who(), " is not recording into this graph",
                          now == abi::capture_status::invalidated
                              ? " any more: a call that cannot be recorded spoilt it; leave the "
                                "call out of the body"
                              : "; begin the recording first"));
}

result<abi::graph_node> graph::join(const raw_nodes& ends) {
  if (ends.size() <= 1) return ends.empty() ? nullptr : ends.front();
  abi::graph_node joint = nullptr;
  const abi::result answer =
      on_->api()->cuGraphAddEmptyNode(&joint, raw_, ends.data(), ends.size());
  if (status failed = on_->check("join the ends of a capture", answer); !failed) return failed;
  return joint;
}

status graph::end_capture(stream& on, backend::graph_node** last) {
  *last = nullptr;
  const context_guard in(on.on.api(), on.on.context());
  auto ends = ends_of(on);
  abi::graph captured = nullptr;
  const abi::result answer = on.on.api()->cuStreamEndCapture(on.raw, &captured);
  if (!ends) return ends.take_status();
  if (status failed = on.on.check("end the capture of a stream", answer); !failed) return failed;
  auto tail = join(ends.value());
  if (!tail) return tail.take_status();
  if (tail.value() != nullptr) *last = &nodes_.emplace_back(tail.value());
  return {};
}

}  // namespace millstream::backend::cuda
