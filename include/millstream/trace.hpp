// SPDX-License-Identifier: Apache-2.0
/// Observation: what a context reports, and the recorder that keeps it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <millstream/access.hpp>
#include <millstream/error.hpp>
#include <millstream/export.hpp>

namespace millstream::inline v1 {

/// How a task was submitted.
enum class task_kind : std::uint8_t {
  task,
  submit,
  host_launch,
  parallel_for,
  fill,
  cuda_kernel,
  add_graph
};
/// Why data moved.
enum class copy_reason : std::uint8_t { coherence, write_back, read_back };
/// How a task or copy ended.
enum class outcome : std::uint8_t { done, failed, skipped };

[[nodiscard]] MILLSTREAM_API const char* to_string(task_kind kind) noexcept;
[[nodiscard]] MILLSTREAM_API const char* to_string(copy_reason reason) noexcept;
[[nodiscard]] MILLSTREAM_API const char* to_string(outcome how) noexcept;

/// One dependency of a task, duplicates of a datum already merged.
struct dep_info {
  std::uint64_t data = 0;  ///< id of the datum, unique in its context, from 1
  access_mode mode = access_mode::none;
  std::string_view name;  ///< symbol of the datum, or ""; valid during the call
  std::size_t bytes = 0;  ///< 0 for a token
};

struct task_info {
  std::uint64_t id = 0;  ///< unique in the context, rising in submission order, from 1
  task_kind kind = task_kind::task;
  std::string_view name;  ///< symbol, or ""; valid during the call
  source_site site;
  int place = -1;           ///< device number; -1 = host
  std::uint64_t queue = 0;  ///< number of the queue
  std::span<const dep_info> deps;
};

struct copy_info {
  std::uint64_t id = 0;    ///< shares the numbering of tasks
  std::uint64_t task = 0;  ///< the task it was made for; 0 = none (write-back, read-back)
  copy_reason reason = copy_reason::coherence;
  std::uint64_t data = 0;
  std::string_view name;
  int from = -1;  ///< device number; -1 = host, -2 = managed
  int to = -1;
  std::size_t bytes = 0;
  std::uint64_t queue = 0;
};

/// Listens to one context. Submission calls come under the context's lock in submission order: an
/// implementation takes no lock that another thread holds while calling the library, and calls
/// nothing back. Run calls come from any thread, also from one of the driver's, where calls of the
/// library that would need the driver throw error(usage). What it throws ends the process. Times
/// are nanoseconds of a monotonic clock.
class trace_listener {
 public:
  virtual ~trace_listener() = default;
  virtual void submitted(const task_info& what) = 0;
  virtual void submitted(const copy_info& what) = 0;
  virtual void began(std::uint64_t id, std::uint64_t at_ns) = 0;
  virtual void ended(std::uint64_t id, std::uint64_t at_ns, outcome how) = 0;
};

/// What a recorder kept of a task or copy.
struct trace_node {
  std::uint64_t id = 0;
  bool is_copy = false;
  task_kind kind = task_kind::task;             ///< of a task
  copy_reason reason = copy_reason::coherence;  ///< of a copy
  std::string name;                             ///< symbol of the task, or of the copied datum
  source_site site;
  int place = -1;  ///< where the task ran; destination of a copy
  int from = -1;   ///< source of a copy
  std::uint64_t queue = 0;
  std::uint64_t task = 0;  ///< of a copy: the task it was made for
  std::size_t bytes = 0;
  std::vector<std::uint64_t> data;  ///< ids of the data used
  std::vector<access_mode> modes;   ///< one per entry of `data`
  std::uint64_t submitted_ns = 0;
  std::uint64_t began_ns = 0;  ///< 0 = did not begin
  std::uint64_t ended_ns = 0;
  outcome how = outcome::done;
};

/// `to` may not begin before `from` ended, because of datum `data`.
struct trace_edge {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  std::uint64_t data = 0;
};

struct trace_data {
  std::uint64_t id = 0;
  std::string name;
  std::size_t bytes = 0;
};

/// A copy of everything recorded so far. Edges are those the declared accesses ask for: a reader
/// after the last writer; a writer after the readers since, or after the last writer if there is
/// none. One edge per (from, to) pair, named after the first datum that causes it.
struct trace_snapshot {
  std::vector<trace_node> nodes;  ///< by id
  std::vector<trace_edge> edges;  ///< by (to, from)
  std::vector<trace_data> data;   ///< by id
};

/// Keeps what a context reports, in memory, for as long as it lives. Any thread.
class trace_recorder : public trace_listener {
 public:
  [[nodiscard]] virtual trace_snapshot snapshot() const = 0;
};
[[nodiscard]] MILLSTREAM_API std::shared_ptr<trace_recorder> make_trace_recorder();

}  // namespace millstream::inline v1
