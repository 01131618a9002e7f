// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/fake_cuda/driver.hpp"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace fake_cuda_test {

std::string kernel_text() {
  std::ifstream file(std::string(MILLSTREAM_SOURCE_DIR) + "/tests/fakes/cuda_driver/kernels.ptx");
  return {std::istreambuf_iterator<char>(file), {}};
}

driver::driver() {
  const char* const path = std::getenv("MILLSTREAM_CUDA_DRIVER");
  std::string why;
  library_ = millstream::base::dynamic_library::open(path == nullptr ? "libcuda.so.1" : path, why);
  if (!library_) throw std::runtime_error("set MILLSTREAM_CUDA_DRIVER to a driver: " + why);
  get_ = reinterpret_cast<get_proc_address>(library_.find(get_proc_address_name));
  is_fake = library_.find("fake_cuda_reset") != nullptr;
#define FAKE_CUDA_CONTROL(name) \
  control.name = reinterpret_cast<decltype(control.name)>(library_.find("fake_cuda_" #name));
#include "tests/unit/fake_cuda/controls.inc"
#undef FAKE_CUDA_CONTROL
  look_up();
}

void* driver::find(const char* name, int version) const {
  void* address = nullptr;
  proc_address_answer answer{};
  static_cast<void>(get_(name, &address, version, proc_address_flags::legacy_stream, &answer));
  return address;
}

void driver::look_up() {
#define MILLSTREAM_CUDA_ROW(name, version, need, parameters) \
  call.name = reinterpret_cast<decltype(call.name)>(find(#name, version));
#include "backend/cuda/driver.inc"
#include "tests/fakes/cuda_driver/extra.inc"
#undef MILLSTREAM_CUDA_ROW
}

driver& the_driver() {
  static auto* const only = new driver;
  return *only;
}

std::vector<std::string> calls_of_this_thread(const std::function<void()>& body) {
  const controls& control = the_driver().control;
  control.log(1);
  // Nobody else asks for the version: the entry tells the thread's number.
  int version = 0;
  static_cast<void>(the_driver().call.cuDriverGetVersion(&version));
  body();
  control.log(0);
  std::vector<std::string> names;
  int thread = -1;
  fake_cuda_call entry{};
  for (std::size_t i = 0; control.log_entry(i, &entry) != 0; ++i) {
    const std::string name = entry.name;
    if (name == "cuDriverGetVersion") {
      thread = entry.thread;
    } else if (entry.thread == thread) {
      names.push_back(name);
    }
  }
  return names;
}

void DriverTest::SetUp() {
  if (api.is_fake) control.reset();
  api.look_up();
  OK(call.cuInit(0));
  OK(call.cuDevicePrimaryCtxRetain(&here, 0));
  OK(call.cuCtxSetCurrent(here));
}

void DriverTest::TearDown() {
  for (auto action = at_end_.rbegin(); action != at_end_.rend(); ++action)
    (*action)();
  if (kernels_ != nullptr) call.cuModuleUnload(kernels_);
  OK(call.cuCtxSetCurrent(nullptr));
  OK(call.cuDevicePrimaryCtxRelease(0));
  if (api.is_fake) {
    EXPECT_EQ(control.live(nullptr), 0);
  }
}

stream DriverTest::make_stream(stream_flags flags) {
  stream made = nullptr;
  OK(call.cuStreamCreate(&made, flags));
  finally([this, made] { call.cuStreamDestroy(made); });
  return made;
}

event DriverTest::make_event() {
  event made = nullptr;
  OK(call.cuEventCreate(&made, event_flags::disable_timing));
  finally([this, made] { call.cuEventDestroy(made); });
  return made;
}

device_pointer DriverTest::make_block(std::size_t bytes) {
  device_pointer made = 0;
  OK(call.cuMemAlloc(&made, bytes));
  finally([this, made] { call.cuMemFree(made); });
  return made;
}

void* DriverTest::pinned(std::size_t bytes) {
  void* made = nullptr;
  OK(call.cuMemHostAlloc(&made, bytes, host_alloc_flags::portable));
  std::memset(made, 0, bytes);
  finally([this, made] { call.cuMemFreeHost(made); });
  return made;
}

function DriverTest::find_kernel(const char* name) {
  if (kernels_ == nullptr) {
    OK(call.cuModuleLoadData(&kernels_, kernel_text().c_str()));
  }
  function found = nullptr;
  OK(call.cuModuleGetFunction(&found, kernels_, name));
  return found;
}

std::vector<std::uint32_t> DriverTest::read_words(device_pointer from, std::size_t count) {
  std::vector<std::uint32_t> words(count);
  OK(call.cuMemcpyDtoH(words.data(), from, count * sizeof(std::uint32_t)));
  return words;
}

void DriverTest::fill_words(device_pointer to, std::uint32_t value, std::size_t count) {
  OK(call.cuMemsetD32(to, value, count));
  OK(call.cuCtxSynchronize());
}

std::string DriverTest::last_fault() const {
  char text[256];
  control.last_fault(text, sizeof text);
  return text;
}

}  // namespace fake_cuda_test
