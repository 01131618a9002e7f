// SPDX-License-Identifier: Apache-2.0
/// What a trace listener may do while it is told of a host function that is a node: a thread of the
/// driver's calls it, so the rules are those of the function itself.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <millstream/trace.hpp>

#include "core/context.hpp"

#include "tests/unit/cuda/engine_node.hpp"

namespace millstream::test {
namespace {

/// Calls back when it is told of host functions; of others under the context's lock, perhaps.
class calling_listener final : public trace_listener {
 public:
  void submitted(const task_info& what) override {
    if (what.kind == task_kind::host_launch) ids_.push_back(what.id);
  }
  void submitted(const copy_info& /*what*/) override {}
  void began(std::uint64_t id, std::uint64_t /*at_ns*/) override { call_back("began", id); }
  void ended(std::uint64_t id, std::uint64_t /*at_ns*/, outcome how) override {
    call_back(to_string(how), id);
  }

  std::function<void()> calls;
  std::vector<std::string> told;  ///< of host functions

 private:
  void call_back(const char* what, std::uint64_t id) {
    if (std::find(ids_.begin(), ids_.end(), id) == ids_.end()) return;
    told.emplace_back(what);
    if (calls) calls();
  }
  std::vector<std::uint64_t> ids_;
};

class EngineNodeTrace : public testing::Test {
 protected:
  EngineNodeTrace() {
    context_options options;
    options.on = machine({.name = "cuda", .devices = 1, .seed = {}});
    options.use_graph = true;
    options.listener = listener_;
    on_.emplace(std::move(options));
  }
  [[nodiscard]] untyped_context& on() { return *on_; }

  std::shared_ptr<calling_listener> listener_ = std::make_shared<calling_listener>();
  std::optional<untyped_context> on_;
};

TEST_F(EngineNodeTrace, CallsOfTheLibraryAreErrorsThere) {
  const untyped_data x = on().make_data(word);
  const untyped_data y = on().make_data(word);
  const std::byte one{1};
  std::vector<std::string> texts;
  std::vector<errc> codes;
  const auto attempt = [&](const std::function<void()>& call) {
    codes.push_back(thrown(call, &texts.emplace_back()));
  };
  listener_->calls = [&] {
    attempt([&] { run(on(), device, {y.write()}, nothing); });
    attempt([&] { run(on(), exec_place::host(), {y.write()}, nothing); });
    attempt([&] { run_declared(on(), {y.write()}, nothing); });
    attempt([&] { on().fill(y.write(), {&one, 1}); });
    attempt([&] { static_cast<void>(on().fence()); });
    attempt([&] { static_cast<void>(content<std::uint32_t>(on(), y)); });
    attempt([&] { static_cast<void>(on().make_data(8)); });
    attempt([&] { static_cast<void>(on().make_token()); });
    attempt([&] { on().finish(); });
    attempt([&] { on().drain(); });
    attempt([&] { static_cast<void>(on().to_graph()); });
    attempt([&] { untyped_task(on()).start(); });
  };
  run(on(), device, {x.write()}, fill_words(3));
  run_declared(
      on(), {x.rw()}, [](const body_call& call) { first<std::uint32_t>(call) += 1; }, "told of");
  run(on(), device, {x.rw()}, doubled);
  EXPECT_EQ(content<std::uint32_t>(on(), x), 8U);
  on().finalize();
  EXPECT_EQ(listener_->told, (std::vector<std::string>{"began", "done"}));
  EXPECT_EQ(codes, std::vector<errc>(24, errc::usage));
  for (const std::string& each : texts)
    EXPECT_TRUE(contains(each,
                         "inside task 'told of', which is declared not to use the device "
                         "(uses_device = false)"))
        << each;
  EXPECT_EQ(counts(on()).stage_breaks, 0U);
}

TEST_F(EngineNodeTrace, TheDriverTakesNoCallsThere) {
  std::vector<bool> may_call;
  const untyped_data x = on().make_data(word);
  listener_->calls = [&] { may_call.push_back(may_call_the_driver()); };
  run_declared(on(), {x.write()}, nothing);
  on().finalize();
  EXPECT_EQ(may_call, (std::vector<bool>{false, false}));
}

TEST_F(EngineNodeTrace, OneThatFailsAndOneThatIsSkippedAreToldOfInTheSameWay) {
  std::vector<errc> codes;
  const untyped_data x = on().make_data(word);
  listener_->calls = [&] { codes.push_back(thrown([&] { on().drain(); })); };
  run_declared(on(), {x.write()}, [](const body_call&) { throw std::runtime_error("boom"); });
  run_declared(on(), {x.rw()}, nothing);
  on().finish();
  EXPECT_EQ(on().take_failures().size(), 1U);
  EXPECT_EQ(listener_->told, (std::vector<std::string>{"began", "failed", "skipped"}));
  EXPECT_EQ(codes, std::vector<errc>(3, errc::usage));
}

// It counts for the function that is being told of, and for the machine that calls it.
TEST_F(EngineNodeTrace, TheHostMachineMayBeUsedThere) {
  std::vector<std::int64_t> values;
  const untyped_data x = on().make_data(word);
  listener_->calls = [&] {
    untyped_context there = open("host", 1);
    const untyped_data y = there.make_data(8);
    run(there, {}, {y.write()}, [](const body_call& call) { first<std::int64_t>(call) = 5; });
    values.push_back(content<std::int64_t>(there, y));
    there.finish();
  };
  run_declared(on(), {x.write()}, nothing);
  on().finalize();
  EXPECT_EQ(values, (std::vector<std::int64_t>{5, 5}));
}

TEST_F(EngineNodeTrace, LaunchesOfAGraphThatIsGivenOutAreNotToldOf) {
  std::vector<std::uint32_t> buffer{1};
  const untyped_data x = registered(on(), buffer);
  run(on(), device, {x.rw()}, doubled);
  run_declared(on(), {x.rw()}, [](const body_call& call) { first<std::uint32_t>(call) += 1; });
  recorded_graph graph = on().to_graph();
  for (int i = 0; i < 2; ++i)
    synchronize(graph.launch());
  EXPECT_EQ(buffer[0], 7U);
  EXPECT_EQ(listener_->told, std::vector<std::string>{});
}

}  // namespace
}  // namespace millstream::test
