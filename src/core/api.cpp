// SPDX-License-Identifier: Apache-2.0
/// untyped_data and untyped_context: thin handles over the engine.
#include <utility>

#include <millstream/untyped.hpp>

#include "base/block_pool.hpp"
#include "base/text.hpp"
#include "core/context.hpp"
#include "core/given_graph.hpp"

namespace millstream::inline v1 {
namespace detail {

void* take_block(std::size_t bytes) {
  return base::take_block(bytes);
}
void give_block(void* block, std::size_t bytes) noexcept {
  base::give_block(block, bytes);
}

}  // namespace detail

namespace {

std::string locked_name(const core::data& what) {
  const std::scoped_lock hold(what.owner->mutex());
  return what.name();
}

task_dep writing(const untyped_data& what, access_mode mode, data_place place, source_site at) {
  // An empty handle is refused with the task's name when it is submitted.
  if (!what || !what.is_readonly()) return {what, mode, place, at};
  throw error(errc::invalid_value,
              base::cat(locked_name(*what.state()), " is read-only; ", to_string(mode),
                        " is not allowed: use read(), or register a writable buffer"));
}

void check_owns(const untyped_context& in, const untyped_data& what, const char* call) {
  if (in.owns(what)) return;
  if (!what) {
    throw error(errc::invalid_value, base::cat(call, " was called with a handle without data"));
  }
  throw error(errc::invalid_value, base::cat(call, " was called with ", locked_name(*what.state()),
                                             ", which belongs to a different context; ", call,
                                             " in the context that has it"));
}

}  // namespace

untyped_data::untyped_data(const untyped_data& other) noexcept : state_(other.state_) {
  if (state_ != nullptr) state_->add_handle();
}

void untyped_data::let_go() noexcept {
  core::data* const last = std::exchange(state_, nullptr);
  if (last->drop_handle()) last->owner->let_go(*last);
}

task_dep untyped_data::read(data_place place, std::source_location at) const {
  return {*this, access_mode::read, place, at};
}
task_dep untyped_data::write(data_place place, std::source_location at) const {
  return writing(*this, access_mode::write, place, at);
}
task_dep untyped_data::rw(data_place place, std::source_location at) const {
  return writing(*this, access_mode::rw, place, at);
}

std::size_t untyped_data::bytes() const noexcept {
  return state_ == nullptr ? 0 : state_->bytes;
}
bool untyped_data::is_token() const noexcept {
  return state_ != nullptr && state_->token;
}
bool untyped_data::is_readonly() const noexcept {
  return state_ != nullptr && state_->readonly;
}
std::uint64_t untyped_data::id() const noexcept {
  return state_ == nullptr ? 0 : state_->id;
}

std::string untyped_data::symbol() const {
  if (state_ == nullptr) return {};
  const std::scoped_lock hold(state_->owner->mutex());
  return state_->symbol;
}

void untyped_data::set_symbol(std::string_view name) const {
  if (state_ == nullptr) throw error(errc::usage, "set_symbol was called on a handle without data");
  const std::scoped_lock hold(state_->owner->mutex(), core::names_mutex());
  state_->symbol = name;
}

bool untyped_data::is_written() const noexcept {
  if (state_ == nullptr) return false;
  const std::scoped_lock hold(state_->owner->mutex());
  return state_->written;
}

untyped_context::untyped_context(context_options options) {
  core::check_process();
  state_ = std::make_shared<core::context>(std::move(options));
}

shared_resources::shared_resources(std::size_t limit_bytes)
    : state_(core::make_recorder_cache(limit_bytes)) {}

void shared_resources::set_policy(std::function<bool(const executable_info&)> keep) {
  state_->set_policy(std::move(keep));
}

std::size_t shared_resources::executables() const {
  return state_->size();
}

std::size_t shared_resources::bytes() const {
  return state_->bytes();
}

untyped_data untyped_context::register_data(const registration& what) {
  return untyped_data::adopt(engine().register_data(what));
}

untyped_data untyped_context::make_data(std::size_t bytes, std::string_view symbol,
                                        source_site site) {
  return untyped_data::adopt(engine().make_data(bytes, symbol, site, /*token=*/false));
}

untyped_data untyped_context::make_token(std::string_view symbol, source_site site) {
  return untyped_data::adopt(engine().make_data(0, symbol, site, /*token=*/true));
}

void untyped_context::submit(const task_spec& what, body_ptr work) {
  engine().submit(what, std::move(work));
}

void untyped_context::fill(const task_dep& target, std::span<const std::byte> pattern,
                           exec_place place, std::string_view symbol) {
  task_spec spec;
  spec.kind = task_kind::fill;
  spec.place = place;
  spec.symbol = symbol;
  spec.site = target.site;
  spec.deps = {&target, 1};
  engine().fill(spec, pattern);
}

void untyped_context::add_graph(const task_spec& what, std::uint64_t native) {
  engine().add_graph(what, {native, nullptr});
}
void untyped_context::add_graph(const task_spec& what, const recorded_graph& graph) {
  core::context& here = engine();
  if (!graph) throw error(errc::invalid_value, "add_graph was called with an empty graph");
  here.add_graph(what, {0, graph.state().get()});
}
recorded_graph untyped_context::give_graph(std::shared_ptr<void> with) {
  return recorded_graph(engine().give_graph(std::move(with)));
}
recorded_graph untyped_context::to_graph() {
  raise(take_failures());
  return give_graph();
}

std::string untyped_context::native_dot() const {
  return engine().native_dot();
}

std::uint64_t untyped_context::fence() {
  return engine().fence();
}

void untyped_context::order(std::uint64_t later, std::uint64_t queue) {
  state_->order(later, queue);
}

void untyped_context::await_content(const untyped_data& what) {
  core::context& here = engine();
  check_owns(*this, what, "wait");
  here.await_content(*what.state());
}

void untyped_context::read_back(const untyped_data& what, void* to) {
  core::context& here = engine();
  check_owns(*this, what, "wait");
  here.read_back(*what.state(), to);
}

notice_ticket untyped_context::notify(std::unique_ptr<notice> told) {
  return engine().notify(std::move(told));
}

notice_ticket untyped_context::fetch(const untyped_data& what, void* to,
                                     std::unique_ptr<notice> told) {
  core::context& here = engine();
  check_owns(*this, what, "get");
  return here.fetch(*what.state(), to, std::move(told));
}

core::context& untyped_context::engine() const {
  if (state_ != nullptr) return *state_;
  throw error(errc::usage, "this context was moved away; use the one it was moved to");
}

void untyped_context::finish(std::shared_ptr<void> with) {
  engine().finish(std::move(with));
}
void untyped_context::drain() {
  engine().drain();
}
std::vector<failure> untyped_context::take_failures(std::size_t most) {
  return engine().failures().take(most);
}
std::vector<failure> untyped_context::look_at_failures(task_range of) const {
  return engine().failures().look(of);
}
void untyped_context::mark_failures_seen(const std::vector<std::uint64_t>& task_ids) noexcept {
  if (state_ != nullptr) state_->failures().mark_seen(task_ids);
}
void untyped_context::finalize() {
  finish();
  raise(take_failures());
}
void untyped_context::check_errors() {
  raise(take_failures(1));
}
void untyped_context::abandon() noexcept {
  if (state_ != nullptr) state_->abandon();
}
bool untyped_context::is_finished() const noexcept {
  return state_ == nullptr || state_->is_finished();
}
context_stats untyped_context::stats() const {
  return engine().stats();
}
machine untyped_context::where() const {
  return engine().options().on;
}
bool untyped_context::owns(const untyped_data& what) const noexcept {
  return what && state_ != nullptr && what.state()->owner == state_;
}

}  // namespace millstream::inline v1
