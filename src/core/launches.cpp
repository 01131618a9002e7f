// SPDX-License-Identifier: Apache-2.0
#include "core/launches.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "base/block_pool.hpp"
#include "base/text.hpp"
#include "core/context.hpp"
#include "core/open_task.hpp"

namespace millstream::core {
namespace {

using extents = std::array<std::uint32_t, 3>;
using argument_block = base::small_vector<std::byte, 96>;

constexpr std::int64_t most_extent = std::numeric_limits<std::int32_t>::max();

bool is_extent(std::int64_t number) noexcept {
  return number > 0 && number <= most_extent;
}

void check_extents(const plan& who, const char* what, const dims& given) {
  if (is_extent(given.x) && is_extent(given.y) && is_extent(given.z)) return;
  throw error(errc::invalid_value,
              base::cat(who.full_name(), " launches a kernel with ", what, " (", given.x, ", ",
                        given.y, ", ", given.z, "); give positive extents below 2^31"));
}

extents to_extents(const dims& checked) noexcept {
  return {static_cast<std::uint32_t>(checked.x), static_cast<std::uint32_t>(checked.y),
          static_cast<std::uint32_t>(checked.z)};
}

bool divides(std::int64_t cluster, std::int64_t grid) noexcept {
  return cluster == 1 || grid % cluster == 0;  // a division takes long
}

/// What the text of an error needs.
struct packing {
  const plan& who;
  const backend::kernel& kernel;

  [[noreturn]] void refuse(const std::string& why) const {
    throw error(errc::invalid_value, base::cat(who.full_name(), " launches kernel ",
                                               base::quoted(kernel.name()), " with ", why));
  }
};

void write_at(argument_block& block, std::size_t at, const void* value, std::size_t bytes) {
  if (block.size() < at + bytes) block.resize(at + bytes);
  std::byte* const to = block.data() + at;
  // Nearly all are words, which compilers copy without a call.
  if (bytes == sizeof(std::uint64_t)) {
    std::memcpy(to, value, sizeof(std::uint64_t));
  } else if (bytes == sizeof(std::uint32_t)) {
    std::memcpy(to, value, sizeof(std::uint32_t));
  } else if (bytes > 0) {
    std::memcpy(to, value, bytes);
  }
}

// Where the machine does not tell, each parameter has the size and the alignment of its argument.
void pack_as_given(argument_block& block, std::span<const kernel_argument> arguments) {
  std::size_t end = 0;
  for (const kernel_argument& each : arguments) {
    const std::size_t at = (end + each.alignment - 1) / each.alignment * each.alignment;
    write_at(block, at, each.value, each.bytes);
    end = at + each.bytes;
  }
}

bool fits(std::int64_t number, std::size_t bytes) noexcept {
  if (bytes >= sizeof number) return true;
  const auto values = static_cast<std::int64_t>(std::uint64_t{1} << (bytes * 8));
  return number >= -(values / 2) && number < values;
}

void pack_integer(const packing& in, argument_block& block, const kernel_argument& argument,
                  const backend::kernel_parameter& parameter, std::size_t index) {
  static_assert(std::endian::native == std::endian::little, "the low bytes come first");
  std::int64_t number = 0;
  std::memcpy(&number, argument.value, sizeof number);
  if (parameter.bytes > sizeof number || !fits(number, parameter.bytes)) {
    in.refuse(base::cat("the integer ", number, " as argument ", index, ", which has ",
                        parameter.bytes, " bytes there; pass a value of its type"));
  }
  write_at(block, parameter.offset, &number, parameter.bytes);
}

void pack_as_declared(const packing& in, argument_block& block,
                      std::span<const kernel_argument> arguments,
                      const std::vector<backend::kernel_parameter>& parameters) {
  if (arguments.size() != parameters.size()) {
    in.refuse(base::cat(arguments.size(), arguments.size() == 1 ? " argument" : " arguments",
                        "; it takes ", parameters.size()));
  }
  if (!parameters.empty()) block.resize(parameters.back().offset + parameters.back().bytes);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const kernel_argument& given = arguments[i];
    if (given.is_integer) {
      pack_integer(in, block, given, parameters[i], i);
    } else if (given.bytes != parameters[i].bytes) {
      in.refuse(base::cat("an argument ", i, " of ", given.bytes, " bytes, which has ",
                          parameters[i].bytes, " bytes there; pass a value of its type"));
    } else {
      write_at(block, parameters[i].offset, given.value, given.bytes);
    }
  }
}

void pack(const packing& in, argument_block& block, std::span<const kernel_argument> arguments) {
  if (const auto* parameters = in.kernel.parameters()) {
    pack_as_declared(in, block, arguments, *parameters);
  } else {
    pack_as_given(block, arguments);
  }
}

backend::kernel& find(const plan& who, machine& on, const device_kernel* what) {
  if (what == nullptr || !*what) {
    throw error(
        errc::unsupported,
        base::cat(who.full_name(), " launches a host function, which the devices of machine ",
                  base::quoted(on.name()), " cannot run; give a kernel for them"));
  }
  kernel_source& source = *what->source();
  const program* const ours = source.of();
  if (ours != nullptr && &ours->on() != &on) {
    throw error(errc::invalid_value,
                base::cat(who.full_name(), " launches kernel ", base::quoted(source.entry()),
                          " of a program for machine ", base::quoted(ours->on().name()),
                          "; make the program for the machine of the context"));
  }
  auto found = source.find(on, who.exec);
  if (found) return *found.value();
  throw error(found.why().code(),
              base::cat(who.full_name(), " cannot launch a kernel: ", found.why().text()));
}

/// Packs the arguments for the kernel, which is the answer.
backend::kernel& find_and_pack(const plan& who, machine& on, const kernel_launch& what,
                               argument_block& block) {
  backend::kernel& target = find(who, on, what.what);
  try {
    pack({who, target}, block, what.arguments);
    return target;
  } catch (const error&) {
    backend::kernel* const other = what.what->source()->find_other(on, who.exec, target);
    if (other == nullptr) throw;
    block.clear();
    pack({who, *other}, block, what.arguments);
    return *other;
  }
}

}  // namespace

