// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/string.h>

#include "context.hpp"
#include "locks.hpp"
#include "resources.hpp"

namespace millstream::python {
namespace {

context_options options_of(const context_setup& setup,
                           const std::shared_ptr<trace_recorder>& recorder) {
  context_options options;
  options.on = setup.on->opened();
  options.check = setup.check;
  options.stream = setup.stream;
  options.listener = recorder;
  options.use_graph = setup.use_graph;
  if (setup.resources.is_valid() && !setup.resources.is_none()) {
    options.resources = nb::cast<py_resources&>(setup.resources).shared;
  }
  return options;
}

}  // namespace

context_state::context_state(const context_setup& setup)
    : on(setup.on),
      check(setup.check),
      empty(setup.empty),
      use_graph(setup.use_graph),
      recorder(setup.trace ? make_trace_recorder() : nullptr),
      core(options_of(setup, recorder)),
      host_memory(on->opened().has_host_memory()),
      native_memory(on->opened().runs_kernels()),
      caller_stream(setup.stream),
      generation_(process_generation()),
      stream_object_(nb::object(setup.stream_object)),
      resources_(nb::object(setup.resources)) {
  note_engine_in_use();
}

// On whatever thread the last child of the context dies, which is when the last failure is known.
context_state::~context_state() {
  if (!caller_stream || !finalized.get() || !is_of_this_process()) return;
  const interpreter_lock lock;
  if (lock) warn_of_unseen();
}

void context_state::finish() {
  // What is in a caller's stream may run for longer than the context lives, and what was captured
  // there whenever somebody likes.
  std::shared_ptr<void> in_use = caller_stream ? launched() : nullptr;
  {
    const may_block section;
    core.finish(std::move(in_use));
  }
  finalized.set(true);
}

std::uint64_t context_state::hand_over_stream(int device) const {
  return caller_stream ? *caller_stream : on->opened().hand_over_stream(device);
}

void context_state::warn_of_unseen() noexcept {
  const nb::error_scope keep_pending;
  try {
    for (const failure& each : core.take_failures()) {
      nb::module_::import_("millstream._errors")
          .attr("_warn_of_unseen")(to_python(each.cause, {each.task, each.data, each.site}),
                                   nb::cast(each.task));
    }
  } catch (nb::python_error& raised) {
    raised.discard_as_unraisable("a context on a caller's stream");
  } catch (const std::exception&) {
    // There is no room left to say it.
  }
}

void context_state::keep(const python_exception& exception) {
  {
    const short_guard held(lock_);
    if (!forgotten_) return exceptions_.push_back(exception.shared());
  }
  exception.shared()->drop();
}

std::shared_ptr<void> context_state::launched() const {
  const short_guard held(lock_);
  return std::make_shared<std::array<py_ref, 2>>(
      std::array<py_ref, 2>{py_ref(kernels.kept()), py_ref(nb::borrow(graphs_.get()))});
}

void context_state::keep_graph(nb::handle graph) {
  py_ref fresh{nb::list()};
  nb::object list;
  {
    const short_guard held(lock_);
    if (!graphs_) std::swap(graphs_, fresh);
    list = nb::borrow(graphs_.get());
  }
  if (PyList_Append(list.ptr(), graph.ptr()) != 0) throw nb::python_error();
}

void context_state::forget_graphs() noexcept {
  py_ref gone;
  const short_guard held(lock_);
  std::swap(graphs_, gone);
}

void context_state::forget_exceptions() noexcept {
  std::vector<std::shared_ptr<python_exception::state>> gone;
  {
    const short_guard held(lock_);
    forgotten_ = true;
    gone.swap(exceptions_);
  }
  for (const auto& each : gone)
    each->drop();
}

int context_state::visit(visitproc visit, void* arg, bool only_owner) const noexcept {
  for (const auto& each : exceptions_)
    Py_VISIT(each->kept().ptr());
  if (only_owner) {
    Py_VISIT(stream_object_.get().ptr());
    Py_VISIT(kernels.visited().ptr());
    Py_VISIT(graphs_.get().ptr());
    Py_VISIT(resources_.get().ptr());
  }
  return 0;
}

bool context_state::is_of_this_process() const noexcept {
  return generation_ == process_generation();
}

void check_live(const context_state& state, const char* call) {
  if (!state.finalized.get()) return;
  if (state.empty) {
    throw error(errc::usage, std::string(call) +
                                 " cannot be used, because the object has no context; get one "
                                 "from a context or with borrow_ctx_handle()");
  }
  throw error(
      errc::usage,
      std::string(call) + " cannot be used, because the context was finalized; open a new one");
}

namespace {

std::shared_ptr<context_state> make_empty_context() {
  context_setup setup;
  setup.on = find_machine({"null", 1, std::nullopt});
  setup.empty = true;
  auto state = std::make_shared<context_state>(setup);
  state->finish();
  return state;
}

}  // namespace

// Not made by the language, as `lazy_object`.
const std::shared_ptr<context_state>& empty_context() {
  static constinit std::atomic<const std::shared_ptr<context_state>*> known{nullptr};
  const auto* found = known.load();
  if (found != nullptr) return *found;
  auto made = std::make_unique<const std::shared_ptr<context_state>>(make_empty_context());
  return known.compare_exchange_strong(found, made.get()) ? *made.release() : *found;
}

}  // namespace millstream::python
