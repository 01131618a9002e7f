// SPDX-License-Identifier: Apache-2.0
#include "tests/scenario/device_body.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

#include "base/clock.hpp"
#include "tests/scenario/body_run.hpp"
#include "tests/unit/fake_cuda/driver.hpp"

namespace millstream::scenario {
namespace {

namespace abi = backend::cuda::abi;

constexpr std::size_t usual_chunk_bytes = std::size_t{1} << 20U;

fake_cuda_test::driver& driver() {
  return fake_cuda_test::the_driver();
}

void must(abi::result answer, const char* what) {
  if (answer == abi::result::success) return;
  throw std::runtime_error(std::string("the driver cannot ") + what + ": result " +
                           std::to_string(static_cast<std::uint32_t>(answer)));
}

/// A device's primary context and the test kernels in it, kept until the process ends.
struct device_kit {
  abi::context context = nullptr;
  abi::function fill = nullptr;
  abi::function spin = nullptr;
};

/// Of the whole process.
struct kit {
  std::mutex mutex;  // guards all below
  std::vector<device_kit> devices;
  std::vector<staging_chunk> free_chunks;
};

kit& the_kit() {
  static auto* const only = new kit;
  return *only;
}

/// The calling thread's context is another one meanwhile.
class in_context {
 public:
  explicit in_context(abi::context wanted) {
    must(driver().call.cuCtxGetCurrent(&before_), "tell the current context");
    must(driver().call.cuCtxSetCurrent(wanted), "change the current context");
  }
  ~in_context() { driver().call.cuCtxSetCurrent(before_); }
  in_context(const in_context&) = delete;
  in_context& operator=(const in_context&) = delete;

 private:
  abi::context before_ = nullptr;
};

device_kit make_kit(int device) {
  const fake_cuda_test::entry_points& call = driver().call;
  device_kit made;
  must(call.cuInit(0), "begin");
  must(call.cuDevicePrimaryCtxRetain(&made.context, device), "open a device");
  const in_context here(made.context);
  abi::module kernels = nullptr;
  must(call.cuModuleLoadData(&kernels, fake_cuda_test::kernel_text().c_str()), "load kernels");
  must(call.cuModuleGetFunction(&made.fill, kernels, "test_fill_f64"), "find a kernel");
  must(call.cuModuleGetFunction(&made.spin, kernels, "test_spin"), "find a kernel");
  return made;
}

device_kit kit_of(int device) {
  const std::scoped_lock hold(the_kit().mutex);
  std::vector<device_kit>& all = the_kit().devices;
  const auto index = static_cast<std::size_t>(std::max(device, 0));
  if (all.size() <= index) all.resize(index + 1);
  if (all[index].context == nullptr) all[index] = make_kit(static_cast<int>(index));
  return all[index];
}

template <class... Arguments>
void launch(abi::function what, abi::stream on, Arguments... arguments) {
  void* list[] = {&arguments...};
  must(driver().call.cuLaunchKernel(what, 1, 1, 1, 64, 1, 1, 0, on, list, nullptr), "launch");
}

abi::device_pointer device_address(const void* address) {
  return reinterpret_cast<abi::device_pointer>(address);
}

}  // namespace

/// A body on its way through a stream. Outlives it.
struct device_bodies::queued {
  task_record& task;
  const body_world& world;
  std::vector<void*> staged;  // where the CPU finds what the accesses are about
  std::vector<std::int64_t> seen;
  std::uint64_t began_ns = 0;

  [[nodiscard]] body_run run() const {
    body_call call;
    call.pointers = staged;
    return {task, call, world};
  }

