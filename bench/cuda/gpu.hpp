// SPDX-License-Identifier: Apache-2.0
/// The driver as a program would use it without the library, for the hand-written twins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <millstream/millstream.hpp>

#include "backend/cuda/driver.hpp"

namespace bench {

namespace abi = millstream::backend::cuda::abi;

/// Device 0 with its primary context current, a stream, and a kernel that adds one to a word.
/// Throws std::runtime_error for what fails.
class gpu {
 public:
  explicit gpu(const std::string& library);
  gpu(const gpu&) = delete;
  gpu& operator=(const gpu&) = delete;
  ~gpu();

  [[nodiscard]] const millstream::backend::cuda::driver& call() const noexcept { return *driver_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] abi::stream stream() const noexcept { return stream_; }
  [[nodiscard]] std::size_t free_bytes() const;

  [[nodiscard]] abi::stream make_stream() const;
  void destroy(abi::stream gone) const { call()->cuStreamDestroy(gone); }
  [[nodiscard]] abi::event make_event() const;
  void destroy(abi::event gone) const { call()->cuEventDestroy(gone); }
  void launch(abi::stream on, abi::device_pointer word) const {
    void* list[] = {&word};
    const abi::result queued =
        call()->cuLaunchKernel(kernel_, 1, 1, 1, 1, 1, 1, 0, on, list, nullptr);
    if (queued != abi::result::success) check(queued, "launch a kernel");
  }
  /// The same as a node of a graph; `list` has the address of the word's address.
  [[nodiscard]] abi::kernel_node node(void** list) const noexcept {
    return {kernel_, 1, 1, 1, 1, 1, 1, 0, list, nullptr, nullptr, nullptr};
  }
  /// The same kernel, to be described to the library.
  [[nodiscard]] const millstream::device_kernel& kernel() const noexcept { return described_; }
  /// In the body of a task.
  template <class View>
  void launch(const millstream::stream& on, const View& touched) const {
    launch(static_cast<abi::stream>(on.get()),
           reinterpret_cast<abi::device_pointer>(touched.data()));
  }
  void finish(abi::stream what) const { check(call()->cuStreamSynchronize(what), "synchronize"); }
  void check(abi::result answer, const char* what) const;

 private:
  std::shared_ptr<const millstream::backend::cuda::driver> driver_;
  std::string name_;
  abi::context context_ = nullptr;
  abi::module module_ = nullptr;
  abi::function kernel_ = nullptr;
  millstream::device_kernel described_;
  abi::stream stream_ = nullptr;
};

/// Memory of the device, freed at the end.
class device_block {
 public:
  device_block(const gpu& on, std::size_t bytes) : on_(on) {
    on.check(on.call()->cuMemAlloc(&start_, bytes), "allocate");
  }
  device_block(const device_block&) = delete;
  device_block& operator=(const device_block&) = delete;
  ~device_block() { on_.call()->cuMemFree(start_); }
  [[nodiscard]] abi::device_pointer start() const noexcept { return start_; }

 private:
  const gpu& on_;
  abi::device_pointer start_ = 0;
};

/// Host memory with all its pages there, page-locked or not.
class host_block {
 public:
  enum class kind { pageable, pinned };
  host_block(const gpu& on, kind what, std::size_t bytes);
  host_block(const host_block&) = delete;
  host_block& operator=(const host_block&) = delete;
  ~host_block();
  [[nodiscard]] unsigned char* data() const noexcept { return start_; }

 private:
  const gpu& on_;
  kind what_;
  unsigned char* start_ = nullptr;
};

}  // namespace bench
