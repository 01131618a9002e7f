// SPDX-License-Identifier: Apache-2.0
// Tiled Cholesky recorded at each step, on a GPU: the launches of each task are captured from its
// stream. Ends with 77 where there is no GPU.
#include "recorded_cholesky.hpp"

using tile_view = ms::view<double, 2>;
using input_view = ms::view<const double, 2>;

// One block of `tile` threads, one for each row.

__global__ void assemble(tile_view t, std::size_t row, std::size_t column, double shift) {
  const std::size_t r = threadIdx.x;
  for (std::size_t c = 0; c < tile; ++c) {
    const std::size_t i = row + r;
    const std::size_t j = column + c;
    t(r, c) = 1.0 / (1.0 + static_cast<double>(i > j ? i - j : j - i));
    if (i == j) t(r, c) += static_cast<double>(size) + shift;
  }
}

__global__ void potrf(tile_view t) {
  const std::size_t r = threadIdx.x;
  for (std::size_t k = 0; k < tile; ++k) {
    if (r == k) t(k, k) = sqrt(t(k, k));
    __syncthreads();
    if (r > k) t(r, k) /= t(k, k);
    __syncthreads();
    for (std::size_t c = k + 1; c <= r; ++c)
      t(r, c) -= t(r, k) * t(c, k);
    __syncthreads();
  }
}

__global__ void trsm(input_view pivot, tile_view t) {
  const std::size_t r = threadIdx.x;
  for (std::size_t c = 0; c < tile; ++c) {
    for (std::size_t k = 0; k < c; ++k)
      t(r, c) -= t(r, k) * pivot(c, k);
    t(r, c) /= pivot(c, c);
  }
}

__global__ void gemm(input_view left, input_view top, tile_view t) {
  const std::size_t r = threadIdx.x;
  for (std::size_t c = 0; c < tile; ++c) {
    for (std::size_t k = 0; k < tile; ++k)
      t(r, c) -= left(r, k) * top(c, k);
  }
}

/// A body may throw: what the task was to write is then poisoned, and `finalize` says why.
void check(cudaError_t answer) {
  if (answer == cudaSuccess) return;
  throw ms::error(ms::errc::device, cudaGetErrorString(answer));
}

cudaStream_t stream_of(const ms::stream& s) {
  return static_cast<cudaStream_t>(s.get());
}

/// Each gives the body of a task.
struct gpu_operations {
  static auto assemble(std::size_t row, std::size_t column, double shift) {
    return [=](ms::stream s, tile_view t) {
      ::assemble<<<1, tile, 0, stream_of(s)>>>(t, row, column, shift);
      check(cudaGetLastError());
    };
  }
  static auto potrf() {
    return [](ms::stream s, tile_view t) {
      ::potrf<<<1, tile, 0, stream_of(s)>>>(t);
      check(cudaGetLastError());
    };
  }
  static auto trsm() {
    return [](ms::stream s, input_view pivot, tile_view t) {
      ::trsm<<<1, tile, 0, stream_of(s)>>>(pivot, t);
      check(cudaGetLastError());
    };
  }
  static auto gemm() {
    return [](ms::stream s, input_view left, input_view top, tile_view t) {
      ::gemm<<<1, tile, 0, stream_of(s)>>>(left, top, t);
      check(cudaGetLastError());
    };
  }
  static auto syrk() {
    return [](ms::stream s, input_view left, tile_view t) {
      ::gemm<<<1, tile, 0, stream_of(s)>>>(left, left, t);
      check(cudaGetLastError());
    };
  }
};

int main() {
  try {
    return factorise(ms::machine({.name = "cuda"}), gpu_operations());
  } catch (const ms::error& reason) {
    std::fprintf(stderr, "recorded_cholesky: %s\n", reason.what());
    return reason.code() == ms::errc::unavailable ? 77 : 1;
  }
}
