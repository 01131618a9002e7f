// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/cuda_driver/address_map.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

namespace fake_cuda {

namespace {

constexpr std::size_t aperture_bytes = std::size_t{64} << 30U;
// Between two blocks nothing is mapped, so that running over the end of one is noticed.
constexpr std::size_t gap_bytes = 512;
constexpr std::align_val_t storage_alignment{4096};
constexpr int fresh_pattern = 0xA5;
// The inside of very large blocks stays untouched, so that nobody has to have all that memory.
constexpr std::size_t patterned_bytes = std::size_t{2} << 20U;

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t step) noexcept {
  return (value + step - 1) / step * step;
}

}  // namespace

storage make_storage(std::size_t bytes) {
  auto* const made = static_cast<std::byte*>(::operator new(bytes, storage_alignment));
  const std::size_t at_each_end = std::min(bytes, patterned_bytes);
  std::memset(made, fresh_pattern, at_each_end);
  std::memset(made + (bytes - at_each_end), fresh_pattern, at_each_end);
  return {made, [](std::byte* gone) { ::operator delete(gone, storage_alignment); }};
}

bool address_map::open(aperture& one) {
  if (one.start != 0) return true;
  void* const start =
      mmap(nullptr, aperture_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) return false;
  // Addresses are even numbers of the largest alignment asked for (2 MiB).
  one.start = round_up(reinterpret_cast<std::uint64_t>(start), std::uint64_t{2} << 20U);
  one.next = one.start;
  return true;
}

std::uint64_t address_map::place(aperture& in, std::size_t bytes, std::size_t alignment) const {
  const std::uint64_t end = in.start + aperture_bytes - (std::uint64_t{2} << 20U);
  std::uint64_t from = round_up(in.next, alignment);
  while (from + bytes + gap_bytes <= end) {
    auto next = reserved_.upper_bound(from);
    if (next != reserved_.begin()) {
      const auto before = std::prev(next);
      const std::uint64_t taken_to = before->first + before->second + gap_bytes;
      if (taken_to > from) {
        from = round_up(taken_to, alignment);
        continue;
      }
    }
    if (next == reserved_.end() || from + bytes + gap_bytes <= next->first) return from;
    from = round_up(next->first + next->second + gap_bytes, alignment);
  }
  return 0;
}

std::uint64_t address_map::reserve(int device, std::size_t bytes, std::size_t alignment) {
  aperture& in = apertures_[device];
  if (bytes > aperture_bytes || !open(in)) return 0;
  std::uint64_t found = place(in, bytes, alignment);
  if (found == 0) {
    in.next = in.start;  // around: addresses of freed blocks are used again only now
    found = place(in, bytes, alignment);
  }
  if (found == 0) return 0;
  in.next = found + bytes + gap_bytes;
  reserved_[found] = bytes;
  return found;
}

block_ptr address_map::find(std::uint64_t address) const {
  auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin()) return nullptr;
  const block_ptr& candidate = std::prev(next)->second;
  return address - candidate->base < candidate->bytes ? candidate : nullptr;
}

std::uint64_t address_map::next_after(std::uint64_t address) const {
  const auto next = blocks_.upper_bound(address);
  return next == blocks_.end() ? std::numeric_limits<std::uint64_t>::max() : next->first;
}

bool address_map::overlaps(std::uint64_t base, std::size_t bytes) const {
  return find(base) != nullptr || next_after(base) < base + bytes;
}

bool address_map::is_device_range(std::uint64_t address) const {
  return std::any_of(apertures_.begin(), apertures_.end(), [address](const auto& one) {
    const aperture& in = one.second;
    return in.start != 0 && address >= in.start && address - in.start < aperture_bytes;
  });
}

void address_map::clear() {
  blocks_.clear();
  reserved_.clear();
  for (auto& [device, in] : apertures_)
    in.next = in.start;
}

}  // namespace fake_cuda
