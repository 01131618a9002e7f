// SPDX-License-Identifier: Apache-2.0
/// A device, or the host side, of the null machine.
#pragma once

#include <memory>
#include <string>

#include "backend/device.hpp"
#include "backend/null/program.hpp"
#include "backend/null/queue.hpp"

namespace millstream::backend::null {

class device final : public backend::device {
 public:
  device(std::shared_ptr<machine_state> machine, int index);

  [[nodiscard]] int index() const noexcept override { return index_; }
  [[nodiscard]] const std::string& name() const noexcept override { return name_; }
  [[nodiscard]] int queue_hint() const noexcept override { return 4; }
  [[nodiscard]] result<std::unique_ptr<backend::queue>> make_queue() override;
  [[nodiscard]] result<std::unique_ptr<backend::event>> make_event() override;
  [[nodiscard]] result<void*> allocate(std::size_t bytes, backend::queue& order) override;
  status release(void* block, std::size_t bytes, backend::queue& order) override;
  [[nodiscard]] memory_info memory() const noexcept override;
  [[nodiscard]] result<std::unique_ptr<backend::program>> load(
      std::span<const std::byte> image) override;
  [[nodiscard]] result<backend::kernel*> adopt_kernel(std::uint64_t native) override;
  [[nodiscard]] result<std::unique_ptr<backend::graph>> make_graph() override;

 private:
  const std::shared_ptr<machine_state> machine_;
  const int index_;
  const std::string name_;
  const std::string who_;
  arena& memory_;
  kernel_table<std::uint64_t> adopted_;
};

[[nodiscard]] std::string device_name(int device);

}  // namespace millstream::backend::null
