// SPDX-License-Identifier: Apache-2.0
#include "kernel_table.hpp"

#include <utility>

namespace millstream::python {

std::optional<found_kernel> kernel_table::find(nb::handle kernel, int device) const {
  const auto known = entries_.find({kernel.ptr(), device});
  if (known == entries_.end()) return {};
  return found_kernel{known->second.facts, nb::borrow(known->second.convert)};
}

void kernel_table::add(nb::handle kernel, int device, const found_kernel& found) {
  if (!kept_) kept_ = py_ref(nb::list());
  for (const nb::handle each : {kernel, nb::handle(found.convert)}) {
    if (each.is_valid() && PyList_Append(kept_.get().ptr(), each.ptr()) != 0) {
      throw nb::python_error();
    }
  }
  entries_.insert_or_assign({kernel.ptr(), device}, entry{found.facts, found.convert.ptr()});
}

found_kernel kernel_table::by_handle(std::uint64_t native) {
  std::shared_ptr<const kernel_facts>& known = by_handle_[native];
  if (!known) {
    kernel_facts made;
    made.what = device_kernel::by_handle(native);
    known = std::make_shared<const kernel_facts>(std::move(made));
  }
  return {known, {}};
}

void kernel_table::clear() noexcept {
  entries_.clear();
  by_handle_.clear();
  kept_ = {};
}

}  // namespace millstream::python
