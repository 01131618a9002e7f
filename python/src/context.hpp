// SPDX-License-Identifier: Apache-2.0
/// The Python class `context` and what its children share of it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <millstream/trace.hpp>
#include <millstream/untyped.hpp>

#include "errors.hpp"
#include "kernel_table.hpp"
#include "machine.hpp"

namespace millstream::python {

struct context_setup {
  std::shared_ptr<py_machine> on;
  bool check = false;
  bool trace = false;
  bool use_graph = false;
  std::optional<std::uint64_t> stream;  ///< the caller's
  nb::object stream_object;             ///< what it was given as
  nb::object resources;                 ///< an async_resources or None
  bool empty = false;                   ///< finalized from the start
};

/// Held by the Python context and by its data, tasks and bodies. The children do not keep the
/// Python object alive: when that is dropped, the engine's context is abandoned. May die on any
/// thread. Any thread may use it.
class context_state {
 public:
  explicit context_state(const context_setup& setup);
  context_state(const context_state&) = delete;
  context_state& operator=(const context_state&) = delete;
  ~context_state();

  const std::shared_ptr<py_machine> on;
  const bool check;
  const bool empty;  ///< what `empty_context` gives
  const bool use_graph;
  const std::shared_ptr<trace_recorder> recorder;  ///< null = not tracing
  untyped_context core;
  const bool host_memory;    ///< device instances are ordinary host memory
  const bool native_memory;  ///< device instances are memory of GPUs
  const std::optional<std::uint64_t> caller_stream;
  shared_value<bool> finalized{false};
  shared_value<bool> given{false};  ///< finalized by `to_graph`: what is kept here is the graph's

  /// Remembers an exception of user code, so that it and the frames it holds die with the context.
  void keep(const python_exception& exception);
  void forget_exceptions() noexcept;
  /// What was launched, kept as long as work that it is in may run: until the context is finalized,
  /// or on a caller's stream, until all children are gone.
  kernel_table kernels;
  /// Keeps a graph of others, as `kernels` keeps theirs.
  void keep_graph(nb::handle graph);
  void forget_graphs() noexcept;
  /// Ends the engine's context. Blocks, and lets other threads run meanwhile.
  void finish();
  /// Keeps the kernels and graphs of now. The lock is held.
  [[nodiscard]] std::shared_ptr<void> launched() const;
  /// For the garbage collector: what the Python context keeps alive. Exceptions are its own, though
  /// they are noted here; the stream's object and the resources are once nobody else has this
  /// state.
  int visit(visitproc visit, void* arg, bool only_owner) const noexcept;
  /// A stream of the device on which arrays come and go: the caller's, or one of the machine that
  /// no task uses.
  [[nodiscard]] std::uint64_t hand_over_stream(int device) const;
  /// Warns of failures that nobody has asked for. The end of a context on a caller's stream does
  /// not raise them, and some come later. The lock is held.
  void warn_of_unseen() noexcept;
  /// False in a child forked since: then nothing may be given back.
  [[nodiscard]] bool is_of_this_process() const noexcept;

 private:
  const unsigned generation_;
  const py_ref stream_object_;
  const py_ref resources_;
  // For what follows.
  [[no_unique_address]] mutable short_lock lock_;
  py_ref graphs_;  // list
  bool forgotten_ = false;
  std::vector<std::shared_ptr<python_exception::state>> exceptions_;
};

/// What objects without a context belong to: no task can be made in it. One per process.
[[nodiscard]] const std::shared_ptr<context_state>& empty_context();

/// Throws error(usage, "<call> ... was finalized") for a finalized context.
void check_live(const context_state& state, const char* call);

/// What the Python object holds; its end is the end of an unfinished context, unless it is
/// borrowed.
struct py_context {
  explicit py_context(const context_setup& setup) : state(std::make_shared<context_state>(setup)) {}
  explicit py_context(std::shared_ptr<context_state> lent);
  py_context(const py_context&) = delete;
  py_context& operator=(const py_context&) = delete;
  ~py_context();

  std::shared_ptr<context_state> state;
  const bool borrowed = false;  ///< another one finalizes it
  /// Whose failures `check_errors` gives: a borrowed context has those of the functions that were
  /// submitted through it, 0 all of them.
  const std::uint64_t list = 0;
};

}  // namespace millstream::python
