// SPDX-License-Identifier: Apache-2.0
/// What the tests of graphs share.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <thread>

#include "backend/graph.hpp"
#include "tests/unit/cuda/machine_test.hpp"

namespace cuda_test {

using backend::graph_node;
using backend::node_list;
using backend::node_span;

/// A job that is there for many launches.
class repeated_job final : public backend::job {
 public:
  void run() noexcept override {
    thread = std::this_thread::get_id();
    if (body) body();
    ++runs;
  }
  void discard() noexcept override { ++discards; }
  ~repeated_job() = default;

  std::function<void()> body;
  std::atomic<int> runs{0};
  std::atomic<int> discards{0};
  std::thread::id thread;
};

/// A graph, a queue and 512 bytes of device 0.
class GraphTest : public MachineTest {
 protected:
  struct fill_arguments {
    void* to;
    std::uint32_t value;
    std::uint32_t padding;
    std::uint64_t count;
  };
  struct add_arguments {
    void* to;
    void* first;
    void* second;
    std::uint64_t count;
  };
  static constexpr std::size_t size = 512;

  void SetUp() override {
    MachineTest::SetUp();
    queue_ = make_queue();
    block_ = value(device().allocate(size, *queue_));
    finish(*queue_);
    program_ = load(0);
    fill_ = value(program_->find("test_fill_u32"));
    add_ = value(program_->find("test_add_u32"));
    graph_ = value(device().make_graph());
    call.cuDevicePrimaryCtxRetain(&own_, 0);
  }
  void TearDown() override {
    graph_.reset();
    if (!expects_leaks) ok(device().release(block_, size, *queue_));
    queue_.reset();
    program_.reset();
    call.cuDevicePrimaryCtxRelease(0);
    MachineTest::TearDown();
  }
  std::unique_ptr<backend::program> load(int index) {
    const std::string text = kernel_text();
    return value(device(index).load(std::as_bytes(std::span(text.data(), text.size()))));
  }
  static fill_arguments filling(void* to, std::uint32_t with, std::uint64_t count) {
    return {to, with, 0, count};
  }
  static add_arguments adding(void* to, void* first, void* second, std::uint64_t count) {
    return {to, first, second, count};
  }
  template <class Arguments>
  static backend::launch_request launch_of(backend::kernel* what, Arguments& arguments) {
    backend::launch_request request;
    request.what = what;
    request.block = {32, 1, 1};
    request.arguments = std::as_bytes(std::span(&arguments, 1));
    return request;
  }
  static backend::copy_request to_device(void* to, const void* from, std::size_t count) {
    return backend::copy_request::contiguous(to, backend::device_memory(0), from, memory_home::host,
                                             count);
  }
  static backend::fill_request fill_of(void* to, std::size_t count, std::uint32_t width) {
    backend::fill_request request;
    request.to = to;
    request.home = backend::device_memory(0);
    request.bytes = count;
    request.pattern_bytes = width;
    for (std::size_t i = 0; i < width; ++i)
      request.pattern[i] = std::byte(i + 1);
    return request;
  }
  void expect_pattern(const backend::fill_request& request) {
    const bytes got = read(*queue_, request.to, request.bytes);
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_EQ(got[i], request.pattern[i % request.pattern_bytes]) << "byte " << i;
  }
  [[nodiscard]] void* word(std::size_t index) const {
    return static_cast<std::byte*>(block_) + 4 * index;
  }
  /// Instantiates, launches once and waits.
  void run() {
    const auto ready = value(graph_->instantiate());
    ok(ready->launch(*queue_));
    finish(*queue_);
  }
  static abi::stream stream_of(const backend::queue& of) {
    return reinterpret_cast<abi::stream>(of.handle());
  }

  queue_ptr queue_;
  void* block_ = nullptr;
  std::unique_ptr<backend::program> program_;
  backend::kernel* fill_ = nullptr;
  backend::kernel* add_ = nullptr;
  std::unique_ptr<backend::graph> graph_;
  abi::context own_ = nullptr;
};

}  // namespace cuda_test
