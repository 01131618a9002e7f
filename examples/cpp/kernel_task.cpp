// SPDX-License-Identifier: Apache-2.0
// Kernels that are described to the library: one program for GPUs and for the host machine. The
// device code is PTX text, so that nothing but a C++ compiler is needed.
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <vector>

#include <millstream/millstream.hpp>

namespace ms = millstream;

// y[i] += alpha x[i], one thread per element.
constexpr std::string_view device_code = R"(
.version 6.0
.target sm_60
.address_size 64
.visible .entry axpy(.param .f64 alpha, .param .u64 x, .param .u64 y, .param .u32 count)
{
  .reg .pred %outside;
  .reg .b32 %index, %blocks, %threads, %count;
  .reg .b64 %x, %y, %offset;
  .reg .f64 %alpha, %a, %b;
  ld.param.f64 %alpha, [alpha];
  ld.param.u64 %x, [x];
  ld.param.u64 %y, [y];
  ld.param.u32 %count, [count];
  mov.u32 %index, %tid.x;
  mov.u32 %blocks, %ctaid.x;
  mov.u32 %threads, %ntid.x;
  mad.lo.u32 %index, %blocks, %threads, %index;
  setp.ge.u32 %outside, %index, %count;
  @%outside bra done;
  mul.wide.u32 %offset, %index, 8;
  add.u64 %x, %x, %offset;
  add.u64 %y, %y, %offset;
  ld.global.f64 %a, [%x];
  ld.global.f64 %b, [%y];
  fma.rn.f64 %b, %alpha, %a, %b;
  st.global.f64 [%y], %b;
done:
  ret;
}
)";

// What a launch does where devices run host code: the work of all threads.
void axpy_on_host(double alpha, const double* x, double* y, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i)
    y[i] += alpha * x[i];
}

int main() {
  const ms::machine devices({.name = "host"});  // {.name = "cuda"} runs the same on a GPU
  const ms::program code(devices, device_code);
  const ms::kernel axpy(code.kernel("axpy"), &axpy_on_host);

  const std::vector<double> x(1000, 1.0);
  std::vector<double> y(1000, 2.0);
  ms::context ctx(devices);
  auto lx = ctx.logical_data(x);
  auto ly = ctx.logical_data(y);
  // Two launches in one task run one after the other.
  ctx.kernel_task({.symbol = "axpy"}, lx.read(), ly.rw(),
                  [&](ms::kernel_launcher& k, ms::view<const double> a, ms::view<double> b) {
                    for (const double alpha : {0.25, 0.5})
                      k.launch(axpy, 4, 256, alpha, a.data(), b.data(), b.size());
                  });
  ctx.finalize();  // y has its value now

  std::printf("y[0] = %g\n", y[0]);
  return y == std::vector<double>(1000, 2.75) ? 0 : 1;
}
