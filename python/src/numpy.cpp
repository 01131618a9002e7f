// SPDX-License-Identifier: Apache-2.0
#include "numpy.hpp"

#include <limits>
#include <string>

#include <nanobind/stl/string.h>

#include <millstream/error.hpp>

#include "convert.hpp"
#include "errors.hpp"
#include "locks.hpp"

namespace millstream::python {
namespace {

// Places in NumPy's table of functions, fields and flags of arrays: part of its binary interface,
// the same in versions 1 and 2.
constexpr std::size_t array_type_slot = 2;
constexpr std::size_t new_from_descr_slot = 94;
constexpr std::size_t set_base_object_slot = 282;
constexpr int c_contiguous = 0x0001;
constexpr int owns_data = 0x0004;
constexpr int aligned = 0x0100;
constexpr int writeable = 0x0400;

struct numpy_table {
  PyTypeObject* array_type = nullptr;
  PyObject* (*new_from_descr)(PyTypeObject*, PyObject* descr, int rank, const Py_ssize_t* dims,
                              const Py_ssize_t* strides, void* data, int flags,
                              PyObject* prototype) = nullptr;
  int (*set_base_object)(PyObject*, PyObject* base) = nullptr;
};

// The beginning of each array.
struct array_fields {
  PyObject head;
  char* data;
  int rank;
  Py_ssize_t* dims;
  Py_ssize_t* strides;
  PyObject* base;
  PyObject* dtype;
  int flags;
};

nb::object import_multiarray() {
  try {
    return nb::module_::import_("numpy._core.multiarray");  // NumPy 2
  } catch (nb::python_error& missing) {
    if (!missing.matches(PyExc_ImportError)) throw;
    return nb::module_::import_("numpy.core.multiarray");
  }
}

numpy_table load_table() {
  const nb::object capsule = import_multiarray().attr("_ARRAY_API");
  void** const slots = static_cast<void**>(PyCapsule_GetPointer(capsule.ptr(), nullptr));
  if (slots == nullptr) throw nb::python_error();
  numpy_table table;
  table.array_type = static_cast<PyTypeObject*>(slots[array_type_slot]);
  table.new_from_descr =
      reinterpret_cast<decltype(table.new_from_descr)>(slots[new_from_descr_slot]);
  table.set_base_object =
      reinterpret_cast<decltype(table.set_base_object)>(slots[set_base_object_slot]);
  return table;
}

// No initialisation by the language: the import may let go of the interpreter lock, and another
// thread would then wait for the guard with that lock held.
const numpy_table& numpy() {
  static constinit numpy_table table;
  static constinit shared_value<bool> is_there{false};
  static constinit short_lock lock;
  if (!is_there.get()) {
    const numpy_table loaded = load_table();  // the same for all that come here
    const short_guard held(lock);
    if (!is_there.get()) table = loaded;
    is_there.set(true);
  }
  return table;
}

struct dtype_facts {
  std::size_t itemsize = 0;
  std::size_t alignment = 1;
  bool has_objects = false;
  bool has_subarray = false;
};

// The dtype that was used last: programs use few.
struct last_dtype {
  nb::object dtype;
  dtype_facts facts;
  [[no_unique_address]] short_lock lock;

