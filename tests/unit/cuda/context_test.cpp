// SPDX-License-Identifier: Apache-2.0
/// The caller's current context is after every call what it was before, also when it fails.
#include <set>

#include "backend/graph.hpp"
#include "backend/range.hpp"
#include "tests/unit/cuda/machine_test.hpp"

namespace cuda_test {
namespace {

/// One round of all kinds of calls on device `index`; what fails is left out.
class all_calls {
 public:
  all_calls(backend::machine& on, int index) : on_(on), index_(index) {}
  ~all_calls() {
    if (block_ != nullptr) static_cast<void>(device().release(block_, 1000, *queue_));
    if (host_block_ != nullptr) {
      static_cast<void>(on_.host().release(host_block_, 1000, *queue_));
    }
    if (managed_ != nullptr) {
      static_cast<void>(device().release_managed(managed_, 1000, *queue_));
    }
    if (queue_ != nullptr && event_ != nullptr && queue_->record(*event_).ok()) {
      static_cast<void>(event_->wait_for(long_time));
    }
    if (locked_) static_cast<void>(on_.unregister_memory(host_.data()));
  }
  all_calls(const all_calls&) = delete;
  all_calls& operator=(const all_calls&) = delete;

  /// In steps, so that a test can look after each.
  void run(const std::function<void(const char*)>& after) {
    keep(queue_, device().make_queue());
    after("make_queue");
    keep(event_, device().make_event());
    after("make_event");
    if (queue_ == nullptr || event_ == nullptr) return;
    keep(block_, device().allocate(1000, *queue_));
    after("allocate");
    keep(host_block_, on_.host().allocate(1000, *queue_));
    after("allocate on the host side");
    keep(managed_, device().allocate_managed(1000, *queue_));
    after("allocate_managed");
    locked_ = on_.register_memory(host_.data(), host_.size()).ok();
    after("register_memory");
    queue_work(after);
    look(after);
  }

 private:
  void queue_work(const std::function<void(const char*)>& after) {
    if (block_ == nullptr) return;
    backend::fill_request fill;
    fill.to = block_;
    fill.home = backend::device_memory(index_);
    fill.bytes = 992;
    fill.pattern_bytes = 8;
    fill.pattern[3] = std::byte{1};
    static_cast<void>(queue_->fill(fill));
    after("fill");
    for (std::byte* to : {host_.data(), pageable_.data()}) {
      static_cast<void>(queue_->copy(backend::copy_request::contiguous(
          to, memory_home::host, block_, backend::device_memory(index_), 1000)));
      after("copy");
    }
    static_cast<void>(queue_->record(*event_));
    after("record");
    static_cast<void>(queue_->wait(*event_));
    after("wait");
  }
  void look(const std::function<void(const char*)>& after) {
    static_cast<void>(event_->is_done());
    after("is_done");
    static_cast<void>(event_->wait_for(long_time));
    after("wait_for");
    static_cast<void>(queue_->is_capturing());
    after("is_capturing");
    static_cast<void>(device().adopt(queue_->handle()));
    after("adopt");
    static_cast<void>(device().split(2, 8));
    after("split");
    static_cast<void>(on_.reserve_range(1000));
    after("reserve_range");
    static_cast<void>(on_.enable_peer(0, 1));
    after("enable_peer");
    static_cast<void>(device().load(std::as_bytes(std::span("no image"))));
    after("load");
    build_graph(after);
    static_cast<void>(device().memory());
    after("memory");
  }
  void build_graph(const std::function<void(const char*)>& after) {
    std::unique_ptr<backend::graph> graph;
    keep(graph, device().make_graph());
    after("make_graph");
    if (graph == nullptr || block_ == nullptr) return;
    backend::fill_request fill;
    fill.to = block_;
    fill.home = backend::device_memory(index_);
    fill.bytes = 992;
    for (const std::uint32_t pattern : {4U, 16U}) {
      fill.pattern_bytes = pattern;
      fill.pattern[3] = std::byte{1};
      static_cast<void>(graph->add_fill(fill, {}));
      after("add_fill");
    }
    static_cast<void>(
        graph->add_copy(backend::copy_request::contiguous(host_.data(), memory_home::host, block_,
                                                          backend::device_memory(index_), 1000),
                        {}));
    after("add_copy");
    if (graph->begin_body(*queue_, {})) {
      after("begin_body");
      static_cast<void>(queue_->fill(fill));
      backend::node_list last;
      static_cast<void>(graph->end_body(*queue_, last));
    }
    after("end_body");
    std::unique_ptr<backend::executable_graph> ready;
    keep(ready, graph->instantiate());
    after("instantiate");
    if (ready != nullptr) {
      static_cast<void>(ready->launch(*queue_));
      after("launch");
      static_cast<void>(graph->update(*ready));
      after("update");
    }
    static_cast<void>(graph->dot());
    after("dot");
    ready.reset();
    graph.reset();
    after("the end of a graph");
  }
  template <class T>
  void keep(T& in, backend::result<T> answer) {
    if (answer) in = std::move(answer.value());
  }
  backend::device& device() { return on_.at(index_); }

