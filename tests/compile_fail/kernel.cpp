// SPDX-License-Identifier: Apache-2.0
// Mistakes in kernel tasks and their launches. See check.py.
#include <string>

#include <millstream/millstream.hpp>

namespace ms = millstream;
using data = ms::logical_data<double, 1>;
using view = ms::view<double>;
using launcher = ms::kernel_launcher;

void host_function(double*, int) {}

void no_body(ms::context& ctx, data x, data y) {
#ifdef CORRECT
  ctx.kernel_task(x.read(), y.rw(), [](launcher&, auto, auto) {});
#else
  ctx.kernel_task(x.read(), y.rw());  // expect: the last argument must be the body, a callable
#endif
}

void no_launcher(ms::context& ctx, data x) {
#ifdef CORRECT
  ctx.kernel_task(x.rw(), [](launcher&, view) {});
#else
  ctx.kernel_task(x.rw(), [](view) {});  // expect: the body of a kernel task must accept
#endif
}

void bare_data(ms::context& ctx, data x) {
#ifdef CORRECT
  ctx.kernel_task(x.rw(), [](launcher&, view) {});
#else
  ctx.kernel_task(x, [](launcher&, view) {});  // expect: write x.read(), x.write() or x.rw()
#endif
}

void too_few_arguments(launcher& k, view v) {
#ifdef CORRECT
  k.launch(host_function, 1, 1, v.data(), 3);
#else
  k.launch(host_function, 1, 1, v.data());  // expect: one argument for each parameter
#endif
}

void text_for_a_device(launcher& k, const ms::device_kernel& on_device) {
#ifdef CORRECT
  k.launch(on_device, 1, 1, 3);
#else
  k.launch(on_device, 1, 1, std::string("x"));  // expect: arguments of kernels are copied
#endif
}
