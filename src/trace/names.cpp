// SPDX-License-Identifier: Apache-2.0
#include <millstream/trace.hpp>

namespace millstream::inline v1 {

const char* to_string(task_kind kind) noexcept {
  switch (kind) {
    case task_kind::task: return "task";
    case task_kind::submit: return "submit";
    case task_kind::host_launch: return "host_launch";
    case task_kind::parallel_for: return "parallel_for";
    case task_kind::fill: return "fill";
    case task_kind::add_graph: return "add_graph";
    case task_kind::cuda_kernel: return "cuda_kernel";
  }
  return "?";
}

const char* to_string(copy_reason reason) noexcept {
  switch (reason) {
    case copy_reason::coherence: return "coherence";
    case copy_reason::write_back: return "write_back";
    case copy_reason::read_back: return "read_back";
  }
  return "?";
}

const char* to_string(outcome how) noexcept {
  switch (how) {
    case outcome::done: return "done";
    case outcome::failed: return "failed";
    case outcome::skipped: return "skipped";
  }
  return "?";
}

}  // namespace millstream::inline v1
