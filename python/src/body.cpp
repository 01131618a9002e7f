// SPDX-License-Identifier: Apache-2.0
#include "body.hpp"

#include <optional>
#include <string>
#include <vector>

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "bind.hpp"
#include "body_scope.hpp"
#include "caller.hpp"
#include "convert.hpp"
#include "data.hpp"
#include "locks.hpp"
#include "torch_block.hpp"
#include "view.hpp"

namespace millstream::python {
namespace {

using namespace nb::literals;

// What a body knows of a dependency. Not the handle: the content of data that the user drops is let
// go behind this task, not behind its run.
struct body_dep {
  layout_ptr what;  // null for a token
  const core::data* datum = nullptr;
  bool writable = false;
  data_place place;
};

// What `current_task()` gives: valid while its body runs. Other threads may use it, too, if the
// body shows it to them.
struct running_task {
  argument_list arguments;
  std::string symbol;
  std::optional<body_scope> scope;  // ends with the body
  int device = -1;                  // -1 = the host
  exec_place place;
  bool over = false;
  [[no_unique_address]] call_lock lock;

  void check_open() const {
    if (over) throw error(errc::usage, "this task has ended; use current_task() inside its body");
  }
  friend call_lock& lock_of(running_task& task) noexcept { return task.lock; }
};

thread_local std::shared_ptr<running_task> t_running;

class running_scope {
 public:
  explicit running_scope(std::shared_ptr<running_task> now)
      : before_(std::exchange(t_running, std::move(now))) {}
  ~running_scope() { t_running = std::move(before_); }
  running_scope(const running_scope&) = delete;
  running_scope& operator=(const running_scope&) = delete;

 private:
  std::shared_ptr<running_task> before_;
};

}  // namespace

class python_body final : public body {
 public:
  python_body(std::shared_ptr<context_state> state, const body_arguments& what, source_site site,
              std::size_t dep_count)
      : state_(std::move(state)),
        function_(nb::object(what.function)),
        arguments_(nb::object(what.arguments)),
        symbol_(what.symbol),
        list_(what.list),
        site_(site),
        uses_device_(what.uses_device) {
    deps_.reserve(dep_count);
  }

  void add(const py_data& data, const task_dep& dep) {
    deps_.push_back({data.what, data.data.state(), writes(dep.mode), dep.place});
    if (state_->check) names_.push_back(name_of(data.data));
  }

  void run(const body_call& call) override;
  void keep() noexcept override { is_kept_ = true; }
  void destroy() noexcept override;

 private:
  [[nodiscard]] std::shared_ptr<running_task> make_running(const body_call& call) const;
  void run_as(const std::shared_ptr<running_task>& task);
  void call_function(running_task& task);
  void close(const std::shared_ptr<running_task>& task) const;
  nb::object call_with(running_task& task, std::vector<PyObject*> values) const;
  void warn_of_kept(argument_list& given) const;
  [[nodiscard]] std::string task_name() const {
    return "task " +
           (symbol_.empty() ? "of line " + std::to_string(site_.line) : "'" + symbol_ + "'");
  }
  void release() noexcept {
    deps_.clear();
    function_ = {};
    arguments_ = {};
  }
  /// What it queued was recorded and will run with the stage, which keeps the body as long; or this
  /// is a thread of the driver's, where what the function holds must not end.
  [[nodiscard]] bool is_kept_by_stage(const body_call& call) const noexcept {
    return state_->use_graph && state_->native_memory && (call.device >= 0 || !uses_device_);
  }

