// SPDX-License-Identifier: Apache-2.0
#include "backend/graph_shape.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

#include "backend/guarded.hpp"

namespace millstream::backend {
namespace {

constexpr unsigned half = 32;

std::uint32_t next_serial() noexcept {
  static std::atomic<std::uint32_t> last{0};
  std::uint32_t next = 0;
  while (next == 0)  // a name is never `none`
    next = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return next;
}

/// By doubling, as push_back does.
template <class Element>
void make_room(std::vector<Element>& in, std::size_t more) {
  const std::size_t need = in.size() + more;
  if (need > in.capacity()) in.reserve(std::max(need, 2 * in.capacity()));
}

const char* name_of(node_kind kind) noexcept {
  return node_kind_names[static_cast<std::size_t>(kind)];
}

}  // namespace

status check_device(int device, std::size_t devices, const std::string& who) noexcept {
  if (device >= -1 && device < static_cast<int>(devices)) return {};
  return guarded(who, [&] {
    return status(errc::invalid_value,
                  base::cat(who, " cannot run a node at device ", device, "; the machine has ",
                            devices, ", and -1 means its host side"));
  });
}

graph_shape::graph_shape() : serial_(next_serial()) {}

status graph_shape::check(node_span after, const std::string& who) {
  ++attempt_;
  for (const graph_node each : after) {
    if (each == graph_node::none) continue;
    if (static_cast<std::uintptr_t>(each) >> half != serial_ || index_of(each) >= rows_.size()) {
      return {errc::invalid_value,
              base::cat(who,
                        " cannot put a node behind one of another graph; name nodes of this "
                        "graph")};
    }
    if (std::exchange(rows_[index_of(each)].marked_by, attempt_) == attempt_) {
      return {errc::invalid_value, base::cat(who, " cannot put a node behind node ", index_of(each),
                                             " twice; name each predecessor once")};
    }
  }
  return {};
}

result<graph_node> graph_shape::add(node_kind kind, int place, node_span after,
                                    const std::string& who) {
  if (status wrong = check(after, who); !wrong) return wrong;
  make_room(edges_, after.size());
  make_room(rows_, 1);
  const auto first = static_cast<std::ptrdiff_t>(edges_.size());
  for (const graph_node each : after) {
    if (each != graph_node::none) edges_.push_back(index_of(each));
  }
  std::sort(edges_.begin() + first, edges_.end());
  const std::uintptr_t name = (std::uintptr_t{serial_} << half) | rows_.size();
  rows_.push_back({static_cast<index>(edges_.size()), 0, static_cast<std::int16_t>(place), kind});
  return graph_node{name};
}

result<graph_node> graph_shape::add_child(std::shared_ptr<const graph_shape> child, node_span after,
                                          const std::string& who) {
  children_.push_back(std::move(child));
  result<graph_node> added = add(node_kind::child, -1, after, who);
  if (!added) children_.pop_back();
  return added;
}

std::span<const graph_shape::index> graph_shape::predecessors(std::size_t at) const noexcept {
  const index first = at == 0 ? 0 : rows_[at - 1].past_edges;
  return std::span(edges_).subspan(first, rows_[at].past_edges - first);
}

std::string graph_shape::difference(const graph_shape& other) const {
  if (size() != other.size()) {
    return base::cat("it has ", size(), " nodes and not ", other.size());
  }
  auto child = children_.begin();
  auto others_child = other.children_.begin();
  for (std::size_t at = 0; at < size(); ++at) {
    if (kind(at) != other.kind(at)) {
      return base::cat("node ", at, " is of the kind ", name_of(kind(at)), " and not ",
                       name_of(other.kind(at)));
    }
    if (place(at) != other.place(at)) {
      return base::cat("node ", at, " runs at device ", place(at), " and not ", other.place(at));
    }
    if (!std::ranges::equal(predecessors(at), other.predecessors(at))) {
      return base::cat("node ", at, " comes after other nodes");
    }
    if (kind(at) != node_kind::child) continue;
    const std::string inside = (*child++)->difference(**others_child++);
    if (!inside.empty()) return base::cat("in the child node ", at, ' ', inside);
  }
  return {};
}

status graph_shape::check_same(const graph_shape& target, const std::string& who) const {
  const std::string found = difference(target);
  if (found.empty()) return {};
  return {errc::unsupported, base::cat(who, " cannot update an executable graph to another shape: ",
                                       found, "; instantiate a new one")};
}

void graph_shape::clear() noexcept {
  rows_.clear();
  edges_.clear();
  children_.clear();
  serial_ = next_serial();
}

std::size_t graph_shape::bytes() const noexcept {
  std::size_t sum =
      sizeof *this + rows_.capacity() * sizeof(row) + edges_.capacity() * sizeof(index);
  for (const auto& child : children_)
    sum += child->bytes();
  return sum;
}

std::string graph_shape::dot() const {
  std::string text = "digraph millstream {\n";
  for (std::size_t at = 0; at < size(); ++at) {
    text += base::cat("  n", at, " [label=\"", name_of(kind(at)), "\"];\n");
    for (const index before : predecessors(at))
      text += base::cat("  n", before, " -> n", at, ";\n");
  }
  return text + "}\n";
}

}  // namespace millstream::backend
