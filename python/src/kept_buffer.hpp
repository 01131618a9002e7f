// SPDX-License-Identifier: Apache-2.0
/// Arrays that are kept while their memory is registered, and what the collector of garbage sees of
/// that.
#pragma once

#include <memory>

#include <millstream/untyped.hpp>

#include "interpreter.hpp"

namespace millstream::python {

/// Keeps an object whose memory is registered. May be dropped on any thread.
[[nodiscard]] std::shared_ptr<void> keep_buffer(nb::object&& owner);
/// The same for an array of NumPy.
[[nodiscard]] std::shared_ptr<void> keep_array(nb::object&& array);

/// For `tp_traverse`: the object that was kept as above, if this handle is what keeps it and the
/// collector may end it together with the handle. Null for memory that came by DLPack: what keeps
/// that is nothing of Python's.
[[nodiscard]] nb::handle buffer_kept_by(const untyped_data& handle) noexcept;

}  // namespace millstream::python
