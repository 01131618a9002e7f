// SPDX-License-Identifier: Apache-2.0
/// What every entry point does before and after its own work, and what the implementations ask of
/// the call in progress.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/fakes/cuda_driver/rows.hpp"
#include "tests/fakes/cuda_driver/state.hpp"

namespace fake_cuda {

/// Thrown by an implementation to answer something else than success.
struct refusal {
  result code;
};
inline void require(bool holds, result otherwise = result::invalid_value) {
  if (!holds) throw refusal{otherwise};
}

struct thread_state {
  std::uint64_t generation = 0;
  int number = 0;
  std::vector<context> stack;
  capture_mode mode = capture_mode::global;
};

struct call {
  state& all;
  std::unique_lock<std::mutex>& hold;
  thread_state& thread;

  /// The current context of the thread; refuses if there is none, or it has a fault.
  [[nodiscard]] context_ptr current() const;
  /// As `current`, but null if there is none.
  [[nodiscard]] context_ptr current_or_none() const;
  [[nodiscard]] context_ptr context_of(context handle) const;
  /// Streams by handle, the default streams included.
  [[nodiscard]] stream_ptr at(stream handle) const;
  [[nodiscard]] event_ptr event_of(event handle) const;

  template <class Handle>
  [[nodiscard]] Handle new_handle() const {
    return all.handles.next<Handle>();
  }
};

/// Waits until all that is queued in the context has ended.
void finish_context(call& in, const context_ptr& what);
void finish(call& in, const op_ptr& what);
/// Lets a few operations run because somebody asks whether one is done, and says whether it is.
[[nodiscard]] bool ask(call& in, askers& who, const op_ptr& what);
/// Refuses with the fault of a context that has one.
void refuse_faulted(const context_state& in);

/// Issues work to a stream: queues what `make` makes, or records it when the stream is being
/// captured.
void issue(call& in, const stream_ptr& on, node_type type, const op_factory& make);
/// An operation of a stream's context.
[[nodiscard]] op_ptr make_operation(const char* what, const context_ptr& owner,
                                    std::function<turn()> run);

/// What the capture machinery says to a call. Each refuses, and spoils the captures concerned.
void refuse_unsafe_call(call& in);
void refuse_captured(call& in, const stream_ptr& of);
/// The same for a call that concerns all streams of a context.
void refuse_captures(context_state& in);
void refuse_implicit_dependence(call& in, const stream_ptr& on);

/// An argument as a word of the log. Where the call stores a handle or an address, that is seen
/// afterwards.
struct argument_words {
  std::uint64_t (*before)(const void* argument);
  std::uint64_t (*after)(const void* argument);
};

/// What is known of an entry point at compile time, so that the rest is compiled only once.
struct call_shape {
  row which;
  result (*body)(call& in, const void* const* arguments);
  std::size_t argument_count;
  const argument_words* words;
};

/// What every call passes: counts and logs it, answers planned faults and those of a broken
/// context, and turns what the body throws into an answer. `arguments` points to each argument.
[[nodiscard]] result pass(const call_shape& shape, const void* const* arguments) noexcept;

namespace detail {

template <class Value>
std::uint64_t to_word(Value value) noexcept {
  if constexpr (std::is_pointer_v<Value>) {
    return reinterpret_cast<std::uint64_t>(value);
  } else if constexpr (std::is_integral_v<Value> || std::is_enum_v<Value>) {
    return static_cast<std::uint64_t>(value);
  } else {
    return 0;
  }
}

/// A place where a handle or an address is stored by the call.
template <class Value>
inline constexpr bool is_output =
    std::is_same_v<Value, std::uint64_t*> || std::is_same_v<Value, context*> ||
    std::is_same_v<Value, stream*> || std::is_same_v<Value, event*> ||
    std::is_same_v<Value, graph*> || std::is_same_v<Value, executable_graph*> ||
    std::is_same_v<Value, module*> || std::is_same_v<Value, library*> ||
    std::is_same_v<Value, function*> || std::is_same_v<Value, kernel*> ||
    std::is_same_v<Value, memory_pool*> || std::is_same_v<Value, green_context*>;

template <class Value>
std::uint64_t to_word_after(Value value) noexcept {
  if constexpr (is_output<Value>) {
    return value == nullptr ? 0 : to_word(*value);
  } else {
    return to_word(value);
  }
}

template <class Value>
inline constexpr argument_words words_of{
    [](const void* argument) { return to_word(*static_cast<const Value*>(argument)); },
    [](const void* argument) { return to_word_after(*static_cast<const Value*>(argument)); }};

}  // namespace detail

/// The function that is handed out for a row.
template <row Row, auto* Body>
struct entry;
template <row Row, class... Arguments, result (*Body)(call&, Arguments...)>
struct entry<Row, Body> {
  static_assert(sizeof...(Arguments) <= logged_words);

  static result run(Arguments... arguments) noexcept {
    const void* const given[] = {&arguments..., nullptr};
    return pass({Row, &unpack, sizeof...(Arguments), words}, given);
  }

 private:
  static constexpr argument_words words[] = {detail::words_of<Arguments>..., {}};

  static result unpack(call& in, const void* const* given) {
    return unpack_each(in, given, std::index_sequence_for<Arguments...>{});
  }
  template <std::size_t... Index>
  static result unpack_each(call& in, [[maybe_unused]] const void* const* given,
                            std::index_sequence<Index...> /*all*/) {
    return Body(in, *static_cast<const Arguments*>(given[Index])...);
  }
};

}  // namespace fake_cuda
