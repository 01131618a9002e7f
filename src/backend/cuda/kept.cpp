// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/kept.hpp"

#include <utility>

#include "backend/cuda/state.hpp"
#include "backend/missing.hpp"
#include "backend/parting.hpp"

namespace millstream::backend::cuda {
namespace {

/// The driver's callback, on a thread of the driver, which may not be held up.
void let_go(void* of) {
  delete static_cast<std::shared_ptr<void>*>(of);
}

}  // namespace

status keep_in(device_state& on, abi::graph by, std::shared_ptr<void> what) {
  if (!on.machine().bits.has(capability::graphs)) {
    return missing(on.who(), "keep what a graph uses", capability::graphs);
  }
  const driver& api = on.api();
  auto held = std::make_unique<std::shared_ptr<void>>(part_elsewhere(std::move(what)));
  const context_guard in(api, on.context());
  const relaxed_capture allowed(api);
  abi::user_object made = nullptr;
  const abi::result created = api->cuUserObjectCreate(&made, held.get(), &let_go, 1,
                                                      abi::user_object_flags::no_destructor_sync);
  if (status failed = on.check("keep what a graph uses", created); !failed) return failed;
  [[maybe_unused]] const auto* const given = held.release();  // the object's now
  const abi::result kept =
      api->cuGraphRetainUserObject(by, made, 1, abi::retain_user_object_flags::move);
  if (kept != abi::result::success) api->cuUserObjectRelease(made, 1);
  return on.check("keep what a graph uses", kept);
}

}  // namespace millstream::backend::cuda
