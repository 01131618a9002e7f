// SPDX-License-Identifier: Apache-2.0
/// One task on its way through the engine: its dependencies merged and
/// resolved.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <millstream/untyped.hpp>

#include "base/small_vector.hpp"
#include "core/completion.hpp"
#include "core/place.hpp"

namespace millstream::core {

class context;
class data;

/// One datum of a task, after merging.
struct access {
  data* what = nullptr;
  access_mode mode = access_mode::none;
  bool placed = false;  // the user named the place
  place_index place = host_place;
  bool attached = false;   // the instance was made for this task
  bool shared = false;     // not the user's wish: it shares bytes with a datum of the task
  bool inherited = false;  // shared, and what that datum reads was made by this one
  // Of the datum, in case the task does not begin after all.
  bool written_before = false;
  place_set valid_before;
  void* address = nullptr;
  std::uint64_t version = 0;  // the one it reads; it writes the next
};
static_assert(sizeof(access) == 48, "each task has some");

/// Lives on the stack of the submitting thread or inside an open task. The data
/// are kept alive by the dependencies they come from.
struct plan {
  std::uint64_t id = 0;  // 0 = not numbered yet
  std::string_view symbol;
  source_site site;
  const char* reader = nullptr;  // no task, but a read by that call, "wait"
  task_kind kind = task_kind::task;
  bool host_on_device = false;  // it runs on a device and uses host memory
  bool uses_device = true;      // false: a host function that is declared not to
  place_index exec = host_place;
  lane_index lane = no_lane;
  std::uint32_t stage = 0;  // of a recorded lane
  base::small_vector<std::uint16_t, 8> access_of_dep;
  std::vector<untyped_data> shared;  // keeps the data of shared accesses
  // Last, because it is long: what is used of a plan with few accesses lies on few lines.
  base::small_vector<access, 8> accesses;

  [[nodiscard]] bool writes_any() const noexcept;
  /// What the user called: "submit", "task", "wait", "get".
  [[nodiscard]] const char* call() const noexcept;
  /// "task 'x'", "task 'x' (file:12)", "task 12", "wait".
  [[nodiscard]] std::string name() const;
  [[nodiscard]] std::string full_name() const;
  /// "'a', 'b'": the data it writes. Under the context's lock.
  [[nodiscard]] std::string written_names() const;
};

/// Of a plan that was not started. Merges repeated data, resolves places, and makes every check
/// that needs no lock. Throws error(invalid_value) for data of another context, writes to read-only
/// data, contradictory places, unknown devices.
void make_plan(context& in, const task_spec& what, plan& made);

}  // namespace millstream::core