  // What goes may have code of the user's, which may come here again.
  void forget() noexcept {
    nb::object gone;
    const short_guard held(lock);
    std::swap(dtype, gone);
  }
};

#if defined(Py_GIL_DISABLED)
using known_facts = dtype_facts;
#else
using known_facts = const dtype_facts&;  // until the next call
#endif

known_facts facts_of(nb::handle dtype) {
  static last_dtype& last = *new last_dtype;
  {
    const short_guard held(last.lock);
    if (last.dtype.is(dtype)) return last.facts;
  }
  dtype_facts facts;
  facts.itemsize = nb::cast<std::size_t>(dtype.attr("itemsize"));
  facts.alignment = nb::cast<std::size_t>(dtype.attr("alignment"));
  facts.has_objects = nb::cast<bool>(dtype.attr("hasobject"));
  facts.has_subarray = !dtype.attr("subdtype").is_none();
  last.forget();
  nb::object kept = nb::borrow(dtype);
  const short_guard held(last.lock);
  last.facts = facts;
  std::swap(last.dtype, kept);
  return last.facts;
}

void refuse_objects(nb::handle dtype) {
  if (!facts_of(dtype).has_objects) return;
  const std::string kind = nb::cast<nb::str>(nb::object(dtype.attr("kind"))).c_str();
  if (kind == "T") {
    throw error(errc::invalid_type,
                "elements of dtype " + std::string(nb::str(dtype).c_str()) +
                    " are strings of any length, which lie outside of the array; convert it to a "
                    "fixed length, as x.astype('U16') does");
  }
  throw error(errc::invalid_type, "elements of dtype " + std::string(nb::str(dtype).c_str()) +
                                      " are Python objects, which have no bytes of their own; "
                                      "convert the array to a numeric or fixed-size dtype");
}

Py_ssize_t to_positive(nb::handle number) {
  const Py_ssize_t extent = PyLong_AsSsize_t(number.ptr());
  if (extent == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    throw binding_error(errc::invalid_value,
                        "an extent of a shape has more than 63 bits; split the data into parts", {},
                        "NumberRangeError");
  }
  if (extent <= 0) {
    throw error(errc::invalid_value, "extent " + std::to_string(extent) +
                                         " of a shape is not positive; use extents from 1");
  }
  return extent;
}

Py_ssize_t to_extent(nb::handle element) {
  PyObject* const number = PyNumber_Index(element.ptr());
  if (number == nullptr) {
    clear_type_error();
    throw error(errc::invalid_type, "a shape must hold integers, not " + class_name(element) +
                                        "; pass a tuple such as (16, 16)");
  }
  const nb::object keep = nb::steal(number);
  return to_positive(number);
}

// What NumPy can make arrays of. Asked for only where a rank is beyond what every NumPy has.
std::size_t most_dimensions() {
  const nb::object version = nb::module_::import_("numpy").attr("__version__");
  return nb::cast<std::string>(version).starts_with("1.") ? 32 : 64;
}

// A tuple of numbers, which may be kept as it is.
bool is_plain(nb::handle shape) {
  if (PyTuple_CheckExact(shape.ptr()) == 0) return false;
  const Py_ssize_t rank = PyTuple_Size(shape.ptr());
  for (Py_ssize_t axis = 0; axis < rank; ++axis) {
    if (PyLong_CheckExact(PyTuple_GetItem(shape.ptr(), axis)) == 0) return false;
  }
  return rank > 0;
}

extent_list to_extents_of_plain(nb::handle shape) {
  return {static_cast<std::size_t>(PyTuple_Size(shape.ptr())), [&](std::size_t axis) {
            const Py_ssize_t extent =
                to_positive(PyTuple_GetItem(shape.ptr(), static_cast<Py_ssize_t>(axis)));
            check_rank(axis + 1);
            return extent;
          }};
}

std::vector<Py_ssize_t> to_extents(nb::handle shape) {
  PyObject* const iterator = PyObject_GetIter(shape.ptr());
  if (iterator == nullptr) {
    clear_type_error();
    throw error(errc::invalid_type, "a shape cannot be made of type " + class_name(shape) +
                                        "; pass a tuple of integers such as (16,)");
  }
  const nb::object keep = nb::steal(iterator);
  std::vector<Py_ssize_t> extents;
  while (PyObject* const next = PyIter_Next(iterator)) {
    const nb::object element = nb::steal(next);
    extents.push_back(to_extent(element));
    check_rank(extents.size());  // here, since an iterable need not end
  }
  if (PyErr_Occurred()) throw nb::python_error();
  if (extents.empty()) {
    throw error(errc::invalid_value,
                "a shape needs at least one dimension; pass (1,) for a scalar");
  }
  return extents;
}

// Extents of zero do not make the others any smaller, as in NumPy.
std::size_t byte_count(const extent_list& dims, std::size_t itemsize) {
  std::size_t bytes = itemsize;
  bool empty = false;
  for (const Py_ssize_t extent : dims) {
    if (extent == 0) {
      empty = true;
      continue;
    }
    if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(extent), &bytes) ||
        bytes > static_cast<std::size_t>(std::numeric_limits<Py_ssize_t>::max())) {
      throw error(errc::invalid_value,
                  "the shape has more bytes than an address can count; "
                  "split the data into parts");
    }
  }
  return empty ? 0 : bytes;
}

nb::object to_tuple(const extent_list& dims) {
  return make_tuple_of(dims.size(), [&](std::size_t axis) {
    PyObject* const extent = PyLong_FromSsize_t(dims.data()[axis]);
    if (extent == nullptr) throw nb::python_error();
    return nb::steal(extent);
  });
}

// As NumPy does: the dimensions of such an element become the last ones of the array.
extent_list join(const extent_list& dims, nb::handle subarray) {
  std::vector<Py_ssize_t> all(dims.begin(), dims.end());
  for (const nb::handle extent : subarray.attr("shape"))
    all.push_back(nb::cast<Py_ssize_t>(extent));
  return extent_list(all);
}

}  // namespace

