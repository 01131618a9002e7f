// SPDX-License-Identifier: Apache-2.0
/// Graphs: made by capture or node by node, instantiated, updated and launched.
#pragma once

#include <cstddef>
#include <vector>

#include "tests/fakes/cuda_driver/call.hpp"

namespace fake_cuda {

[[nodiscard]] graph_ptr make_graph(call& in);
void destroy_graph(call& in, const graph_ptr& gone);
[[nodiscard]] graph_ptr graph_of(call& in, graph handle);
[[nodiscard]] node_ptr node_of(call& in, graph_node handle);
/// The nodes of a list; refuses what is no node of this graph, and a node named twice.
[[nodiscard]] std::vector<node_ptr> nodes_of(call& in, const graph_state& owner,
                                             const graph_node* list, std::size_t count);
node_ptr add_node(call& in, graph_state& to, node_work work, std::vector<node_ptr> after);

/// From a kernel to one that may begin when that has allowed it.
inline constexpr graph_edge programmatic_edge{
    edge_port::programmatic, 0, edge_type::programmatic, {}};

[[nodiscard]] std::shared_ptr<const executable_body> make_body(const graph_state& of);
/// Such graphs cannot be parts of others.
[[nodiscard]] bool owns_memory(const executable_body& what);

/// Operations of nodes that were not issued to a stream.
[[nodiscard]] op_factory make_host_call(call& in, const context_ptr& owner, host_function function,
                                        void* data);
[[nodiscard]] op_factory make_copy(call& in, const copy_3d& what, const context_ptr& owner);
[[nodiscard]] op_factory make_fill(call& in, const fill_node& what, const context_ptr& owner);

}  // namespace fake_cuda
