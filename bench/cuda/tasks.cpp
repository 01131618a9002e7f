// SPDX-License-Identifier: Apache-2.0
// What a task costs: nothing in it, one kernel in it, and a fork with a join.
#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "bench/cuda/groups.hpp"

namespace ms = millstream;

namespace bench {
namespace {

/// A row of `submit(ctx)` many times, by the clock, without the work that it queues.
template <class Make>
void submission(const session& in, const std::string& name, double budget, const Make& make) {
  if (!in.into.wants(name)) return;
  row measured{.name = name, .unit = "us", .budget = budget, .values = {}, .by_hand = {}};
  const std::size_t count = in.into.how().amount(20'000);
  ms::context ctx{in.on};
  const auto submit = make(ctx);
  const auto batch = [&] {
    for (std::size_t i = 0; i < count; ++i)
      submit();
  };
  for (std::size_t i = 0; i <= in.into.how().runs; ++i) {
    const double took = us_of(batch) / static_cast<double>(count);
    drain(ctx);
    if (i > 0) measured.values.push_back(took);  // the first one warms up
  }
  in.into.add(std::move(measured));
}

void measure_empty_tasks(const session& in) {
  submission(in, "C++ empty task, read + rw", 0.35, [](ms::context& ctx) {
    return [&ctx, x = make_device_data(ctx), y = make_device_data(ctx)] {
      ctx.task(x.read(), y.rw(), [](const ms::stream&, auto, auto) {});
    };
  });
  submission(in, "C++ empty task, three data", 0, [](ms::context& ctx) {
    return [&ctx, x = make_device_data(ctx), y = make_device_data(ctx), z = make_device_data(ctx)] {
      ctx.task(x.read(), y.read(), z.rw(), [](const ms::stream&, auto, auto, auto) {});
    };
  });
  submission(in, "C++ empty task, token", 0, [](ms::context& ctx) {
    return [&ctx, order = ctx.token()] { ctx.task(order.rw(), [] {}); };
  });
  submission(in, "C++ empty task on fresh temporary data", 0.9, [](ms::context& ctx) {
    return [&ctx] {
      const auto temporary = ctx.logical_data<double>(64);
      ctx.task(temporary.write(), [](const ms::stream&, auto) {});
    };
  });
  submission(in, "C++ empty task, start and end", 0, [](ms::context& ctx) {
    return [&ctx, x = make_device_data(ctx), y = make_device_data(ctx)] {
      auto task = ctx.task();
      task.add_deps(x.read(), y.rw());
      task.start();
      task.end();
    };
  });
}

/// Both in turns, each until its work has ended; `count` units of work each.
template <class Ours, class Twin>
void pair(const session& in, row measured, std::size_t count, const Ours& ours, const Twin& twin) {
  const auto per_unit = [count](double took) { return took / static_cast<double>(count); };
  for (std::size_t i = 0; i <= in.into.how().runs; ++i) {
    const double hand = per_unit(us_of(twin));
    const double mine = per_unit(us_of(ours));
    if (i == 0) continue;
    measured.by_hand.push_back(hand);
    measured.values.push_back(mine);
  }
  in.into.add(std::move(measured));
}

void measure_kernel_chain(const session& in) {
  const std::string name = "C++ one kernel per task, chain";
  if (!in.into.wants(name)) return;
  const gpu& raw = in.by_hand;
  const std::size_t count = in.into.how().amount(10'000);
  const device_block block(raw, 512);
  ms::context ctx{in.on};
  const auto x = make_device_data(ctx);
  pair(
      in, {.name = name, .unit = "us", .ratio_budget = 1.10, .values = {}, .by_hand = {}}, count,
      [&] {
        for (std::size_t i = 0; i < count; ++i)
          ctx.task(x.rw(), [&raw](const ms::stream& s, auto v) { raw.launch(s, v); });
        drain(ctx);
      },
      [&] {
        for (std::size_t i = 0; i < count; ++i)
          raw.launch(raw.stream(), block.start());
        raw.finish(raw.stream());
      });
}

/// One kernel, then `branches` kernels beside each other, then one behind all of them.
class hand_written_fork {
 public:
  hand_written_fork(const gpu& on, std::size_t branches)
      : on_(on), block_(on, 64 * (branches + 1)), root_(on.make_event()) {
    for (std::size_t i = 0; i < branches; ++i) {
      streams_.push_back(on.make_stream());
      ends_.push_back(on.make_event());
    }
  }
  hand_written_fork(const hand_written_fork&) = delete;
  hand_written_fork& operator=(const hand_written_fork&) = delete;
  ~hand_written_fork() {
    on_.destroy(root_);
    for (const abi::stream each : streams_)
      on_.destroy(each);
    for (const abi::event each : ends_)
      on_.destroy(each);
  }
  void operator()() const {
    const auto& call = on_.call();
    on_.launch(on_.stream(), block_.start());
    call->cuEventRecord(root_, on_.stream());
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      // One branch goes on in the stream of the root, as anybody would write it.
      const abi::stream branch = i == 0 ? on_.stream() : streams_[i];
      if (i > 0) call->cuStreamWaitEvent(branch, root_, abi::event_wait_flags::none);
      on_.launch(branch, block_.start() + 64 * (i + 1));
      if (i > 0) call->cuEventRecord(ends_[i], branch);
    }
    for (std::size_t i = 1; i < streams_.size(); ++i)
      call->cuStreamWaitEvent(on_.stream(), ends_[i], abi::event_wait_flags::none);
    on_.launch(on_.stream(), block_.start());
  }

 private:
  const gpu& on_;
  device_block block_;
  abi::event root_;
  std::vector<abi::stream> streams_;
  std::vector<abi::event> ends_;
};

void submit_fork(ms::context& ctx, const gpu& raw, const ms::logical_data<double>& root,
                 const std::vector<ms::logical_data<double>>& branches) {
  ctx.task(root.rw(), [&raw](const ms::stream& s, auto v) { raw.launch(s, v); });
  for (const auto& each : branches) {
    ctx.task(root.read(), each.rw(),
             [&raw](const ms::stream& s, auto, auto v) { raw.launch(s, v); });
  }
  auto join = ctx.task();
  join.add_deps(root.rw());
  for (const auto& each : branches)
    join.add_deps(each.read());
  join.start();
  raw.launch(join.get_stream(), join.get<ms::view<double>>(0));
  join.end();
}

void measure_fork(const session& in, std::size_t branches) {
  const std::string name = "C++ fork and join of " + std::to_string(branches) + ", per kernel";
  if (!in.into.wants(name)) return;
  const std::size_t rounds = in.into.how().amount(1'000);
  const hand_written_fork twin(in.by_hand, branches);
  ms::context ctx{in.on};
  const auto root = make_device_data(ctx);
  std::vector<ms::logical_data<double>> data;
  for (std::size_t i = 0; i < branches; ++i)
    data.push_back(make_device_data(ctx));
  pair(
      in, {.name = name, .unit = "us", .values = {}, .by_hand = {}}, rounds * (branches + 2),
      [&] {
        for (std::size_t i = 0; i < rounds; ++i)
          submit_fork(ctx, in.by_hand, root, data);
        drain(ctx);
      },
      [&] {
        for (std::size_t i = 0; i < rounds; ++i)
          twin();
        in.by_hand.finish(in.by_hand.stream());
      });
}

}  // namespace

void measure_tasks(const session& in) {
  measure_empty_tasks(in);
  measure_kernel_chain(in);
  for (const std::size_t branches : {2U, 4U, 8U})
    measure_fork(in, branches);
}

}  // namespace bench
