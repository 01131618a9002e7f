// SPDX-License-Identifier: Apache-2.0
#include "backend/device.hpp"

#include "backend/guarded.hpp"
#include "backend/missing.hpp"

namespace millstream::backend {
namespace {

std::string who(const device& asked) {
  return base::cat("device ", base::quoted(asked.name()));
}

}  // namespace

result<std::unique_ptr<queue>> device::adopt(std::uint64_t /*native_stream*/, bool /*one_thread*/) {
  return guarded(name(), [&] {
    return status(errc::unsupported,
                  base::cat(who(*this), " has no native streams; use a queue of its own"));
  });
}

result<void*> device::allocate_managed(std::size_t /*bytes*/, queue& /*order*/) {
  return missing(who(*this), "allocate managed memory", capability::managed);
}

status device::release_managed(void* block, std::size_t /*bytes*/, queue& /*order*/) {
  if (block == nullptr) return {};
  return missing(who(*this), "release managed memory", capability::managed);
}

result<kernel*> device::adopt_kernel(std::uint64_t /*native*/) {
  return missing(who(*this), "launch kernels", capability::kernels);
}

result<std::unique_ptr<graph>> device::adopt_graph(std::uint64_t /*native*/) {
  return guarded(name(), [&]() -> result<std::unique_ptr<graph>> {
    return status(
        errc::unsupported,
        base::cat(who(*this), " has no graphs with native handles; pass one that to_graph gave"));
  });
}

result<std::vector<std::unique_ptr<device>>> device::split(int /*parts*/, int /*smallest*/) {
  return missing(who(*this), "be split", capability::green_contexts);
}

}  // namespace millstream::backend
