// SPDX-License-Identifier: Apache-2.0
#include "kept_buffer.hpp"

#include <utility>

#include <millstream/hooks.hpp>

#include "numpy.hpp"

namespace millstream::python {
namespace {

/// Deleter of what is kept.
struct object_dropper {
  /// The memory is NumPy's own, and the object has no finalizer: the collector may see it whatever
  /// the engine still does with the memory, which is there until the engine has let go.
  bool has_own_memory = false;
  void operator()(void* object) const noexcept {
    const py_ref gone(nb::steal(static_cast<PyObject*>(object)));
  }
};

bool has_finalizer(nb::handle object) noexcept {
  return PyType_GetSlot(Py_TYPE(object.ptr()), Py_tp_finalize) != nullptr ||
         PyType_GetSlot(Py_TYPE(object.ptr()), Py_tp_del) != nullptr;
}

std::shared_ptr<void> keep(nb::object&& owner, object_dropper how) {
  return {static_cast<void*>(owner.release().ptr()), how};
}

}  // namespace

std::shared_ptr<void> keep_buffer(nb::object&& owner) {
  return keep(std::move(owner), {});
}

std::shared_ptr<void> keep_array(nb::object&& array) {
  const bool has_own_memory = has_memory_of_numpy(array) && !has_finalizer(array);
  return keep(std::move(array), {has_own_memory});
}

// Once the collector sees an object in an unreachable cycle, it calls finalizers and callbacks of
// weak references and empties what it finds there, in any order. The memory of others may go by
// that while the handle is still there, so it has to be at rest. The collector asks several times
// in one go and needs the same answer, which a lock that is tried alone would not give.
nb::handle buffer_kept_by(const untyped_data& handle) noexcept {
  const std::shared_ptr<void>* const owner = owner_kept_by(handle);
  if (owner == nullptr) return {};
  const auto* const how = std::get_deleter<object_dropper>(*owner);
  if (how == nullptr) return {};
  if (!how->has_own_memory && !is_buffer_at_rest(handle)) return {};
  return static_cast<PyObject*>(owner->get());
}

}  // namespace millstream::python
