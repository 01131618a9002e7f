// SPDX-License-Identifier: Apache-2.0
#include "backend/machine.hpp"

#include "backend/guarded.hpp"
#include "backend/missing.hpp"

namespace millstream::backend {
namespace {

std::string who(const machine& asked) {
  return base::cat("machine ", base::quoted(asked.name()));
}

}  // namespace

status machine::enable_peer(int /*by*/, int /*of*/) {
  if (capabilities().has(capability::peer)) return {};
  return missing(who(*this), "let devices reach each other", capability::peer);
}

result<std::unique_ptr<virtual_range>> machine::reserve_range(std::size_t /*bytes*/) {
  return missing(who(*this), "reserve ranges of addresses", capability::vmm);
}

result<int> machine::device_of_stream(std::uint64_t /*native_stream*/) {
  return status(errc::unsupported, base::cat("machine ", base::quoted(name()),
                                             " has no streams of others; leave the stream out"));
}

result<std::unique_ptr<device>> machine::adopt_context(std::uint64_t /*native*/) {
  return guarded(name(), [&] {
    return status(errc::unsupported,
                  base::cat(who(*this), " has no native contexts; use a device of its own"));
  });
}

}  // namespace millstream::backend
