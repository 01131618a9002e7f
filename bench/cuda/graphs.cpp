// SPDX-License-Identifier: Apache-2.0
// Recorded contexts next to the same graph made by calls of the driver: recorded for the first
// time, recorded again, and run.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/cuda/groups.hpp"

namespace ms = millstream;

namespace bench {
namespace {

/// A chain of kernels on one word, as a graph.
class hand_written_graph {
 public:
  explicit hand_written_graph(const gpu& on) : on_(on), word_(on, 64) {}
  hand_written_graph(const hand_written_graph&) = delete;
  hand_written_graph& operator=(const hand_written_graph&) = delete;
  ~hand_written_graph() {
    drop_graph();
    if (ready_ != nullptr) on_.call()->cuGraphExecDestroy(ready_);
  }

  void build(std::size_t nodes) {
    drop_graph();
    on_.check(on_.call()->cuGraphCreate(&graph_, 0), "make a graph");
    abi::graph_node last = nullptr;
    abi::device_pointer word = word_.start();
    for (std::size_t i = 0; i < nodes; ++i) {
      void* list[] = {&word};
      const abi::kernel_node what = on_.node(list);
      abi::graph_node made = nullptr;
      on_.check(on_.call()->cuGraphAddKernelNode(&made, graph_, &last, i == 0 ? 0 : 1, &what),
                "add a node");
      last = made;
    }
  }
  /// The same, captured: all kernels in one capture.
  void capture_at_once(std::size_t nodes) {
    drop_graph();
    on_.check(on_.call()->cuGraphCreate(&graph_, 0), "make a graph");
    begin_capture(nullptr, 0);
    for (std::size_t i = 0; i < nodes; ++i)
      on_.launch(on_.stream(), word_.start());
    end_capture();
  }
  /// The same, each in a capture of its own behind the one before, as bodies are.
  void capture_one_by_one(std::size_t nodes) {
    drop_graph();
    on_.check(on_.call()->cuGraphCreate(&graph_, 0), "make a graph");
    abi::graph_node last = nullptr;
    for (std::size_t i = 0; i < nodes; ++i) {
      begin_capture(&last, i == 0 ? 0 : 1);
      on_.launch(on_.stream(), word_.start());
      last = last_captured();
      end_capture();
    }
  }
  void instantiate() {
    if (ready_ != nullptr) on_.call()->cuGraphExecDestroy(ready_);
    abi::graph_instantiate_parameters how{};
    on_.check(on_.call()->cuGraphInstantiateWithParams(&ready_, graph_, &how), "instantiate");
  }
  void update() {
    abi::graph_update_info answer{};
    on_.check(on_.call()->cuGraphExecUpdate(ready_, graph_, &answer), "update");
  }
  void launch() { on_.check(on_.call()->cuGraphLaunch(ready_, on_.stream()), "launch a graph"); }
  void finish() { on_.finish(on_.stream()); }

