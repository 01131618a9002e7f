// SPDX-License-Identifier: Apache-2.0
/// Places: where a task runs (exec_place) and where data is kept (data_place). Both are small
/// value types, descriptors that the machine of the context resolves; making one checks nothing.
#pragma once

#include <cstdint>
#include <string>

#include <millstream/export.hpp>

namespace millstream::inline v1 {

/// Where a task runs.
class exec_place {
 public:
  enum class kind : std::uint8_t { current, host, device };

  /// The default: device 0 of the host machine, the caller's current device on a GPU machine.
  constexpr exec_place() noexcept = default;
  /// On the host: the body runs on one of the library's own worker threads.
  [[nodiscard]] static constexpr exec_place host() noexcept { return {kind::host, -1}; }
  /// On device `index`, counted from 0. A number the machine lacks is an error at submission.
  [[nodiscard]] static constexpr exec_place device(int index) noexcept {
    return {kind::device, index};
  }

  [[nodiscard]] constexpr kind what() const noexcept { return kind_; }
  [[nodiscard]] constexpr int index() const noexcept { return index_; }
  friend constexpr bool operator==(const exec_place&, const exec_place&) noexcept = default;

 private:
  constexpr exec_place(kind what, int index) noexcept : kind_(what), index_(index) {}
  kind kind_ = kind::current;
  int index_ = -1;
};

/// Where an instance of a datum is kept.
class data_place {
 public:
  enum class kind : std::uint8_t { affine, host, managed, device };

  /// The default for a dependency: the memory nearest to where the task runs.
  constexpr data_place() noexcept = default;
  [[nodiscard]] static constexpr data_place affine() noexcept { return {}; }
  /// Host memory (page-locked where a device needs that).
  [[nodiscard]] static constexpr data_place host() noexcept { return {kind::host, -1}; }
  /// Memory that host and devices both address; `unsupported` where the machine has none.
  [[nodiscard]] static constexpr data_place managed() noexcept { return {kind::managed, -2}; }
  /// Memory of device `index`, counted from 0.
  [[nodiscard]] static constexpr data_place device(int index) noexcept {
    return {kind::device, index};
  }

  [[nodiscard]] constexpr kind what() const noexcept { return kind_; }
  /// Device number; -1 host, -2 managed, -3 affine.
  [[nodiscard]] constexpr int index() const noexcept { return index_; }
  friend constexpr bool operator==(const data_place&, const data_place&) noexcept = default;

 private:
  constexpr data_place(kind what, int index) noexcept : kind_(what), index_(index) {}
  kind kind_ = kind::affine;
  int index_ = -3;
};

[[nodiscard]] MILLSTREAM_API std::string to_string(exec_place place);
[[nodiscard]] MILLSTREAM_API std::string to_string(data_place place);

}  // namespace millstream::inline v1
