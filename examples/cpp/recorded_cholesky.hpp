// SPDX-License-Identifier: Apache-2.0
// Tiled Cholesky factorisations of A + kI for k = 0, 1, 2, ..., recorded anew for each k. What is
// done with tiles comes from recorded_cholesky.cpp (loops of host code) or recorded_cholesky.cu
// (kernels for GPUs).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <utility>
#include <vector>

#include <millstream/millstream.hpp>

namespace ms = millstream;

inline constexpr std::size_t tile = 32;
inline constexpr std::size_t tiles = 4;
inline constexpr std::size_t size = tile * tiles;
inline constexpr int steps = 6;

/// The tiles of the lower half, each a datum of its own.
class lower_tiles {
 public:
  explicit lower_tiles(ms::context_ref ctx) {
    for (std::size_t i = 0; i < tiles * (tiles + 1) / 2; ++i)
      data_.push_back(ctx.logical_data<double>(tile, tile));
  }
  ms::logical_data<double, 2>& at(std::size_t i, std::size_t j) {
    return data_[i * (i + 1) / 2 + j];
  }

 private:
  std::vector<ms::logical_data<double, 2>> data_;
};

inline ms::exec_place place_of(const ms::context& ctx, std::size_t i, std::size_t j) {
  return ms::exec_place::device(static_cast<int>(i + j) % ctx.where().device_count());
}

/// Everything in plain order; the order that is needed follows from the accesses.
template <class Operations>
void submit_step(ms::context& ctx, const Operations& on, lower_tiles& a, double shift) {
  const auto at = [&](std::size_t i, std::size_t j) { return place_of(ctx, i, j); };
  for (std::size_t i = 0; i < tiles; ++i) {
    for (std::size_t j = 0; j <= i; ++j)
      ctx.task(at(i, j), a.at(i, j).write(), on.assemble(i * tile, j * tile, shift));
  }
  for (std::size_t p = 0; p < tiles; ++p) {
    ctx.task(at(p, p), a.at(p, p).rw(), on.potrf());
    for (std::size_t i = p + 1; i < tiles; ++i)
      ctx.task(at(i, p), a.at(p, p).read(), a.at(i, p).rw(), on.trsm());
    for (std::size_t j = p + 1; j < tiles; ++j) {
      ctx.task(at(j, j), a.at(j, p).read(), a.at(j, j).rw(), on.syrk());
      for (std::size_t i = j + 1; i < tiles; ++i)
        ctx.task(at(i, j), a.at(i, p).read(), a.at(j, p).read(), a.at(i, j).rw(), on.gemm());
    }
  }
}

/// The largest element of L L^T - A, in absolute value. The first wait launches what was recorded.
inline double error_of(ms::context& ctx, lower_tiles& factor, double shift) {
  std::vector<double> l(size * size, 0.0);
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      if (i % tile != 0 || j % tile != 0) continue;
      const ms::array<double, 2> part = ctx.wait(factor.at(i / tile, j / tile));
      for (std::size_t r = 0; r < tile; ++r) {
        for (std::size_t c = 0; c < tile && j + c <= i + r; ++c)
          l[(i + r) * size + j + c] = part(r, c);
      }
    }
  }
  double worst = 0.0;
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = i == j ? static_cast<double>(size) + shift : 0.0;
      sum += 1.0 / (1.0 + static_cast<double>(i - j));
      for (std::size_t k = 0; k <= j; ++k)
        sum -= l[i * size + k] * l[j * size + k];
      worst = std::max(worst, std::abs(sum));
    }
  }
  return worst;
}

/// What the program ends with.
template <class Operations>
int factorise(const ms::machine& where, const Operations& on) {
  ms::context_options options;
  options.on = where;
  options.use_graph = true;
  ms::context ctx(std::move(options));
  lower_tiles a(ctx);
  double worst = 0.0;
  for (int step = 0; step < steps; ++step) {
    submit_step(ctx, on, a, step);
    worst = std::max(worst, error_of(ctx, a, step));
  }
  const ms::recording_stats counts = ctx.stats().recording;
  ctx.finalize();
  std::printf("%d factorisations, largest error %g; %llu graph made ready, %llu times updated\n",
              steps, worst, static_cast<unsigned long long>(counts.instantiations),
              static_cast<unsigned long long>(counts.updates));
  return worst < 1e-10 && counts.instantiations == 1 && counts.updates == steps - 1 ? 0 : 1;
}