 private:
  void begin_capture(const abi::graph_node* after, std::size_t count) {
    on_.check(on_.call()->cuStreamBeginCaptureToGraph(on_.stream(), graph_, after, nullptr, count,
                                                      abi::capture_mode::relaxed),
              "begin a capture");
  }
  void end_capture() {
    abi::graph into = nullptr;
    on_.check(on_.call()->cuStreamEndCapture(on_.stream(), &into), "end a capture");
  }
  [[nodiscard]] abi::graph_node last_captured() const {
    auto now = abi::capture_status::none;
    std::uint64_t id = 0;
    abi::graph into = nullptr;
    const abi::graph_node* ends = nullptr;
    const abi::graph_edge* edges = nullptr;
    std::size_t count = 0;
    on_.check(
        on_.call()->cuStreamGetCaptureInfo(on_.stream(), &now, &id, &into, &ends, &edges, &count),
        "look at a capture");
    return ends[0];
  }
  void drop_graph() {
    if (graph_ != nullptr) on_.call()->cuGraphDestroy(graph_);
    graph_ = nullptr;
  }
  const gpu& on_;
  device_block word_;
  abi::graph graph_ = nullptr;
  abi::executable_graph ready_ = nullptr;
};

[[nodiscard]] ms::context open_recorded(const session& in) {
  ms::context_options options;
  options.on = in.on;
  options.use_graph = true;
  return ms::context(options);
}

/// One stage: each task captured from its body.
void record(ms::context& ctx, const gpu& raw, const ms::logical_data<double>& x,
            std::size_t nodes) {
  for (std::size_t i = 0; i < nodes; ++i)
    ctx.task(x.rw(), [&raw](const ms::stream& s, auto v) { raw.launch(s, v); });
}

/// The same of kernels that are described.
void describe(ms::context& ctx, const gpu& raw, const ms::logical_data<double>& x,
              std::size_t nodes) {
  for (std::size_t i = 0; i < nodes; ++i) {
    ctx.kernel_task(x.rw(), [&raw](ms::kernel_launcher& k, auto v) {
      k.launch(raw.kernel(), ms::dims(1), ms::dims(1), v.data());
    });
  }
}

/// Ours and by hand in turns; the first run of both is left out.
template <class Ours, class Twin>
void pair(const session& in, row measured, std::size_t nodes, const Ours& ours, const Twin& twin) {
  for (std::size_t i = 0; i <= in.into.how().runs; ++i) {
    const double hand = us_of(twin) / static_cast<double>(nodes);
    const double mine = us_of(ours) / static_cast<double>(nodes);
    if (i == 0) continue;
    measured.by_hand.push_back(hand);
    measured.values.push_back(mine);
  }
  in.into.add(std::move(measured));
}

template <class Record>
void measure_first_run(const session& in, const std::string& how, std::size_t nodes,
                       const Record& record_all) {
  const std::string name =
      "C++ graph, " + how + ", recorded and run once, " + std::to_string(nodes) + " nodes";
  if (!in.into.wants(name)) return;
  hand_written_graph twin(in.by_hand);
  row measured{.name = name, .over_budget = 2.5, .values = {}, .by_hand = {}};
  pair(
      in, std::move(measured), nodes,
      [&] {
        ms::context ctx = open_recorded(in);
        const auto x = make_device_data(ctx);
        record_all(ctx, in.by_hand, x, nodes);
        drain(ctx);
        ctx.finalize();
      },
      [&] {
        twin.build(nodes);
        twin.instantiate();
        twin.launch();
        twin.finish();
      });
}

template <class Record>
void measure_update(const session& in, const std::string& how, std::size_t nodes,
                    const Record& record_all) {
  const std::string name =
      "C++ graph, " + how + ", recorded again and run, " + std::to_string(nodes) + " nodes";
  if (!in.into.wants(name)) return;
  hand_written_graph twin(in.by_hand);
  twin.build(nodes);
  twin.instantiate();
  ms::context ctx = open_recorded(in);
  const auto x = make_device_data(ctx);
  drain(ctx);
  row measured{.name = name, .over_budget = 1.5, .values = {}, .by_hand = {}};
  pair(
      in, std::move(measured), nodes,
      [&] {
        record_all(ctx, in.by_hand, x, nodes);
        drain(ctx);
      },
      [&] {
        twin.build(nodes);
        twin.update();
        twin.launch();
        twin.finish();
      });
}

/// Recording by itself; and all that is left then: the update, the launch, and the GPU's time.
/// By hand the graph is made in the same way, captured or described.
template <class Record>
void measure_halves(const session& in, const std::string& how, std::size_t nodes,
                    const Record& record_all, void (hand_written_graph::*build)(std::size_t)) {
  const std::string end = ", " + std::to_string(nodes) + " nodes";
  const std::string recording = "C++ graph, " + how + ", recording alone" + end;
  const std::string running = "C++ graph, " + how + ", updated and run" + end;
  if (!in.into.wants(recording) && !in.into.wants(running)) return;
  hand_written_graph twin(in.by_hand);
  (twin.*build)(nodes);
  twin.instantiate();
  ms::context ctx = open_recorded(in);
  const auto x = make_device_data(ctx);
  row record{.name = recording, .values = {}, .by_hand = {}};
  row run{.name = running, .ratio_budget = 1.02, .values = {}, .by_hand = {}};
  for (std::size_t i = 0; i <= in.into.how().runs; ++i) {
    drain(ctx);
    const auto per_node = [nodes](double took) { return took / static_cast<double>(nodes); };
    const double recorded = per_node(us_of([&] { record_all(ctx, in.by_hand, x, nodes); }));
    const double ran = per_node(us_of([&] { drain(ctx); }));
    const double built = per_node(us_of([&] { (twin.*build)(nodes); }));
    const double hand = per_node(us_of([&] {
      twin.update();
      twin.launch();
      twin.finish();
    }));
    if (i < 2) continue;  // the first ones are instantiated
    record.values.push_back(recorded);
    record.by_hand.push_back(built);
    run.values.push_back(ran);
    run.by_hand.push_back(hand);
  }
  if (in.into.how().runs < 2) return;
  in.into.add(std::move(record));
  in.into.add(std::move(run));
}

/// A word of host memory that a stream waits for, so that what is queued behind it begins at a
/// call.
class starting_gate {
 public:
  explicit starting_gate(const gpu& on) : on_(on), word_(on, host_block::kind::pinned, 64) {}
  void hold(abi::stream what) {
    word().store(0);
    on_.check(on_.call()->cuStreamWaitValue32(what, address(), 1,
                                              abi::wait_value_flags::greater_or_equal),
              "hold a stream");
  }
  void open() { word().store(1); }

