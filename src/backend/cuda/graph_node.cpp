// SPDX-License-Identifier: Apache-2.0
/// Nodes that are added one by one.
#include <algorithm>
#include <vector>

#include "backend/block.hpp"
#include "backend/cuda/executable.hpp"
#include "backend/cuda/graph.hpp"
#include "backend/cuda/host_memory.hpp"
#include "backend/cuda/launch.hpp"
#include "backend/cuda/program.hpp"
#include "backend/guarded.hpp"
#include "backend/missing.hpp"
#include "backend/request.hpp"
#include "base/text.hpp"

namespace millstream::backend::cuda {
namespace {

/// Becomes a child; the driver copies it.
class part_graph {
 public:
  explicit part_graph(const driver& api) : api_(api) { answer_ = api_->cuGraphCreate(&raw_, 0); }
  ~part_graph() {
    if (raw_ != nullptr) api_->cuGraphDestroy(raw_);
  }
  part_graph(const part_graph&) = delete;
  part_graph& operator=(const part_graph&) = delete;

  [[nodiscard]] abi::result answer() const noexcept { return answer_; }
  [[nodiscard]] abi::graph raw() const noexcept { return raw_; }

 private:
  const driver& api_;
  abi::graph raw_ = nullptr;
  abi::result answer_;
};

abi::fill_node words_of(const fill_request& what, const fill_shape& shape) noexcept {
  abi::fill_node node{};
  node.to = address_of(what.to);
  node.value = word_at(what, shape, 0);
  node.element_bytes = static_cast<std::uint32_t>(shape.unit);
  node.width = what.bytes / shape.unit;
  node.height = 1;
  return node;
}

/// One column of words in rows of a period.
abi::fill_node column_of(const fill_request& what, const fill_shape& shape,
                         std::size_t at) noexcept {
  abi::fill_node node{};
  node.to = address_of(what.to) + at;
  node.pitch = shape.period;
  node.value = word_at(what, shape, at);
  node.element_bytes = static_cast<std::uint32_t>(shape.unit);
  node.width = 1;
  node.height = shape.rows;
  return node;
}

/// All columns, and then the copies that double what is there, one after the other.
abi::result add_pattern_nodes(const driver& api, abi::graph into, const fill_request& what,
                              const fill_shape& shape, abi::context where) {
  std::vector<abi::graph_node> last;
  for (std::size_t at = 0; at < shape.period; at += shape.unit) {
    const abi::fill_node column = column_of(what, shape, at);
    const abi::result answer =
        api->cuGraphAddMemsetNode(&last.emplace_back(), into, nullptr, 0, &column, where);
    if (answer != abi::result::success) return answer;
  }
  return for_each_doubling(what, shape, [&](std::size_t done, std::size_t more) {
    const copy_request again = copy_request::contiguous(static_cast<std::byte*>(what.to) + done,
                                                        what.home, what.to, what.home, more);
    const abi::copy_3d block = describe_block(again, {});
    abi::graph_node made = nullptr;
    const abi::result answer =
        api->cuGraphAddMemcpyNode(&made, into, last.data(), last.size(), &block, where);
    last.assign(1, made);
    return answer;
  });
}

// Beginning before a predecessor ends is said by edges.
status apply_attributes(device_state& on, launch_form& what, abi::graph_node node) {
  for (const abi::launch_attribute& each : what.attributes()) {
    if (each.id == abi::launch_attribute_id::programmatic_stream_serialization) continue;
    const abi::result answer = on.api()->cuGraphKernelNodeSetAttribute(node, each.id, &each.value);
    status now = on.check("set an attribute of a kernel in a graph", answer);
    if (!now) return now;
  }
  return {};
}

bool is_of_host(memory_home home) noexcept {
  return home == memory_home::host;
}

/// Whether the driver reads and writes the side of the host at the node's turn.
bool is_exact(const device_state& on, const copy_request& what, const copy_spans& spans) {
  const bool to_host = is_of_host(what.to_home);
  if (to_host == is_of_host(what.from_home)) return !to_host;
  return on.machine().host->is_pinned(to_host ? spans.to : spans.from);
}

copy_request into_packed(copy_request what, void* block) noexcept {
  what.to = block;
  what.to_home = memory_home::host;
  what.to_strides = packed_strides(what);
  return what;
}

copy_request out_of_packed(copy_request what, const void* block) noexcept {
  what.from = block;
  what.from_home = memory_home::host;
  what.from_strides = packed_strides(what);
  return what;
}

// What the driver would refuse.
status try_beside(device_state& on, const abi::kernel_node& node, launch_form& what) {
  const part_graph beside(on.api());
  abi::graph_node made = nullptr;
  abi::result answer = beside.answer();
  if (answer == abi::result::success) {
    answer = on.api()->cuGraphAddKernelNode(&made, beside.raw(), nullptr, 0, &node);
  }
  status now = on.check("try a kernel with attributes", answer);
  return now ? apply_attributes(on, what, made) : std::move(now);
}

}  // namespace

template <class Body>
result<graph_node> graph::add(call kind, Body&& body) {
  if (status refused = enter(call::graph_add, capability::graphs); !refused) return refused;
  auto made = guarded(on_->who(), body);
  if (!made || made.value() == graph_node::none) return made;
  on_->machine().gate.note(kind);
  ++nodes_;
  return made;
}

// What is wrong with a value is the caller's mistake: another graph's node, a node named twice, a
// grid that is too large.
result<graph_node> graph::added(std::string_view what, abi::result answer,
                                const abi::graph_node& node) const {
  if (answer == abi::result::success) return graph_node{reinterpret_cast<std::uintptr_t>(node)};
  status failed = on_->check(base::cat("add ", what, " to a graph"), answer);
  if (answer != abi::result::invalid_value) return failed;
  return status(errc::invalid_value,
                base::cat(failed.text(), "; name each predecessor once, and nodes of this graph"));
}

status graph::not_added(const kernel& what, const launch_request& request,
                        abi::result answer) const {
  status failed =
      on_->check(base::cat("add kernel ", base::quoted(what.name()), " to a graph"), answer);
  std::string limit = passed_limit(*on_, what.entry(), request, answer);
  if (limit.empty() && answer != abi::result::invalid_value) return failed;
  if (limit.empty()) {
    limit =
        "; see whether the device takes such a grid, block and clusters, and name nodes of this "
        "graph as predecessors, each once";
  }
  return {errc::invalid_value, base::cat(failed.text(), limit)};
}

result<graph_node> graph::add_kernel(const launch_request& request, node_span after) {
  return add(call::kernel_node, [&]() -> result<graph_node> {
    if (request.what == nullptr) {
      return status(errc::invalid_value,
                    base::cat(on_->who(), " cannot launch no kernel; give one that was found"));
    }
    if (on_->is_partition()) {
      return status(errc::unsupported,
                    base::cat(on_->who(),
                              " cannot have kernels added to its graphs: the driver would run them "
                              "on the whole device; record a body that launches them"));
    }
    auto& what = static_cast<kernel&>(*request.what);
    if (status wrong = what.check_arguments(*on_, request); !wrong) return wrong;
    const predecessors before(after);
    launch_form form(request);
    const auto& [grid_x, grid_y, grid_z] = request.grid;
    const auto& [block_x, block_y, block_z] = request.block;
    const abi::kernel_node node{what.entry(), grid_x,       grid_y,  grid_z,
                                block_x,      block_y,      block_z, request.shared_bytes,
                                nullptr,      form.extra(), nullptr, what.context()};
    const context_guard in(on_->api(), what.context());
    abi::graph_node made = nullptr;
    // No node comes out of a graph again that is captured into, or that has memory of a body.
    if (had_bodies_ && has_node_attributes(request)) {
      if (status refused = try_beside(*on_, node, form); !refused) return refused;
    }
    const abi::result answer =
        request.programmatic ? add_early(node, before, made) : add_launch(node, before, made);
    if (answer != abi::result::success) {
      return not_added(what, request, answer);
    }
    what.note_graph();
    if (has_node_attributes(request)) {
      if (status failed = set_attributes(form, made); !failed) return failed;
    }
    kernels_.push_back(made);
    return added("a kernel", answer, made);
  });
}

abi::result graph::add_launch(const abi::kernel_node& node, const predecessors& after,
                              abi::graph_node& made) const {
  return on_->api()->cuGraphAddKernelNode(&made, raw_, after.data(), after.size(), &node);
}

// Beginning before a predecessor ends is a permission. Nobody makes use of it where the driver
// knows no edges of that kind, and where a body made the predecessor, whose kind only the driver
// knows.
abi::result graph::add_early(const abi::kernel_node& node, const predecessors& after,
                             abi::graph_node& made) {
  if (on_->api()->cuGraphAddNode == nullptr) return add_launch(node, after, made);
  for (; looked_up_ < kernels_.size(); ++looked_up_)
    known_kernels_.insert(kernels_[looked_up_]);
  std::vector<abi::graph_edge> edges(after.size());
  bool is_any_early = false;
  for (std::size_t i = 0; i < after.size(); ++i) {
    if (known_kernels_.count(after.data()[i]) == 0) continue;
    edges[i].from_port = abi::edge_port::programmatic;
    edges[i].type = abi::edge_type::programmatic;
    is_any_early = true;
  }
  if (!is_any_early) return add_launch(node, after, made);
  abi::any_node what{};
  what.type = abi::node_type::launch;
  what.launch = node;
  return on_->api()->cuGraphAddNode(&made, raw_, after.data(), edges.data(), after.size(), &what);
}

status graph::set_attributes(launch_form& what, abi::graph_node node) {
  status failed = apply_attributes(*on_, what, node);
  if (failed) return failed;
  if (on_->api()->cuGraphDestroyNode(node) != abi::result::success) bodies_.note_failure(failed);
  return failed;
}

/// Where a copy or a fill is carried out.
result<device_state*> graph::device_for(memory_home to, memory_home from) const {
  const int there = static_cast<int>(to) >= 0 ? static_cast<int>(to) : static_cast<int>(from);
  if (there < 0 || there == on_->index()) return on_.get();
  return device_of(on_->machine(), there, on_->who());
}

result<graph_node> graph::add_empty(node_span after) {
  const predecessors before(after);
  abi::graph_node made = nullptr;
  return added("nothing",
               on_->api()->cuGraphAddEmptyNode(&made, raw_, before.data(), before.size()), made);
}

result<graph_node> graph::add_copy(const copy_request& what, node_span after) {
  return add(call::copy_node, [&]() -> result<graph_node> {
    auto spans = check_copy(what, on_->who());
    if (!spans) return spans.take_status();
    if (what.skip_when != nullptr && what.skip_when->load(std::memory_order_acquire) != nullptr) {
      return graph_node::none;
    }
    if (spans.value().to.empty()) return add_empty(after);
    const bool by_driver = !what.at_its_turn || is_exact(*on_, what, spans.value());
    return by_driver ? add_block(joined(what), after) : add_by_host(what, after);
  });
}

result<graph_node> graph::add_by_host(const copy_request& what, node_span after) {
  if (!is_of_host(what.to_home)) return add_from_host(what, after);
  return is_of_host(what.from_home) ? add_call(what, after) : add_to_host(what, after);
}

result<graph_node> graph::add_to_host(const copy_request& what, node_span after) {
  auto staging = take_staging(what.bytes());
  if (!staging) return staging.take_status();
  auto moved = add_block(joined(into_packed(what, staging.value().get())), after);
  if (!moved) return moved;
  ++nodes_;
  return add_call(out_of_packed(what, staging.value().get()), {&moved.value(), 1}, staging.value());
}

// The last node only holds the staging until the copy has read it, and nothing comes after it.
result<graph_node> graph::add_from_host(const copy_request& what, node_span after) {
  auto staging = take_staging(what.bytes());
  if (!staging) return staging.take_status();
  auto packed = add_call(into_packed(what, staging.value().get()), after, staging.value());
  if (!packed) return packed;
  ++nodes_;
  auto moved = add_block(joined(out_of_packed(what, staging.value().get())), {&packed.value(), 1});
  if (!moved) return moved;
  auto last = add_call(std::monostate(), {&moved.value(), 1}, staging.value());
  if (!last) return last;
  ++nodes_;
  return moved;
}

result<std::shared_ptr<void>> graph::take_staging(std::size_t bytes) const {
  auto machine = on_->machine().shared_from_this();
  auto block = machine->host->pinned().take(bytes, on_->who());
  if (!block) return block.take_status();
  return std::shared_ptr<void>(block.value(),
                               [machine](void* used) { machine->host->pinned().give(used); });
}

result<graph_node> graph::add_block(const copy_request& what, node_span after) {
  auto there = device_for(what.to_home, what.from_home);
  if (!there) return there.take_status();
  auto pair = pair_of(on_->machine(), what, on_->who());
  if (!pair) return pair.take_status();
  const auto add_one = [&](abi::graph into, const copy_request& block,
                           const abi::graph_node* before, std::size_t count,
                           abi::graph_node* made) {
    const abi::copy_3d shape = describe_block(block, pair.value());
    return on_->api()->cuGraphAddMemcpyNode(made, into, before, count, &shape,
                                            there.value()->context());
  };
  if (is_driver_shape(what)) {
    const predecessors before(after);
    abi::graph_node made = nullptr;
    return added("a copy", add_one(raw_, what, before.data(), before.size(), &made), made);
  }
  return add_parts("a copy", after, [&](abi::graph parts) {
    return for_each_driver_shape(what, [&](const copy_request& part) {
      abi::graph_node made = nullptr;
      return add_one(parts, part, nullptr, 0, &made);
    });
  });
}

template <class Body>
result<graph_node> graph::add_parts(std::string_view what, node_span after, Body&& body) {
  const part_graph parts(on_->api());
  abi::result answer = parts.answer();
  if (answer == abi::result::success) answer = body(parts.raw());
  const predecessors before(after);
  abi::graph_node made = nullptr;
  if (answer == abi::result::success) {
    answer = on_->api()->cuGraphAddChildGraphNode(&made, raw_, before.data(), before.size(),
                                                  parts.raw());
  }
  return added(what, answer, made);
}

result<graph_node> graph::add_fill(const fill_request& what, node_span after) {
  return add(call::fill_node, [&]() -> result<graph_node> {
    auto span = check_fill(what, on_->who());
    if (!span) return span.take_status();
    if (span.value().empty()) return add_empty(after);
    // The driver fills page-locked memory only.
    if (what.home == memory_home::host) return add_call(what, after);
    const fill_shape shape = shape_of(what);
    return shape.is_word() ? add_words(what, shape, after) : add_pattern(what, shape, after);
  });
}

result<graph_node> graph::add_words(const fill_request& what, const fill_shape& shape,
                                    node_span after) {
  auto there = device_for(what.home, what.home);
  if (!there) return there.take_status();
  const predecessors before(after);
  const abi::fill_node words = words_of(what, shape);
  abi::graph_node made = nullptr;
  return added("a fill",
               on_->api()->cuGraphAddMemsetNode(&made, raw_, before.data(), before.size(), &words,
                                                there.value()->context()),
               made);
}

result<graph_node> graph::add_pattern(const fill_request& what, const fill_shape& shape,
                                      node_span after) {
  auto there = device_for(what.home, what.home);
  if (!there) return there.take_status();
  return add_parts("a fill", after, [&](abi::graph parts) {
    return add_pattern_nodes(on_->api(), parts, what, shape, there.value()->context());
  });
}

result<graph_node> graph::add_host(job& what, int device, node_span after) {
  if (device >= 0) return missing(on_->who(), "run jobs in graphs", capability::runs_jobs);
  return add(call::host_node, [&] { return add_call(&what, after); });
}

result<graph_node> graph::add_call(host_call::work what, node_span after,
                                   std::shared_ptr<void> with) {
  const predecessors before(after);
  const abi::host_node node{&host_call::run, &calls_.add(on_->runner(), what, std::move(with))};
  abi::graph_node made = nullptr;
  auto answer =
      added("a host function",
            on_->api()->cuGraphAddHostNode(&made, raw_, before.data(), before.size(), &node), made);
  if (!answer) calls_.remove_last();
  return answer;
}

result<graph_node> graph::add_child(const backend::graph& child, node_span after) {
  return add(call::child_node, [&]() -> result<graph_node> {
    const auto& inner = static_cast<const graph&>(child);
    if (status wrong = check_child(inner); !wrong) return wrong;
    calls_.add(inner.calls_);
    const predecessors before(after);
    abi::graph_node made = nullptr;
    const abi::result answer =
        on_->api()->cuGraphAddChildGraphNode(&made, raw_, before.data(), before.size(), inner.raw_);
    if (answer != abi::result::success) {
      calls_.remove_last(inner.calls_.size());
      return refuse_child_graph(inner, answer);
    }
    return added("a graph", answer, made);
  });
}

result<graph_node> graph::take_child(std::unique_ptr<backend::graph> child, node_span after) {
  auto& inner = static_cast<graph&>(*child);
  if (inner.of_ != owner::us || !can_move()) return add_child(*child, after);
  return add(call::child_node, [&]() -> result<graph_node> {
    if (status wrong = check_child(inner); !wrong) return wrong;
    const bool with_memory = inner.has_memory();
    calls_.add(inner.calls_);
    abi::graph_node made = nullptr;
    auto answer = added("a graph", move_child(inner, predecessors(after), made), made);
    if (!answer) {
      calls_.remove_last(inner.calls_.size());
      return answer;
    }
    inner.of_ = owner::parent;
    has_memory_in_parts_ = has_memory_in_parts_ || with_memory;
    return answer;
  });
}

bool graph::can_move() const noexcept {
  constexpr int since = 12090;
  return on_->api()->cuGraphAddNode != nullptr && on_->api().version() >= since;
}

status graph::check_child(const graph& child) const {
  if (&child == this) {
    return {errc::invalid_value,
            base::cat(on_->who(), " cannot add a graph to itself; make another one")};
  }
  if (status broken = child.bodies_.failure(); !broken) return broken;
  return child.check_whole();
}

abi::result graph::move_child(const graph& child, const predecessors& after,
                              abi::graph_node& made) const {
  abi::any_node what{};
  what.type = abi::node_type::child;
  what.nested = {child.raw_, abi::child_ownership::moved};
  return on_->api()->cuGraphAddNode(&made, raw_, after.data(), nullptr, after.size(), &what);
}

status graph::refuse_child_graph(const graph& child, abi::result answer) const {
  status failed = added("a graph", answer, nullptr).take_status();
  if (!child.has_memory()) return failed;
  return {errc::unsupported,
          base::cat(on_->who(),
                    " cannot add a graph whose body allocated memory while it was recorded: the "
                    "driver copies no such graph into another one; allocate before the "
                    "recording, or record the body with one thread (",
                    failed.text(), ")")};
}

}  // namespace millstream::backend::cuda
