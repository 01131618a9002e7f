// SPDX-License-Identifier: Apache-2.0
// Copies that tasks cause, against the same bytes copied by hand; what a wait and a registration
// cost.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "bench/cuda/groups.hpp"

namespace ms = millstream;

namespace bench {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20U;
/// Time may be at most this much of the hand-written copy's: 95 % of its rate.
constexpr double copy_ratio = 1 / 0.95;

using host_kind = host_block::kind;
using bytes = std::span<unsigned char>;

/// Memory that has an owner may be page-locked; this one outlives everything.
template <class Byte>
ms::logical_data<Byte> hand_over(ms::context& ctx, const bytes& what) {
  const std::shared_ptr<Byte[]> owned(what.data(), [](Byte*) {});
  return ctx.logical_data(owned, ms::shape<1>(what.size()));
}

/// Blocks of one size, enough of them that the last wait does not count.
struct blocks {
  blocks(const session& in, host_kind kind, std::size_t block_size)
      : size(block_size),
        count(in.into.how().quick ? 2 : std::clamp<std::size_t>(256 * mib / block_size, 1, 64)),
        ours(in.by_hand, kind, size * count),
        hand(in.by_hand, kind, size * count),
        device(in.by_hand, size * count) {}
  [[nodiscard]] bytes block(std::size_t index) const { return {ours.data() + index * size, size}; }