 private:
  [[nodiscard]] std::atomic_ref<std::uint32_t> word() const {
    return std::atomic_ref<std::uint32_t>(*reinterpret_cast<std::uint32_t*>(word_.data()));
  }
  [[nodiscard]] abi::device_pointer address() const {
    return reinterpret_cast<abi::device_pointer>(word_.data());
  }
  const gpu& on_;
  host_block word_;
};

/// The word of a block on the device, which the context uses where it is.
ms::logical_data<double> in_device(ms::context& ctx, const device_block& word) {
  return ctx.logical_data(reinterpret_cast<double*>(static_cast<std::uintptr_t>(word.start())), 1,
                          ms::data_place::device(0));
}

/// The GPU's own time: everything is queued before it begins. Ours is in a stream of the caller's.
template <class Record>
void measure_gpu_time(const session& in, const std::string& how, std::size_t nodes,
                      const Record& record_all) {
  const std::string name =
      "C++ graph, " + how + ", time of the GPU alone, " + std::to_string(nodes) + " nodes";
  if (!in.into.wants(name) || in.by_hand.call()->cuStreamWaitValue32 == nullptr) return;
  const gpu& raw = in.by_hand;
  starting_gate gate(raw);
  hand_written_graph twin(raw);
  twin.capture_at_once(nodes);
  twin.instantiate();
  const device_block word(raw, 64);
  const ms::shared_resources kept;
  const auto run = [&](const auto& queue_all) {
    gate.hold(raw.stream());
    queue_all();
    return us_of([&] {
             gate.open();
             raw.finish(raw.stream());
           }) /
           static_cast<double>(nodes);
  };
  row measured{.name = name, .ratio_budget = 1.02, .values = {}, .by_hand = {}};
  for (std::size_t i = 0; i <= in.into.how().runs; ++i) {
    const double hand = run([&] { twin.launch(); });
    const double mine = run([&] {
      ms::context_options options;
      options.on = in.on;
      options.stream = reinterpret_cast<std::uint64_t>(raw.stream());
      options.use_graph = true;
      options.resources = kept;
      ms::context ctx(options);
      const auto x = in_device(ctx, word);
      record_all(ctx, raw, x, nodes);
      ctx.finalize();
    });
    if (i == 0) continue;
    measured.by_hand.push_back(hand);
    measured.values.push_back(mine);
  }
  in.into.add(std::move(measured));
}

/// What a captured body costs the driver alone: a capture for each kernel, next to one for all.
void measure_captures(const session& in, std::size_t nodes) {
  const std::string name =
      "CUDA graph by hand, a capture for each kernel, " + std::to_string(nodes) + " nodes";
  if (!in.into.wants(name)) return;
  hand_written_graph each(in.by_hand);
  hand_written_graph all(in.by_hand);
  pair(
      in, {.name = name, .values = {}, .by_hand = {}}, nodes,
      [&] { each.capture_one_by_one(nodes); }, [&] { all.capture_at_once(nodes); });
}

}  // namespace

void measure_graphs(const session& in) {
  for (const std::size_t full : {500U, 50'000U}) {
    const std::size_t nodes = in.into.how().amount(full);
    measure_first_run(in, "captured", nodes, record);
    measure_first_run(in, "described", nodes, describe);
    measure_update(in, "captured", nodes, record);
    measure_update(in, "described", nodes, describe);
    measure_halves(in, "captured", nodes, record, &hand_written_graph::capture_at_once);
    measure_halves(in, "described", nodes, describe, &hand_written_graph::build);
    measure_gpu_time(in, "captured", nodes, record);
    measure_gpu_time(in, "described", nodes, describe);
    measure_captures(in, nodes);
  }
}

}  // namespace bench
