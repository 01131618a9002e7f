// SPDX-License-Identifier: Apache-2.0
/// Recorded work (capability::graphs): operations with explicit edges, launched as a whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "backend/queue.hpp"
#include "base/small_vector.hpp"

namespace millstream::backend {

/// One node: a name that is valid as long as its graph. Nodes of one graph differ.
enum class graph_node : std::uintptr_t { none = 0 };

/// What something comes after, or what comes after it has to wait for.
using node_span = std::span<const graph_node>;
using node_list = base::small_vector<graph_node, 2>;

/// A graph that is ready to be launched. It does not need the graph it was made from.
class executable_graph {
 public:
  virtual ~executable_graph() = default;
  /// Queues all nodes on `on`, whose later work comes after them. Returns at once. Two launches of
  /// one executable never overlap, on whatever queues. Each launch calls exactly one of `run` and
  /// `discard` of each of its jobs, exactly once; one that fails calls none. `unsupported` on a
  /// queue that is being recorded.
  virtual status launch(queue& on) = 0;
  /// False: every `update` of it is refused, so that it is of no use once it was launched.
  [[nodiscard]] virtual bool can_be_updated() const noexcept { return true; }
  /// An estimate of the memory that it keeps.
  [[nodiscard]] virtual std::size_t bytes() const noexcept = 0;
};

/// A graph under construction. Each `add_` call adds exactly one node, which comes after `after`
/// (nodes of this graph, no node twice), and reads what is given during the call only. Nodes may
/// belong to several devices of one machine, and are made in any order that has predecessors first.
/// One thread at a time. Destroying a graph leaves executables made from it as they are.
class graph {
 public:
  virtual ~graph() = default;
  graph() = default;
  graph(const graph&) = delete;
  graph& operator=(const graph&) = delete;

  [[nodiscard]] virtual result<graph_node> add_kernel(const launch_request& what,
                                                      node_span after) = 0;
  /// `skip_when` is looked at when the node runs where nodes run jobs, else during this call: then
  /// a copy that is left out is `none`, which takes no part in an `after`.
  [[nodiscard]] virtual result<graph_node> add_copy(const copy_request& what, node_span after) = 0;
  [[nodiscard]] virtual result<graph_node> add_fill(const fill_request& what, node_span after) = 0;
  /// `what` is called at each launch, on a thread of that device's queues (-1: of the host side's,
  /// or, if it calls_no_driver, of the driver's).
  /// It is not owned: it must be there until the last launch has called it, so one that disposes of
  /// itself can be launched once. `unsupported` for a device without capability::runs_jobs.
  [[nodiscard]] virtual result<graph_node> add_host(job& what, int device, node_span after) = 0;
  /// The nodes of `child` as they are now, as one node. The child stays the caller's.
  [[nodiscard]] virtual result<graph_node> add_child(const graph& child, node_span after) = 0;
  /// The same with a graph that is used up, so that a machine may make it a part of this one
  /// instead of copying it, and with it what cannot be copied: allocations that a body made.
  [[nodiscard]] virtual result<graph_node> take_child(std::unique_ptr<graph> child,
                                                      node_span after) {
    return add_child(*child, after);
  }

  /// Recording (capability::capture_to_graph): work issued to the native stream of `on`, and to
  /// streams that are made to wait for it, becomes nodes behind `after` until `end_body`. Several
  /// bodies may be open at once, each on a queue of its own, all of them begun by one thread;
  /// another thread is answered errc::usage while any is open. The body may make any call that the
  /// driver allows under capture in relaxed mode.
  virtual status begin_body(queue& on, node_span after) = 0;
  /// `last` is what comes after the body has to wait for: `after` of the body if it issued nothing.
  /// No node is made for that. A failure says why the body could not be recorded (a call that
  /// spoils a capture, streams that were not joined); then, too, `on` is not captured any more, and
  /// the graph is `broken`.
  virtual status end_body(queue& on, node_list& last) = 0;

  /// Adds the nodes as they are now, as one, to what is recorded of `on` (queue::is_capturing) by
  /// somebody else or into another graph: behind what was issued to it so far and before what comes
  /// later. `usage` if nobody records it. What this graph keeps goes with the nodes.
  virtual status record_into(queue& on) = 0;
  /// What nodes use and the machine does not know: held until neither this graph can run any more
  /// nor anything that was made from it, of whoever made it: executables, graphs with it as a
  /// child, launches on their way. Then it is let go on a thread of the library's that holds no
  /// lock.
  virtual status keep(std::shared_ptr<void> what) = 0;

  /// From now on the queues of bodies stay the graph's between bodies, too, and take nothing but
  /// bodies, until `release_queues`. Then a body costs the same however many nodes there are; else
  /// ending it takes the driver a time that grows with the graph. What is found only when the
  /// recording is over (streams that were not joined) is told by `release_queues` then.
  virtual void keep_queues() noexcept = 0;
  /// No body may be open. Has to come before `instantiate`, `update` and being a child.
  virtual status release_queues() = 0;
  /// Whether it can be a part of others (`add_child`, `record_into`), as far as the machine tells:
  /// `unsupported`, with the kind of node that stands in the way. Looks at all nodes.
  [[nodiscard]] virtual status may_be_part() const { return {}; }
  /// The machine's own number of the graph, for the calls of others; 0 where there is none. The
  /// graph stays this object's. From now on nodes may be launched by whoever instantiates or copies
  /// it.
  [[nodiscard]] virtual result<std::uint64_t> hand_out() { return std::uint64_t{0}; }

  /// Nodes so far, children counted as one.
  [[nodiscard]] virtual std::size_t node_count() const noexcept = 0;
  /// No body may be open. Takes time, but waits for nothing on the machine.
  [[nodiscard]] virtual result<std::unique_ptr<executable_graph>> instantiate() = 0;
  /// Makes `target` do at its next launch what this graph says; a launch on its way is not changed.
  /// `unsupported`, with the reason, where the two differ by more than the parameters of nodes;
  /// then `target` is as before, and no error is left in the driver.
  virtual status update(executable_graph& target) = 0;
  /// The graph as the machine sees it, in the DOT language.
  [[nodiscard]] virtual result<std::string> dot() const = 0;
};

}  // namespace millstream::backend
