// SPDX-License-Identifier: Apache-2.0
/// What all objects of one host machine share.
#pragma once

#include <memory>
#include <string>

#include "backend/arena_set.hpp"
#include "backend/call_gate.hpp"
#include "backend/host/lane_pool.hpp"
#include "backend/host/queue_directory.hpp"
#include "backend/host/scheduler.hpp"
#include "backend/lane.hpp"
#include "backend/live_count.hpp"

namespace millstream::backend::host {

/// Lives until the machine is closed and the last queue has carried out its operations. Nothing in
/// it changes after the machine was opened, but for the members that guard themselves.
struct machine_state {
  call_gate gate{call_gate::counting::on_demand};
  live_count live;
  arena_set memory;
  queue_directory queues;
  std::shared_ptr<scheduler> order;  ///< in seed mode only
  lane_pool nodes;                   ///< lanes that nodes of graphs run in
  std::size_t node_lanes = 1;        ///< how many of a place one launch may use

  /// The device whose memory is at that address; the host's number for all that belongs to none.
  [[nodiscard]] int device_at(const void* address) const noexcept;
  /// Whether all of the span is memory of that home. `device`, with a text, if not.
  [[nodiscard]] status check_home(const byte_span& span, memory_home home,
                                  const std::string& who) const noexcept;
  /// Whether there is anything to copy or to fill; or what is wrong with the request.
  [[nodiscard]] result<bool> check(const copy_request& request,
                                   const std::string& who) const noexcept;
  [[nodiscard]] result<bool> check(const fill_request& request,
                                   const std::string& who) const noexcept;
  /// How texts begin that are about the place.
  [[nodiscard]] static std::string who_of(int device);
};

/// Where operations are carried out one after the other. May throw std::bad_alloc.
[[nodiscard]] std::shared_ptr<lane> make_lane(const std::shared_ptr<machine_state>& machine,
                                              const std::string& who);

[[nodiscard]] std::string device_name(int device);

}  // namespace millstream::backend::host
