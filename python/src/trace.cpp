// SPDX-License-Identifier: Apache-2.0
#include "trace.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace millstream::python {
namespace {

nb::object to_text(const std::string& text) {
  return nb::steal(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
}

nb::list names_of(const std::vector<access_mode>& modes) {
  nb::list names;
  for (const access_mode mode : modes)
    names.append(to_string(mode));
  return names;
}

nb::dict to_dict(const trace_node& node) {
  nb::dict made;
  made["id"] = node.id;
  made["is_copy"] = node.is_copy;
  made["kind"] = to_string(node.kind);
  made["reason"] = to_string(node.reason);
  made["name"] = to_text(node.name);
  made["file"] = node.site.file != nullptr ? to_text(node.site.file) : nb::object(nb::none());
  made["line"] = node.site.line;
  made["place"] = node.place;
  made["from"] = node.from;
  made["queue"] = node.queue;
  made["task"] = node.task;
  made["bytes"] = node.bytes;
  made["data"] = node.data;
  made["modes"] = names_of(node.modes);
  made["submitted_ns"] = node.submitted_ns;
  made["began_ns"] = node.began_ns;
  made["ended_ns"] = node.ended_ns;
  made["how"] = to_string(node.how);
  return made;
}

nb::dict to_dict(const trace_edge& edge) {
  nb::dict made;
  made["from"] = edge.from;
  made["to"] = edge.to;
  made["data"] = edge.data;
  return made;
}

nb::dict to_dict(const trace_data& data) {
  nb::dict made;
  made["id"] = data.id;
  made["name"] = to_text(data.name);
  made["bytes"] = data.bytes;
  return made;
}

nb::dict to_dict(const machine& on) {
  nb::dict made;
  made["name"] = on.name();
  made["device_count"] = on.device_count();
  made["capabilities"] = on.capabilities();
  return made;
}

template <class Items>
nb::list to_list(const Items& items) {
  nb::list made;
  for (const auto& item : items)
    made.append(to_dict(item));
  return made;
}

}  // namespace

nb::dict to_dict(const trace_snapshot& snapshot, const machine& on) {
  nb::dict made;
  made["nodes"] = to_list(snapshot.nodes);
  made["edges"] = to_list(snapshot.edges);
  made["data"] = to_list(snapshot.data);
  made["machine"] = to_dict(on);
  return made;
}

}  // namespace millstream::python
