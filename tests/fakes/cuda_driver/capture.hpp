// SPDX-License-Identifier: Apache-2.0
/// Streams whose work is recorded into a graph instead of being queued.
#pragma once

#include "tests/fakes/cuda_driver/call.hpp"

namespace fake_cuda {

/// Adds a node behind what the stream has recorded so far. Refuses in a spoilt capture.
void record_node(call& in, const stream_ptr& on, node_work work);

/// From now on the capture answers `stream_capture_invalidated`.
void spoil(capture_state& what);

/// A wait for an event: the stream joins the capture the event was recorded in, or gets the event's
/// nodes as predecessors. True if there is nothing left to do.
[[nodiscard]] bool join_capture(const stream_ptr& on, const event_ptr& mark);

}  // namespace fake_cuda
