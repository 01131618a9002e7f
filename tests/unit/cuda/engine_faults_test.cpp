// SPDX-License-Identifier: Apache-2.0
/// Each call of the driver may fail once: what tasks see and what is read is right or an error,
/// never anything else, nothing uses memory out of order, and nothing stays behind.
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "tests/unit/cuda/engine_test.hpp"

namespace millstream::test {
namespace {

using words = std::vector<std::uint32_t>;

constexpr std::uint64_t used_words = 64;
constexpr std::size_t few_words = used_words;
constexpr std::size_t many_words = 300'000;  // more than a megabyte, whose pages are locked

std::map<std::string, std::int64_t> what_stays() {
  std::map<std::string, std::int64_t> all;
  for (const char* kind : {"device_memory", "managed_memory", "registration", "module", "graph",
                           "executable_graph", "context"})
    all[kind] = cuda_driver().control.live(kind);
  return all;
}

/// What there is more of, once the threads of host queues have let go of their last context, which
/// they do in their own time. A stage that is lost takes its executable along, so there may be
/// less.
std::string more_than(const std::map<std::string, std::int64_t>& before) {
  std::string more;
  for (int looks = 0; looks < 100'000; ++looks) {
    more.clear();
    for (const auto& [kind, count] : what_stays()) {
      if (count > before.at(kind)) more += kind + " ";
    }
    if (more.empty()) break;
    std::this_thread::yield();
  }
  return more;
}

std::string out_of_order() {
  std::array<char, 256> text{};
  cuda_driver().control.last_fault(text.data(), text.size());
  return text.data();
}

/// A program in which everything waits for something: its tasks on the device and its functions on
/// the host read and write the same data. Every body looks at what it reads.
class mixed_program {
 public:
  mixed_program(bool use_graph, std::size_t size) : x_(std::make_shared<words>(size, 1)) {
    attempt("open", [&] {
      context_options options;
      options.on = machine({.name = "cuda", .devices = 1, .seed = {}});
      options.use_graph = use_graph;
      on_.emplace(std::move(options));
    });
    if (on_) submit_all();
  }

  [[nodiscard]] bool is_right() const { return wrong_->load() == 0; }
  [[nodiscard]] bool has_failed() const { return !failed_.empty(); }
  [[nodiscard]] const std::string& first_failure() const { return failed_; }
  [[nodiscard]] std::uint32_t result() const { return x_->at(0); }
  static constexpr std::uint32_t wanted = 13;

 private:
  struct kernel_set {
    abi::function add = device_0().kernel("test_add_u32");
    abi::function fill = device_0().kernel("test_fill_u32");
  };
  /// Found once, before any call fails.
  static const kernel_set& kernels() {
    static const kernel_set found;
    return found;
  }

  template <class Call>
  bool attempt(const char* name, const Call& call) {
    try {
      call();
      return true;
    } catch (const std::exception& why) {
      if (failed_.empty()) failed_ = std::string(name) + ": " + why.what();
      return false;
    }
  }

  template <class... Arguments>
  static void launch_or_throw(abi::function what, const body_call& call, Arguments... arguments) {
    std::array<void*, sizeof...(arguments)> list{&arguments...};
    const abi::result answer = cuda_driver().call.cuLaunchKernel(
        what, 1, 1, 1, 32, 1, 1, 0, static_cast<abi::stream>(call.stream), list.data(), nullptr);
    if (answer != abi::result::success) throw std::runtime_error("a launch failed");
  }
  [[nodiscard]] static auto filler(std::uint32_t value) {
    return [what = kernels().fill, value](const body_call& call) {
      launch_or_throw(what, call, reinterpret_cast<abi::device_pointer>(call.pointers[0]), value,
                      used_words);
    };
  }
  /// The first and the second into the first.
  [[nodiscard]] static auto adder() {
    return [what = kernels().add](const body_call& call) {
      const auto to = reinterpret_cast<abi::device_pointer>(call.pointers[0]);
      launch_or_throw(what, call, to, to, reinterpret_cast<abi::device_pointer>(call.pointers[1]),
                      used_words);
    };
  }

  void submit_all() {
    untyped_data x;
    untyped_data y;
    const bool registered = attempt("register", [&] {
      registration what;
      what.block = x_->data();
      what.bytes = x_->size() * sizeof(std::uint32_t);
      what.owner = x_;
      x = on_->register_data(what);
    });
    if (registered) {
      y = on_->make_data(x.bytes());
      submit(x, y);
    }
    x = {};
    y = {};
    for (int i = 0; i < 3; ++i) {
      if (attempt("finish", [&] { on_->finish(); })) break;
    }
    attempt("failures", [&] { on_->check_errors(); });
    on_.reset();
  }

