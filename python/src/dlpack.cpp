// SPDX-License-Identifier: Apache-2.0
#include "dlpack.hpp"

#include <array>
#include <bit>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convert.hpp"
#include "errors.hpp"
#include "layout.hpp"
#include "locks.hpp"

namespace millstream::python {
namespace {

// The binary interface of the protocol.
struct element_type {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};
struct tensor {
  void* data;
  dlpack_home home;
  std::int32_t rank;
  element_type element;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null = C-contiguous
  std::uint64_t byte_offset;
};
struct managed {
  tensor what;
  void* manager;
  void (*deleter)(managed*);
};
struct managed_versioned {
  std::uint32_t major;
  std::uint32_t minor;
  void* manager;
  void (*deleter)(managed_versioned*);
  std::uint64_t flags;
  tensor what;
};
constexpr std::uint64_t flag_readonly = 1;
constexpr std::uint64_t flag_copied = 2;
constexpr std::uint32_t known_major = 1;

template <class Managed>
struct form;
template <>
struct form<managed> {
  static constexpr const char* name = "dltensor";
  static constexpr const char* used = "used_dltensor";
};
template <>
struct form<managed_versioned> {
  static constexpr const char* name = "dltensor_versioned";
  static constexpr const char* used = "used_dltensor_versioned";
};

// Wider ones are x87 numbers with padding, which the protocol does not mean.
struct plain_code {
  char kind;  // of numpy.dtype
  std::uint8_t code;
  std::size_t most_bits;
};
constexpr std::array plain_codes{plain_code{'i', 0, 64}, plain_code{'u', 1, 64},
                                 plain_code{'f', 2, 64}, plain_code{'c', 5, 128},
                                 plain_code{'b', 6, 8}};

// Elements that NumPy knows only through the package ml_dtypes.
struct named_code {
  std::string_view name;
  std::uint8_t code;
  std::uint8_t bits;
};
constexpr std::array named_codes{
    named_code{"bfloat16", 4, 16},      named_code{"float8_e3m4", 7, 8},
    named_code{"float8_e4m3", 8, 8},    named_code{"float8_e4m3b11fnuz", 9, 8},
    named_code{"float8_e4m3fn", 10, 8}, named_code{"float8_e4m3fnuz", 11, 8},
    named_code{"float8_e5m2", 12, 8},   named_code{"float8_e5m2fnuz", 13, 8},
    named_code{"float8_e8m0fnu", 14, 8}};

element_type element_of(nb::handle dtype) {
  const std::string kind = nb::cast<nb::str>(nb::object(dtype.attr("kind"))).c_str();
  const auto bits = nb::cast<std::size_t>(dtype.attr("itemsize")) * 8;
  const bool native = nb::cast<bool>(dtype.attr("isnative"));
  for (const plain_code& each : plain_codes) {
    if (native && kind[0] == each.kind && bits <= each.most_bits) {
      return {each.code, static_cast<std::uint8_t>(bits), 1};
    }
  }
  const std::string name = nb::cast<nb::str>(nb::object(dtype.attr("name"))).c_str();
  for (const named_code& each : named_codes) {
    if (name == each.name) return {each.code, each.bits, 1};
  }
  const bool structured = !dtype.attr("fields").is_none();
  throw binding_error(errc::unsupported,
                      std::string("DLPack cannot describe ") +
                          (structured ? "structured elements of dtype " : "elements of dtype ") +
                          nb::str(dtype).c_str() + "; use the array interface of the view",
                      {}, "ExportError");
}

// Asked for by each task that hands the datum to a library, so it is kept.
element_type element_of(const layout& what) {
  std::uint32_t known = what.dlpack.get();
  if (known == 0) {
    known = std::bit_cast<std::uint32_t>(element_of(what.dtype));
    what.dlpack.set(known);
  }
  return std::bit_cast<element_type>(known);
}

// What an exported capsule points to.
template <class Managed>
struct exported {
  Managed managed{};
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  py_ref owner;
};

// Any thread, also without the interpreter lock.
template <class Managed>
void let_go(Managed* what) {
  delete static_cast<exported<Managed>*>(what->manager);
}

// Nobody took the content, or somebody did and renamed the capsule.
template <class Managed>
void end_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, form<Managed>::name) == 0) return;
  let_go(static_cast<Managed*>(PyCapsule_GetPointer(capsule, form<Managed>::name)));
}

