// SPDX-License-Identifier: Apache-2.0
#include "kernel_table.hpp"

#include <utility>

namespace millstream::python {

std::optional<found_kernel> kernel_table::find(nb::handle kernel, int device) const {
  const short_guard held(lock_);
  const auto known = entries_.find({kernel.ptr(), device});
  if (known == entries_.end()) return {};
  return found_kernel{known->second.facts, nb::borrow(known->second.convert)};
}

// Made at the first use.
nb::object kernel_table::list() {
  if (nb::object known = kept(); known.is_valid()) return known;
  py_ref fresh{nb::list()};
  const short_guard held(lock_);
  if (!kept_) std::swap(kept_, fresh);
  return nb::borrow(kept_.get());
}

void kernel_table::add(nb::handle kernel, int device, const found_kernel& found) {
  const nb::object keeper = list();
  for (const nb::handle each : {kernel, nb::handle(found.convert)}) {
    if (each.is_valid() && PyList_Append(keeper.ptr(), each.ptr()) != 0) throw nb::python_error();
  }
  const short_guard held(lock_);
  if (!keeper.is(kept_.get())) return;  // cleared meanwhile: nothing keeps them
  entries_.insert_or_assign({kernel.ptr(), device}, entry{found.facts, found.convert.ptr()});
}

found_kernel kernel_table::by_handle(std::uint64_t native) {
  const short_guard held(lock_);
  std::shared_ptr<const kernel_facts>& known = by_handle_[native];
  if (!known) {
    kernel_facts made;
    made.what = device_kernel::by_handle(native);
    known = std::make_shared<const kernel_facts>(std::move(made));
  }
  return {known, {}};
}

nb::object kernel_table::kept() const noexcept {
  const short_guard held(lock_);
  return nb::borrow(kept_.get());
}

void kernel_table::clear() noexcept {
  entry_map entries;
  handle_map handles;
  py_ref gone;
  const short_guard held(lock_);
  entries_.swap(entries);
  by_handle_.swap(handles);
  std::swap(kept_, gone);
}

}  // namespace millstream::python