void check_config(const plan& who, const launch_config& how) {
  check_extents(who, "grid", how.grid);
  check_extents(who, "block", how.block);
  check_extents(who, "cluster", how.cluster);
  if (!divides(how.cluster.x, how.grid.x) || !divides(how.cluster.y, how.grid.y) ||
      !divides(how.cluster.z, how.grid.z)) {
    throw error(errc::invalid_value,
                base::cat(who.full_name(),
                          " launches a kernel with clusters that do not divide its grid; "
                          "give a grid that is a multiple of the cluster"));
  }
  if (how.shared_bytes > std::numeric_limits<std::uint32_t>::max()) {
    throw error(errc::invalid_value, base::cat(who.full_name(), " launches a kernel with ",
                                               base::bytes_text(how.shared_bytes),
                                               " of shared memory; give less than 4 GiB"));
  }
}

namespace {

struct launch_part {
  const char* name;  // "grid"
  dims given;
  const extents& most;
};

/// "with grid (1, 70000, 1), and device 'x' takes at most 65535 in y", or "".
std::string passed_extent(const launch_part& part, const std::string& device) {
  const std::array given{part.given.x, part.given.y, part.given.z};
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (part.most[i] == 0 || given[i] <= part.most[i]) continue;
    return base::cat("with ", part.name, " (", given[0], ", ", given[1], ", ", given[2],
                     "), and device ", base::quoted(device), " takes at most ", part.most[i],
                     " in ", "xyz"[i]);
  }
  return {};
}

/// The highest number where it is beyond.
std::uint64_t threads_of(const dims& block) noexcept {
  std::uint64_t all = static_cast<std::uint64_t>(block.x) * static_cast<std::uint64_t>(block.y);
  const bool beyond = __builtin_mul_overflow(all, static_cast<std::uint64_t>(block.z), &all);
  return beyond ? std::numeric_limits<std::uint64_t>::max() : all;
}

std::string passed_limit(const launch_config& how, const backend::launch_limits& most,
                         const std::string& device) {
  std::string found = passed_extent({"grid", how.grid, most.grid}, device);
  if (found.empty()) found = passed_extent({"block", how.block, most.block}, device);
  if (!found.empty()) return found;
  const std::uint64_t threads = threads_of(how.block);
  if (most.block_threads > 0 && threads > most.block_threads) {
    return base::cat("with a block of ", threads, " threads, and device ", base::quoted(device),
                     " takes at most ", most.block_threads);
  }
  if (most.shared_bytes > 0 && how.shared_bytes > most.shared_bytes) {
    return base::cat("with ", how.shared_bytes, " bytes of dynamic shared memory, and device ",
                     base::quoted(device), " has at most ", most.shared_bytes, " for a block");
  }
  return {};
}

bool is_within(const dims& given, const extents& most) noexcept {
  return given.x <= most[0] && given.y <= most[1] && given.z <= most[2];
}

}  // namespace

void check_limits(const plan& who, const launch_config& how, backend::device& on) {
  const backend::launch_limits* const most = on.limits();
  if (most == nullptr) return;
  if (is_within(how.grid, most->grid) && is_within(how.block, most->block) &&
      threads_of(how.block) <= most->block_threads && how.shared_bytes == 0) {
    return;  // nearly all
  }
  const std::string passed = passed_limit(how, *most, on.name());
  if (passed.empty()) return;
  throw error(errc::invalid_value, base::cat(who.full_name(), " launches a kernel ", passed,
                                             "; give a smaller one, and more of them"));
}

void* launch_list::operator new(std::size_t bytes) {
  return base::take_block(bytes);
}
void launch_list::operator delete(void* block, std::size_t bytes) noexcept {
  base::give_block(block, bytes);
}

