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

std::unique_ptr<recorder> make_recorder(machine& on) {
  return std::make_unique<graph::recorder>(on, std::make_shared<graph::executable_cache>());
}

}  // namespace millstream::core
