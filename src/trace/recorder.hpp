// SPDX-License-Identifier: Apache-2.0
/// The recorder behind make_trace_recorder().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <millstream/trace.hpp>

#include "trace/edges.hpp"
#include "trace/stamps.hpp"

namespace millstream::trace {

/// Keeps tasks and copies in flat arrays: names once, dependencies end to end, so that a task costs
/// no allocation of its own once the arrays have grown. Nothing is ever dropped; a context of a
/// million tasks takes about 300 MB.
class memory_recorder final : public trace_recorder {
 public:
  void submitted(const task_info& what) override;
  void submitted(const copy_info& what) override;
  void began(std::uint64_t id, std::uint64_t at_ns) override { stamps_.began(id, at_ns); }
  void ended(std::uint64_t id, std::uint64_t at_ns, outcome how) override {
    stamps_.ended(id, at_ns, how);
  }
  /// Copies everything under the lock; submissions of the context wait meanwhile.
  [[nodiscard]] trace_snapshot snapshot() const override;

 private:
  struct access {
    std::uint64_t data = 0;
    access_mode mode = access_mode::none;
  };
  /// A trace_node without what lives elsewhere.
  struct record {
    std::uint64_t id = 0;
    std::uint64_t queue = 0;
    std::uint64_t task = 0;
    std::uint64_t submitted_ns = 0;
    const std::string* name = nullptr;
    source_site site;
    std::size_t bytes = 0;
    std::size_t first_access = 0;
    std::size_t access_count = 0;
    int place = -1;
    int from = -1;
    bool is_copy = false;
    task_kind kind = task_kind::task;
    copy_reason reason = copy_reason::coherence;
  };
  struct datum {
    const std::string* name = nullptr;
    std::size_t bytes = 0;
  };

  const std::string* keep(std::string_view name);
  void note(std::uint64_t data, std::string_view name, std::size_t bytes);
  [[nodiscard]] trace_node node(const record& kept) const;

  mutable std::mutex mutex_;  // guards all below but stamps_; innermost: nothing is called under it
  std::vector<record> records_;
  std::vector<access> accesses_;
  edge_finder edges_;
  std::unordered_map<std::uint64_t, datum> data_;
  std::set<std::string, std::less<>> names_;  // nodes of a set stay where they are
  stamp_table stamps_;
};

}  // namespace millstream::trace
