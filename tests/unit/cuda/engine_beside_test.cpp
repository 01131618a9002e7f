// SPDX-License-Identifier: Apache-2.0
/// What one thread does to a recording while another thread's body is captured into it: nothing.
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/cuda/engine_host.hpp"

namespace millstream::test {
namespace {

/// Calls something when a body that holds it goes.
class at_end {
 public:
  explicit at_end(std::function<void()> call) : call_(std::move(call)) {}
  ~at_end() { call_(); }
  at_end(const at_end&) = delete;
  at_end& operator=(const at_end&) = delete;

 private:
  std::function<void()> call_;
};

class EngineBeside : public testing::Test {
 protected:
  /// A stage that has ended, whose bodies the next launch lets go of, without the context's lock:
  /// then `call` is called. Its last task writes 9 to `to`.
  void leave_a_stage(const untyped_data& to, std::function<void()> call) {
    const untyped_data x = on_.make_data(word);
    busy_until_set busy;
    run(on_, device, {x.write()},
        [&busy, kept = std::make_shared<at_end>(std::move(call))](const body_call& body) {
          fill_words(3)(body);
          busy.body()(body);
        });
    run(on_, device, {x.read(), to.write()}, [](const body_call& body) { fill_second(body, 9); });
    static_cast<void>(on_.fence());  // it cannot end yet
    busy.set();
    EXPECT_EQ(content<std::uint32_t>(on_, to), 9U);
  }
  static void fill_second(const body_call& body, std::uint32_t value) {
    const on_device_0 here;
    launch(device_0().kernel("test_fill_u32"), static_cast<abi::stream>(body.stream),
           reinterpret_cast<abi::device_pointer>(body.pointers[1]), value, std::uint64_t{1});
  }
  /// Another thread records a body, which ends as soon as a thread waits.
  std::thread record_until_somebody_waits(const untyped_data& to, gate& begun) {
    return std::thread([this, &to, &begun] {
      run(on_, device, {to.write()}, [&](const body_call& body) {
        fill_words(5)(body);
        begun.open();
        block_count::await(1, never_);
      });
    });
  }

  untyped_context on_ = open_cuda(nullptr, /*recorded=*/true);
  const std::atomic<bool> never_{false};
};

// What is dropped while the body is captured is written back later, but not by the launch that is
// on its way: it had unlocked before the body began.
TEST_F(EngineBeside, ALaunchWritesNothingBack) {
  std::vector<std::uint32_t> buffer{1};
  auto dropped = std::make_unique<untyped_data>(registered(on_, buffer, "dropped"));
  const untyped_data x = on_.make_data(word);
  const untyped_data y = on_.make_data(word);
  std::optional<block_count> waits;
  std::thread other;
  gate begun;
  leave_a_stage(*dropped, [&] {
    waits.emplace();
    other = record_until_somebody_waits(y, begun);
    begun.hold();
    dropped.reset();
  });
  run(on_, device, {x.write()}, fill_words(4));
  static_cast<void>(on_.fence());
  EXPECT_EQ(dropped, nullptr);
  other.join();
  EXPECT_EQ(content<std::uint32_t>(on_, y), 5U);
  on_.finish();
  EXPECT_EQ(on_.take_failures().size(), 0U);
  EXPECT_EQ(buffer[0], 9U);
}

}  // namespace
}  // namespace millstream::test
