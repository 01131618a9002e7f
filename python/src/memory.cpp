// SPDX-License-Identifier: Apache-2.0
#include "memory.hpp"

#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/pair.h>

#include "bind.hpp"
#include "convert.hpp"
#include "dlpack.hpp"
#include "errors.hpp"
#include "machine.hpp"
#include "numpy.hpp"

namespace millstream::python {
namespace {

using namespace nb::literals;

const machine& default_machine() {
  return find_machine({})->opened();
}

bool has_host_memory() {
  return default_machine().has_host_memory();
}

void* to_pointer(nb::handle number) {
  return reinterpret_cast<void*>(to_index(number, "ptr"));
}

// Of a machine without streams, 0 is one that no task uses.
std::uint64_t order_on(const machine& on, data_place place, std::uint64_t stream) {
  if (stream != 0 || on.runs_kernels()) return stream;
  return on.hand_over_stream(place.what() == data_place::kind::device ? place.index() : 0);
}

// The host array is not used after the call.
void copy(nb::handle array, nb::handle pointer, std::uint64_t stream, bool from_array) {
  const auto bytes = nb::cast<std::size_t>(array.attr("nbytes"));
  if (bytes == 0) return;
  const machine& on = default_machine();
  const placed_block host{address_of(array), data_place::host()};
  void* const address = to_pointer(pointer);
  const placed_block memory{address, on.home_of(address)};
  const std::uint64_t order = order_on(on, memory.place, stream);
  const released_lock section;
  if (from_array) {
    on.copy(memory, host, bytes, order);
  } else {
    on.copy(host, memory, bytes, order);
  }
  synchronize(order);
}

dlpack_device kind_of(data_place home) {
  switch (home.what()) {
    case data_place::kind::device: return dlpack_device::cuda;
    case data_place::kind::managed: return dlpack_device::cuda_managed;
    default: return dlpack_device::cuda_host;
  }
}

// A null pointer is that of an empty array.
std::pair<int, int> dlpack_device_of(nb::handle pointer) {
  const machine& on = default_machine();
  if (on.has_host_memory()) return {static_cast<int>(dlpack_device::cpu), 0};
  void* const memory = to_pointer(pointer);
  const data_place home =
      memory == nullptr ? data_place::device(on.current_device()) : on.home_of(memory);
  const bool on_device = home.what() == data_place::kind::device;
  return {static_cast<int>(kind_of(home)), on_device ? home.index() : 0};
}

nb::object make_capsule(nb::handle owner, nb::handle pointer, nb::handle size, nb::handle dtype,
                        std::pair<int, int> device) {
  dlpack_export memory;
  const auto extent = static_cast<Py_ssize_t>(to_index(size, "size"));
  memory.what = make_layout_of(nb::borrow(dtype), extent_list({&extent, 1}));
  memory.address = to_pointer(pointer);
  memory.home = {static_cast<dlpack_device>(device.first), device.second};
  memory.owner = nb::borrow(owner);
  return to_capsule(memory, /*versioned=*/false);
}

std::uint8_t to_small(nb::handle number, const char* argument) {
  const std::size_t value = to_index(number, argument);
  if (value <= 255) return static_cast<std::uint8_t>(value);
  throw error(errc::invalid_value,
              "'" + std::string(argument) + "' is " + std::to_string(value) + "; pass 0 to 255");
}

std::vector<Py_ssize_t> to_extents(nb::handle shape) {
  std::vector<Py_ssize_t> dims;
  for (const nb::handle each : nb::iter(shape))
    dims.push_back(static_cast<Py_ssize_t>(to_index(each, "shape")));
  return dims;
}

nb::object export_memory(nb::handle owner, nb::handle pointer, nb::handle shape, nb::handle code,
                         nb::handle bits, nb::handle device) {
  dlpack_export memory;
  memory.what =
      make_layout_of(dtype_by_dlpack(to_small(code, "dtype_code"), to_small(bits, "dtype_bits")),
                     extent_list(to_extents(shape)));
  memory.address = to_pointer(pointer);
  const auto number = static_cast<std::int32_t>(to_small(device, "device_id"));
  memory.home = has_host_memory() ? dlpack_home{dlpack_device::cpu, 0}
                                  : dlpack_home{dlpack_device::cuda, number};
  memory.owner = nb::borrow(owner);
  return to_capsule(memory, /*versioned=*/false);
}

void order(std::uint64_t later, std::uint64_t earlier) {
  default_machine().order(later, earlier);
}

}  // namespace

std::uintptr_t allocate_at(data_place place, nb::handle bytes, nb::handle stream) {
  const std::int64_t count = to_integer(bytes, "nbytes");
  if (count < 0) {
    throw error(errc::invalid_value,
                "'nbytes' is " + std::to_string(count) + "; it must be non-negative");
  }
  const machine& on = default_machine();
  const std::uint64_t order = order_on(on, place, to_stream(stream));
  const released_lock section;
  return reinterpret_cast<std::uintptr_t>(
      on.allocate(place, static_cast<std::size_t>(count), order));
}

void deallocate_at(data_place place, nb::handle pointer, nb::handle bytes, nb::handle stream) {
  const machine& on = default_machine();
  const std::uint64_t order = order_on(on, place, to_stream(stream));
  void* const memory = to_pointer(pointer);
  const std::size_t count = to_index(bytes, "nbytes");
  const released_lock section;
  on.deallocate(place, memory, count, order);
}

void bind_memory(nb::module_& core) {
  core.def("has_host_memory", &has_host_memory,
           "Whether device memory of the default machine is ordinary host memory.");
  core.def(
      "to_dtype", [](nb::handle what) { return to_dtype(what); }, "what"_a.none(),
      nb::sig("def to_dtype(what: object) -> numpy.dtype[typing.Any]"),
      "numpy.dtype(what); TypeError for what is none and for Python objects as elements.");
  core.def(
      "copy_to_memory",
      [](nb::handle array, nb::handle pointer, std::uint64_t stream) {
        copy(array, pointer, stream, /*from_array=*/true);
      },
      "array"_a, "ptr"_a, "stream"_a,
      nb::sig("def copy_to_memory(array: object, ptr: int, stream: int) -> None"),
      "Copies all bytes of a host array to other memory; waits for it.");
  core.def(
      "copy_from_memory",
      [](nb::handle array, nb::handle pointer, std::uint64_t stream) {
        copy(array, pointer, stream, /*from_array=*/false);
      },
      "array"_a, "ptr"_a, "stream"_a,
      nb::sig("def copy_from_memory(array: object, ptr: int, stream: int) -> None"),
      "Fills a host array from other memory; waits for it.");
  core.def("dlpack_device_of", &dlpack_device_of, "ptr"_a,
           nb::sig("def dlpack_device_of(ptr: int) -> tuple[int, int]"),
           "Kind and number of the memory in DLPack.");
  core.def("dlpack_capsule", &make_capsule, "owner"_a, "ptr"_a, "size"_a, "dtype"_a, "device"_a,
           nb::sig("def dlpack_capsule(owner: object, ptr: int, size: int, "
                   "dtype: numpy.dtype[typing.Any], device: tuple[int, int]) -> object"),
           "An unversioned capsule over memory that `owner` keeps alive.");
  core.def("dlpack_export", &export_memory, "owner"_a.none(), "data_ptr"_a, "shape"_a,
           "dtype_code"_a, "dtype_bits"_a, "device_id"_a,
           nb::sig("def dlpack_export(owner: object, data_ptr: int, "
                   "shape: collections.abc.Iterable[int], dtype_code: int, dtype_bits: int, "
                   "device_id: int) -> object"),
           "An unversioned DLPack capsule (``dltensor``) over memory in C order that `owner` keeps "
           "alive, on GPU `device_id`; on machines without GPUs on the CPU. Codes of elements: 0 "
           "int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool. TypeError for elements that NumPy "
           "does not have, NumberRangeError for negative numbers.");
  core.def("order_streams", &order, "later"_a, "earlier"_a,
           "Later work of the one stream comes after what is in the other one now.");
}

}  // namespace millstream::python
