// SPDX-License-Identifier: Apache-2.0
/// The composition root: the only file that names the backends.
#include <array>

#if MILLSTREAM_BACKEND_CUDA
#include "backend/cuda/machine.hpp"
#endif
#include "backend/host/machine.hpp"
#if MILLSTREAM_BACKEND_NULL
#include "backend/null/machine.hpp"
#endif
#include "backend/machine.hpp"
#include "graph/recorder.hpp"

namespace millstream::backend {

std::span<const backend_entry> backends() noexcept {
  // Best first. The null machine runs nothing, so nobody gets it without asking.
  static constexpr std::array entries{
#if MILLSTREAM_BACKEND_CUDA
      backend_entry{.name = "cuda", .open = &cuda::open, .may_be_default = true},
#endif
      backend_entry{.name = "host", .open = &host::open, .may_be_default = true},
#if MILLSTREAM_BACKEND_NULL
      backend_entry{.name = "null", .open = &null::open, .may_be_default = false},
#endif
  };
  return entries;
}

}  // namespace millstream::backend

namespace millstream::core {

std::shared_ptr<recorder_cache> make_recorder_cache(std::size_t limit_bytes) {
  return std::make_shared<graph::executable_cache>(limit_bytes);
}

std::unique_ptr<recorder> make_recorder(machine& on, std::shared_ptr<recorder_cache> cache) {
  return std::make_unique<graph::recorder>(
      on, std::static_pointer_cast<graph::executable_cache>(std::move(cache)));
}

}  // namespace millstream::core