  void submit(const untyped_data& x, untyped_data& y) {
    attempt("fill", [&] { run(*on_, device, {y.write()}, filler(2)); });
    attempt("first sum", [&] { run(*on_, device, {x.rw(), y.read()}, adder()); });  // 3
    on_host(x.read(), 3);
    on_host(y.read(), 2);
    attempt("second sum", [&] { run(*on_, device, {x.rw(), y.read()}, adder()); });  // 5
    on_host(x.rw(), 5, 1);                                                           // 6
    attempt("third sum", [&] { run(*on_, device, {x.rw(), y.read()}, adder()); });   // 8
    attempt("open task", [&] {
      untyped_task task(*on_);
      task.set_place(exec_place::host());
      task.add_dep(x.rw());
      task.start();
      auto* const seen = static_cast<std::uint32_t*>(task.pointer(0));
      if (*seen != 8) ++*wrong_;
      for (std::size_t i = 0; i < used_words; ++i)
        ++seen[i];  // 9
      task.end();
    });
    attempt("read", [&] {
      if (content<std::uint32_t>(*on_, y) != 2) ++*wrong_;
    });
    attempt("fourth sum", [&] { run(*on_, device, {x.rw(), y.read()}, adder()); });  // 11
    attempt("fence", [&] { synchronize(on_->fence()); });
    attempt("read", [&] {
      if (content<std::uint32_t>(*on_, x) != 11) ++*wrong_;
    });
    attempt("last sum", [&] { run(*on_, device, {x.rw(), y.read()}, adder()); });  // 13
    y = {};
  }