template <class Managed>
nb::object make_capsule(const dlpack_export& memory) {
  auto made = std::make_unique<exported<Managed>>();
  made->shape.assign(memory.what->dims.begin(), memory.what->dims.end());
  made->strides.resize(made->shape.size());
  std::int64_t step = 1;
  for (std::size_t i = made->shape.size(); i-- > 0;) {
    made->strides[i] = step;
    step *= made->shape[i];
  }
  made->managed.what = {memory.address,
                        memory.home,
                        static_cast<std::int32_t>(made->shape.size()),
                        element_of(*memory.what),
                        made->shape.data(),
                        made->strides.data(),
                        0};
  made->managed.manager = made.get();
  made->managed.deleter = &let_go<Managed>;
  if constexpr (std::is_same_v<Managed, managed_versioned>) {
    made->managed.major = known_major;
    made->managed.flags = memory.readonly ? flag_readonly : 0;
  }
  made->owner = py_ref(nb::object(memory.owner));
  PyObject* const capsule =
      PyCapsule_New(&made->managed, form<Managed>::name, &end_capsule<Managed>);
  if (capsule == nullptr) throw nb::python_error();
  static_cast<void>(made.release());
  return nb::steal(capsule);
}

nb::object dtype_of(element_type element) {
  if (element.lanes == 1 && element.bits % 8 == 0) {
    for (const plain_code& each : plain_codes) {
      if (element.code != each.code) continue;
      const std::string name = each.kind + std::to_string(element.bits / 8);
      return to_dtype(nb::str(name.c_str()));
    }
    for (const named_code& each : named_codes) {
      if (element.code != each.code || element.bits != each.bits) continue;
      const std::string name(each.name);
      return to_dtype(nb::module_::import_("ml_dtypes").attr(name.c_str()));
    }
  }
  throw error(errc::invalid_type, "elements of DLPack type " + std::to_string(element.code) + ", " +
                                      std::to_string(element.bits) + " bits and " +
                                      std::to_string(element.lanes) +
                                      " lanes have no NumPy dtype; register a view as bytes");
}

nb::object to_tuple(const std::int64_t* numbers, std::size_t count) {
  nb::list made;
  for (std::size_t i = 0; i < count; ++i)
    made.append(numbers[i]);
  return nb::tuple(made);
}

// Anybody may have made it, and impossible numbers would be used as addresses and lengths.
[[noreturn]] void refuse_tensor(const std::string& how) {
  throw error(errc::invalid_value, "the DLPack capsule describes an array " + how +
                                       "; register the array that it came from another way");
}

// In bytes; none where the array is C-contiguous.
std::vector<Py_ssize_t> strides_of(const tensor& what, const layout& elements, packing how) {
  if (what.strides == nullptr) return {};
  const std::vector<Py_ssize_t> dims(elements.dims.begin(), elements.dims.end());
  std::vector<Py_ssize_t> strides(what.strides, what.strides + dims.size());
  if (is_c_contiguous(dims, strides, 1)) return {};
  if (how == packing::pack) {
    for (Py_ssize_t& stride : strides) {
      if (!__builtin_mul_overflow(stride, what.element.bits / 8, &stride)) continue;
      refuse_tensor("with a stride that leaves the memory");
    }
    return strides;
  }
  refuse_layout(to_tuple(what.shape, dims.size()), to_tuple(what.strides, dims.size()),
                "a contiguous copy of x");
}

// The exporter's deleter may be Python's own code, and is called on whatever thread lets go.
template <class Managed>
std::shared_ptr<void> adopt(Managed* what) {
  return {what, [](Managed* gone) {
            const interpreter_lock lock;
            if (lock && gone->deleter != nullptr) gone->deleter(gone);
          }};
}

void check_shape(const tensor& what) {
  if (what.rank < 0) refuse_tensor("of " + std::to_string(what.rank) + " dimensions");
  check_rank(static_cast<std::size_t>(what.rank));
  if (what.rank > 0 && what.shape == nullptr) refuse_tensor("without its extents");
  for (std::int32_t axis = 0; axis < what.rank; ++axis) {
    if (what.shape[axis] < 0) {
      refuse_tensor("with an extent of " + std::to_string(what.shape[axis]));
    }
  }
}

dlpack_import describe(const tensor& what, packing how) {
  check_shape(what);
  dlpack_import found;
  const std::vector<Py_ssize_t> dims(what.shape, what.shape + what.rank);
  found.what = make_layout_of(dtype_of(what.element), extent_list(dims));
  found.strides = strides_of(what, *found.what, how);
  if (found.what->bytes > 0 && what.data != nullptr) {
    found.address = static_cast<std::byte*>(what.data) + what.byte_offset;
  }
  found.home = what.home;
  return found;
}

