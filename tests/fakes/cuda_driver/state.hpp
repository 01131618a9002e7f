// SPDX-License-Identifier: Apache-2.0
/// The objects of the driver, and all of them together. One mutex guards everything; it is let go
/// while a host function runs and while a call waits.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tests/fakes/cuda_driver/address_map.hpp"
#include "tests/fakes/cuda_driver/driver_thread.hpp"
#include "tests/fakes/cuda_driver/engine.hpp"
#include "tests/fakes/cuda_driver/log.hpp"
#include "tests/fakes/cuda_driver/rows.hpp"
#include "tests/fakes/cuda_driver/settings.hpp"

namespace fake_cuda {

struct stream_state;
struct capture_state;
struct graph_state;
struct node_state;
struct builtin_kernel;
struct executable_body;
using stream_ptr = std::shared_ptr<stream_state>;
using capture_ptr = std::shared_ptr<capture_state>;
using graph_ptr = std::shared_ptr<graph_state>;
using node_ptr = std::shared_ptr<node_state>;

/// Makes the operation of a call: once for work issued to a stream, once for each launch of work
/// that was captured.
using op_factory = std::function<op_ptr()>;

struct context_state {
  enum class origin : std::uint8_t { primary, made, green };
  context handle = nullptr;
  origin kind = origin::made;
  int device = 0;
  std::uint64_t id = 0;
  unsigned retained = 0;  // primary only
  std::shared_ptr<fault_scope> faults = std::make_shared<fault_scope>();
  std::set<int> peers;  // devices whose memory its work may touch
  stream_ptr legacy;
  std::map<int, stream_ptr> of_threads;  // the default stream of each thread
  std::vector<std::weak_ptr<stream_state>> streams;
  std::vector<op_ptr> left_behind;  // the last work of streams that were destroyed
};
using context_ptr = std::shared_ptr<context_state>;

/// Asking again and again gets ahead faster each time, so that polling does not take as many
/// calls as operations are queued.
struct askers {
  std::size_t turns = 1;
};

struct stream_state {
  stream handle = nullptr;
  context_ptr owner;
  bool legacy = false;
  bool blocking = false;  // ordered with the legacy stream
  int priority = 0;
  std::uint64_t id = 0;
  askers asked;
  op_ptr tail;
  capture_ptr capture;
  std::vector<node_ptr> capture_tail;
  std::vector<graph_node> listed_tail;  // what cuStreamGetCaptureInfo answered
};

struct event_state {
  event handle = nullptr;
  context_ptr owner;
  std::uint32_t flags = 0;
  askers asked;
  op_ptr mark;
  std::shared_ptr<std::chrono::steady_clock::time_point> passed_at;
  capture_ptr captured_in;
  std::vector<node_ptr> captured_after;
};
using event_ptr = std::shared_ptr<event_state>;

/// Ends with its last reference: those of its makers, of graphs and executables, and of launches on
/// their way. The driver's own thread then calls `end`.
struct user_object_state {
  user_object handle = nullptr;
  host_function end = nullptr;
  void* what = nullptr;
  std::uint32_t of_makers = 0;
};
using user_object_ptr = std::shared_ptr<user_object_state>;

/// What a node does, apart from its place in a graph.
struct node_work {
  node_type type = node_type::empty;
  op_factory make;               // not for a child
  std::uint64_t fixed = 0;       // what an update may not change: the context, kinds of memory
  std::uint64_t attributes = 0;  // of a launch, one bit each
  launch_config how{};           // of a launch; its pointers are not kept
  std::shared_ptr<const executable_body> child;
  std::shared_ptr<graph_memory> memory;  // of an allocation or its free
};

struct node_state {
  graph_node handle = nullptr;
  graph owner = nullptr;
  node_work work;
  std::vector<node_ptr> after;
  std::vector<node_ptr> early;  // of these, kernels that need not have ended
  graph_ptr moved;              // became this node
};

/// A node owns its predecessors. Whoever owns nodes lets the last one go first, so that a long
/// chain is not destroyed by recursion.
struct node_list : std::vector<node_ptr> {
  node_list() = default;
  node_list(const node_list&) = default;
  node_list& operator=(const node_list&) = default;
  ~node_list() {
    while (!empty())
      pop_back();
  }
};

struct graph_state {
  static constexpr int nobody = -1;
  graph handle = nullptr;
  bool is_captured_into = false;
  int user = nobody;                    // the thread that captures something into it now
  executable_graph instance = nullptr;  // the last one that was made
  graph moved_into = nullptr;           // what destroys it
  node_list nodes;
  std::vector<node_ptr>
      capture_ends;  // where the captures into it ended, in the order of the calls
  std::vector<user_object_ptr> kept;
};

/// The nodes of a graph as they were at one time, predecessors first.
struct executable_body {
  struct node {
    node_work work;
    std::vector<std::size_t> after;  // places in `nodes`
    std::vector<std::size_t> early;  // of these, by programmatic edges
  };
  std::vector<node> nodes;
  std::vector<std::size_t> capture_ends;  // likewise
  std::vector<user_object_ptr> kept;
};

struct executable_graph_state {
  executable_graph handle = nullptr;
  std::shared_ptr<const executable_body> body;
  op_ptr last;  // two launches do not overlap
};

struct capture_state {
  std::uint64_t id = 0;
  capture_mode mode = capture_mode::global;
  int thread = 0;
  graph_ptr into;
  bool graph_is_new = false;
  bool invalid = false;
  bool ended = false;
  std::weak_ptr<stream_state> origin;
  std::vector<std::weak_ptr<stream_state>> members;
  std::unordered_set<const node_state*> unjoined;  // made here, and nothing comes after them
};

/// What the graphs of a device have of its memory, in bytes.
struct graph_pool {
  std::size_t used = 0;  // allocated by nodes that ran
  std::size_t used_high = 0;
  std::size_t reserved = 0;
  std::size_t reserved_high = 0;
  std::size_t promised = 0;  // to launches on their way
  std::size_t left_out = 0;  // by launches that did not free it
};

struct pool_state {
  memory_pool handle = nullptr;
  int device = 0;
  bool is_default = false;
  std::set<int> access;  // devices besides its own
  std::map<std::uint32_t, std::uint64_t> attributes;
  std::size_t used_bytes = 0;
  std::size_t cached_bytes = 0;  // freed and kept
};
using pool_ptr = std::shared_ptr<pool_state>;

struct physical_state {
  allocation_handle handle = 0;
  int device = 0;  // -1 = the host
  std::size_t bytes = 0;
  storage data;
};
using physical_ptr = std::shared_ptr<physical_state>;

/// A loaded image. A function goes with its image; launches of it that are still queued fail then.
struct image_state {
  std::uint64_t handle = 0;
  context_ptr owner;  // null for libraries
  bool unloaded = false;
  std::vector<const builtin_kernel*> entries;
};
using image_ptr = std::shared_ptr<image_state>;

/// A function of a module, or a kernel of a library (`owner` null), which may be launched like a
/// function.
struct function_state {
  const builtin_kernel* what = nullptr;
  image_ptr image;
  context_ptr owner;
  std::map<std::uint32_t, int> attributes;
};
using function_ptr = std::shared_ptr<function_state>;

struct green_state {
  green_context handle = nullptr;
  context_ptr context_of;
  std::uint32_t multiprocessors = 0;
};
using green_ptr = std::shared_ptr<green_state>;

struct descriptor_state {
  std::uint32_t multiprocessors = 0;
};

/// Numbers that look like pointers; none is given twice.
class handle_source {
 public:
  template <class Handle>
  [[nodiscard]] Handle next() {
    next_ += 0x80;
    if constexpr (std::is_pointer_v<Handle>) {
      return reinterpret_cast<Handle>(next_);
    } else {
      return static_cast<Handle>(next_);
    }
  }

