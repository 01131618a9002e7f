// SPDX-License-Identifier: Apache-2.0
/// Memory that captured allocations belong to: addresses of a graph, with bytes behind them from
/// the allocation's node to that of the free, at each launch.
#pragma once

#include <cstddef>
#include <map>

#include "tests/fakes/cuda_driver/call.hpp"

namespace fake_cuda {

/// The addresses end with the last graph, executable and launch that has a part in them, unless a
/// launch left memory there: then with the free of that.
class graph_memory {
 public:
  graph_memory(state& all, block_ptr what) : all_(all), what_(std::move(what)) {}
  graph_memory(const graph_memory&) = delete;
  graph_memory& operator=(const graph_memory&) = delete;
  ~graph_memory();
  [[nodiscard]] const block_ptr& what() const noexcept { return what_; }

 private:
  state& all_;
  block_ptr what_;
};

device_pointer record_allocation(call& in, std::size_t bytes, const pool_ptr& from,
                                 const stream_ptr& on);
/// In the graph that allocated it, or in another one, which frees what a launch left.
void record_free(call& in, const block_ptr& what, const stream_ptr& on);
/// Somebody outside asks to free what a launch left; refuses if none did.
void let_go(state& all, block& what);
[[nodiscard]] op_ptr make_graph_free(state& all, const block_ptr& what, const context_ptr& owner);
/// The block keeps its addresses for the next launch, if there may be one.
void free_graph_bytes(state& all, const block_ptr& what);
/// The bytes behind a block are gone, whoever asked.
void take_graph_bytes(state& all, block& what);

/// By device. What a launch needs at a time for blocks that it frees: an allocation takes the room
/// of one whose free it comes after.
using memory_promise = std::map<int, std::size_t>;
/// Refuses a launch whose memory is still there from the one before, and where there is no room.
[[nodiscard]] memory_promise promise_memory(call& in, const executable_body& what);
void end_promise(state& all, const memory_promise& what);

}  // namespace fake_cuda