  std::size_t size;
  std::size_t count;
  host_block ours;
  host_block hand;
  device_block device;
};

/// Reads by tasks of data that are on the host only.
double copy_in(ms::context& ctx, const blocks& of) {
  std::vector<ms::logical_data<const unsigned char>> data;
  for (std::size_t i = 0; i < of.count; ++i)
    data.push_back(hand_over<const unsigned char>(ctx, of.block(i)));
  return us_of([&] {
    for (const auto& each : data)
      ctx.task(each.read(), [](const ms::stream&, auto) {});
    drain(ctx);
  });
}

/// The write-back of data that tasks have written.
double copy_out(ms::context& ctx, const blocks& of) {
  std::vector<ms::logical_data<unsigned char>> data;
  for (std::size_t i = 0; i < of.count; ++i) {
    data.push_back(hand_over<unsigned char>(ctx, of.block(i)));
    ctx.task(data.back().write(), [](const ms::stream&, auto) {});
  }
  drain(ctx);
  return us_of([&] {
    data.clear();
    drain(ctx);
  });
}

double hand_in(const gpu& raw, const blocks& of) {
  return us_of([&] {
    for (std::size_t i = 0; i < of.count; ++i) {
      const std::size_t at = i * of.size;
      raw.check(raw.call()->cuMemcpyHtoDAsync(of.device.start() + at, of.hand.data() + at, of.size,
                                              raw.stream()),
                "copy to the device");
    }
    raw.finish(raw.stream());
  });
}

double hand_out(const gpu& raw, const blocks& of) {
  return us_of([&] {
    for (std::size_t i = 0; i < of.count; ++i) {
      const std::size_t at = i * of.size;
      raw.check(raw.call()->cuMemcpyDtoHAsync(of.hand.data() + at, of.device.start() + at, of.size,
                                              raw.stream()),
                "copy to the host");
    }
    raw.finish(raw.stream());
  });
}

bool is_page_locked(const gpu& raw, const unsigned char* what) {
  auto type = abi::memory_type::unified;
  return raw.call()->cuPointerGetAttribute(&type, abi::pointer_attribute::memory_type,
                                           reinterpret_cast<abi::device_pointer>(what)) ==
         abi::result::success;
}

/// Page-locks are undone behind the program's back, which would slow what is measured next and make
/// the next page-lock of the same memory wait.
void wait_until_unlocked(const gpu& raw, const blocks& of) {
  for (std::size_t i = 0; i < of.count; ++i) {
    for (int tries = 0; tries < 5'000 && is_page_locked(raw, of.block(i).data()); ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

struct direction {
  const char* name;
  double (*ours)(ms::context& ctx, const blocks& of);
  double (*hand)(const gpu& raw, const blocks& of);
};
constexpr direction directions[] = {{"H2D", copy_in, hand_in}, {"D2H", copy_out, hand_out}};

void measure_copy(const session& in, const direction& way, host_kind kind, std::size_t size) {
  const std::string name = std::string("copy ") + way.name +
                           (kind == host_kind::pinned ? ", pinned, " : ", pageable, ") +
                           std::to_string(size / mib) + " MiB";
  if (!in.into.wants(name)) return;
  row measured{.name = name, .unit = "us", .ratio_budget = copy_ratio, .values = {}, .by_hand = {}};
  const blocks of(in, kind, size);
  ms::context ctx{in.on};
  for (std::size_t i = 0; i <= in.into.how().runs; ++i) {
    const double hand = way.hand(in.by_hand, of);
    const double mine = way.ours(ctx, of);
    if (kind == host_kind::pageable) wait_until_unlocked(in.by_hand, of);
    if (i == 0) continue;
    measured.by_hand.push_back(hand / static_cast<double>(of.count));
    measured.values.push_back(mine / static_cast<double>(of.count));
  }
  in.into.add(std::move(measured));
}

void measure_wait(const session& in) {
  const std::string name = "C++ wait for a small datum on the device";
  if (!in.into.wants(name)) return;
  row measured{.name = name, .unit = "us", .budget = 12, .values = {}, .by_hand = {}};
  const std::size_t count = in.into.how().amount(1'000);
  const device_block source(in.by_hand, 512);
  const host_block target(in.by_hand, host_kind::pageable, 512);
  ms::context ctx{in.on};
  const auto x = make_device_data(ctx);
  const auto per_call = [count](double took) { return took / static_cast<double>(count); };
  for (std::size_t i = 0; i <= in.into.how().runs; ++i) {
    const double hand = us_of([&] {
      for (std::size_t j = 0; j < count; ++j) {
        in.by_hand.check(in.by_hand.call()->cuMemcpyDtoHAsync(target.data(), source.start(), 512,
                                                              in.by_hand.stream()),
                         "copy to the host");
        in.by_hand.finish(in.by_hand.stream());
      }
    });
    const double mine = us_of([&] {
      for (std::size_t j = 0; j < count; ++j)
        static_cast<void>(ctx.wait(x));
    });
    if (i == 0) continue;
    measured.by_hand.push_back(per_call(hand));
    measured.values.push_back(per_call(mine));
  }
  in.into.add(std::move(measured));
}

/// A buffer registered, changed by a task and back again: what a NumPy array goes through.
struct round_trip {
  double registered_us = 0;
  double whole_us = 0;
};

round_trip go_round(ms::context& ctx, const bytes& buffer) {
  round_trip took;
  took.whole_us = us_of([&] {
    ms::logical_data<unsigned char> datum;
    took.registered_us = us_of([&] { datum = hand_over<unsigned char>(ctx, buffer); });
    ctx.task(datum.rw(), [](const ms::stream&, auto) {});
    datum = {};
    drain(ctx);
  });
  return took;
}

void measure_round_trip(const session& in, std::size_t size) {
  const std::string text = std::to_string(size / mib) + " MiB, pageable";
  const std::string name = "round trip of " + text;
  if (!in.into.wants(name)) return;
  // The budgets are those of 1 GiB.
  const double budget = size == 1024 * mib ? 45'000 : 0;
  row registered{.name = "registration of " + text, .unit = "us", .values = {}, .by_hand = {}};
  row first{.name = name + ", first", .unit = "us", .budget = budget, .values = {}, .by_hand = {}};
  row again{.name = name + ", again", .unit = "us", .budget = budget, .values = {}, .by_hand = {}};
  ms::context ctx{in.on};
  for (std::size_t i = 0; i < std::min<std::size_t>(in.into.how().runs, 5); ++i) {
    const host_block fresh(in.by_hand, host_kind::pageable, size);
    const bytes buffer(fresh.data(), size);
    const round_trip took = go_round(ctx, buffer);
    registered.values.push_back(took.registered_us);
    first.values.push_back(took.whole_us);
    again.values.push_back(go_round(ctx, buffer).whole_us);
  }
  in.into.add(std::move(registered));
  in.into.add(std::move(first));
  in.into.add(std::move(again));
}

}  // namespace

void measure_copies(const session& in) {
  // Room for the hand-written twin's block, ours, and a pooled one.
  const std::size_t room = in.by_hand.free_bytes() / 4 / mib;
  const std::size_t asked = in.into.how().most_mib == 0 ? 1024 : in.into.how().most_mib;
  const std::size_t most = std::min({room, asked, std::size_t{1024}});
  for (const direction& way : directions) {
    for (const host_kind kind : {host_kind::pageable, host_kind::pinned}) {
      for (std::size_t size = 1; size <= most; size *= size < 64 ? 8 : 16)
        measure_copy(in, way, kind, size * mib);
    }
  }
  measure_wait(in);
  measure_round_trip(in, most * mib);
}

}  // namespace bench