  // What the stream calls, one after the other.
  static void look(void* self) { (void)static_cast<queued*>(self)->run().read_inputs(); }
  static void compute(void* self) {
    auto& one = *static_cast<queued*>(self);
    one.began_ns = base::now_ns();
    one.seen = one.run().read_inputs();
    one.run().write_outputs(one.seen);
  }
  static void close(void* self) {
    auto& one = *static_cast<queued*>(self);
    one.run().check_still(one.seen);
    ++one.task.runs;
    one.world.times->note(one.task.what->name, {one.began_ns, base::now_ns()});
  }
};

bool device_bodies::is_needed(const task_forecast& plan) noexcept {
  return plan.place >= 0 ||
         std::any_of(plan.accesses.begin(), plan.accesses.end(), [](const access_forecast& each) {
           return each.elements != 0 && each.place >= 0;
         });
}

device_bodies::device_bodies() {
  static_cast<void>(kit_of(0));
}

device_bodies::~device_bodies() {
  forget();
}

void device_bodies::forget() noexcept {
  const std::scoped_lock hold(mutex_, the_kit().mutex);
  queued_.clear();
  std::vector<staging_chunk>& free = the_kit().free_chunks;
  free.insert(free.end(), chunks_.begin(), chunks_.end());
  chunks_.clear();
}

void device_bodies::choose_order(std::uint64_t seed) {
  if (driver().is_fake) driver().control.seed(seed);
}

std::uint64_t device_bodies::stalls() const {
  return driver().is_fake ? driver().control.stalls() : 0;
}

namespace {

// Page-locked, so that copies take their turn.
staging_chunk take_chunk(std::size_t least) {
  const std::scoped_lock hold(the_kit().mutex);
  std::vector<staging_chunk>& free = the_kit().free_chunks;
  const auto found = std::find_if(
      free.begin(), free.end(), [least](const staging_chunk& each) { return each.bytes >= least; });
  if (found != free.end()) {
    const staging_chunk taken = *found;
    free.erase(found);
    return taken;
  }
  const std::size_t bytes = std::max(least, usual_chunk_bytes);
  void* made = nullptr;
  must(driver().call.cuMemHostAlloc(&made, bytes, abi::host_alloc_flags::portable),
       "allocate staging memory");
  return {static_cast<std::byte*>(made), bytes};
}

/// Queues the steps of one body.
class body_queue {
 public:
  body_queue(const task_forecast& plan, const body_call& call, const std::vector<void*>& staged,
             const device_kit& with, abi::stream on)
      : plan_(plan), call_(call), staged_(staged), kit_(with), on_(on) {}

  void fetch_inputs() const {
    for_each([](const access_forecast& one) { return one.reads; },
             [&](std::size_t i, std::size_t bytes) { fetch(i, bytes); });
  }
  /// Readers that come too early see it.
  void spoil_outputs() const {
    for_each([](const access_forecast& one) { return one.writes; },
             [&](std::size_t i, std::size_t bytes) {
               launch(kit_.fill, on_, device_address(call_.pointers[i]),
                      std::bit_cast<double>(rubbish), std::uint64_t{bytes / sizeof(double)});
             });
    launch(kit_.spin, on_, std::uint64_t{2});
  }
  void store_outputs() const {
    for_each([](const access_forecast& one) { return one.writes; },
             [&](std::size_t i, std::size_t bytes) {
               must(driver().call.cuMemcpyHtoDAsync(device_address(call_.pointers[i]), staged_[i],
                                                    bytes, on_),
                    "copy an output");
             });
  }
  void fetch_inputs_again() const {
    for_each([](const access_forecast& one) { return one.reads && !one.writes; },
             [&](std::size_t i, std::size_t bytes) { fetch(i, bytes); });
  }
  void call(abi::host_function what, void* with) const {
    must(driver().call.cuLaunchHostFunc(on_, what, with), "queue a host function");
  }

 private:
  void fetch(std::size_t index, std::size_t bytes) const {
    must(driver().call.cuMemcpyDtoHAsync(staged_[index], device_address(call_.pointers[index]),
                                         bytes, on_),
         "copy an input");
  }
  /// Data in memory of devices, each once.
  template <class Wanted, class Action>
  void for_each(const Wanted& wanted, const Action& action) const {
    for (std::size_t i = 0; i < plan_.accesses.size(); ++i) {
      const access_forecast& one = plan_.accesses[i];
      if (one.first != i || one.elements == 0 || one.place < 0 || !wanted(one)) continue;
      action(i, one.elements * sizeof(std::int64_t));
    }
  }