void check_rank(std::size_t rank) {
  constexpr std::size_t always_fine = 32;
  if (rank <= always_fine || rank <= most_dimensions()) return;
  throw error(errc::invalid_value, "a shape has more than " + std::to_string(most_dimensions()) +
                                       " dimensions, which NumPy has no arrays of; merge some");
}

nb::object to_dtype(nb::handle what) {
  static constinit lazy_name dtype_type("numpy", "dtype");
  static constinit lazy_object float64;
  if (!what.is_valid()) return nb::borrow(float64.get([] { return dtype_type.get()("float64"); }));
  nb::object dtype;
  try {
    dtype =
        what.type().is(dtype_type.get()) ? nb::borrow(what) : nb::object(dtype_type.get()(what));
  } catch (nb::python_error& unknown) {
    throw_instead_of(unknown, "dtype " + short_repr(what) +
                                  " is none that NumPy knows; pass one such as numpy.float64");
  }
  refuse_objects(dtype);
  return dtype;
}

layout_ptr make_layout_of(nb::object dtype, extent_list dims, nb::object shape) {
  check_rank(dims.size());
  const dtype_facts& facts = facts_of(dtype);
  auto made = std::make_shared<layout>();
  made->bytes = byte_count(dims, facts.itemsize);
  made->itemsize = facts.itemsize;
  made->alignment = facts.alignment;
  made->shape = shape.is_valid() ? std::move(shape) : to_tuple(dims);
  made->dims = std::move(dims);
  made->dtype = std::move(dtype);
  return made;
}

layout_ptr make_layout(nb::handle shape, nb::handle elements) {
  nb::object kept = is_plain(shape) ? nb::borrow(shape) : nb::object();
  extent_list dims = kept.is_valid() ? to_extents_of_plain(shape) : extent_list(to_extents(shape));
  nb::object dtype = to_dtype(elements);
  if (facts_of(dtype).has_subarray) {
    dims = join(dims, dtype);
    kept = {};
    dtype = dtype.attr("base");
  }
  if (facts_of(dtype).itemsize == 0) {
    throw error(errc::invalid_value, "elements of dtype " + std::string(nb::str(dtype).c_str()) +
                                         " have no bytes; give the dtype a size");
  }
  return make_layout_of(std::move(dtype), std::move(dims), std::move(kept));
}

layout_ptr layout_of(nb::handle array) {
  nb::object dtype = array.attr("dtype");
  refuse_objects(dtype);
  std::vector<Py_ssize_t> dims;
  for (const nb::handle extent : array.attr("shape"))
    dims.push_back(nb::cast<Py_ssize_t>(extent));
  return make_layout_of(std::move(dtype), extent_list(dims));
}

nb::object array_over(const layout& what, void* memory, bool writable, nb::handle base) {
  // NumPy takes null for "allocate yourself".
  alignas(std::max_align_t) static std::byte nothing[sizeof(std::max_align_t)];
  if (memory == nullptr) memory = nothing;
  const numpy_table& table = numpy();
  int flags = c_contiguous;
  if (reinterpret_cast<std::uintptr_t>(memory) % what.alignment == 0) flags |= aligned;
  if (writable) flags |= writeable;
  PyObject* const array = table.new_from_descr(table.array_type, Py_NewRef(what.dtype.ptr()),
                                               static_cast<int>(what.dims.size()), what.dims.data(),
                                               nullptr, memory, flags, nullptr);
  if (array == nullptr) throw nb::python_error();
  nb::object made = nb::steal(array);
  if (base.is_valid() && table.set_base_object(array, Py_NewRef(base.ptr())) < 0) {
    throw nb::python_error();
  }
  return made;
}

nb::object new_array(const layout& what) {
  static constinit lazy_name empty("numpy", "empty");
  try {
    return empty.get()(what.shape, what.dtype);
  } catch (nb::python_error& full) {
    if (!full.matches(PyExc_MemoryError)) throw;
  }
  return {};
}

bool is_array(nb::handle what) {
  return PyObject_TypeCheck(what.ptr(), numpy().array_type) != 0;
}

bool has_memory_of_numpy(nb::handle array) {
  while (array.is_valid() && is_array(array)) {
    const auto& fields = *reinterpret_cast<const array_fields*>(array.ptr());
    if ((fields.flags & owns_data) != 0) return true;
    array = fields.base;
  }
  return false;
}

void* address_of(nb::handle array) {
  Py_buffer view;
  if (PyObject_GetBuffer(array.ptr(), &view, PyBUF_STRIDES) != 0) throw nb::python_error();
  void* const address = view.buf;
  PyBuffer_Release(&view);
  return address;
}

}  // namespace millstream::python
