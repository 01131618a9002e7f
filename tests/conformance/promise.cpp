// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/promise.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <thread>

#include "base/random.hpp"

namespace conformance {
namespace {

std::map<std::string, join>& all_joined() {
  static std::map<std::string, join> all;
  return all;
}

/// Disposes of itself, as jobs do.
class counted_job final : public backend::job {
 public:
  counted_job(job_log& log, std::function<void()> body) : log_(log), body_(std::move(body)) {}
  void run() noexcept override {
    const std::unique_ptr<counted_job> self(this);
    if (body_) body_();
    log_.runs.fetch_add(1);
  }
  void discard() noexcept override {
    const std::unique_ptr<counted_job> self(this);
    log_.discards.fetch_add(1);
  }

 private:
  job_log& log_;
  std::function<void()> body_;
};

std::string test_name() {
  const auto* info = testing::UnitTest::GetInstance()->current_test_info();
  return std::string(info->test_suite_name()) + "." + info->name();
}

const never* listed(const std::vector<never>& list, const std::string& name) {
  const auto found = std::find_if(list.begin(), list.end(),
                                  [&](const never& each) { return each.promise == name; });
  return found == list.end() ? nullptr : &*found;
}

}  // namespace

joined::joined(join with) {
  all_joined().emplace(with.name, with);
}

const join* joined::find(const std::string& name) {
  const auto found = all_joined().find(name);
  return found == all_joined().end() ? nullptr : &found->second;
}

run_options& options() {
  static run_options parsed;
  return parsed;
}

std::unique_ptr<backend::machine> open_machine() {
  return value(options().with->open({options().devices, options().seed}));
}

backend::status run_job(backend::queue& on, job_log& log, std::function<void()> body) {
  auto made = std::make_unique<counted_job>(log, std::move(body));
  backend::status taken = on.run(*made);
  // Taken on success only; then it disposes of itself, perhaps already has.
  if (taken) static_cast<void>(made.release());
  return taken;
}

backend::job& new_job(job_log& log, std::function<void()> body) {
  return *std::make_unique<counted_job>(log, std::move(body)).release();
}

int exit_of_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int ended = 0;
  waitpid(child, &ended, 0);
  return WIFEXITED(ended) ? WEXITSTATUS(ended) : 1000 + ended;
}

bytes random_bytes(std::size_t count, std::uint64_t seed) {
  millstream::base::random_source random(seed);
  bytes made(count);
  for (std::byte& each : made)
    each = static_cast<std::byte>(random.uniform(256));
  return made;
}

void promise_base::SetUp() {
  const join& with = *options().with;
  if (const never* line = listed(with.never_list, test_name())) GTEST_SKIP() << line->reason;
  if (options().seed) {
    seed_trace_.emplace(__FILE__, __LINE__, "seed " + std::to_string(*options().seed));
    if (const never* line = listed(with.never_seeded, test_name())) GTEST_SKIP() << line->reason;
  }
  machine_ = open_machine();
  for (const capability bit : needs()) {
    if (has(bit)) continue;
    GTEST_SKIP() << "needs " << backend::capability_names[static_cast<std::size_t>(bit)];
  }
}

void promise_base::TearDown() {
  if (machine_ == nullptr) return;
  machine_->set_fault_plan({});
  for (const queue_ptr& each : queues_)
    finish(*each);
  for (const taken_block& each : blocks_) {
    ok(device(each.device).release(each.block, each.count, *each.order));
  }
  for (const queue_ptr& each : queues_)
    finish(*each);
  queues_.clear();
  EXPECT_EQ(machine_->live_objects(), 0) << "the test left objects of the machine behind";
}

std::vector<int> promise_base::places() const {
  std::vector<int> all;
  for (int i = -1; i < machine_->device_count(); ++i)
    all.push_back(i);
  return all;
}

backend::queue& promise_base::queue_on(int device_index) {
  queues_.push_back(value(device(device_index).make_queue()));
  return *queues_.back();
}

event_ptr promise_base::new_event(int device_index) {
  return value(device(device_index).make_event());
}

event_ptr promise_base::mark(backend::queue& tail) {
  event_ptr made = new_event();
  ok(tail.record(*made));
  return made;
}

void promise_base::finish(backend::queue& tail) {
  if (!value(mark(tail)->wait_for(long_time))) throw std::runtime_error("a queue never ends");
}

void promise_base::put_behind(backend::queue& first, backend::queue& later) {
  ok(later.wait(*mark(first)));
}

std::byte* promise_base::take(int device_index, std::size_t count, backend::queue& order) {
  void* block = value(device(device_index).allocate(count, order));
  blocks_.push_back({device_index, block, count, &order});
  return static_cast<std::byte*>(block);
}

void promise_base::write(backend::queue& on, int home, void* to, const bytes& from) {
  const bytes& kept = sources_.emplace_back(from);
  ok(on.copy(copy_of(to, home, kept.data(), -1, kept.size())));
}

bytes promise_base::read(backend::queue& on, int home, const void* from, std::size_t count) {
  bytes got(count);
  ok(on.copy(copy_of(got.data(), -1, from, home, count)));
  finish(on);
  return got;
}

void promise_base::fill(backend::queue& on, int home, void* to, std::size_t count, int value) {
  backend::fill_request request;
  request.to = to;
  request.home = static_cast<memory_home>(home);
  request.bytes = count;
  request.pattern[0] = static_cast<std::byte>(value);
  ok(on.fill(request));
}

backend::copy_request promise_base::copy_of(void* to, int to_home, const void* from, int from_home,
                                            std::size_t count) const {
  return backend::copy_request::contiguous(to, static_cast<memory_home>(to_home), from,
                                           static_cast<memory_home>(from_home), count);
}

gate::gate(promise_base& in, backend::queue& held) : in_(&in) {
  own_ = &in.queue_on(-1);
  const std::shared_ptr<backend::event> behind = in.new_event(-1);
  ok(run_job(*own_, log_, [latch = latch_, behind] {
    // Waits with a call of the contract, so that a machine that runs one job at a time goes on.
    while (!latch->try_wait()) {
      if (value(behind->wait_for(std::chrono::milliseconds(2)))) std::this_thread::yield();
    }
  }));
  ok(own_->record(*behind));
  in.put_behind(*own_, held);
}

void gate::open() {
  if (in_ == nullptr) return;
  latch_->count_down();
  std::exchange(in_, nullptr)->finish(*own_);  // the job counts in our log
}

}  // namespace conformance
