// SPDX-License-Identifier: Apache-2.0
#include "graph/lane_queue.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/block_pool.hpp"

namespace millstream::graph {
namespace {

/// A fill of host memory, for machines whose graphs do not do that.
class fill_job final : public backend::job {
 public:
  static fill_job* make(const backend::fill_request& what) {
    return new (base::take_block(sizeof(fill_job))) fill_job(what);
  }
  void run() noexcept override {
    auto* const to = static_cast<std::byte*>(what_.to);
    for (std::size_t at = 0; at < what_.bytes; at += what_.pattern_bytes)
      std::memcpy(to + at, what_.pattern.data(), what_.pattern_bytes);
    discard();
  }
  void discard() noexcept override {
    this->~fill_job();
    base::give_block(this, sizeof(fill_job));
  }

 private:
  explicit fill_job(const backend::fill_request& what) : what_(what) {}
  ~fill_job() = default;
  backend::fill_request what_;
};

}  // namespace

void make_unique(backend::node_list& nodes) {
  if (nodes.size() < 2) return;
  std::sort(nodes.begin(), nodes.end());
  const auto* const end = std::unique(nodes.begin(), nodes.end());
  nodes.resize(static_cast<std::size_t>(end - nodes.begin()));
}

backend::node_span lane_queue::predecessors() {
  backend::node_list& after = into_.after;
  after.clear();
  after.append({lane_->ends.begin(), lane_->ends.size()});
  after.append({lane_->before.begin(), lane_->before.size()});
  make_unique(after);
  return {after.begin(), after.size()};
}

// Which lanes the operation comes after is mixed in when the engine says so.
backend::status lane_queue::note(kind what, backend::result<backend::graph_node> made) {
  if (!made) return made.take_status();
  if (made.value() == backend::graph_node::none) return {};
  into_.mix(static_cast<std::uint64_t>(what));
  lane_->before.clear();
  lane_->ends.clear();
  lane_->ends.push_back(made.value());
  return {};
}

backend::status lane_queue::copy(const backend::copy_request& request) {
  into_.mix(static_cast<std::uint64_t>(request.to_home));
  into_.mix(static_cast<std::uint64_t>(request.from_home));
  into_.mix(request.rank);
  return note(kind::copy, into_.graph->add_copy(request, predecessors()));
}

backend::status lane_queue::fill(const backend::fill_request& request) {
  if (request.home == backend::memory_home::host && !into_.host_fills) {
    fill_job* const job = fill_job::make(request);
    backend::status added = run_at(*job, core::host_place);
    if (!added) job->discard();
    return added;
  }
  into_.mix(request.pattern_bytes);
  return note(kind::fill, into_.graph->add_fill(request, predecessors()));
}

backend::status lane_queue::run(backend::job& work) {
  return run_at(work, lane_->place);
}

backend::status lane_queue::run_at(backend::job& work, int device) {
  backend::status added = note(kind::host, into_.graph->add_host(work, device, predecessors()));
  if (added.ok()) into_.jobs.push_back(&work);
  return added;
}

backend::status lane_queue::launch(const backend::launch_request& request) {
  return note(kind::kernel, into_.graph->add_kernel(request, predecessors()));
}

backend::status lane_queue::record(backend::event& /*mark*/) {
  return {errc::internal, "a mark was set in a recorded lane; its completions are its nodes"};
}

backend::status lane_queue::wait(backend::event& /*mark*/) {
  return {errc::internal, "a recorded lane was told to wait for a mark"};
}

}  // namespace millstream::graph
