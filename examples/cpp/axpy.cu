// SPDX-License-Identifier: Apache-2.0
// y = y + alpha x on a GPU: tasks launch kernels through the runtime API, on the task's stream.
// Compiled where nvcc is installed. Ends with 77 where there is no GPU.
#include <cstddef>
#include <cstdio>
#include <vector>

#include <millstream/millstream.hpp>

namespace ms = millstream;

/// What kernels take: views work in device code, too.
__global__ void axpy(double alpha, ms::view<const double> x, ms::view<double> y) {
  const std::size_t first = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (std::size_t i = first; i < y.size(); i += std::size_t{gridDim.x} * blockDim.x)
    y[i] += alpha * x[i];
}

/// A body may throw: what the task was to write is then poisoned, and `finalize` says why.
void check(cudaError_t answer) {
  if (answer == cudaSuccess) return;
  throw ms::error(ms::errc::device, cudaGetErrorString(answer));
}

void submit_axpy(ms::context_ref ctx, double alpha, const ms::logical_data<const double>& x,
                 const ms::logical_data<double>& y) {
  ctx.task({.symbol = "axpy"}, x.read(), y.rw(),
           [alpha](ms::stream s, ms::view<const double> a, ms::view<double> b) {
             axpy<<<64, 256, 0, static_cast<cudaStream_t>(s.get())>>>(alpha, a, b);
             check(cudaGetLastError());
           });
}

/// The same with the body written between start and end.
void axpy_in_place(ms::context_ref ctx, double alpha, const ms::logical_data<const double>& x,
                   const ms::logical_data<double>& y) {
  auto task = ctx.task();
  task.add_deps(x.read(), y.rw());
  task.start();
  const auto stream = static_cast<cudaStream_t>(task.get_stream().get());
  axpy<<<64, 256, 0, stream>>>(alpha, task.get<ms::view<const double>>(0),
                               task.get<ms::view<double>>(1));
  check(cudaGetLastError());
  task.end();
}

int run(const ms::machine& gpus) {
  const std::vector<double> x(1'000'000, 1.0);
  std::vector<double> y(1'000'000, 2.0);
  double sum = 0.0;

  ms::context ctx{gpus};
  const auto lx = ctx.logical_data(x);
  const auto ly = ctx.logical_data(y);
  const auto lsum = ctx.logical_data(sum);
  submit_axpy(ctx, 0.5, lx, ly);
  axpy_in_place(ctx, 2.0, lx, ly);
  // A loop of host code says so; its data come to the host by themselves.
  ctx.parallel_for(ms::exec_place::host(), y.size(), ly.read(),
                   lsum.reduce(ms::reducer::sum<double>{}),
                   [](std::size_t i, ms::view<const double> v, double& part) { part += v[i]; });
  ctx.finalize();  // y and sum have their values now

  std::printf("y[0] = %g, sum = %g\n", y[0], sum);
  return y == std::vector<double>(1'000'000, 4.5) && sum == 4.5e6 ? 0 : 1;
}

int main() {
  try {
    return run(ms::machine({.name = "cuda"}));
  } catch (const ms::error& reason) {
    std::fprintf(stderr, "axpy: %s\n", reason.what());
    return reason.code() == ms::errc::unavailable ? 77 : 1;
  }
}
