// SPDX-License-Identifier: Apache-2.0
// Tiled Cholesky recorded at each step, on the host machine; recorded_cholesky.hpp has the tasks,
// recorded_cholesky.cu the same for GPUs.
#include "recorded_cholesky.hpp"

using tile_view = ms::view<double, 2>;
using input_view = ms::view<const double, 2>;

namespace {

/// Each gives the body of a task.
struct host_operations {
  static auto assemble(std::size_t row, std::size_t column, double shift) {
    return [=](tile_view t) {
      for (std::size_t r = 0; r < tile; ++r) {
        for (std::size_t c = 0; c < tile; ++c) {
          const std::size_t i = row + r;
          const std::size_t j = column + c;
          t(r, c) = 1.0 / (1.0 + static_cast<double>(i > j ? i - j : j - i));
          if (i == j) t(r, c) += static_cast<double>(size) + shift;
        }
      }
    };
  }
  static auto potrf() {
    return [](tile_view t) {
      for (std::size_t k = 0; k < tile; ++k) {
        t(k, k) = std::sqrt(t(k, k));
        for (std::size_t r = k + 1; r < tile; ++r)
          t(r, k) /= t(k, k);
        for (std::size_t r = k + 1; r < tile; ++r) {
          for (std::size_t c = k + 1; c <= r; ++c)
            t(r, c) -= t(r, k) * t(c, k);
        }
      }
    };
  }
  static auto trsm() {
    return [](input_view pivot, tile_view t) {
      for (std::size_t r = 0; r < tile; ++r) {
        for (std::size_t c = 0; c < tile; ++c) {
          for (std::size_t k = 0; k < c; ++k)
            t(r, c) -= t(r, k) * pivot(c, k);
          t(r, c) /= pivot(c, c);
        }
      }
    };
  }
  static auto gemm() { return &subtract_product; }
  static auto syrk() {
    return [](input_view left, tile_view t) { subtract_product(left, left, t); };
  }
  static void subtract_product(input_view left, input_view top, tile_view t) {
    for (std::size_t r = 0; r < tile; ++r) {
      for (std::size_t c = 0; c < tile; ++c) {
        for (std::size_t k = 0; k < tile; ++k)
          t(r, c) -= left(r, k) * top(c, k);
      }
    }
  }
};

}  // namespace

int main() {
  return factorise(ms::machine({.name = "host"}), host_operations());
}
