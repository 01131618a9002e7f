// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/cuda_driver/kernels.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <tuple>
#include <utility>

namespace fake_cuda {

namespace {

/// Elements in device memory, wherever the pieces of the range are.
template <class Element>
class elements {
 public:
  elements(const memory_view& seen, device_pointer start, access_flags how)
      : seen_(seen), start_(start), how_(how) {
    if (start % alignof(Element) != 0)
      throw device_fault{result::misaligned_address, describe(start, sizeof(Element))};
  }
  Element& operator[](std::uint64_t index) {
    const device_pointer where = start_ + index * sizeof(Element);
    if (where < piece_start_ || where - piece_start_ >= piece_bytes_) fetch(where);
    return *reinterpret_cast<Element*>(piece_ + (where - piece_start_));
  }

 private:
  void fetch(device_pointer where) {
    piece_bytes_ = std::size_t{1} << 40U;  // as much as there is
    piece_ = seen_.touch(where, piece_bytes_, how_);
    piece_start_ = where;
    if (piece_bytes_ < sizeof(Element))
      throw device_fault{result::illegal_address, describe(where, sizeof(Element))};
  }

  const memory_view& seen_;
  device_pointer start_;
  access_flags how_;
  std::byte* piece_ = nullptr;
  device_pointer piece_start_ = 0;
  std::size_t piece_bytes_ = 0;
};

template <class Element>
elements<Element> writable(const kernel_run& in, device_pointer start) {
  return {in.seen, start, access_flags::read_write};
}
template <class Element>
elements<Element> readable(const kernel_run& in, device_pointer start) {
  return {in.seen, start, access_flags::read};
}

template <class Element>
turn fill(const kernel_run& in, device_pointer to, Element value, std::uint64_t count) {
  elements<Element> target = writable<Element>(in, to);
  for (std::uint64_t i = 0; i < count; ++i)
    target[i] = value;
  return turn::done;
}

/// x = a x
template <class Element>
turn scale(const kernel_run& in, device_pointer x, Element a, std::uint64_t count) {
  elements<Element> target = writable<Element>(in, x);
  for (std::uint64_t i = 0; i < count; ++i)
    target[i] *= a;
  return turn::done;
}

/// y = y + a x
template <class Element>
turn axpy(const kernel_run& in, device_pointer y, device_pointer x, Element a,
          std::uint64_t count) {
  elements<Element> target = writable<Element>(in, y);
  elements<Element> source = readable<Element>(in, x);
  for (std::uint64_t i = 0; i < count; ++i)
    target[i] += a * source[i];
  return turn::done;
}

/// z = x + y
template <class Element>
turn add(const kernel_run& in, device_pointer z, device_pointer x, device_pointer y,
         std::uint64_t count) {
  elements<Element> target = writable<Element>(in, z);
  elements<Element> first = readable<Element>(in, x);
  elements<Element> second = readable<Element>(in, y);
  for (std::uint64_t i = 0; i < count; ++i)
    target[i] = first[i] + second[i];
  return turn::done;
}

/// Lets others run a number of times.
turn spin(const kernel_run& in, std::uint64_t turns) {
  return in.turns < turns ? turn::again : turn::done;
}

turn spin_until_set(const kernel_run& in, device_pointer word) {
  elements<std::uint32_t> watched = readable<std::uint32_t>(in, word);
  return std::atomic_ref<std::uint32_t>(watched[0]).load() == 0 ? turn::again : turn::done;
}

turn write_word(const kernel_run& in, device_pointer word, std::uint32_t value) {
  elements<std::uint32_t> target = writable<std::uint32_t>(in, word);
  std::atomic_ref<std::uint32_t>(target[0]).store(value);
  return turn::done;
}

turn touch(const kernel_run& in, device_pointer where) {
  static_cast<void>(writable<std::uint32_t>(in, where)[0]);
  return turn::done;
}

template <class Value>
Value unpack(const std::byte* block, const parameter& where) {
  Value value;
  std::memcpy(&value, block + where.offset, sizeof(Value));
  return value;
}

/// Parameters lie one behind the other, each at a multiple of its alignment.
template <class... Parameters>
std::vector<parameter> lay_out() {
  std::vector<parameter> made;
  std::size_t next = 0;
  const auto place = [&](std::size_t bytes, std::size_t alignment) {
    next = (next + alignment - 1) / alignment * alignment;
    made.push_back({next, bytes});
    next += bytes;
  };
  (place(sizeof(Parameters), alignof(Parameters)), ...);
  return made;
}

template <class... Parameters>
builtin_kernel make(const char* name, turn (*body)(const kernel_run&, Parameters...)) {
  const std::vector<parameter> layout = lay_out<Parameters...>();
  const auto run = [layout, body]<std::size_t... Index>(const kernel_run& in,
                                                        std::index_sequence<Index...>) {
    return body(in, unpack<Parameters>(in.arguments, layout[Index])...);
  };
  return {name, layout, [run](const kernel_run& in) {
            return run(in, std::index_sequence_for<Parameters...>{});
          }};
}

const std::vector<builtin_kernel>& builtins() {
  static const auto* const all = new std::vector<builtin_kernel>{
      make("test_fill_u8", fill<std::uint8_t>),
      make("test_fill_u32", fill<std::uint32_t>),
      make("test_fill_f64", fill<double>),
      make("test_scale_f32", scale<float>),
      make("test_scale_f64", scale<double>),
      make("test_axpy_f64", axpy<double>),
      make("test_add_f64", add<double>),
      make("test_add_u32", add<std::uint32_t>),
      make("test_spin", spin),
      make("test_spin_until_set", spin_until_set),
      make("test_write_word", write_word),
      make("test_touch", touch),
  };
  return *all;
}

}  // namespace

const builtin_kernel* find_builtin(std::string_view name) {
  const std::vector<builtin_kernel>& all = builtins();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [name](const builtin_kernel& one) { return one.name == name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace fake_cuda
