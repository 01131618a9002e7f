// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/graph.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "backend/cuda/executable.hpp"
#include "backend/cuda/kept.hpp"
#include "backend/cuda/queue.hpp"
#include "backend/guarded.hpp"
#include "backend/missing.hpp"
#include "base/text.hpp"

namespace millstream::backend::cuda {
namespace {

/// A file that the driver can write to by name; removed at the end.
class passing_file {
 public:
  passing_file() {
    const int file = mkstemp(name_.data());
    if (file < 0) return;
    close(file);
    is_there_ = true;
  }
  ~passing_file() {
    if (is_there_) unlink(name_.c_str());
  }
  passing_file(const passing_file&) = delete;
  passing_file& operator=(const passing_file&) = delete;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] bool is_there() const noexcept { return is_there_; }
  [[nodiscard]] std::string text() const {
    std::ifstream file(name_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::string name_ = (std::filesystem::temp_directory_path() / "millstream-graph-XXXXXX").string();
  bool is_there_ = false;
};

}  // namespace

result<std::unique_ptr<graph>> graph::make(std::shared_ptr<device_state> on) {
  abi::graph made = nullptr;
  if (status failed = on->check("make a graph", on->api()->cuGraphCreate(&made, 0)); !failed) {
    return failed;
  }
  return std::make_unique<graph>(std::move(on), made);
}

result<std::unique_ptr<graph>> graph::adopt(std::shared_ptr<device_state> on,
                                            std::uint64_t native) {
  const auto raw = reinterpret_cast<abi::graph>(static_cast<std::uintptr_t>(native));
  std::size_t nodes = 0;
  if (raw == nullptr || on->api()->cuGraphGetNodes(raw, nullptr, &nodes) != abi::result::success) {
    return status(errc::invalid_value, base::cat(on->who(), " knows no graph with the handle ",
                                                 native, "; pass that of a CUgraph"));
  }
  return std::make_unique<graph>(std::move(on), raw, owner::caller, nodes);
}

graph::graph(std::shared_ptr<device_state> on, abi::graph raw, owner whose, std::size_t nodes)
    : on_(std::move(on)),
      alive_(on_->machine().live),
      raw_(raw),
      of_(whose),
      bodies_(raw),
      nodes_(nodes) {}

graph::~graph() {
  if (base::forked_child() || of_ != owner::us) return;
  bodies_.abandon();
  if (bodies_.is_graph_gone()) return;
  const relaxed_capture allowed(on_->api());
  on_->api()->cuGraphDestroy(raw_);
}

status graph::enter(call kind, capability wanted) const {
  if (status refused = on_->machine().gate.pass(kind, on_->who()); !refused) return refused;
  if (!on_->machine().bits.has(wanted)) return missing(on_->who(), "use graphs", wanted);
  if (status refused = on_->open(); !refused) return refused;
  if (!bodies_.has_failed()) return {};
  return guarded(on_->who(), [&] { return bodies_.failure(); });
}

status graph::check_whole() const {
  if (!bodies_.is_recording()) return {};
  return guarded(on_->who(), [&] {
    return status(errc::usage,
                  base::cat(on_->who(),
                            " cannot use a graph while it is recorded into; end its bodies and "
                            "release its queues first"));
  });
}

status graph::begin_body(backend::queue& on, node_span after) {
  if (status refused = enter(call::graph_body, capability::capture_to_graph); !refused)
    return refused;
  return guarded(on_->who(), [&]() -> status {
    stream* const native = static_cast<any_queue&>(on).native();
    if (native == nullptr) {
      return {errc::unsupported,
              base::cat(on_->who(),
                        " cannot record a queue of the host side; add its jobs to the "
                        "graph as host functions")};
    }
    had_bodies_ = true;
    is_counted_ = false;
    return bodies_.begin(*native, after);
  });
}

status graph::end_body(backend::queue& on, node_list& last) {
  last.clear();
  if (base::forked_child()) return call_gate::refuse_child(on_->who());
  return guarded(on_->who(), [&]() -> status {
    stream* const native = static_cast<any_queue&>(on).native();
    if (native == nullptr) {
      return {errc::usage,
              base::cat(on_->who(), " cannot end a body that was not begun; begin it first")};
    }
    status injected = on_->machine().gate.pass(call::graph_body, on_->who());
    if (injected) return bodies_.end(*native, last);
    if (status wrong = bodies_.end(*native, last); !wrong) return wrong;
    last.clear();
    bodies_.note_failure(injected);
    return injected;
  });
}

status graph::record_into(backend::queue& on) {
  if (status refused = enter(call::graph_launch, capability::capture_to_graph); !refused)
    return refused;
  if (status open = check_whole(); !open) return open;
  return guarded(on_->who(), [&]() -> status {
    stream* const native = static_cast<any_queue&>(on).native();
    if (native == nullptr) {
      return {errc::unsupported,
              base::cat(on_->who(),
                        " cannot record a graph into a queue of the host side; use a "
                        "queue of a device")};
    }
    auto place = look_at_capture(*native);
    if (!place) return place.take_status();
    if (status failed = let_others_launch(); !failed) return failed;
    return record_at(*native, place.value());
  });
}

status graph::record_at(stream& on, const capture_place& place) {
  const context_guard in(on.on.api(), on.on.context());
  abi::graph_node made = nullptr;
  const abi::result answer =
      on_->api()->cuGraphAddChildGraphNode(&made, place.into, place.after, place.count, raw_);
  if (answer != abi::result::success) return refuse_child_graph(*this, answer);
  return on_->check("go on behind a graph in a recording",
                    on_->api()->cuStreamUpdateCaptureDependencies(
                        on.raw, &made, nullptr, 1, abi::capture_dependencies_flags::set));
}

status graph::keep(std::shared_ptr<void> what) {
  if (status refused = enter(call::graph_add, capability::graphs); !refused) return refused;
  return guarded(on_->who(), [&] { return keep_in(*on_, raw_, std::move(what)); });
}

status graph::may_be_part() const {
  if (status refused = enter(call::graph_add, capability::graphs); !refused) return refused;
  return guarded(on_->who(), [&]() -> status {
    const char* const kind =
        has_memory_in_parts_ ? "memory allocation" : part_refusal(on_->api(), raw_, node_count());
    if (kind == nullptr) return {};
    return {errc::unsupported,
            base::cat(on_->who(), " cannot make a graph with a ", kind,
                      " node a part of another one: the driver copies none of these; make the "
                      "graph without it, or use it where it is launched by itself")};
  });
}

result<std::uint64_t> graph::hand_out() {
  if (status refused = enter(call::graph_add, capability::graphs); !refused) return refused;
  if (status open = check_whole(); !open) return open;
  return guarded(on_->who(), [&]() -> result<std::uint64_t> {
    if (status failed = let_others_launch(); !failed) return failed;
    is_handed_out_ = true;
    is_counted_ = false;
    return reinterpret_cast<std::uint64_t>(raw_);
  });
}

// Launches of others do not say that they will call what host nodes call.
status graph::let_others_launch() {
  if (calls_.size() == 0) return {};
  calls_.for_each([](host_call& each) { each.expect_always(); });
  return keep_in(*on_, raw_, std::make_shared<host_calls>(calls_));
}

status graph::release_queues() {
  if (base::forked_child()) return call_gate::refuse_child(on_->who());
  return guarded(on_->who(), [&] { return bodies_.release(*on_); });
}

std::size_t graph::node_count() const noexcept {
  const bool may_ask = !base::forked_child() && !bodies_.is_graph_gone() &&
                       on_->machine().bits.has(capability::graphs);
  if (!may_ask) return 0;
  if (is_counted_) return nodes_;
  nodes_ = count_nodes(on_->api(), raw_);
  is_counted_ = !is_handed_out_ && !bodies_.is_recording();
  return nodes_;
}

result<std::unique_ptr<executable_graph>> graph::instantiate() {
  using answer = result<std::unique_ptr<executable_graph>>;
  if (status refused = enter(call::graph_instantiate, capability::graphs); !refused) return refused;
  if (status open = check_whole(); !open) return open;
  return guarded(on_->who(), [&]() -> answer {
    const std::size_t nodes = node_count();
    auto made = executable::make(on_, raw_, calls_, nodes, has_memory());
    if (!made) return made.take_status();
    return std::unique_ptr<executable_graph>(std::move(made.value()));
  });
}

bool graph::has_memory() const {
  if (has_memory_in_parts_) return true;
  const bool is_possible = had_bodies_ || of_ == owner::caller;
  return is_possible && owns_memory(on_->api(), raw_, node_count());
}

status graph::update(executable_graph& target) {
  if (status refused = enter(call::graph_update, capability::graphs); !refused) return refused;
  if (status open = check_whole(); !open) return open;
  return guarded(on_->who(), [&] { return static_cast<executable&>(target).update(raw_, calls_); });
}

result<std::string> graph::dot() const {
  if (base::forked_child()) return call_gate::refuse_child(on_->who());
  if (!on_->machine().bits.has(capability::graphs)) {
    return missing(on_->who(), "draw graphs", capability::graphs);
  }
  if (bodies_.is_graph_gone()) return guarded(on_->who(), [&] { return bodies_.failure(); });
  return guarded(on_->who(), [&]() -> result<std::string> {
    const passing_file file;
    if (!file.is_there()) {
      return status(
          errc::unavailable,
          base::cat(on_->who(), " cannot draw a graph: the file ", base::quoted(file.name()),
                    " cannot be made; set TMPDIR to a folder that can be written"));
    }
    constexpr std::uint32_t short_form = 0;
    const abi::result answer =
        on_->api()->cuGraphDebugDotPrint(raw_, file.name().c_str(), short_form);
    if (status failed = on_->check("draw a graph", answer); !failed) return failed;
    return file.text();
  });
}

}  // namespace millstream::backend::cuda
