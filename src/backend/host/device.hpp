// SPDX-License-Identifier: Apache-2.0
/// A simulated device, or the host side of the host machine.
#pragma once

#include <memory>
#include <string>

#include "backend/device.hpp"
#include "backend/host/state.hpp"

namespace millstream::backend::host {

/// Its memory is an address range of its own, which nothing but copies, fills and jobs of its
/// queues touches. Fresh memory holds bytes of `fresh_byte`.
class device final : public backend::device {
 public:
  device(std::shared_ptr<machine_state> machine, int index, int queue_hint);

  [[nodiscard]] int index() const noexcept override { return index_; }
  [[nodiscard]] const std::string& name() const noexcept override { return name_; }
  [[nodiscard]] int queue_hint() const noexcept override { return queue_hint_; }
  [[nodiscard]] result<std::unique_ptr<backend::queue>> make_queue() override;
  [[nodiscard]] result<std::unique_ptr<backend::queue>> adopt(std::uint64_t number,
                                                              bool one_thread) override;
  [[nodiscard]] result<std::unique_ptr<backend::event>> make_event() override;
  [[nodiscard]] result<void*> allocate(std::size_t bytes, backend::queue& order) override;
  status release(void* block, std::size_t bytes, backend::queue& order) override;
  [[nodiscard]] memory_info memory() const noexcept override;
  /// Memory of the host side, which jobs everywhere may touch.
  [[nodiscard]] result<void*> allocate_managed(std::size_t bytes, backend::queue& order) override;
  status release_managed(void* block, std::size_t bytes, backend::queue& order) override;
  [[nodiscard]] result<std::unique_ptr<program>> load(std::span<const std::byte> image) override;
  /// What all GPUs have in common, so that a program that runs here runs there.
  [[nodiscard]] const launch_limits* limits() noexcept override;
  [[nodiscard]] result<std::unique_ptr<backend::graph>> make_graph() override;

 private:
  const std::shared_ptr<machine_state> machine_;
  const int index_;
  const int queue_hint_;
  const std::string name_;
  const std::string who_;
  arena& memory_;

  [[nodiscard]] result<void*> take(arena& from, std::size_t bytes);
};

}  // namespace millstream::backend::host
