// SPDX-License-Identifier: Apache-2.0
/// NumPy without its headers: what is needed of its C interface, found when the first array is
/// made. Everything here needs the interpreter lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "extent_list.hpp"
#include "interpreter.hpp"
#include "locks.hpp"

namespace millstream::python {

/// Shape and element type of a datum. Shared, never changed but for what is kept with it, dropped
/// with the interpreter lock held.
struct layout {
  nb::object dtype;  ///< numpy.dtype
  nb::object shape;  ///< tuple of int
  extent_list dims;  ///< the same numbers
  std::size_t bytes = 0;
  std::size_t itemsize = 0;   ///< bytes of one element
  std::size_t alignment = 1;  ///< in bytes, a power of two
  /// The dtype in DLPack's words; 0 = not asked for yet.
  mutable shared_value<std::uint32_t> dlpack{0};

  /// What a library made of device memory of this layout. It owns no memory, so that it may be left
  /// when the memory has gone: the same address has the same description later.
  struct described {
    const void* address;
    int device;
    nb::object maker;
    nb::object what;
  };
  mutable std::vector<described> kept;  ///< few; used with `lock` held
  [[no_unique_address]] mutable short_lock lock;
};
using layout_ptr = std::shared_ptr<const layout>;

/// numpy.dtype(what); null is float64. TypeError for what is no dtype, and for elements that are
/// Python objects.
[[nodiscard]] nb::object to_dtype(nb::handle what);

/// ValueError for more dimensions than NumPy has arrays of.
void check_rank(std::size_t rank);

/// For data of our own. `shape` as the user wrote it: TypeError unless an iterable of integers,
/// ValueError unless all are positive and there is at least one. `elements` as for `to_dtype`, and
/// checked after the shape.
[[nodiscard]] layout_ptr make_layout(nb::handle shape, nb::handle elements);
/// The same from checked parts; extents of zero and no extents are allowed. `shape`: a tuple of
/// them, or null.
[[nodiscard]] layout_ptr make_layout_of(nb::object dtype, extent_list dims, nb::object shape = {});
/// Of an existing array.
[[nodiscard]] layout_ptr layout_of(nb::handle array);

/// An array over memory of somebody else; `base` (may be null) is kept alive by it.
[[nodiscard]] nb::object array_over(const layout& what, void* memory, bool writable,
                                    nb::handle base);
/// A new array without content; null where the process has no memory for it.
[[nodiscard]] nb::object new_array(const layout& what);
[[nodiscard]] bool is_array(nb::handle what);
/// Whether the memory of an array is NumPy's own, and so the host's, and there as long as the array
/// is. Whose memory a view of something else shows, NumPy does not know.
[[nodiscard]] bool has_memory_of_numpy(nb::handle array);
/// Address of the element with all indices 0.
[[nodiscard]] void* address_of(nb::handle array);

}  // namespace millstream::python
