// SPDX-License-Identifier: Apache-2.0
/// Device code.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/cuda/event.hpp"
#include "backend/program.hpp"

namespace millstream::backend::cuda {

class device_state;
class program;
struct stream_tail;

class kernel final : public backend::kernel {
 public:
  kernel(program& of, std::string name, abi::function entry, std::size_t argument_bytes)
      : of_(of), name_(std::move(name)), entry_(entry), argument_bytes_(argument_bytes) {}
  [[nodiscard]] const std::string& name() const noexcept override { return name_; }
  [[nodiscard]] program& of() const noexcept { return of_; }
  [[nodiscard]] abi::function entry() const noexcept { return entry_; }
  /// Of the packed argument block; `unknown_size` where the driver does not tell.
  [[nodiscard]] std::size_t argument_bytes() const noexcept { return argument_bytes_; }

  static constexpr std::size_t unknown_size = ~std::size_t{0};

 private:
  program& of_;
  const std::string name_;
  const abi::function entry_;
  const std::size_t argument_bytes_;
};

/// A module of the driver and where it was launched.
struct loaded_module {
  abi::module handle = nullptr;
  bool in_graph = false;  ///< launched under capture: never unloaded, the graph may be replayed
  std::vector<mark> last_launches;
};

/// Any thread. At its end the module stays until the launches in flight have ended.
class program final : public backend::program {
 public:
  /// `unavailable` never; `invalid_value` with the compiler's log for an image that cannot be
  /// loaded. Takes long for PTX, which the driver compiles.
  [[nodiscard]] static result<std::unique_ptr<program>> load(std::shared_ptr<device_state> on,
                                                             std::span<const std::byte> image);
  program(std::shared_ptr<device_state> on, abi::module module);
  ~program() override;
  [[nodiscard]] result<backend::kernel*> find(const std::string& entry) override;

  /// The context its functions belong to.
  [[nodiscard]] abi::context context() const noexcept;
  /// Called for each launch, before it is queued.
  void note_launch(const std::shared_ptr<stream_tail>& on, bool captured);

 private:
  [[nodiscard]] result<std::unique_ptr<kernel>> look_up(const std::string& entry);

  const std::shared_ptr<device_state> on_;
  const live_mark alive_;
  std::mutex mutex_;  // guards the members below; the driver is called under it to look up a name
  std::unique_ptr<loaded_module> module_;
  std::vector<std::shared_ptr<stream_tail>> users_;
  std::map<std::string, std::unique_ptr<kernel>> kernels_;
};

}  // namespace millstream::backend::cuda
