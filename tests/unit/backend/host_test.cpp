// SPDX-License-Identifier: Apache-2.0
/// What the host machine promises beyond the contract.
#include "backend/host/machine.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <latch>
#include <string>
#include <thread>

#include "backend/arena.hpp"

namespace millstream::backend::host {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds long_time{120'000};

class function_job final : public job {
 public:
  explicit function_job(std::function<void()> body) : body_(std::move(body)) {}
  void run() noexcept override {
    const std::unique_ptr<function_job> self(this);
    body_();
  }
  void discard() noexcept override { delete this; }

 private:
  std::function<void()> body_;
};

void submit(queue& to, std::function<void()> body) {
  auto* work = new function_job(std::move(body));
  const status taken = to.run(*work);
  ASSERT_TRUE(taken.ok()) << taken.text();
}

class HostMachine : public testing::Test {
 protected:
  void open(std::optional<std::uint64_t> seed = {}, std::size_t memory_bytes = 1 << 24) {
    queues_.clear();
    auto opened = open_with({.devices = 2, .seed = seed}, {.memory_bytes = memory_bytes});
    ASSERT_TRUE(opened.ok()) << opened.why().text();
    machine_ = std::move(opened.value());
  }
  queue& queue_on(int index) {
    device& at = index < 0 ? machine_->host() : machine_->at(index);
    queues_.push_back(std::move(at.make_queue().value()));
    return *queues_.back();
  }
  std::unique_ptr<event> mark(queue& tail) {
    auto made = std::move(machine_->host().make_event().value());
    EXPECT_TRUE(tail.record(*made).ok());
    return made;
  }
  void finish(queue& tail) { EXPECT_TRUE(mark(tail)->wait_for(long_time).value()); }

  /// The order in which jobs of four queues run, each queue with four jobs.
  std::string order_under(std::uint64_t seed) {
    open(seed);
    std::string seen;
    std::vector<queue*> all;
    for (int i = 0; i < 4; ++i)
      all.push_back(&queue_on(i % 2));
    for (int round = 0; round < 4; ++round) {
      for (std::size_t i = 0; i < 4; ++i) {
        submit(*all[i], [&seen, i] { seen += static_cast<char>('a' + i); });
      }
    }
    for (queue* each : all)
      finish(*each);
    return seen;
  }

  std::unique_ptr<machine> machine_;
  std::vector<std::unique_ptr<queue>> queues_;
};

TEST_F(HostMachine, FreshDeviceMemoryHoldsTheMark) {
  open();
  void* block = machine_->at(0).allocate(100, queue_on(0)).value();
  EXPECT_EQ(static_cast<std::byte*>(block)[99], fresh_byte);
}

TEST_F(HostMachine, AWrongHomeIsReportedWithBothSides) {
  open();
  queue& on = queue_on(0);
  void* first = machine_->at(0).allocate(100, on).value();
  void* second = machine_->at(1).allocate(100, on).value();
  const auto copy = [&](memory_home to, memory_home from) {
    return on.copy(copy_request::contiguous(second, to, first, from, 100));
  };
  EXPECT_TRUE(copy(device_memory(1), device_memory(0)).ok());
  EXPECT_EQ(copy(device_memory(0), device_memory(0)).text(),
            "device 'host:0' cannot touch 100 bytes as memory of device 'host:0', which do not "
            "lie there; name the right home");
  EXPECT_EQ(copy(memory_home::host, device_memory(0)).code(), errc::device);
  EXPECT_EQ(copy(device_memory(1), memory_home::managed).code(), errc::device);
  EXPECT_EQ(copy(device_memory(1), device_memory(7)).code(), errc::device);
  finish(on);
}

TEST_F(HostMachine, MemoryIsLimitedAsAsked) {
  open({}, 1000);
  EXPECT_EQ(machine_->at(1).memory().total_bytes, 1000U);
  EXPECT_EQ(machine_->at(1).allocate(2000, queue_on(1)).why().text(),
            "device 'host:1' cannot allocate 2 KiB: 0 bytes of 1000 bytes are in use; use less "
            "data at a time or set MILLSTREAM_HOST_MEMORY to more");
}

TEST_F(HostMachine, MoreMemoryThanAddressesCannotBeOpened) {
  const auto opened = open_with({}, {.memory_bytes = std::size_t{1} << 60U});
  EXPECT_EQ(opened.why().code(), errc::unavailable);
}

TEST_F(HostMachine, TheSeedDecidesTheOrder) {
  EXPECT_EQ(order_under(7), order_under(7));
  std::set<std::string> orders;
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    orders.insert(order_under(seed));
  EXPECT_GT(orders.size(), 15U);
}

TEST_F(HostMachine, UnderASeedEveryQueueKeepsItsOrder) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    open(seed);
    queue& on = queue_on(0);
    std::string seen;
    for (char each = 'a'; each <= 'z'; ++each)
      submit(on, [&seen, each] { seen += each; });
    finish(on);
    EXPECT_EQ(seen, "abcdefghijklmnopqrstuvwxyz");
  }
}