  backend::machine& on_;
  const int index_;
  bytes host_ = bytes(1000);
  bytes pageable_ = bytes(1000);
  queue_ptr queue_;
  event_ptr event_;
  void* block_ = nullptr;
  void* host_block_ = nullptr;
  void* managed_ = nullptr;
  bool locked_ = false;
};

class Context : public MachineTest {
 protected:
  void expect_untouched(int index) {
    const abi::context before = current();
    all_calls(machine(), index).run([&](const char* name) {
      ASSERT_EQ(current(), before) << name;
    });
    EXPECT_EQ(current(), before);
  }
};

TEST_F(Context, NoneStaysNone) {
  MILLSTREAM_NEEDS_DEVICES(2);
  ASSERT_EQ(current(), nullptr);
  expect_untouched(0);
  expect_untouched(1);
}

TEST_F(Context, AnotherDeviceStaysCurrent) {
  MILLSTREAM_NEEDS_DEVICES(2);
  abi::context second = nullptr;
  call.cuDevicePrimaryCtxRetain(&second, 1);
  call.cuCtxSetCurrent(second);
  expect_untouched(0);
  expect_untouched(1);
  EXPECT_EQ(machine().current_device(), 1);
  call.cuCtxSetCurrent(nullptr);
  call.cuDevicePrimaryCtxRelease(1);
}

TEST_F(Context, AForeignContextStaysCurrent) {
  abi::context own = nullptr;
  call.cuCtxCreate(&own, 0, 0);
  expect_untouched(0);
  EXPECT_EQ(current(), own);
  call.cuCtxDestroy(own);
}

TEST_F(Context, EveryFailureLeavesItAlone) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  abi::context second = nullptr;
  call.cuDevicePrimaryCtxRetain(&second, 1);
  call.cuCtxSetCurrent(second);
  expects_leaks = true;  // of releases that are made to fail
  int fired = 0;
  // Without what the test itself asks, and what putting a context back takes.
  const std::set<std::string> left_out{"cuCtxGetCurrent", "cuCtxPopCurrent"};
#define MILLSTREAM_CUDA_ROW(name, version, need, parameters)                 \
  if (!left_out.contains(#name)) {                                           \
    SCOPED_TRACE(#name);                                                     \
    const std::uint64_t before = control.faults_fired();                     \
    control.fail(#name, 1, static_cast<int>(abi::result::not_permitted), 0); \
    expect_untouched(0);                                                     \
    control.fail(nullptr, 0, 0, 0);                                          \
    if (control.faults_fired() != before) ++fired;                           \
  }
#include "backend/cuda/driver.inc"
#undef MILLSTREAM_CUDA_ROW
  EXPECT_GT(fired, 25);
  call.cuCtxSetCurrent(nullptr);
  call.cuDevicePrimaryCtxRelease(1);
}

TEST_F(Context, ACurrentContextIsNotPushed) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  const queue_ptr queue = make_queue();
  abi::context own = nullptr;
  call.cuDevicePrimaryCtxRetain(&own, 0);
  call.cuCtxSetCurrent(own);
  control.clear_counts();
  finish(*queue);
  EXPECT_EQ(control.count("cuCtxPushCurrent"), 0U);
  call.cuCtxSetCurrent(nullptr);
  call.cuDevicePrimaryCtxRelease(0);
}

}  // namespace
}  // namespace cuda_test
