// SPDX-License-Identifier: Apache-2.0
/// Graphs: made by capture, instantiated and launched.
#pragma once

#include <cstddef>
#include <vector>

#include "tests/fakes/cuda_driver/call.hpp"

namespace fake_cuda {

[[nodiscard]] graph_ptr make_graph(call& in);
void destroy_graph(call& in, const graph_ptr& gone);
[[nodiscard]] graph_ptr graph_of(call& in, graph handle);
/// The nodes of a list; refuses what is no node of this graph.
[[nodiscard]] std::vector<node_ptr> nodes_of(call& in, const graph_state& owner,
                                             const graph_node* list, std::size_t count);
node_ptr add_node(call& in, graph_state& to, node_type type, std::vector<node_ptr> after,
                  op_factory make);

}  // namespace fake_cuda
