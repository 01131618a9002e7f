// SPDX-License-Identifier: Apache-2.0
#include "core/place.hpp"

#include "base/text.hpp"
#include "core/machine.hpp"

namespace millstream::inline v1 {

std::string to_string(exec_place place) {
  switch (place.what()) {
    case exec_place::kind::current: return "current device";
    case exec_place::kind::host: return "host";
    case exec_place::kind::device: return base::cat("device ", place.index());
  }
  return "?";
}

std::string to_string(data_place place) {
  switch (place.what()) {
    case data_place::kind::affine: return "affine";
    case data_place::kind::host: return "host";
    case data_place::kind::managed: return "managed";
    case data_place::kind::device: return base::cat("device ", place.index());
  }
  return "?";
}

}  // namespace millstream::inline v1

namespace millstream::core {
namespace {

place_index checked_device(int index, machine& on) {
  const int count = on.driver().device_count();
  if (index >= 0 && index < count) return static_cast<place_index>(index);
  throw error(errc::invalid_value,
              base::cat("device ", index, " does not exist; machine ", base::quoted(on.name()),
                        " has ", count, count == 1 ? " device" : " devices", ", numbered from 0"));
}

}  // namespace

place_index resolve(exec_place place, machine& on) {
  switch (place.what()) {
    case exec_place::kind::current: return static_cast<place_index>(on.current_device());
    case exec_place::kind::host: return host_place;
    case exec_place::kind::device: return checked_device(place.index(), on);
  }
  return host_place;
}

place_index resolve_named(data_place place, machine& on) {
  switch (place.what()) {
    case data_place::kind::affine:
    case data_place::kind::host: return host_place;
    case data_place::kind::device: return checked_device(place.index(), on);
    case data_place::kind::managed:
      if (on.has(backend::capability::managed)) return managed_place;
      throw error(errc::unsupported,
                  base::cat("machine ", base::quoted(on.name()),
                            " has no managed memory; use data_place host or device"));
  }
  return host_place;
}

}  // namespace millstream::core
