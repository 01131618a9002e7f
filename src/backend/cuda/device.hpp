// SPDX-License-Identifier: Apache-2.0
/// A GPU, a part of one or somebody else's context on one; and the host side.
#pragma once

#include <memory>
#include <string>

#include "backend/cuda/state.hpp"
#include "backend/device.hpp"

namespace millstream::backend::cuda {

class device final : public backend::device {
 public:
  explicit device(std::shared_ptr<device_state> state) : state_(std::move(state)) {}

  [[nodiscard]] int index() const noexcept override { return state_->index(); }
  [[nodiscard]] const std::string& name() const noexcept override { return state_->name(); }
  [[nodiscard]] int queue_hint() const noexcept override;

  [[nodiscard]] result<std::unique_ptr<backend::queue>> make_queue() override;
  [[nodiscard]] result<std::unique_ptr<backend::queue>> adopt(std::uint64_t stream,
                                                              bool one_thread) override;
  [[nodiscard]] result<std::unique_ptr<backend::event>> make_event() override;
  [[nodiscard]] std::uint64_t enter() noexcept override;
  void leave(std::uint64_t entered) noexcept override;
  [[nodiscard]] result<void*> allocate(std::size_t bytes, backend::queue& order) override;
  status release(void* block, std::size_t bytes, backend::queue& order) override;
  [[nodiscard]] memory_info memory() const noexcept override;
  [[nodiscard]] result<void*> allocate_managed(std::size_t bytes, backend::queue& order) override;
  status release_managed(void* block, std::size_t bytes, backend::queue& order) override;
  [[nodiscard]] result<std::unique_ptr<backend::program>> load(
      std::span<const std::byte> image) override;
  [[nodiscard]] const launch_limits* limits() noexcept override { return &state_->limits(); }
  [[nodiscard]] result<backend::kernel*> adopt_kernel(std::uint64_t native) override;
  [[nodiscard]] result<std::unique_ptr<backend::graph>> make_graph() override;
  [[nodiscard]] result<std::unique_ptr<backend::graph>> adopt_graph(std::uint64_t native) override;
  [[nodiscard]] result<std::vector<std::unique_ptr<backend::device>>> split(int parts,
                                                                            int smallest) override;

 private:
  template <class Answer, class Body>
  Answer call(backend::call kind, Body&& body);
  [[nodiscard]] result<void*> allocate_for_host(std::size_t bytes, backend::queue& order);

  const std::shared_ptr<device_state> state_;
};

/// Queues with threads of their own, and page-locked memory.
class host_device final : public backend::device {
 public:
  explicit host_device(std::shared_ptr<machine_state> machine);

  [[nodiscard]] int index() const noexcept override { return -1; }
  [[nodiscard]] const std::string& name() const noexcept override { return name_; }
  [[nodiscard]] int queue_hint() const noexcept override;

  [[nodiscard]] result<std::unique_ptr<backend::queue>> make_queue() override;
  [[nodiscard]] result<std::unique_ptr<backend::event>> make_event() override;
  /// Page-locked. The memory is ready for every queue at once.
  [[nodiscard]] result<void*> allocate(std::size_t bytes, backend::queue& order) override;
  status release(void* block, std::size_t bytes, backend::queue& order) override;
  [[nodiscard]] memory_info memory() const noexcept override;
  [[nodiscard]] result<void*> allocate_managed(std::size_t bytes, backend::queue& order) override;
  status release_managed(void* block, std::size_t bytes, backend::queue& order) override;
  [[nodiscard]] result<std::unique_ptr<backend::program>> load(
      std::span<const std::byte> image) override;
  [[nodiscard]] result<std::unique_ptr<backend::graph>> make_graph() override;

 private:
  const std::shared_ptr<machine_state> machine_;
  const std::string name_ = "cuda:host";
  const std::string who_ = "device 'cuda:host'";
};

}  // namespace millstream::backend::cuda