TEST_F(HostMachine, UnderASeedNothingRunsUntilSomebodyWaits) {
  open(1);
  queue& on = queue_on(0);
  std::atomic<bool> ran{false};
  submit(on, [&] { ran = true; });
  const auto event = mark(on);
  EXPECT_FALSE(ran);
  EXPECT_TRUE(event->wait_for(long_time).value());
  EXPECT_TRUE(ran);
}

TEST_F(HostMachine, UnderASeedNothingRunsBeyondWhatIsWaitedFor) {
  open(1);
  queue& on = queue_on(0);
  int ran = 0;
  submit(on, [&] { ++ran; });
  const auto event = mark(on);
  submit(on, [&] { ++ran; });
  EXPECT_TRUE(event->wait_for(long_time).value());
  EXPECT_EQ(ran, 1);
  finish(on);
  EXPECT_EQ(ran, 2);
}

TEST_F(HostMachine, UnderASeedAPollMakesOneStep) {
  open(1);
  queue& on = queue_on(0);
  void* block = machine_->at(0).allocate(8, on).value();
  fill_request fill{.to = block, .home = device_memory(0), .bytes = 8};
  for (int i = 1; i <= 3; ++i) {
    fill.pattern[0] = static_cast<std::byte>(i);
    EXPECT_TRUE(on.fill(fill).ok());
  }
  const auto event = mark(on);
  EXPECT_FALSE(event->is_done().value());
  EXPECT_EQ(*static_cast<std::byte*>(block), std::byte{1});
  EXPECT_FALSE(event->is_done().value());
  EXPECT_TRUE(event->is_done().value());
  EXPECT_EQ(*static_cast<std::byte*>(block), std::byte{3});
}

TEST_F(HostMachine, UnderASeedAPollDoesNotWaitForAJob) {
  open(1);
  queue& on = queue_on(0);
  std::latch go_on(1);
  submit(on, [&] { go_on.wait(); });
  const auto event = mark(on);
  for (int i = 0; i < 10; ++i)
    EXPECT_FALSE(event->is_done().value());
  go_on.count_down();
  while (!event->is_done().value())
    std::this_thread::yield();
}

TEST_F(HostMachine, UnderASeedJobsMayWaitDeeply) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    open(seed);
    queue& one = queue_on(-1);
    queue& two = queue_on(0);
    queue& three = queue_on(1);
    std::string seen;
    submit(one, [&] {
      submit(two, [&] {
        submit(three, [&] { seen += '3'; });
        finish(three);
        seen += '2';
      });
      finish(two);
      seen += '1';
    });
    finish(one);
    EXPECT_EQ(seen, "321");
  }
}

TEST_F(HostMachine, UnderASeedSeveralThreadsMaySubmitAndWait) {
  open(3);
  std::vector<queue*> own;
  for (int i = 0; i < 4; ++i)
    own.push_back(&queue_on(i % 2));
  std::atomic<int> ran{0};
  std::vector<std::thread> users;
  for (queue* each : own) {
    users.emplace_back([&, each] {
      for (int i = 0; i < 50; ++i) {
        submit(*each, [&] { ran.fetch_add(1); });
        if (i % 7 == 0) finish(*each);
      }
      finish(*each);
    });
  }
  for (std::thread& each : users)
    each.join();
  EXPECT_EQ(ran, 200);
}

TEST_F(HostMachine, AMissingWaitShowsUnderSomeSeed) {
  bool shown = false;
  for (std::uint64_t seed = 0; seed < 64 && !shown; ++seed) {
    open(seed);
    queue& writer = queue_on(0);
    queue& reader = queue_on(0);
    int value = 0;
    int seen = -1;
    submit(writer, [&] { value = 1; });
    submit(reader, [&] { seen = value; });
    finish(reader);
    shown = seen == 0;
    finish(writer);
  }
  EXPECT_TRUE(shown);
}

}  // namespace
}  // namespace millstream::backend::host
