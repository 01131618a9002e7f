// SPDX-License-Identifier: Apache-2.0
#include "kernel_table.hpp"

namespace millstream::python {

std::optional<found_kernel> kernel_table::find(nb::handle kernel, int device) const {
  const auto known = entries_.find({kernel.ptr(), device});
  if (known == entries_.end()) return {};
  found_kernel found = known->second.found;
  found.convert = nb::borrow(known->second.convert);
  return found;
}

void kernel_table::add(nb::handle kernel, int device, const found_kernel& found) {
  if (!kept_) kept_ = py_ref(nb::list());
  for (const nb::handle each : {kernel, nb::handle(found.convert)}) {
    if (each.is_valid() && PyList_Append(kept_.get().ptr(), each.ptr()) != 0) {
      throw nb::python_error();
    }
  }
  entry made{found, found.convert.ptr()};
  made.found.convert = {};
  entries_.insert_or_assign({kernel.ptr(), device}, std::move(made));
}

const device_kernel& kernel_table::by_handle(std::uint64_t native) {
  device_kernel& known = by_handle_[native];
  if (!known) known = device_kernel::by_handle(native);
  return known;
}

void kernel_table::clear() noexcept {
  entries_.clear();
  by_handle_.clear();
  kept_ = {};
}

}  // namespace millstream::python
