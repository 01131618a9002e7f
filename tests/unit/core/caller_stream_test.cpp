// SPDX-License-Identifier: Apache-2.0
/// Contexts on a stream of the caller's, on the host machine, where a stream is a queue's number.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "tests/unit/core/engine.hpp"

namespace millstream::test {
namespace {

untyped_context open_on(std::uint64_t stream, const char* name = "host") {
  context_options options;
  options.on = machine({.name = name, .devices = 2, .seed = {}});
  options.stream = stream;
  return untyped_context(std::move(options));
}

/// A context with a stream whose work ends when the gate is opened.
class CallerStream : public testing::Test {
 protected:
  void SetUp() override {
    const untyped_data first_use = registered(outer_, before_);
    run(outer_, exec_place::host(), {{first_use, access_mode::rw, {}, {}}},
        [gate = gate_](const body_call& call) {
          gate->wait(false);
          first<int>(call) = 7;
        });
    stream_ = outer_.fence();
  }
  void TearDown() override {
    open_gate();
    outer_.finish();
  }
  void open_gate() {
    gate_->store(true);
    gate_->notify_all();
  }

  std::vector<int> before_ = std::vector<int>(1, 0);
  std::shared_ptr<std::atomic<bool>> gate_ = std::make_shared<std::atomic<bool>>(false);
  untyped_context outer_ = open("host", 2);
  std::uint64_t stream_ = 0;
};

TEST_F(CallerStream, WorkComesAfterWhatWasInTheStream) {
  std::vector<int> later(1, 0);
  untyped_context inner = open_on(stream_);
  const untyped_data data = registered(inner, later);
  for (int device : {0, 1}) {
    run(inner, exec_place::device(device), {{data, access_mode::rw, {}, {}}},
        [](const body_call& call) { first<int>(call) += 1; });
  }
  run(inner, exec_place::host(), {{data, access_mode::read, {}, {}}}, nothing);
  inner.finish();
  EXPECT_EQ(later[0], 0);  // it returned although nothing could run
  open_gate();
  synchronize(stream_);
  EXPECT_EQ(later[0], 2);
}

TEST_F(CallerStream, FenceGivesTheStream) {
  untyped_context inner = open_on(stream_);
  EXPECT_EQ(inner.fence(), stream_);
  inner.finish();
}

TEST_F(CallerStream, TheBufferIsHeldUntilTheStreamHasPassed) {
  auto buffer = std::make_shared<std::vector<int>>(1, 1);
  std::atomic<bool> dropped{false};
  {
    untyped_context inner = open_on(stream_);
    registration what;
    what.block = buffer->data();
    what.bytes = sizeof(int);
    what.owner = std::shared_ptr<void>(buffer.get(), [&dropped, buffer](void*) {
      dropped = true;
      dropped.notify_all();
    });
    const untyped_data data = inner.register_data(what);
    what.owner.reset();
    run(inner, exec_place::device(1), {{data, access_mode::rw, {}, {}}},
        [](const body_call& call) { first<int>(call) = 5; });
    inner.finish();
  }
  EXPECT_FALSE(dropped);
  open_gate();
  dropped.wait(false);
  EXPECT_EQ(buffer->at(0), 5);
}

TEST_F(CallerStream, AFailureIsKnownAfterTheStream) {
  std::vector<int> later(1, 3);
  untyped_context inner = open_on(stream_);
  const untyped_data data = registered(inner, later, "x");
  run(inner, exec_place::device(0), {{data, access_mode::rw, {}, {}}},
      [](const body_call&) { throw std::runtime_error("boom"); });
  inner.finish();
  EXPECT_TRUE(inner.take_failures().empty());
  open_gate();
  synchronize(stream_);
  EXPECT_EQ(inner.take_failures().size(), 1U);
  EXPECT_EQ(later[0], 3);  // poisoned, so not written back
}

TEST_F(CallerStream, AProducerIsWaitedForByTheFirstUse) {
  std::vector<int> filled(1, 0);
  registration what;
  what.block = before_.data();
  what.bytes = sizeof(int);
  what.producer = stream_;
  untyped_context other = open("host", 2);
  const untyped_data data = other.register_data(what);
  const untyped_data result = registered(other, filled);
  run(other, exec_place::device(1),
      {{data, access_mode::read, {}, {}}, {result, access_mode::write, {}, {}}},
      [](const body_call& call) { first<int>(call, 1) = first<int>(call, 0) + 1; });
  open_gate();
  other.finish();
  EXPECT_EQ(filled[0], 8);
}

TEST(CallerStreamOf, AnUnknownNumberIsRefused) {
  std::string text;
  EXPECT_EQ(thrown([] { open_on(999'999'999); }, &text), errc::invalid_value);
  EXPECT_TRUE(contains(text, "999999999")) << text;
  untyped_context plain = open("host", 2);
  std::vector<int> buffer(1, 0);
  registration what;
  what.block = buffer.data();
  what.bytes = sizeof(int);
  what.producer = 999'999'999;
  EXPECT_EQ(thrown([&] { static_cast<void>(plain.register_data(what)); }), errc::invalid_value);
  plain.finish();
}

TEST(CallerStreamOf, AMachineWithoutStreamsIsRefused) {
  EXPECT_EQ(thrown([] { open_on(1, "null"); }), errc::invalid_value);
}

}  // namespace
}  // namespace millstream::test
