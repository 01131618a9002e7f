// SPDX-License-Identifier: Apache-2.0
/// DLPack: memory handed over between libraries in a capsule. Everything here needs the interpreter
/// lock.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "layout.hpp"
#include "numpy.hpp"

namespace millstream::python {

/// Kinds of memory, by the numbers of the protocol.
enum class dlpack_device : std::int32_t { cpu = 1, cuda = 2, cuda_host = 3, cuda_managed = 13 };

struct dlpack_home {
  dlpack_device type = dlpack_device::cpu;
  std::int32_t id = 0;
};

/// Memory that goes out. The capsule, and then whoever takes its content, keep `owner`.
struct dlpack_export {
  layout_ptr what;
  void* address = nullptr;
  bool readonly = false;
  dlpack_home home;
  nb::object owner;
};

/// A capsule. `versioned`: the form of version 1, which can say that memory is read-only.
/// ExportError (a BufferError) for elements the protocol has no words for.
[[nodiscard]] nb::object to_capsule(const dlpack_export& memory, bool versioned);

/// The same for elements named by the protocol: code and bits. InvalidTypeError where NumPy has no
/// such elements.
[[nodiscard]] nb::object dtype_by_dlpack(std::uint8_t code, std::uint8_t bits);

/// Memory that came in.
struct dlpack_import {
  layout_ptr what;
  void* address = nullptr;
  std::vector<Py_ssize_t> strides;  ///< in bytes; none where it is C-contiguous
  bool readonly = false;
  dlpack_home home;
  std::shared_ptr<void> owner;  ///< its end calls the exporter's deleter; may be dropped anywhere
};

/// `array.__dlpack_device__()`, for memory of the kinds above; null for others, whose number is
/// then in `type`. TypeError for an answer of another form.
[[nodiscard]] std::optional<dlpack_home> home_by_dlpack(nb::handle array, std::int64_t& type);

/// Asks `array` for a capsule in which work on `stream` (none for host memory) comes after the work
/// that produces the content, and takes it. LayoutError unless C-contiguous or to be packed;
/// TypeError for elements without a dtype and for an exporter that gave a copy.
[[nodiscard]] dlpack_import import_dlpack(nb::handle array, std::optional<std::uint64_t> stream,
                                          packing how);

/// Takes the content of a capsule that nobody has taken yet; TypeError for other capsules. A kind
/// of memory that is not one of the above is for the caller to refuse.
[[nodiscard]] dlpack_import import_capsule(nb::handle capsule, packing how);

}  // namespace millstream::python
