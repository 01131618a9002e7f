// SPDX-License-Identifier: Apache-2.0
#include "source.hpp"

#include <string>
#include <utility>

#include "convert.hpp"
#include "cuda_array.hpp"
#include "dlpack.hpp"
#include "errors.hpp"
#include "kept_buffer.hpp"
#include "layout.hpp"
#include "view.hpp"

namespace millstream::python {
namespace {

nb::object as_array(nb::handle what) {
  return nb::module_::import_("numpy").attr("asarray")(what);
}

// Not a copy, which would never see a result.
bool is_of_other_memory(nb::handle array) {
  return !nb::cast<bool>(array.attr("flags").attr("owndata"));
}

// Buffers cannot describe all elements, such as bfloat16. Null if NumPy gets no array either.
nb::object array_instead(nb::handle what) {
  if (!has_attribute(what, "__array__")) return {};
  nb::object array = as_array(what);
  return is_of_other_memory(array) ? array : nb::object();
}

// Through a memoryview, because NumPy takes bytes for text.
nb::object array_of_buffer(nb::handle buffer) {
  PyObject* const memory = PyMemoryView_FromObject(buffer.ptr());
  if (memory == nullptr) {
    const nb::python_error refused;
    if (!refused.matches(PyExc_Exception)) throw refused;
    if (nb::object array = array_instead(buffer); array.is_valid()) return array;
    throw refused;
  }
  const nb::object view = nb::steal(memory);
  nb::object array;
  try {
    array = as_array(view);
  } catch (nb::python_error& refused) {
    // The format is one that NumPy does not know.
    if (!refused.matches(PyExc_Exception)) throw;
  }
  // NumPy copies, element by element, what it cannot map.
  if (!array.is_valid() || !is_of_other_memory(array)) {
    throw error(errc::invalid_type, "the buffer of type " + class_name(buffer) +
                                        " has a format that no NumPy dtype describes; pass a "
                                        "view of it as bytes");
  }
  return array;
}

// Scalars do not change. As buffers, dates and times do not say what they are.
bool is_scalar(nb::handle what) {
  static constinit lazy_name generic("numpy", "generic");
  return PyObject_IsInstance(what.ptr(), generic.get().ptr()) == 1;
}
nb::object array_of_scalar(nb::handle what) {
  nb::object array = as_array(what);
  array.attr("flags").attr("writeable") = false;
  return array;
}

// NumPy takes a null address for "allocate yourself", and half an interface for something else.
void check_interface(nb::handle what) {
  const nb::object interface = what.attr("__array_interface__");
  if (PyDict_Check(interface.ptr()) == 0) {
    throw error(errc::invalid_type, "__array_interface__ of type " + class_name(what) + " is of " +
                                        "type " + class_name(interface) + "; it must be a dict");
  }
  const nb::object data = interface.attr("get")("data");
  if (PyTuple_Check(data.ptr()) == 0 || nb::len(data) == 0) return;
  const nb::object address = data[0];
  if (PyLong_Check(address.ptr()) == 0 || PyObject_IsTrue(address.ptr()) != 0) return;
  throw error(errc::invalid_value, "__array_interface__ of type " + class_name(what) +
                                       " has a null address; give that of its first element");
}

nb::object array_of_interface(nb::handle what) {
  check_interface(what);
  nb::object array;
  try {
    array = as_array(what);
  } catch (nb::python_error& refused) {
    throw_instead_of(refused, "__array_interface__ of type " + class_name(what) +
                                  " is not as NumPy describes it; pass numpy.asarray(x)");
  }
  if (!is_of_other_memory(array)) {
    throw error(errc::invalid_type, "__array_interface__ of type " + class_name(what) +
                                        " does not give its own memory; pass numpy.asarray(x) and "
                                        "keep that array");
  }
  return array;
}

[[noreturn]] void refuse_device(nb::handle buffer, const machine& on) {
  throw error(errc::invalid_value, "the array of type " + class_name(buffer) +
                                       " is in memory of a GPU, which machine '" + on.name() +
                                       "' has not; pass an array of the host, or use "
                                       "machine(\"cuda\")");
}

// Where something says that it is the host's. Host code that touches memory of a device ends the
// process, and nobody told which stream makes the content.
void refuse_memory_of_device(const void* block, nb::handle buffer, const machine& on) {
  const data_place home = on.home_of(block);
  if (home.what() != data_place::kind::device) return;
  throw error(errc::invalid_value, "the array of type " + class_name(buffer) +
                                       " says that it is in memory of the host, but its address " +
                                       "is of " + to_string(home) +
                                       "; pass it by __cuda_array_interface__, or as DLPack of "
                                       "that device");
}

// Tensors of PyTorch may stand for other values than those in their memory.
void refuse_lazy_values(nb::handle tensor) {
  for (const char* const bit : {"neg", "conj"}) {
    const std::string question = std::string("is_") + bit;
    if (!has_attribute(tensor, question.c_str())) continue;
    if (!nb::cast<bool>(nb::bool_(tensor.attr(question.c_str())()))) continue;
    throw error(errc::invalid_value, "the array of type " + class_name(tensor) +
                                         " stands for other values than its memory holds (" +
                                         question + "() is true); register x.resolve_" + bit +
                                         "()");
  }
}

source from_cuda_array(nb::handle buffer, const machine& on, packing how) {
  refuse_lazy_values(buffer);
  cuda_array array = read_cuda_array(buffer, how);
  source found;
  found.what = std::move(array.what);
  found.block = array.address;
  found.strides = std::move(array.strides);
  found.readonly = array.readonly;
  found.home = on.home_of(array.address);
  found.producer = array.producer;
  // The interface of a view of our own leaves out what consumers cannot stand.
  if (const auto* view = as<py_view>(buffer); view != nullptr && view->lent) {
    found.producer = view->lent->queue;
    found.readonly = view->readonly;
  }
  found.owner = keep_buffer(nb::borrow(buffer));
  return found;
}

// Managed and page-locked memory is the host's, too.
bool needs_device(dlpack_device type) {
  return type == dlpack_device::cuda || type == dlpack_device::cuda_managed;
}

[[noreturn]] void refuse_type(nb::handle buffer, std::int64_t type) {
  throw error(errc::invalid_value,
              "the array of type " + class_name(buffer) + " is in memory of DLPack device type " +
                  std::to_string(type) + ", which no machine has; copy it to the host first");
}

source from_import(nb::handle buffer, dlpack_import array, const machine& on,
                   std::optional<std::uint64_t> stream) {
  source found;
  found.what = std::move(array.what);
  found.block = array.address;
  found.strides = std::move(array.strides);
  found.readonly = array.readonly;
  if (array.home.type != dlpack_device::cpu || on.has_host_memory()) {
    found.home = on.home_of(array.address);
  }
  if (on.runs_kernels() && !needs_device(array.home.type)) {
    refuse_memory_of_device(array.address, buffer, on);
  }
  found.producer = stream;
  found.owner = std::move(array.owner);
  return found;
}

source from_dlpack(nb::handle buffer, const context_state& in, packing how) {
  const machine& on = in.on->opened();
  refuse_lazy_values(buffer);
  std::int64_t type = 0;
  const std::optional<dlpack_home> home = home_by_dlpack(buffer, type);
  if (!home) refuse_type(buffer, type);
  std::optional<std::uint64_t> stream;
  if (needs_device(home->type)) {
    if (!on.runs_kernels()) refuse_device(buffer, on);
    stream = in.hand_over_stream(home->id);
  }
  return from_import(buffer, import_dlpack(buffer, stream, how), on, stream);
}

// Whoever made it was not asked for an order, which means that of the legacy default stream.
source from_capsule(nb::handle capsule, const machine& on, packing how) {
  constexpr std::uint64_t legacy = 1;
  dlpack_import array = import_capsule(capsule, how);
  const dlpack_device type = array.home.type;
  if (type == dlpack_device::cpu || type == dlpack_device::cuda_host) {
    return from_import(capsule, std::move(array), on, std::nullopt);
  }
  if (!needs_device(type)) refuse_type(capsule, static_cast<std::int64_t>(type));
  if (!on.runs_kernels()) refuse_device(capsule, on);
  return from_import(capsule, std::move(array), on, legacy);
}

// None where the array is C-contiguous.
std::vector<Py_ssize_t> strides_of(nb::handle array, packing how) {
  std::vector<Py_ssize_t> strides;
  if (nb::cast<bool>(array.attr("flags").attr("c_contiguous"))) return strides;
  if (how == packing::refuse) {
    refuse_layout(array.attr("shape"), array.attr("strides"), "numpy.ascontiguousarray(x)");
  }
  for (const nb::handle stride : array.attr("strides"))
    strides.push_back(nb::cast<Py_ssize_t>(stride));
  return strides;
}

// What is hidden would be used all the same.
void refuse_mask(nb::handle array) {
  static constinit lazy_name masked("numpy.ma", "MaskedArray");
  static constinit lazy_name plain("numpy", "ndarray");
  if (array.type().is(plain.get()) || PyObject_IsInstance(array.ptr(), masked.get().ptr()) != 1) {
    return;
  }
  throw error(errc::invalid_value,
              "a masked array has a mask, which data cannot have; register x.data, and x.mask "
              "as data of its own");
}

source from_array(nb::object array, const machine& on, packing how) {
  refuse_mask(array);
  source found;
  found.what = layout_of(array);
  found.strides = strides_of(array, how);
  found.readonly = !nb::cast<bool>(array.attr("flags").attr("writeable"));
  found.block = address_of(array);
  if (on.has_host_memory()) found.home = on.home_of(found.block);
  if (on.runs_kernels() && !has_memory_of_numpy(array)) {
    refuse_memory_of_device(found.block, array, on);
  }
  found.owner = keep_array(std::move(array));
  return found;
}

}  // namespace

source open_source(nb::handle buffer, const context_state& in, packing how) {
  const machine& on = in.on->opened();
  if (PyCapsule_CheckExact(buffer.ptr()) != 0) return from_capsule(buffer, on, how);
  const bool has_dlpack =
      has_attribute(buffer, "__dlpack__") && has_attribute(buffer, "__dlpack_device__");
  if (has_attribute(buffer, "__cuda_array_interface__")) {
    if (!on.runs_kernels()) refuse_device(buffer, on);
    // Before version 3 nothing was said about the producer's stream. DLPack does.
    if (has_dlpack && cuda_array_version(buffer) < 3) return from_dlpack(buffer, in, how);
    return from_cuda_array(buffer, on, how);
  }
  if (is_array(buffer)) return from_array(nb::borrow(buffer), on, how);
  if (is_scalar(buffer)) return from_array(array_of_scalar(buffer), on, how);
  if (PyObject_CheckBuffer(buffer.ptr()) != 0) return from_array(array_of_buffer(buffer), on, how);
  if (has_dlpack) return from_dlpack(buffer, in, how);
  if (has_attribute(buffer, "__array_interface__")) {
    return from_array(array_of_interface(buffer), on, how);
  }
  throw error(errc::invalid_type, "data cannot be made of type " + class_name(buffer) +
                                      ", which has neither the buffer protocol nor an array "
                                      "interface nor DLPack; pass numpy.asarray(x)");
}

}  // namespace millstream::python
