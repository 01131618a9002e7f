// SPDX-License-Identifier: Apache-2.0
// The Python class `pytorch_task`, and how a stream is made current in PyTorch. The rest of the
// adapter is millstream/interop/pytorch.py.
#include "torch_block.hpp"

#include <array>
#include <utility>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "bind.hpp"
#include "convert.hpp"
#include "direct.hpp"
#include "framework_block.hpp"
#include "locks.hpp"

namespace millstream::python {
namespace {

using namespace nb::literals;

constexpr const char* adapter = "millstream.interop.pytorch";

// --- streams

// Makes one stream current by the two calls that `torch.cuda.stream` ends in.
struct stream_switch {
  nb::object current;       // of a device: (stream, device index, device type)
  nb::object make_current;  // takes the same
  nb::object device;
  nb::object number;
  nb::object tell;  // the allocator, of arguments that the stream will use

  [[nodiscard]] nb::object enter() const {
    nb::object before = call_python(current, device);
    make(number);
    return before;
  }
  void make(nb::handle which) const {
    static_cast<void>(result_of(call_or_park(make_current, which, nb::handle())));
  }
};

nb::object enter_with(const stream_switch& self, nb::handle arguments) {
  nb::object before = self.enter();
  if (to_bool(arguments)) call_python(self.tell, arguments);
  return before;
}

void bind_stream_switch(nb::module_& core) {
  nb::class_<stream_switch>(core, "stream_switch",
                            "Makes a stream current in PyTorch. Does not change; any thread.")
      .def(
          "__init__",
          [](stream_switch* self, nb::handle current, nb::handle make_current, nb::handle device,
             nb::tuple number, nb::handle tell) {
            new (self) stream_switch{nb::borrow(current), nb::borrow(make_current),
                                     nb::borrow(device), std::move(number), nb::borrow(tell)};
          },
          "current"_a, "make_current"_a, "device"_a, "number"_a, "tell"_a,
          nb::sig("def __init__(self, current: collections.abc.Callable[[int], tuple[int, ...]], "
                  "make_current: collections.abc.Callable[..., object], device: int, "
                  "number: tuple[int, ...], "
                  "tell: collections.abc.Callable[[tuple[typing.Any, ...]], object]) -> None"),
          "`current(device)` gives what ``make_current(*number)`` takes.")
      .def("enter", &enter_with, "arguments"_a = nb::tuple(),
           nb::sig("def enter(self, arguments: tuple[typing.Any, ...] = ()) -> tuple[int, ...]"),
           "Makes it current for a body with these arguments; gives what `leave` takes.")
      .def("leave", &stream_switch::make, "before"_a,
           nb::sig("def leave(self, before: tuple[int, ...]) -> None"),
           "Makes current what was so before.");
}

// --- the block

struct torch_block : framework_block {
  using framework_block::framework_block;