  std::shared_ptr<context_state> state_;
  py_ref function_;
  py_ref arguments_;
  std::string symbol_;
  std::uint64_t list_;
  source_site site_;
  bool uses_device_;
  std::vector<body_dep> deps_;
  std::vector<std::string> names_;  // in checker mode
  bool is_kept_ = false;
};

void python_body::run(const body_call& call) {
  const interpreter_lock lock;
  if (!lock) return;
  std::optional<python_exception> failed;
  {
    const std::shared_ptr<running_task> task = make_running(call);
    try {
      run_as(task);
    } catch (nb::python_error& raised) {
      failed.emplace(nb::borrow(raised.value()));
      failed->shared()->list = list_;
      state_->keep(*failed);
    }
    close(task);
  }
  if (!is_kept_by_stage(call) || (failed && call.device >= 0)) {
    if (!is_kept_) release();
  } else if (!is_kept_) {
    deps_.clear();
  }
  if (failed) throw *failed;
}

void python_body::run_as(const std::shared_ptr<running_task>& task) {
  const running_scope scope(task);
  call_function(*task);
  const call_guard held(task->lock);
  if (state_->check) warn_of_kept(task->arguments);
  task->scope->finish();
}

void python_body::close(const std::shared_ptr<running_task>& task) const {
  const auto name = [this] { return task_name(); };
  const auto names = [this] { return names_; };
  const call_guard held(task->lock);
  task->over = true;
  task->scope.reset();
  if (task.use_count() == 1) {
    task->arguments.close(site_, name, names);
  } else {
    // Somebody has the task, and another thread may be inside of a call of it.
    task->arguments.end_lease(site_, name, names);
  }
}

std::shared_ptr<running_task> python_body::make_running(const body_call& call) const {
  std::vector<argument_list::entry> entries;
  entries.reserve(deps_.size());
  for (std::size_t i = 0; i < deps_.size(); ++i) {
    const body_dep& dep = deps_[i];
    entries.push_back({dep.what,
                       dep.datum,
                       call.pointers[i],
                       dep.writable,
                       home_of(*state_, dep.place, call.device),
                       {},
                       {},
                       {}});
  }
  return std::make_shared<running_task>(
      running_task{argument_list(std::move(entries), state_, call.queue),
                   symbol_,
                   body_scope(*state_, call),
                   call.device,
                   call.device < 0 ? exec_place::host() : exec_place::device(call.device),
                   false,
                   {}});
}

void python_body::call_function(running_task& task) {
  const auto extra = nb::borrow<nb::tuple>(arguments_.get());
  std::vector<PyObject*> values;  // the task's arguments and the tuple keep them
  values.reserve(task.arguments.size() + extra.size());
  for (std::size_t i = 0; i < task.arguments.size(); ++i) {
    if (task.arguments.at(i).what) values.push_back(task.arguments.array(i).ptr());
  }
  for (const nb::handle each : extra)
    values.push_back(each.ptr());
  static_cast<void>(call_with(task, std::move(values)));
}

// Of those that keep a current stream. Nothing but looks into sys.modules.
int count_imported_frameworks() {
  static constinit lazy_name names("millstream.interop._current", "FRAMEWORKS");
  PyObject* const modules = PyImport_GetModuleDict();
  int count = 0;
  for (const nb::handle name : nb::borrow<nb::tuple>(names.get())) {
    const int there = PyDict_Contains(modules, name.ptr());
    if (there < 0) throw nb::python_error();
    count += there;
  }
  return count;
}

nb::object python_body::call_with(running_task& task, std::vector<PyObject*> values) const {
  nb::handle callable = function_.get();
  nb::object stream;
  nb::object device;
  const bool may_switch = state_->native_memory && task.device >= 0;
  const int frameworks = may_switch ? count_imported_frameworks() : 0;
  const nb::object torch = frameworks == 1 ? imported_torch() : nb::object();
  if (torch.is_valid()) {
    return call_with_torch_stream(torch, task.scope->stream(), task.device,
                                  {callable, values, arguments_.get()});
  }
  if (frameworks > 0) {
    static constinit lazy_name call("millstream.interop._current", "call");
    stream = nb::int_(task.scope->stream());
    device = nb::int_(task.device);
    values.insert(values.begin(), {stream.ptr(), device.ptr(), callable.ptr()});
    callable = call.get();
  }
  PyObject* const result = call_or_park(callable, values.data(), values.size());
  if (result == nullptr) throw nb::python_error();
  return nb::steal(result);
}

// Three references are ours: the list of arguments, `arrays`, and none of the user's.
void python_body::warn_of_kept(argument_list& given) const {
  constexpr Py_ssize_t ours = 2;
  for (std::size_t i = 0; i < deps_.size(); ++i) {
    if (!deps_[i].what) continue;
    const nb::object array = given.array(i);
    if (Py_REFCNT(array.ptr()) <= ours) continue;
    const std::string text = "the body of " + task_name() + " keeps its array of " + names_[i] +
                             ", which is not valid after the task; copy it";
    const nb::object category = nb::module_::import_("millstream._errors").attr("ContractWarning");
    if (PyErr_WarnExplicit(category.ptr(), text.c_str(), site_.file != nullptr ? site_.file : "?",
                           static_cast<int>(site_.line), nullptr, nullptr) != 0) {
      throw nb::python_error();
    }
  }
}

void python_body::destroy() noexcept {
  // Bodies that ran have nothing left to release; for others it needs the lock.
  if (function_) {
    const interpreter_lock lock;
    if (!lock) return;
    release();
  }
  delete this;
}

namespace {

nb::object current_task() {
  if (!t_running) return nb::none();
  return nb::cast(t_running);
}

template <class Get>
auto while_running(Get get) {
  return [get](running_task& self) {
    const call_guard held(self.lock);
    self.check_open();
    return get(self);
  };
}

void bind_running_task(nb::module_& core) {
  nb::class_<running_task>(core, "running_task",
                           "The submitted function that is running in this thread, seen from "
                           "inside. Valid until it returns; then every use raises UsageError.")
      .def(
          "stream_ptr",
          while_running([](running_task& self) { return from_stream(self.scope->stream()); }),
          nb::sig("def stream_ptr(self) -> millstream.CudaStream"),
          "Stream of the task: a raw handle on a GPU machine, else the number of its queue. On the "
          "host of a GPU machine it is a stream of the current device, and the task ends when what "
          "the body queued there has.")
      .def_prop_ro(
          "symbol",
          [](const running_task& self) {
            return self.symbol.empty() ? nb::none() : nb::object(nb::cast(self.symbol));
          },
          nb::sig("def symbol(self) -> str | None"), "Name of the task, or None.")
      .def_ro("place", &running_task::place, "Where it runs.")
      .def("args", while_running([](running_task& self) { return self.arguments.arrays(); }),
           nb::sig("def args(self) -> tuple[typing.Any, ...]"),
           "One array per dependency that is no token.")
      .def(
          "get_arg",
          [](running_task& self, nb::handle index) {
            const call_guard held(self.lock);
            self.check_open();
            return self.arguments.address(to_index(index, "index"));
          },
          "index"_a, nb::sig("def get_arg(self, index: int) -> int"),
          "Address of dependency `index`, tokens counted. IndexError past the list, RuntimeError "
          "for a token.")
      .def(
          "get_arg_cai",
          [](running_task& self, nb::handle index) {
            const call_guard held(self.lock);
            self.check_open();
            return self.arguments.view(to_index(index, "index"));
          },
          "index"_a, nb::sig("def get_arg_cai(self, index: int) -> stf_cai"),
          "View of dependency `index`; errors as `get_arg`.")
      .def("_capsules", while_running([](running_task& self) { return self.arguments.capsules(); }),
           nb::sig("def _capsules(self) -> tuple[object, ...] | None"), "As `task._capsules`.")
      .def(
          "_described",
          [](running_task& self, nb::handle maker) {
            const call_guard held(self.lock);
            self.check_open();
            return self.arguments.described(maker);
          },
          "maker"_a,
          nb::sig("def _described(self, maker: collections.abc.Callable[[stf_cai], typing.Any]) -> "
                  "tuple[typing.Any, ...] | None"),
          "As `task._described`.")
      .def("args_cai", while_running([](running_task& self) { return self.arguments.views(); }),
           nb::sig("def args_cai(self) -> stf_cai | tuple[stf_cai, ...] | None"),
           "The same as views: None, one view, or a tuple.")
      .def(
          "__getitem__",
          [](running_task& self, nb::handle key) {
            const call_guard held(self.lock);
            self.check_open();
            return self.arguments.item(argument_list::to_key(key));
          },
          "key"_a, nb::sig("def __getitem__(self, key: int | logical_data) -> typing.Any"),
          "Array of a dependency, by position (tokens counted) or by datum.")
      .def("__repr__", [](running_task& self) {
        const call_guard held(self.lock);
        return "running_task(" + (self.symbol.empty() ? "" : "'" + self.symbol + "', ") +
               (self.over ? "ended)" : "running)");
      });
}

}  // namespace

body_submission::body_submission(const std::shared_ptr<context_state>& state,
                                 const body_arguments& what, std::size_t dep_count)
    : state_(state),
      what_(what),
      site_(caller_site()),
      work_(new python_body(state, what, site_, dep_count)) {
  accesses_.reserve(dep_count);
}

body_submission::~body_submission() = default;

void body_submission::add(nb::handle dep) {
  accesses_.push_back(to_task_dep(*state_, dep, {site_, what_.who, what_.symbol}));
  work_->add(*nb::inst_ptr<py_data>(data_object(dep)), accesses_.back());
}

void body_submission::hand_over() {
  task_spec spec;
  spec.kind = what_.kind;
  spec.place = what_.place;
  spec.symbol = what_.symbol;
  spec.site = site_;
  spec.deps = accesses_;
  spec.uses_device = what_.uses_device;
  with_details([&] { return error_details{std::string(what_.symbol), {}, site_}; },
               [&] {
                 const may_block section;
                 state_->core.submit(spec, std::move(work_));
               });
}

void bind_body(nb::module_& core) {
  bind_running_task(core);
  core.def("current_task", &current_task, nb::sig("def current_task() -> running_task | None"),
           "The submitted function that is running in this thread, or None outside of one.");
}

}  // namespace millstream::python