  const task_forecast& plan_;
  const body_call& call_;
  const std::vector<void*>& staged_;
  const device_kit& kit_;
  const abi::stream on_;
};

/// The task's stream, or on a host place one that lasts as long as the body.
class body_stream {
 public:
  explicit body_stream(const body_call& call)
      : raw_(static_cast<abi::stream>(call.stream)), own_(call.device < 0) {
    if (!own_) return;
    raw_ = nullptr;
    must(driver().call.cuStreamCreate(&raw_, abi::stream_flags::non_blocking), "make a stream");
  }
  ~body_stream() {
    if (own_) driver().call.cuStreamDestroy(raw_);
  }
  body_stream(const body_stream&) = delete;
  body_stream& operator=(const body_stream&) = delete;

  [[nodiscard]] abi::stream raw() const noexcept { return raw_; }
  void finish() const {
    if (own_) must(driver().call.cuStreamSynchronize(raw_), "wait for a stream");
  }

 private:
  abi::stream raw_;
  bool own_;
};

// What runs on the host looks at a device's memory from that device: the others may not have been
// opened yet, and then nobody let them reach it.
int device_of(const task_forecast& plan) noexcept {
  if (plan.place >= 0) return plan.place;
  const auto there = std::find_if(
      plan.accesses.begin(), plan.accesses.end(),
      [](const access_forecast& each) { return each.elements != 0 && each.place >= 0; });
  return there->place;
}

}  // namespace

// From a context that is current: the driver asks for one.
void* device_bodies::staging(std::size_t bytes) {
  const std::scoped_lock hold(mutex_);
  if (chunks_.empty() || chunks_.back().bytes - used_ < bytes) {
    chunks_.push_back(take_chunk(bytes));
    used_ = 0;
  }
  std::byte* const taken = chunks_.back().block + used_;
  used_ += bytes;
  return taken;
}

void device_bodies::queue(task_record& task, const body_call& call, const body_world& world,
                          bool whole) {
  const task_forecast& plan = *task.forecast;
  const device_kit with = kit_of(device_of(plan));
  const in_context here(with.context);
  auto made = std::make_unique<queued>(queued{task, world, {}, {}});
  for (std::size_t i = 0; i < plan.accesses.size(); ++i) {
    const access_forecast& one = plan.accesses[i];
    const bool copied = one.elements != 0 && one.place >= 0;
    made->staged.push_back(one.first != i ? made->staged[one.first]
                           : copied       ? staging(one.elements * sizeof(std::int64_t))
                                          : call.pointers[i]);
  }
  queued* const kept = made.get();
  {
    const std::scoped_lock hold(mutex_);
    queued_.push_back(std::move(made));
  }
  const body_stream on(call);
  const body_queue steps(plan, call, kept->staged, with, on.raw());
  steps.fetch_inputs();
  steps.call(whole ? &queued::compute : &queued::look, kept);
  if (whole) {
    steps.spoil_outputs();
    steps.store_outputs();
    steps.fetch_inputs_again();
    steps.call(&queued::close, kept);
  }
  on.finish();
}

device_buffer::device_buffer(int device, const std::vector<std::int64_t>& words) : device_(device) {
  const std::size_t bytes = words.size() * sizeof(std::int64_t);
  const in_context here(kit_of(device).context);
  must(driver().call.cuMemAlloc(&block_, std::max(bytes, std::size_t{1})), "allocate a buffer");
  must(driver().call.cuMemcpyHtoD(block_, words.data(), bytes), "fill a buffer");
  // From pageable memory that returns when the words are on their way.
  must(driver().call.cuStreamSynchronize(nullptr), "wait for a copy");
}

device_buffer::~device_buffer() {
  try {
    const in_context here(kit_of(device_).context);
    driver().call.cuMemFree(block_);
  } catch (const std::exception&) {
    // A driver that answers nothing any more has been complained about.
  }
}

void* device_buffer::address() const noexcept {
  return reinterpret_cast<void*>(block_);
}

void device_buffer::read(std::vector<std::int64_t>& into) const {
  const in_context here(kit_of(device_).context);
  must(driver().call.cuMemcpyDtoH(into.data(), block_, into.size() * sizeof(std::int64_t)),
       "read a buffer");
}

}  // namespace millstream::scenario
