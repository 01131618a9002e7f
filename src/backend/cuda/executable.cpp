// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/executable.hpp"

#include <algorithm>
#include <initializer_list>
#include <utility>
#include <vector>

#include "backend/cuda/queue.hpp"
#include "backend/guarded.hpp"
#include "base/text.hpp"

namespace millstream::backend::cuda {
namespace {

// What the driver keeps for a node, host and device side, was not measured; this is its order.
constexpr std::size_t bytes_per_node = 1024;

const char* why_not(abi::graph_update_result why) noexcept {
  switch (why) {
    case abi::graph_update_result::topology_changed: return "the nodes or their edges differ";
    case abi::graph_update_result::node_type_changed: return "a node is of another kind";
    case abi::graph_update_result::function_changed:
    case abi::graph_update_result::unsupported_function_change:
      return "the kernel of a node changed in a way that the driver does not take";
    case abi::graph_update_result::parameters_changed:
      return "the parameters of a node changed in a way that the driver does not take";
    case abi::graph_update_result::not_supported:
      return "a node is of a kind that cannot be updated";
    case abi::graph_update_result::attributes_changed:
      return "the attributes of a node changed in a way that the driver does not take";
    default: return "the driver gives no reason";
  }
}

std::string culprit(const driver& api, abi::graph_node node) {
  return node == nullptr ? "" : base::cat(" (a ", kind_of(api, node), " node)");
}

}  // namespace

std::size_t count_nodes(const driver& api, abi::graph of) noexcept {
  std::size_t count = 0;
  const abi::result answer = api->cuGraphGetNodes(of, nullptr, &count);
  return answer == abi::result::success ? count : 0;
}

const char* kind_of(const driver& api, abi::graph_node node) noexcept {
  auto type = abi::node_type::empty;
  if (api->cuGraphNodeGetType(node, &type) != abi::result::success) return "unknown";
  switch (type) {
    case abi::node_type::launch: return "kernel";
    case abi::node_type::copy: return "copy";
    case abi::node_type::fill: return "fill";
    case abi::node_type::host: return "host function";
    case abi::node_type::child: return "child graph";
    case abi::node_type::empty: return "empty";
    case abi::node_type::wait_event: return "event wait";
    case abi::node_type::record_event: return "event record";
    case abi::node_type::memory_allocation: return "memory allocation";
    case abi::node_type::memory_free: return "memory free";
    case abi::node_type::memory_words: return "memory word";
    case abi::node_type::conditional: return "conditional";
  }
  return "foreign";
}

namespace {

/// The first node of one of the kinds, or null.
abi::graph_node find_node(const driver& api, abi::graph of, std::size_t count,
                          std::initializer_list<abi::node_type> kinds) {
  std::vector<abi::graph_node> nodes(count);
  if (count == 0) return nullptr;
  if (api->cuGraphGetNodes(of, nodes.data(), &count) != abi::result::success) return nullptr;
  const auto found = std::find_if(nodes.begin(), nodes.end(), [&](abi::graph_node each) {
    auto type = abi::node_type::empty;
    return api->cuGraphNodeGetType(each, &type) == abi::result::success &&
           std::find(kinds.begin(), kinds.end(), type) != kinds.end();
  });
  return found == nodes.end() ? nullptr : *found;
}

}  // namespace

bool owns_memory(const driver& api, abi::graph of, std::size_t nodes) {
  return find_node(api, of, nodes,
                   {abi::node_type::memory_allocation, abi::node_type::memory_free}) != nullptr;
}

const char* part_refusal(const driver& api, abi::graph of, std::size_t nodes) {
  const abi::graph_node found =
      find_node(api, of, nodes,
                {abi::node_type::memory_allocation, abi::node_type::memory_free,
                 abi::node_type::conditional});
  return found == nullptr ? nullptr : kind_of(api, found);
}

result<std::unique_ptr<executable>> executable::make(std::shared_ptr<device_state> on,
                                                     abi::graph from, const host_calls& calls,
                                                     std::size_t nodes, bool with_memory) {
  host_calls own(calls);
  abi::executable_graph made = nullptr;
  abi::graph_instantiate_parameters how{};
  {
    const context_guard in(on->api(), on->context());
    const relaxed_capture allowed(on->api());
    const abi::result answer = on->api()->cuGraphInstantiateWithParams(&made, from, &how);
    const std::string where =
        answer == abi::result::success ? std::string() : culprit(on->api(), how.error_node);
    status failed = on->check(base::cat("instantiate a graph of ", nodes, " nodes", where), answer);
    if (!failed) return failed;
  }
  return std::make_unique<executable>(std::move(on), made, std::move(own), nodes, with_memory);
}

executable::executable(std::shared_ptr<device_state> on, abi::executable_graph raw,
                       host_calls calls, std::size_t nodes, bool with_memory)
    : on_(std::move(on)),
      alive_(on_->machine().live),
      raw_(raw),
      calls_(std::move(calls)),
      nodes_(nodes),
      with_memory_(with_memory) {}

// The driver lets a launch on its way go on, so what it calls lives until then.
executable::~executable() {
  if (base::forked_child()) return;
  const context_guard in(on_->api(), on_->context());
  const relaxed_capture allowed(on_->api());
  on_->api()->cuGraphExecDestroy(raw_);
  // The driver keeps it for other graphs; what a launch on its way needs, it keeps anyway.
  if (with_memory_ && on_->api()->cuDeviceGraphMemTrim != nullptr) {
    on_->api()->cuDeviceGraphMemTrim(on_->ordinal());
  }
  if (!on_->machine().lost.load(std::memory_order_acquire) && on_->loss()) return;
  calls_.for_each([](host_call& each) { each.give_up(); });
}

status executable::launch(backend::queue& on) {
  if (status refused = on_->machine().gate.pass(call::graph_launch, on_->who()); !refused) {
    return refused;
  }
  if (status refused = on_->open(); !refused) return refused;
  return guarded(on_->who(), [&]() -> status {
    stream* const native = static_cast<any_queue&>(on).native();
    if (native == nullptr) {
      return {errc::unsupported,
              base::cat(on_->who(),
                        " cannot launch a graph on a queue of the host side; launch it "
                        "on a queue of a device")};
    }
    auto captured = native->is_capturing();
    if (!captured) return captured.take_status();
    if (captured.value()) {
      return {errc::unsupported,
              base::cat(on_->who(),
                        " cannot launch a graph on a stream that is being captured: the driver "
                        "refuses it; launch it after the capture, or record into an immediate "
                        "context")};
    }
    const context_guard in(on_->api(), native->on.context());
    return launch_now(native->raw);
  });
}

status executable::launch_now(abi::stream on) {
  calls_.for_each([](host_call& each) { each.expect(); });
  const abi::result answer = on_->api()->cuGraphLaunch(raw_, on);
  status launched = on_->check("launch a graph", answer);
  if (launched) return {};
  calls_.for_each([](host_call& each) { each.unexpect(); });
  if (!with_memory_ || answer != abi::result::invalid_value) return launched;
  return {errc::usage,
          base::cat(launched.text(),
                    "; memory that a body allocated and did not free is still there from the "
                    "launch before: free it in a body of the same graph")};
}

std::size_t executable::bytes() const noexcept {
  return sizeof *this + nodes_ * bytes_per_node + calls_.size() * sizeof(host_call);
}

status executable::update(abi::graph from, const host_calls& calls) {
  if (with_memory_) {
    return {errc::unsupported,
            base::cat(on_->who(),
                      " cannot update an executable graph whose bodies allocate memory: its "
                      "addresses belong to one graph; allocate before the recording, or "
                      "instantiate a new one")};
  }
  host_calls own(calls);
  abi::graph_update_info how{};
  const context_guard in(on_->api(), on_->context());
  const relaxed_capture allowed(on_->api());
  const abi::result answer = on_->api()->cuGraphExecUpdate(raw_, from, &how);
  if (answer == abi::result::graph_update_failure) {
    has_unsupported_ = how.result == abi::graph_update_result::not_supported;
    return {errc::unsupported,
            base::cat(on_->who(), " cannot update an executable graph: ", why_not(how.result),
                      culprit(on_->api(), how.node), "; instantiate a new one")};
  }
  if (status failed = on_->check("update a graph", answer); !failed) return failed;
  calls_ = std::move(own);
  return {};
}

}  // namespace millstream::backend::cuda