  nb::object stream;  // its switch, while that is current
  nb::object before;
};

nb::object loaded_torch() {
  static constinit lazy_text name("torch");
  return find_item(PyImport_GetModuleDict(), name.get());
}

struct last_answer {
  nb::object asked;
  nb::object answer;
  [[no_unique_address]] short_lock lock;
};

// What `_import_torch` gives. It is not asked again while its answer is the module that is loaded.
nb::object find_torch() {
  static constinit module_name import(adapter, "_import_torch");
  static auto& last = *new last_answer;
  nb::object function = import.get();
  const nb::object loaded = loaded_torch();
  {
    const short_guard held(last.lock);
    if (function.is(last.asked) && loaded.is(last.answer)) return last.answer;
  }
  nb::object found = call_python(function);
  nb::object answer = found;
  const short_guard held(last.lock);
  std::swap(last.asked, function);
  std::swap(last.answer, answer);
  return found;
}

// The last switches that were found. They stay in their table for good.
struct known_switch {
  nb::object table;  // kept, so that its address is that of no other
  std::uint64_t number = 0;
  int device = -1;
  nb::object found;
};
struct switch_slot {
  known_switch known;
  [[no_unique_address]] short_lock lock;
};

switch_slot& switch_like(std::uint64_t number, int device) {
  static auto& known = *new std::array<switch_slot, 64>;
  return known[(number / 16 + static_cast<std::size_t>(device)) % known.size()];
}

// `find()` unless it was found before.
template <class Find>
nb::object known_or(std::uint64_t number, int device, Find&& find) {
  static constinit module_name switches(adapter, "_switches");
  nb::object table = switches.get();
  switch_slot& slot = switch_like(number, device);
  {
    const short_guard held(slot.lock);
    const known_switch& known = slot.known;
    if (known.table.is(table) && known.number == number && known.device == device) {
      return known.found;
    }
  }
  nb::object found = find();
  if (device >= 0 && !found.is_none()) {
    known_switch next{std::move(table), number, device, found};
    const short_guard held(slot.lock);
    std::swap(slot.known, next);
  }
  return found;
}

nb::object find_switch(py_task& task, nb::handle torch) {
  static constinit module_name find(adapter, "_find_switch");
  if (!task.state->native_memory) return nb::none();
  const body_call call = task.core.call();
  const int device = call.device;
  const std::uint64_t number = scope_of(task, call).stream();
  return known_or(number, device, [&] {
    return call_python(find.get(), torch, nb::make_tuple(from_stream(number), device));
  });
}

nb::object call(const body_values& body) {
  return result_of(call_or_park(body.function, body.values.data(), body.values.size()));
}

nb::object enter_switch(nb::handle which, nb::handle extra) {
  const auto* const direct = as<stream_switch>(which);
  return direct != nullptr ? enter_with(*direct, extra) : call_python(which.attr("enter"), extra);
}

void leave_switch(nb::handle which, nb::handle before) {
  if (const auto* const direct = as<stream_switch>(which)) {
    direct->make(before);
  } else {
    call_python(which.attr("leave"), before);
  }
}

void enter_stream(torch_block& self, nb::handle torch) {
  nb::object found = find_switch(self, torch);
  if (found.is_none()) return;
  static constinit lazy_object none;
  self.before = enter_switch(found, none.get([] { return nb::tuple(); }));
  self.stream = std::move(found);
}

void leave_stream(torch_block& self) {
  if (!self.stream.is_valid()) return;
  const nb::object from = std::exchange(self.stream, {});
  const nb::object to = std::exchange(self.before, {});
  leave_switch(from, to);
}

void leave_stream_quietly(torch_block& self) {
  try {
    leave_stream(self);
  } catch (const nb::python_error& raised) {
    if (!raised.matches(PyExc_Exception)) throw;
  }
}

nb::object detached(nb::handle tensor) {
  static constinit lazy_text name("detach");
  PyObject* const self = tensor.ptr();
  return result_of(call_method_or_park(name.get().ptr(), &self, 1));
}

nb::object tensors_of(const nb::pointer_and_handle<torch_block>& block, nb::handle torch) {
  static constinit module_name describe(adapter, "_describe");
  static constinit module_name make(adapter, "_new_tensors");
  const nb::object maker = describe.get();
  const nb::object known = described(*block.p, maker);
  if (known.is_none()) {
    return call_python(make.get(), torch, task_inside({block.p, block.h}));
  }
  const std::size_t count = nb::len(known);
  if (count == 0) return nb::none();
  return make_tuple_of(count, [&](std::size_t i) { return detached(known[i]); });
}

nb::object enter(nb::pointer_and_handle<torch_block> block) {
  torch_block& self = *block.p;
  if (self.others.is_valid()) return call_python(self.others.attr("__enter__"));
  const nb::object torch = find_torch();
  start(self);
  return or_fail(
      self,
      [&] {
        enter_stream(self, torch);
        return tensors_of(block, torch);
      },
      [&] { leave_stream_quietly(self); });
}

void leave(torch_block& self, nb::handle type, nb::handle value, nb::handle traceback) {
  if (self.others.is_valid()) {
    call_python(self.others.attr("__exit__"), type, value, traceback);
  } else if (!type.is_none()) {
    then_fail(self, value.is_none() ? type : value, [&] { leave_stream_quietly(self); });
  } else {
    or_fail(self, [&] { leave_stream(self); });
    end_task(self);
  }
}

void bind_block(nb::module_& core) {
  nb::class_<torch_block>(
      core, "pytorch_task", nb::pooled(),
      "A task around a ``with`` block, with its stream current in PyTorch.\n\n"
      "``with pytorch_task(ctx, *args) as tensors``: `args` are those of `context.task`. The block "
      "gets a tuple of tensors, one for each dependency that is no token (see `tensor_arg`), or "
      "None where there are none. What raises in the block fails the task; an error of the "
      "clean-up is raised only after a clean block, that of the stream before that of the task. On "
      "host machines the tensors are in host memory and there is no stream.\n\n"
      "Raises what `context.task` and `task.start` raise, and ImportError without PyTorch.")
      .def(
          "__init__",
          [](torch_block* self, nb::handle ctx, const nb::args& parts) {
            static constinit module_name of_others(adapter, "_block_of_others");
            new (self) torch_block(ctx, parts, {}, of_others);
          },
          "ctx"_a.none(), "args"_a,
          nb::sig("def __init__(self, ctx: millstream.context, *args: object) -> None"),
          "Makes the task.")
      .def("__enter__", locked(&enter),
           nb::sig("def __enter__(self) -> tuple[typing.Any, ...] | None"),
           "Starts the task; the tensors.")
      .def("__exit__", locked(&leave), "exc_type"_a.none(), "exc"_a.none(), "traceback"_a.none(),
           nb::sig("def __exit__(self, exc_type: object, exc: object, traceback: object, /) -> "
                   "None"),
           "Takes the stream back and ends the task, whatever happens.")
      .def("__repr__",
           locked(+[](torch_block& self) { return shown_block(self, "pytorch_task"); }));
  const nb::handle type = nb::type<torch_block>();
  note_direct_call(type, "__enter__", &enter_directly<torch_block, &enter>);
  note_direct_call(type, "__exit__", &leave_directly<torch_block, &leave>);
}

}  // namespace

nb::object imported_torch() {
  nb::object found = loaded_torch();
  return found.is_none() ? nb::object() : found;
}

nb::object call_with_torch_stream(nb::handle torch, std::uint64_t stream, int device,
                                  const body_values& body) {
  static constinit module_name find(adapter, "stream_switch");
  const nb::object found = known_or(stream, device, [&] {
    return call_python(find.get(), torch, nb::int_(stream), nb::int_(device));
  });
  if (found.is_none()) return call(body);
  const nb::object before = enter_switch(found, body.extra);
  nb::object result;
  try {
    result = call(body);
  } catch (const nb::python_error&) {
    leave_switch(found, before);
    throw;
  }
  leave_switch(found, before);
  return result;
}

void bind_torch_block(nb::module_& core) {
  bind_stream_switch(core);
  bind_block(core);
}

}  // namespace millstream::python