// Null unless the capsule is of this form and nobody has taken its content, which nobody else can
// take from now on.
template <class Managed>
Managed* claim(nb::handle capsule) {
  const call_guard held(capsule);
  if (PyCapsule_IsValid(capsule.ptr(), form<Managed>::name) == 0) return nullptr;
  void* const content = PyCapsule_GetPointer(capsule.ptr(), form<Managed>::name);
  if (PyCapsule_SetName(capsule.ptr(), form<Managed>::used) != 0) throw nb::python_error();
  return static_cast<Managed*>(content);
}

template <class Managed>
dlpack_import read(const Managed* content, packing how) {
  std::uint64_t flags = 0;
  if constexpr (std::is_same_v<Managed, managed_versioned>) {
    if (content->major != known_major) {
      throw error(errc::invalid_type, "the array gave DLPack of version " +
                                          std::to_string(content->major) +
                                          ", though version 1 was asked for; "
                                          "use another way to hand it over");
    }
    flags = content->flags;
  }
  if ((flags & flag_copied) != 0) {
    throw error(errc::invalid_type,
                "the array gave a copy of its memory by DLPack; register that copy itself, so "
                "that results are seen in it");
  }
  dlpack_import found = describe(content->what, how);
  found.readonly = (flags & flag_readonly) != 0;
  return found;
}

// A capsule that is refused stays unused.
template <class Managed>
std::optional<dlpack_import> take(nb::handle capsule, packing how) {
  auto* const content = claim<Managed>(capsule);
  if (content == nullptr) return {};
  std::optional<dlpack_import> found;
  try {
    found = read(content, how);
  } catch (...) {
    PyCapsule_SetName(capsule.ptr(), form<Managed>::name);
    throw;
  }
  found->owner = adopt(content);
  return found;
}

// Exporters from before version 1 do not know `max_version`.
nb::object ask_for_capsule(nb::handle array, std::optional<std::uint64_t> stream) {
  const nb::object export_array = array.attr("__dlpack__");
  nb::dict options;
  if (stream) options["stream"] = *stream;
  options["max_version"] = nb::make_tuple(known_major, 0);
  try {
    return export_array(**options);
  } catch (nb::python_error& refused) {
    if (!refused.matches(PyExc_TypeError)) throw;
  }
  nb::dict plain;
  if (stream) plain["stream"] = *stream;
  return export_array(**plain);
}

}  // namespace

nb::object dtype_by_dlpack(std::uint8_t code, std::uint8_t bits) {
  return dtype_of({code, bits, 1});
}

nb::object to_capsule(const dlpack_export& memory, bool versioned) {
  return versioned ? make_capsule<managed_versioned>(memory) : make_capsule<managed>(memory);
}

std::optional<dlpack_home> home_by_dlpack(nb::handle array, std::int64_t& type) {
  const nb::object answer = array.attr("__dlpack_device__")();
  if (PyTuple_Check(answer.ptr()) == 0 || nb::len(answer) != 2) {
    throw error(errc::invalid_type, "__dlpack_device__ of type " + class_name(array) + " gave " +
                                        nb::repr(answer).c_str() +
                                        "; it must give (device type, device number)");
  }
  type = to_integer(answer[0], "device type");
  const auto id = static_cast<std::int32_t>(to_integer(answer[1], "device number"));
  for (const dlpack_device each : {dlpack_device::cpu, dlpack_device::cuda,
                                   dlpack_device::cuda_host, dlpack_device::cuda_managed}) {
    if (static_cast<std::int64_t>(each) == type) return dlpack_home{each, id};
  }
  return std::nullopt;
}

dlpack_import import_dlpack(nb::handle array, std::optional<std::uint64_t> stream, packing how) {
  const nb::object capsule = ask_for_capsule(array, stream);
  if (PyCapsule_CheckExact(capsule.ptr()) == 0) {
    throw error(errc::invalid_type, "__dlpack__ of type " + class_name(array) + " gave " +
                                        class_name(capsule) + "; it must give a DLPack capsule");
  }
  return import_capsule(capsule, how);
}

dlpack_import import_capsule(nb::handle capsule, packing how) {
  if (auto found = take<managed_versioned>(capsule, how)) return *std::move(found);
  if (auto found = take<managed>(capsule, how)) return *std::move(found);
  const char* const name = PyCapsule_GetName(capsule.ptr());
  PyErr_Clear();
  throw error(errc::invalid_type, std::string("a capsule named '") + (name == nullptr ? "" : name) +
                                      "' is not one of DLPack that is still unused; pass the array "
                                      "it came from, or a new capsule");
}

}  // namespace millstream::python
