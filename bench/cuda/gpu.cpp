// SPDX-License-Identifier: Apache-2.0
#include "bench/cuda/gpu.hpp"

#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace bench {
namespace {

namespace cuda = millstream::backend::cuda;

std::string kernel_text() {
  std::ifstream file(MILLSTREAM_BENCH_DIR "/touch.ptx");
  if (!file) throw std::runtime_error("cannot read " MILLSTREAM_BENCH_DIR "/touch.ptx");
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

gpu::gpu(const std::string& library) {
  auto loaded = cuda::driver::load(library);
  if (!loaded) throw std::runtime_error(loaded.why().text());
  driver_ = std::move(loaded.value());
  abi::device first = 0;
  check(call()->cuDeviceGet(&first, 0), "find a device");
  std::array<char, 256> text{};
  check(call()->cuDeviceGetName(text.data(), static_cast<int>(text.size()), first), "name it");
  name_ = text.data();
  check(call()->cuDevicePrimaryCtxRetain(&context_, first), "retain the primary context");
  check(call()->cuCtxSetCurrent(context_), "make the context current");
  check(call()->cuModuleLoadDataEx(&module_, kernel_text().c_str(), 0, nullptr, nullptr),
        "load a kernel");
  check(call()->cuModuleGetFunction(&kernel_, module_, "test_touch"), "find a kernel");
  described_ = millstream::device_kernel(kernel_);
  stream_ = make_stream();
}

gpu::~gpu() {
  destroy(stream_);
  call()->cuModuleUnload(module_);
  call()->cuCtxSetCurrent(nullptr);
  call()->cuDevicePrimaryCtxRelease(0);
}

std::size_t gpu::free_bytes() const {
  std::size_t free = 0;
  std::size_t total = 0;
  check(call()->cuMemGetInfo(&free, &total), "tell the free memory");
  return free;
}

abi::stream gpu::make_stream() const {
  abi::stream made = nullptr;
  check(call()->cuStreamCreateWithPriority(&made, abi::stream_flags::non_blocking, 0),
        "make a stream");
  return made;
}

abi::event gpu::make_event() const {
  abi::event made = nullptr;
  check(call()->cuEventCreate(&made, abi::event_flags::disable_timing), "make an event");
  return made;
}

void gpu::check(abi::result answer, const char* what) const {
  if (answer == abi::result::success) return;
  throw std::runtime_error(std::string("the driver failed to ") + what + ": " +
                           driver_->describe(answer));
}

host_block::host_block(const gpu& on, kind what, std::size_t bytes) : on_(on), what_(what) {
  constexpr std::size_t page = 4096;
  void* made = nullptr;
  if (what == kind::pinned) {
    on.check(on.call()->cuMemHostAlloc(&made, bytes, abi::host_alloc_flags::portable),
             "allocate page-locked memory");
  } else if ((made = std::aligned_alloc(page, (bytes + page - 1) / page * page)) == nullptr) {
    throw std::bad_alloc();
  }
  std::memset(made, 1, bytes);
  start_ = static_cast<unsigned char*>(made);
}

host_block::~host_block() {
  if (what_ == kind::pinned) {
    on_.call()->cuMemFreeHost(start_);
  } else {
    std::free(start_);
  }
}

}  // namespace bench
