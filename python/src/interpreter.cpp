// SPDX-License-Identifier: Apache-2.0
#include "interpreter.hpp"

#include <cxxabi.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>

#include <millstream/hooks.hpp>

#include "bind.hpp"

namespace millstream::python {
namespace {

// How long the end of the interpreter waits for bodies that are running.
constexpr unsigned shut_down_limit_ms = 2000;

std::atomic<bool> g_gone{false};
unsigned g_generation = 0;
std::atomic<bool> g_in_use{false};
unsigned long g_main_thread = 0;
std::atomic<unsigned long> g_ending_thread{0};

thread_local int t_may_block = 0;
thread_local PyThreadState* t_saved = nullptr;

// The Python thread state of a foreign thread, kept by one count too many until the thread ends.
class kept_state {
 public:
  kept_state() = default;
  kept_state(const kept_state&) = delete;
  kept_state& operator=(const kept_state&) = delete;
  ~kept_state() {
    if (!active_ || interpreter_is_gone()) return;
    try {
      const PyGILState_STATE state = PyGILState_Ensure();
      forget_values();
      PyGILState_Release(PyGILState_LOCKED);  // the one too many; the lock stays held
      PyGILState_Release(state);
    } catch (abi::__forced_unwind&) {
      park();
    }
  }
  void keep() {
    if (active_ || PyGILState_GetThisThreadState() != nullptr) return;
    static_cast<void>(PyGILState_Ensure());
    static_cast<void>(PyEval_SaveThread());
    active_ = true;
  }

 private:
  // While the state is still in use: what the destructors of these values do may take the lock
  // again, and Python before 3.12.4 would end the state a second time.
  static void forget_values() noexcept {
    PyObject* const values = PyThreadState_GetDict();
    if (values != nullptr) PyDict_Clear(values);
  }

  bool active_ = false;
};
thread_local kept_state t_kept;

void* enter_wait() noexcept {
  if (t_may_block == 0 || t_saved != nullptr) return nullptr;
  t_saved = PyEval_SaveThread();
  return t_saved;
}

void leave_wait(void* token) noexcept {
  if (token == nullptr) return;
  // The interpreter has ended, or is about to: it would end this thread on its way in.
  if (interpreter_is_gone() && PyThread_get_thread_ident() != g_ending_thread.load()) park();
  PyThreadState* const state = std::exchange(t_saved, nullptr);
  try {
    PyEval_RestoreThread(state);
  } catch (abi::__forced_unwind&) {
    park();
  }
}

// Only the main thread handles signals. The exception of the handler stays pending, and the
// translation of error(interrupted) finds it.
bool is_wait_interrupted() noexcept {
  if (t_saved == nullptr || PyThread_get_thread_ident() != g_main_thread) return false;
  try {
    PyEval_RestoreThread(t_saved);
    const bool raised = PyErr_CheckSignals() != 0;
    t_saved = PyEval_SaveThread();
    return raised;
  } catch (abi::__forced_unwind&) {
    park();
  }
}

// The threads of the engine stayed with the parent.
void after_fork_in_child() noexcept {
  ++g_generation;
  g_in_use = false;
  g_main_thread = PyThread_get_thread_ident();
}

void shut_down_at_exit() {
  g_ending_thread = PyThread_get_thread_ident();
  if (g_in_use) {
    const nb::gil_scoped_release let_go;
    shut_down(shut_down_limit_ms);
  }
  g_gone = true;
}

// The module threading knows; while nobody has loaded it, there is one thread.
unsigned long main_thread() {
  const nb::object found = nb::module_::import_("sys").attr("modules");
  const auto modules = nb::borrow<nb::dict>(found);
  if (!modules.contains("threading")) return PyThread_get_thread_ident();
  return nb::cast<unsigned long>(modules["threading"].attr("main_thread")().attr("ident"));
}

}  // namespace

void park() noexcept {
  for (;;)
    ::pause();
}

bool interpreter_is_gone() noexcept {
  return g_gone.load(std::memory_order_relaxed);
}

unsigned process_generation() noexcept {
  return g_generation;
}

void note_engine_in_use() noexcept {
  g_in_use = true;
}

interpreter_lock::interpreter_lock() noexcept {
  if (interpreter_is_gone()) return;
  try {
    t_kept.keep();
    state_ = PyGILState_Ensure();
    held_ = true;
  } catch (abi::__forced_unwind&) {
    park();
  }
}

interpreter_lock::~interpreter_lock() {
  if (held_) PyGILState_Release(state_);
}

int* may_block::sections_of_thread() noexcept {
  return &t_may_block;
}

released_lock::released_lock() noexcept : token_(enter_wait()) {}
released_lock::~released_lock() {
  leave_wait(token_);
}

void py_ref::drop() noexcept {
  PyObject* const object = std::exchange(object_, nullptr);
  const interpreter_lock lock;
  if (!lock) return;
  try {
    Py_DECREF(object);
  } catch (abi::__forced_unwind&) {
    park();
  }
}

// A frame of its own without anything to destroy: if the interpreter ends this thread inside the
// call, no destructor may run without the lock.
PyObject* call_or_park(nb::handle callable, PyObject* const* arguments,
                       std::size_t count) noexcept {
  try {
    return PyObject_Vectorcall(callable.ptr(), arguments, count, nullptr);
  } catch (abi::__forced_unwind&) {
    park();
  }
}

PyObject* call_or_park(nb::handle callable, nb::handle arguments, nb::handle options) noexcept {
  try {
    return PyObject_Call(callable.ptr(), arguments.ptr(), options.ptr());
  } catch (abi::__forced_unwind&) {
    park();
  }
}

PyObject* call_method_or_park(PyObject* name, PyObject* const* arguments,
                              std::size_t count) noexcept {
  try {
    return PyObject_VectorcallMethod(name, arguments, count, nullptr);
  } catch (abi::__forced_unwind&) {
    park();
  }
}

PyObject* index_or_park(nb::handle what) noexcept {
  try {
    return PyNumber_Index(what.ptr());
  } catch (abi::__forced_unwind&) {
    park();
  }
}

PyObject* attribute_or_park(nb::handle what, const char* name) noexcept {
  try {
    return PyObject_GetAttrString(what.ptr(), name);
  } catch (abi::__forced_unwind&) {
    park();
  }
}

int truth_or_park(nb::handle what) noexcept {
  try {
    return PyObject_IsTrue(what.ptr());
  } catch (abi::__forced_unwind&) {
    park();
  }
}

PyObject* lazy_object::keep(nb::object made) noexcept {
  PyObject* known = nullptr;
  if (!object_.compare_exchange_strong(known, made.ptr(), std::memory_order_acq_rel)) return known;
  return made.release().ptr();
}

nb::handle lazy_name::get() {
  return object_.get([this] { return nb::object(nb::module_::import_(module_).attr(name_)); });
}

void bind_interpreter(nb::module_& core) {
  g_main_thread = main_thread();
  pthread_atfork(nullptr, nullptr, &after_fork_in_child);
  set_blocking_hooks({enter_wait, leave_wait, is_wait_interrupted});
  core.def("_shut_down", &shut_down_at_exit,
           "Ends the engine with the interpreter: queued work is dropped, running work is awaited "
           "for two seconds at most. Called at exit.");
  nb::module_::import_("atexit").attr("register")(core.attr("_shut_down"));
}

}  // namespace millstream::python
