// SPDX-License-Identifier: Apache-2.0
// C = A B in tiles, each tile a datum of its own, the rows of tiles spread over all devices. Tiles
// move between devices when a task needs them there.
#include <cstdio>
#include <vector>

#include <millstream/millstream.hpp>

namespace ms = millstream;

constexpr std::size_t tile = 32;
constexpr std::size_t tiles = 4;

/// tiles x tiles data of one tile each.
class tiled_matrix {
 public:
  explicit tiled_matrix(ms::context& ctx) {
    for (std::size_t i = 0; i < tiles * tiles; ++i) {
      data_.push_back(ctx.logical_data<double>(tile, tile));
    }
  }
  ms::logical_data<double, 2>& at(std::size_t i, std::size_t j) { return data_[i * tiles + j]; }

 private:
  std::vector<ms::logical_data<double, 2>> data_;
};

void multiply_add(ms::view<const double, 2> a, ms::view<const double, 2> b, ms::view<double, 2> c) {
  for (std::size_t i = 0; i < c.extent(0); ++i) {
    for (std::size_t k = 0; k < a.extent(1); ++k) {
      for (std::size_t j = 0; j < c.extent(1); ++j)
        c(i, j) += a(i, k) * b(k, j);
    }
  }
}

int main() {
  ms::context ctx(ms::machine({.name = "host"}));
  const int devices = ctx.where().device_count();
  tiled_matrix a(ctx);
  tiled_matrix b(ctx);
  tiled_matrix c(ctx);

  for (std::size_t i = 0; i < tiles; ++i) {
    const auto place = ms::exec_place::device(static_cast<int>(i) % devices);
    for (std::size_t j = 0; j < tiles; ++j) {
      // a(r, s) = r, b(r, s) = s
      ctx.parallel_for(place, ms::shape(tile, tile), a.at(i, j).write(), b.at(i, j).write(),
                       [i, j](std::size_t r, std::size_t s, auto va, auto vb) {
                         va(r, s) = static_cast<double>(i * tile + r);
                         vb(r, s) = static_cast<double>(j * tile + s);
                       });
      ctx.fill(c.at(i, j), 0.0);
    }
  }
  for (std::size_t i = 0; i < tiles; ++i) {
    const auto place = ms::exec_place::device(static_cast<int>(i) % devices);
    for (std::size_t j = 0; j < tiles; ++j) {
      for (std::size_t k = 0; k < tiles; ++k) {
        ctx.task(place, a.at(i, k).read(), b.at(k, j).read(), c.at(i, j).rw(), multiply_add);
      }
    }
  }

  const ms::array<double, 2> corner = ctx.wait(c.at(tiles - 1, 1));
  const double row = tiles * tile - 1;
  const double column = tile;
  const double expected = row * column * tiles * tile;
  std::printf("c = %g, expected %g; %llu copies between places\n", corner(tile - 1, 0), expected,
              static_cast<unsigned long long>(ctx.stats().copies));
  return corner(tile - 1, 0) == expected ? 0 : 1;
}
