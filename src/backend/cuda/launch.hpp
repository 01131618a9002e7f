// SPDX-License-Identifier: Apache-2.0
/// A launch in the driver's words.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "backend/cuda/driver.hpp"
#include "backend/queue.hpp"

namespace millstream::backend::cuda {

class device_state;

/// Whether a launch asks for what is said by attributes of a node.
[[nodiscard]] inline bool has_node_attributes(const launch_request& request) noexcept {
  return request.cooperative || request.cluster != std::array<std::uint32_t, 3>{1, 1, 1};
}
/// Whether a launch asks for nothing that has to be said by attributes.
[[nodiscard]] inline bool is_plain(const launch_request& request) noexcept {
  return !request.programmatic && !has_node_attributes(request);
}

/// Refers to the request, which is there as long as this is.
class launch_form {
 public:
  explicit launch_form(const launch_request& request) noexcept;
  launch_form(const launch_form&) = delete;
  launch_form& operator=(const launch_form&) = delete;

  /// The packed argument block; null without arguments.
  [[nodiscard]] void** extra() noexcept { return bytes_ > 0 ? extra_.data() : nullptr; }
  /// What is not as in a plain launch.
  [[nodiscard]] std::span<abi::launch_attribute> attributes() noexcept {
    return {attributes_.data(), attribute_count_};
  }

 private:
  template <class Value>
  void add(abi::launch_attribute_id id, const Value& value) noexcept;

  std::size_t bytes_;
  std::array<void*, 5> extra_;
  std::array<abi::launch_attribute, 3> attributes_;  // the first `attribute_count_`
  std::size_t attribute_count_ = 0;
};

/// `unsupported` where the driver has no call for what is asked beyond a plain launch.
status check_launch_form(const driver& api, const std::string& who, const launch_request& request);
/// Launches on a stream. Checked before.
[[nodiscard]] abi::result launch_on(const driver& api, abi::stream on, abi::function entry,
                                    const launch_request& request) noexcept;
/// After a launch that was refused with `answer`: the limit of the device or the kernel that it
/// passes, as the end of a message; "" if it passes none. The context of the kernel is current.
[[nodiscard]] std::string passed_limit(const device_state& on, abi::function entry,
                                       const launch_request& request, abi::result answer);

}  // namespace millstream::backend::cuda