void launch_list::add(const plan& who, machine& on, const kernel_launch& what) {
  launch& made = launches_.emplace_back();
  try {
    made.request.what = &find_and_pack(who, on, what, made.arguments);
  } catch (...) {
    launches_.pop_back();
    throw;
  }
  made.request.grid = to_extents(what.how.grid);
  made.request.block = to_extents(what.how.block);
  made.request.shared_bytes = static_cast<std::uint32_t>(what.how.shared_bytes);
  made.request.cluster = to_extents(what.how.cluster);
  made.request.cooperative = what.how.cooperative;
  made.request.programmatic = what.how.programmatic;
  const auto& source = what.what->source();
  if (source->of() != nullptr) made.of = source;
}

backend::status launch_list::issue(lane_set& lanes, lane_index on) {
  for (launch& each : launches_) {
    each.request.arguments = {each.arguments.data(), each.arguments.size()};
    if (backend::status refused = lanes.queue(on).launch(each.request); !refused) return refused;
    lanes.advance(on);
  }
  return {};
}

body_ptr launch_list::take_calls() {
  return make_body([calls = std::move(calls_)](const body_call& with) {
    for (const body_ptr& each : calls)
      each->run(with);
  });
}

// A kernel task runs by itself: nothing of it runs in the caller's thread.

bool open_task::launches_kernels() const noexcept {
  return in_->on().has(backend::capability::kernels);
}

void open_task::check_described() const {
  if (plan_.exec != host_place) return;
  throw error(errc::invalid_value,
              base::cat(plan_.full_name(),
                        " launches kernels, which run on devices; leave the host place out, or "
                        "submit a host function"));
}

void open_task::launch(kernel_launch&& what) {
  if (!is_described()) {
    throw error(errc::usage, base::cat(name(), " is no kernel task; launch in one"));
  }
  check_open("launch");
  check_config(plan_, what.how);
  check_limits(plan_, what.how, in_->on().at(plan_.exec));
  if (skipped_) return;
  if (launches_ == nullptr) launches_ = std::make_unique<launch_list>();
  if (launches_kernels()) {
    launches_->add(plan_, in_->on(), what);
  } else if (what.call == nullptr) {
    throw error(errc::unsupported,
                base::cat(plan_.full_name(), " launches device code, which machine ",
                          base::quoted(in_->on().name()), " cannot run; give a host function"));
  } else {
    launches_->add(std::move(what.call));
  }
}

void open_task::end_described() {
  phase_ = phase::ending;
  try {
    end_described_once();
  } catch (...) {
    if (phase_ == phase::ending) phase_ = phase::open;
    throw;
  }
}

void open_task::end_described_once() {
  // Destroyed without the lock.
  const std::unique_ptr<launch_list> mine = std::move(launches_);
  body_ptr calls;
  std::exception_ptr failed;
  if (!launches_kernels())
    calls = mine == nullptr ? launch_list().take_calls() : mine->take_calls();
  {
    context::lock held(in_->mutex());
    if (skipped_) {
      phase_ = phase::ended;
    } else if (launches_kernels()) {
      failed = issue(held, mine.get());
      finish(held, failed, /*known=*/true);
    } else {
      failed = queue_calls(held, calls);
    }
  }
  if (failed) std::rethrow_exception(failed);
}

// Who is interrupted meanwhile has launched nothing.
std::exception_ptr open_task::issue(context::lock& held, launch_list* launches) {
  try {
    if (launches != nullptr && in_->is_recorded(plan_)) in_->await_recorder(held, plan_);
  } catch (const error& broken) {
    if (broken.code() != errc::interrupted || in_->is_stale(plan_)) return std::current_exception();
    take_back(held);
    throw;
  }
  if (launches == nullptr || in_->is_stale(plan_)) return {};  // `finish` says so
  backend::status queued = launches->issue(in_->lanes(held), plan_.lane);
  if (queued.ok()) return {};
  return std::make_exception_ptr(
      error(queued.code(), base::cat(plan_.full_name(), " could not be queued: ", queued.text())));
}

// The job tells the listener when it began and ended.
std::exception_ptr open_task::queue_calls(context::lock& held, body_ptr& calls) {
  if (in_->is_stale(plan_)) {
    finish(held, nullptr, /*known=*/false);
    return {};
  }
  std::exception_ptr failed;
  try {
    in_->queue_body(held, plan_, calls);
  } catch (const error&) {
    failed = std::current_exception();
  }
  in_->remove_open(held, body_);
  phase_ = phase::ended;
  return failed;
}

void open_task::abandon() noexcept {
  if (phase_ != phase::open) return;
  const std::unique_ptr<launch_list> mine = std::move(launches_);
  context::lock held(in_->mutex());
  if (skipped_) {
    phase_ = phase::ended;
  } else if (in_->is_stale(plan_)) {  // and with that, what its data were before
    finish(held, nullptr, /*known=*/true);
  } else {
    take_back(held);
  }
}

// It has launched nothing, so that its data are as before.
void open_task::take_back(const context::lock& held) noexcept {
  in_->undo_writes(held, plan_);
  give_up(held, outcome::failed);
}

}  // namespace millstream::core
