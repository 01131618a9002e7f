// SPDX-License-Identifier: Apache-2.0
/// The Python classes `logical_data` and `dep`.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <millstream/untyped.hpp>

#include "context.hpp"
#include "numpy.hpp"

namespace millstream::python {

/// A handle of the engine's datum, and the shape and dtype the engine knows nothing of.
struct py_data {
  py_data(std::shared_ptr<context_state> in, untyped_data handle, layout_ptr layout) noexcept
      : state(std::move(in)), data(std::move(handle)), what(std::move(layout)) {}
  py_data(py_data&&) noexcept = default;
  py_data& operator=(py_data&&) noexcept = default;
  ~py_data();

  /// Drops the handle.
  void let_go() noexcept;

  std::shared_ptr<context_state> state;
  untyped_data data;
  layout_ptr what;  ///< null for a token
};

/// One access that was asked for. `ld` is looked at only when a task takes it.
struct py_dep {
  nb::object ld;
  access_mode mode = access_mode::none;
  nb::object place;  ///< null is as None, and costs nothing
};
/// For the place of one.
[[nodiscard]] inline nb::object unless_none(nb::handle place) {
  return place.is_none() ? nb::object() : nb::borrow(place);
}

/// "'x'" or "data 3", for messages.
[[nodiscard]] std::string name_of(const untyped_data& data);

/// Whose access it is: for the engine its line, for messages its name.
struct dep_user {
  source_site site;
  const char* who = "";  ///< where there is no name
  std::string_view symbol;
};
/// The access for the engine, with all checks: TypeError for what is no dep of a logical_data,
/// ValueError for data of a different context and for writing to read-only data.
[[nodiscard]] task_dep to_task_dep(const context_state& state, nb::handle dep,
                                   const dep_user& user);
[[nodiscard]] task_dep to_task_dep(const context_state& state, const py_dep& access,
                                   const dep_user& user);
/// The datum of a dep that `to_task_dep` accepted.
[[nodiscard]] inline const nb::object& data_object(nb::handle dep) {
  return nb::inst_ptr<py_dep>(dep)->ld;
}

struct register_arguments {
  nb::handle buffer;
  nb::handle place;
  nb::handle name;
  nb::handle copy;
  nb::handle allow_overlap;
};
[[nodiscard]] py_data register_buffer(const std::shared_ptr<context_state>& state,
                                      const register_arguments& what);
[[nodiscard]] py_data make_empty(const std::shared_ptr<context_state>& state, nb::handle shape,
                                 nb::handle dtype, nb::handle name);
struct fill_arguments {
  nb::handle value;
  nb::handle dtype;
  nb::handle where;
  nb::handle place;
  nb::handle name;
};
[[nodiscard]] py_data make_full(const std::shared_ptr<context_state>& state, nb::handle shape,
                                const fill_arguments& fill);
[[nodiscard]] py_data make_token(const std::shared_ptr<context_state>& state);

}  // namespace millstream::python
