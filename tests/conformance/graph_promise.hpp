// SPDX-License-Identifier: Apache-2.0
/// Words for tests of graphs.
#pragma once

#include <initializer_list>

#include "tests/conformance/promise.hpp"

namespace conformance {

using backend::graph_node;
using backend::node_list;
using graph_ptr = std::unique_ptr<backend::graph>;
using executable_ptr = std::unique_ptr<backend::executable_graph>;
using nodes = std::initializer_list<graph_node>;

[[nodiscard]] inline backend::node_span span_of(nodes all) {
  return {all.begin(), all.size()};
}

/// Jobs, buffers and memory that nodes name must be there until `finish` of the queue that they
/// were launched on.
template <capability... Needed>
class graph_promise : public promise<capability::graphs, Needed...> {
 protected:
  [[nodiscard]] graph_ptr new_graph(int device_index = 0) {
    return value(this->device(device_index).make_graph());
  }
  [[nodiscard]] graph_node fill_node(backend::graph& in, int home, void* to, std::size_t count,
                                     int with, nodes after = {}) {
    return value(in.add_fill(fill_of(home, to, count, with), span_of(after)));
  }
  [[nodiscard]] graph_node copy_node(backend::graph& in, const backend::copy_request& what,
                                     nodes after = {}) {
    return value(in.add_copy(what, span_of(after)));
  }
  [[nodiscard]] graph_node host_node(backend::graph& in, backend::job& what, nodes after = {},
                                     int place = -1) {
    return value(in.add_host(what, place, span_of(after)));
  }
  [[nodiscard]] static backend::fill_request fill_of(int home, void* to, std::size_t count,
                                                     int with) {
    backend::fill_request request;
    request.to = to;
    request.home = static_cast<memory_home>(home);
    request.bytes = count;
    request.pattern[0] = static_cast<std::byte>(with);
    return request;
  }
  [[nodiscard]] int last_device() { return this->machine().device_count() - 1; }
};

}  // namespace conformance