  void on_host(const task_dep& of, std::uint32_t wanted_value, std::uint32_t more = 0) {
    attempt("host function", [&] {
      run(
          *on_, exec_place::host(), {of},
          [wrong = wrong_, wanted_value, more](const body_call& call) {
            auto* const seen = static_cast<std::uint32_t*>(call.pointers[0]);
            for (std::size_t i = 0; i < used_words; ++i) {
              if (seen[i] != wanted_value) ++*wrong;
              if (more != 0) seen[i] += more;
            }
          },
          {}, task_kind::host_launch);
    });
  }
  static inline const exec_place device = exec_place::device(0);
  const std::shared_ptr<words> x_;
  const std::shared_ptr<std::atomic<int>> wrong_ = std::make_shared<std::atomic<int>>(0);
  std::optional<untyped_context> on_;
  std::string failed_;
};

struct setting {
  bool use_graph;
  std::size_t size;
};

class EngineFaults : public testing::TestWithParam<setting> {
 protected:
  void SetUp() override { MILLSTREAM_LOOK_ALIKE_ONLY(); }
  void TearDown() override {
    if (cuda_driver().is_fake) cuda_driver().control.fail(nullptr, 0, 0, 0);
  }
  /// Whether the call was made.
  bool fail_nth(const char* row, std::uint64_t nth) {
    const auto& control = cuda_driver().control;
    const std::uint64_t fired = control.faults_fired();
    control.fail(row, nth, static_cast<int>(abi::result::not_permitted), 0);
    const mixed_program one(GetParam().use_graph, GetParam().size);
    control.fail(nullptr, 0, 0, 0);
    EXPECT_TRUE(one.is_right()) << "a body or a read found a wrong value";
    EXPECT_EQ(out_of_order(), "");
    if (!one.has_failed()) {
      EXPECT_EQ(one.result(), mixed_program::wanted);
    }
    return control.faults_fired() != fired;
  }
  void expect_sound() {
    const mixed_program after(GetParam().use_graph, GetParam().size);
    EXPECT_TRUE(after.is_right());
    EXPECT_EQ(after.first_failure(), "");
    EXPECT_EQ(after.result(), mixed_program::wanted);
  }
};

/// What such a call did not give back stays, whatever the caller does.
bool gives_back(const std::string& row) {
  return row.find("cuCtx") != std::string::npos || row.find("Free") != std::string::npos ||
         row.find("Destroy") != std::string::npos || row.find("Unregister") != std::string::npos ||
         row.find("Release") != std::string::npos;
}

TEST_P(EngineFaults, EachCallMayFailOnce) {
  const on_device_0 here;
  for (int i = 0; i < 4; ++i)
    expect_sound();
  int fired = 0;
  const auto sweep = [&](const char* row) {
    const auto before = what_stays();
    for (std::uint64_t nth = 1; !HasFailure(); ++nth) {
      SCOPED_TRACE(std::string(row) + ", call " + std::to_string(nth));
      cuda_driver().control.seed(nth);
      if (!fail_nth(row, nth)) break;
      ++fired;
      expect_sound();
      if (gives_back(row)) continue;
      EXPECT_EQ(more_than(before), "");
    }
  };
  // One that leaves a thread's context current, or does not tell it, is no failure to go on after.
#define MILLSTREAM_CUDA_ROW(name, version, need, parameters)                              \
  if (std::string(#name) != "cuCtxGetCurrent" && std::string(#name) != "cuCtxPopCurrent") \
    sweep(#name);
#include "backend/cuda/driver.inc"
#undef MILLSTREAM_CUDA_ROW
  EXPECT_GT(fired, 50);
}

// The driver would take whatever comes to lie there for the buffer that it knows.
TEST(EnginePages, ABufferWhosePageLockStaysKeepsItsOwner) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  const on_device_0 here;
  const auto& control = cuda_driver().control;
  for (const bool fails : {false, true}) {
    if (fails) {
      control.fail("cuMemHostUnregister", 1, static_cast<int>(abi::result::not_permitted), 0);
    }
    auto buffer = std::make_shared<words>(many_words, 1);
    const std::weak_ptr<words> watch = buffer;
    {
      context_options options;
      options.on = machine({.name = "cuda", .devices = 1, .seed = {}});
      untyped_context on(std::move(options));
      registration what;
      what.block = buffer->data();
      what.bytes = buffer->size() * sizeof(std::uint32_t);
      what.owner = std::move(buffer);
      const untyped_data x = on.register_data(what);
      run(on, exec_place::device(0), {x.rw()}, fill_words(2, few_words));
      on.finish();
    }
    EXPECT_EQ(watch.expired(), !fails);
    control.fail(nullptr, 0, 0, 0);
  }
}

// The copy to the host is carried out by the thread of the function, when its turn comes.
TEST_P(EngineFaults, AHostFunctionDoesNotRunOnACopyThatFailed) {
  const on_device_0 here;
  const auto& control = cuda_driver().control;
  for (const char* row : {"cuMemcpyDtoHAsync", "cuLaunchHostFunc"}) {
    for (const bool only_reads : {true, false}) {
      SCOPED_TRACE(row);
      context_options options;
      options.on = machine({.name = "cuda", .devices = 1, .seed = {}});
      options.use_graph = GetParam().use_graph;
      untyped_context on(std::move(options));
      const exec_place device = exec_place::device(0);
      words buffer(few_words, 1);
      const untyped_data x = registered(on, buffer, "x");
      const untyped_data y = on.make_data(4, "y");
      run(on, device, {x.write()}, fill_words(2, few_words));
      const auto fired = control.faults_fired();
      control.fail(row, 1, static_cast<int>(abi::result::not_permitted), 0);
      std::atomic<int> ran{0};
      const task_dep of = only_reads ? x.read() : x.rw();
      run(on, exec_place::host(), {of, y.write()}, [&](const body_call&) { ++ran; }, "looks");
      std::string text;
      EXPECT_EQ(thrown([&] { (void)content<std::uint32_t>(on, y); }, &text), errc::poisoned);
      EXPECT_TRUE(contains(text, "copy of 'x' failed to write: device 'cuda:0'")) << text;
      EXPECT_EQ(control.faults_fired(), fired + 1);
      EXPECT_EQ(on.stats().skipped, 1U);
      const std::vector<failure> failed = on.take_failures();
      ASSERT_EQ(failed.size(), 1U);
      EXPECT_EQ(failed[0].task, "copy of 'x'");
      EXPECT_EQ(failed[0].data, "'x'");
      EXPECT_EQ(failed[0].skipped, 1U);
      // The context goes on.
      run(on, device, {x.write()}, fill_words(5, few_words));
      run(on, exec_place::host(), {x.rw()},
          [&](const body_call& call) { ran += static_cast<int>(first<std::uint32_t>(call)); });
      on.finish();
      EXPECT_TRUE(on.take_failures().empty());
      EXPECT_EQ(ran, 5);
      EXPECT_EQ(buffer[0], 5U);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, EngineFaults,
                         testing::Values(setting{false, few_words}, setting{true, few_words},
                                         setting{false, many_words}, setting{true, many_words}),
                         [](const auto& chosen) {
                           return std::string(chosen.param.use_graph ? "Recorded" : "Immediate") +
                                  (chosen.param.size == few_words ? "Few" : "Many");
                         });

}  // namespace
}  // namespace millstream::test
