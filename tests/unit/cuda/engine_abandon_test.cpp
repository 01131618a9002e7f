// SPDX-License-Identifier: Apache-2.0
/// Contexts that are dropped without `finalize`: what they had queued goes on, what was only
/// recorded does not run, and all of it is given back in an order that the driver can keep.
#include <future>
#include <memory>
#include <vector>

#include "tests/unit/cuda/engine_kernels.hpp"
#include "tests/unit/cuda/engine_leaks.hpp"

namespace millstream::test {
namespace {

struct unfinished_work {
  const char* name;
  /// Leaves work in the context, and the data it uses in the list.
  void (*submit)(untyped_context& on, std::vector<untyped_data>& data);
};

std::vector<std::uint32_t>& users_buffer() {
  static std::vector<std::uint32_t> only(16, 1);
  return only;
}

const device_kernel& described_kernel() {
  static const device_kernel only(device_0().kernel("test_fill_u32"));
  return only;
}

const unfinished_work all_work[] = {
    {"nothing", [](untyped_context&, std::vector<untyped_data>&) {}},
    {"body",
     [](untyped_context& on, std::vector<untyped_data>& data) {
       data.push_back(on.make_data(64));
       run(on, device, {data[0].write()}, fill_words(2, 16));
     }},
    {"body that holds its datum",
     [](untyped_context& on, std::vector<untyped_data>& data) {
       data.push_back(on.make_data(64));
       run(on, device, {data[0].write()},
           [held = data[0]](const body_call& call) { fill_words(2, 16)(call); });
     }},
    {"fill",
     [](untyped_context& on, std::vector<untyped_data>& data) {
       const std::uint32_t seven = 7;
       data.push_back(on.make_data(64));
       on.fill(data[0].write(), std::as_bytes(std::span(&seven, 1)), device);
     }},
    {"described kernel",
     [](untyped_context& on, std::vector<untyped_data>& data) {
       data.push_back(registered(on, users_buffer()));
       describe_fill(on, {data[0].rw()}, described_kernel());
     }},
    {"memory that is used again",
     [](untyped_context& on, std::vector<untyped_data>& data) {
       for (int i = 0; i < 4; ++i) {
         const untyped_data y = on.make_data(64);
         run(on, device, {y.write()}, fill_words(2, 16));
       }
       data.push_back(on.make_data(64));
       run(on, device, {data[0].write()}, fill_words(2, 16));
     }},
    {"behind a fence",
     [](untyped_context& on, std::vector<untyped_data>& data) {
       data.push_back(registered(on, users_buffer()));
       describe_fill(on, {data[0].rw()}, described_kernel());
       (void)on.fence();
       run(on, device, {data[0].rw()}, fill_words(3, 16));
     }},
    {"before a fence, the datum dropped",
     [](untyped_context& on, std::vector<untyped_data>&) {
       {
         const untyped_data x = registered(on, users_buffer());
         run(on, device, {x.rw()}, [x](const body_call& call) { fill_words(3, 16)(call); });
       }
       (void)on.fence();
     }},
    {"beside a host function",
     [](untyped_context& on, std::vector<untyped_data>& data) {
       data.push_back(registered(on, users_buffer()));
       data.push_back(on.make_data(64));
       run(on, device, {data[0].rw()}, fill_words(3, 16));
       run(on, exec_place::host(), {data[0].rw()}, nothing, {}, task_kind::host_launch);
       run(on, device, {data[0].read(), data[1].write()}, nothing);
     }},
};

enum class dropped_first : std::uint8_t { data, context };

void abandon(const unfinished_work& work, const way_to_open& how, dropped_first first) {
  std::weak_ptr<void> last;
  {
    std::vector<untyped_data> data;
    untyped_context on = open(how);
    last = last_of(on);
    work.submit(on, data);
    if (first == dropped_first::data) data.clear();
    on.abandon();
  }
  await_end(last);
}

class EngineAbandon : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { MILLSTREAM_LOOK_ALIKE_ONLY(); }
  void TearDown() override {
    if (cuda_driver().is_fake) cuda_driver().control.seed(0);
  }

  static void use_all_streams(const way_to_open& how) {
    wait_for_the_device();
    const std::int64_t before = cuda_driver().control.live("executable_graph");
    test::use_all_streams();
    for (int i = 0; i < 100; ++i)
      one_context(false, how);
    wait_for_the_device();
    await([&] { return cuda_driver().control.live("executable_graph") == before; });
  }
  /// In several orders of the driver, dropped `times` each.
  static void expect_nothing_left(const unfinished_work& work, const way_to_open& how, int times) {
    const auto before = what_is_alive();
    for (const dropped_first first : {dropped_first::data, dropped_first::context}) {
      for (std::uint64_t seed = 0; seed < 4; ++seed) {
        cuda_driver().control.seed(seed);
        for (int i = 0; i < times; ++i)  // some at once
          abandon(work, how, first);
        one_context(false, how);
        wait_for_the_device();
        ASSERT_EQ(last_fault(), "") << work.name << ", seed " << seed;
        const auto wanted = wanted_after(before);
        for (int i = 0; i < times; ++i) {
          abandon(work, how, first);
          wait_for_the_device();
        }
        one_context(false, how);
        wait_for_the_device();
        await([&] { return what_is_alive() == wanted; });
        EXPECT_EQ(what_is_alive(), wanted) << work.name << ", seed " << seed;
        EXPECT_LE(events_alive(), most_events) << work.name << ", seed " << seed;
        ASSERT_EQ(last_fault(), "") << work.name << ", seed " << seed;
      }
    }
  }
};

TEST_P(EngineAbandon, LeavesNothingBehind) {
  use_all_streams({.use_graph = GetParam()});
  for (const unfinished_work& work : all_work)
    expect_nothing_left(work, {.use_graph = GetParam()}, 50);
}

TEST_P(EngineAbandon, LeavesNothingBehindOnACallersStream) {
  const own_stream callers;
  const way_to_open how{.use_graph = GetParam(), .on = &callers};
  use_all_streams(how);
  for (const unfinished_work& work : all_work)
    expect_nothing_left(work, how, 50);
}

using words = std::vector<std::uint32_t>;

/// Fills a buffer on the device and drops its datum, then the context. What the buffer held when
/// its owner was let go.
words written_back_by_a_dropped_context() {
  auto buffer = std::make_shared<words>(16, 1);
  std::promise<words> released;
  std::future<words> held = released.get_future();
  {
    untyped_context on = open(way_to_open{});
    registration what;
    what.block = buffer->data();
    what.bytes = buffer->size() * sizeof(std::uint32_t);
    what.owner = std::shared_ptr<void>(buffer->data(),
                                       [buffer, &released](void*) { released.set_value(*buffer); });
    const untyped_data x = on.register_data(what);
    run(on, device, {x.rw()}, fill_words(3, 16));
  }
  return held.get();
}

// The owner is held until the copy has ended, in whatever order the driver takes its work.
TEST(EngineAbandoned, BufferIsKeptUntilItIsWrittenBack) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  for (std::uint64_t seed = 0; seed < 64; ++seed) {
    cuda_driver().control.seed(seed);
    EXPECT_EQ(written_back_by_a_dropped_context(), words(16, 3)) << "seed " << seed;
  }
  cuda_driver().control.seed(0);
  wait_for_the_device();
  EXPECT_EQ(last_fault(), "");
}

INSTANTIATE_TEST_SUITE_P(, EngineAbandon, testing::Bool(), [](const auto& of) {
  return std::string(of.param ? "Recorded" : "Immediate");
});

}  // namespace
}  // namespace millstream::test
