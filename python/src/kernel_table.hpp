// SPDX-License-Identifier: Apache-2.0
/// The kernels that were launched in a context.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include <millstream/kernel.hpp>

#include "locks.hpp"

namespace millstream::python {

/// A kernel, and what its own package would launch it with.
struct kernel_facts {
  device_kernel what;
  std::optional<std::int64_t> threads;        ///< of a block
  std::optional<std::uint64_t> shared_bytes;  ///< dynamic
  std::optional<dims> cluster;                ///< then the grid counts clusters
  bool cooperative = false;
  bool programmatic = false;
};

/// Never without `facts`. It is the caller's own, since code of the user's may clear the table
/// meanwhile.
struct found_kernel {
  std::shared_ptr<const kernel_facts> facts;
  nb::object convert;  ///< of the arguments, if they need it; else null
};

/// Asks for each kernel once. Keeps the objects, and so their code loaded. Any thread. Needs the
/// interpreter lock, but for its end.
class kernel_table {
 public:
  static constexpr int any_device = -1;

  /// None if it was not added.
  [[nodiscard]] std::optional<found_kernel> find(nb::handle kernel, int device) const;
  void add(nb::handle kernel, int device, const found_kernel& found);
  /// A kernel of which only the handle is known: its owner may unload it and load another one.
  [[nodiscard]] found_kernel by_handle(std::uint64_t native);

  void clear() noexcept;
  /// A list, or null.
  [[nodiscard]] nb::object kept() const noexcept;
  /// The same for the garbage collector, which stops all other threads.
  [[nodiscard]] nb::handle visited() const noexcept { return kept_.get(); }

 private:
  struct entry {
    std::shared_ptr<const kernel_facts> facts;
    PyObject* convert;  // among the kept objects
  };
  using entry_map = std::map<std::pair<PyObject*, int>, entry>;
  using handle_map = std::unordered_map<std::uint64_t, std::shared_ptr<const kernel_facts>>;
  [[nodiscard]] nb::object list();

  entry_map entries_;
  handle_map by_handle_;
  py_ref kept_;
  [[no_unique_address]] mutable short_lock lock_;
};

}  // namespace millstream::python