 private:
  std::uint64_t next_ = 0x6000'0000'0000;
};

template <class Handle, class Object>
using table = std::unordered_map<Handle, std::shared_ptr<Object>>;

template <class Table, class Handle>
[[nodiscard]] typename Table::mapped_type look_up(const Table& in, Handle what) {
  const auto found = in.find(what);
  return found == in.end() ? nullptr : found->second;
}

struct state {
  std::mutex mutex;  // guards everything below; outermost and only
  settings config;
  bool initialised = false;
  std::uint64_t generation = 1;  // of resets; threads drop what they remember of an older one
  int threads = 0;
  handle_source handles;
  std::uint64_t next_id = 1;
  engine work;
  driver_thread thread{*this};
  call_log log;
  std::uint64_t faults_fired = 0;
  std::uint64_t launch_attributes = 0;    // of the last launch, one bit each
  std::uint64_t abandoned = 0;            // objects that ended only with their context
  std::map<int, std::size_t> used_bytes;  // by device

  address_map memory;
  table<context, context_state> contexts;
  std::map<int, context_ptr> primaries;
  table<stream, stream_state> streams;
  table<event, event_state> events;
  table<graph, graph_state> graphs;
  table<graph_node, node_state> nodes;
  table<executable_graph, executable_graph_state> executables;
  table<user_object, user_object_state> user_objects;  // those that makers have references to
  std::vector<std::weak_ptr<capture_state>> captures;
  table<memory_pool, pool_state> pools;
  std::map<int, pool_ptr> default_pools;
  std::map<int, graph_pool> graph_pools;
  std::map<std::uint64_t, std::size_t> ranges;
  table<allocation_handle, physical_state> physical;
  table<std::uint64_t, image_state> modules;
  table<std::uint64_t, image_state> libraries;
  table<std::uint64_t, function_state> functions;
  std::vector<std::uint64_t> unloaded_functions;  // handles that come again
  table<green_context, green_state> greens;
  table<resource_descriptor, descriptor_state> descriptors;

  [[nodiscard]] bool has_device(int ordinal) const noexcept {
    return ordinal >= 0 && ordinal < config.devices;
  }
  /// Bytes of a device that are handed out.
  [[nodiscard]] std::size_t& used(int device) { return used_bytes[device]; }
  /// Takes the settings from the environment.
  void apply_settings();
  void reset();
};

/// Made at the first use and never destroyed: programs use the driver until they end.
[[nodiscard]] state& the_state();

}  // namespace fake_cuda
