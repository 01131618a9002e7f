// SPDX-License-Identifier: Apache-2.0
// Mistakes in the arguments of task, host_launch and add_deps. See check.py.
#include <memory>

#include <millstream/millstream.hpp>

namespace ms = millstream;
using data = ms::logical_data<double, 1>;
using view = ms::view<double>;

void no_body(ms::context& ctx, data x, data y) {
#ifdef CORRECT
  ctx.task(x.read(), y.rw(), [](auto, auto) {});
#else
  ctx.task(x.read(), y.rw());  // expect: the last argument must be the body, a callable
#endif
}

void bare_data(ms::context& ctx, data x) {
#ifdef CORRECT
  ctx.task(x.rw(), [](view) {});
#else
  ctx.task(x, [](view) {});  // expect: write x.read(), x.write() or x.rw() instead of x
#endif
}

void late_place(ms::context& ctx, data x) {
#ifdef CORRECT
  ctx.task(ms::exec_place::host(), x.rw(), [](view) {});
#else
  ctx.task(x.rw(), ms::exec_place::host(), [](view) {});  // expect: must be its first argument
#endif
}

void number_among_deps(ms::context& ctx, data x) {
#ifdef CORRECT
  ctx.task(x.rw(), [](view) {});
#else
  ctx.task(x.rw(), 42, [](view) {});  // expect: arguments must be ([place or options,] dependencies
#endif
}

void untyped_dep(ms::context& ctx, data x) {
#ifdef CORRECT
  ctx.task(x.rw(), [](view) {});
#else
  ms::untyped_data raw = x;
  ctx.task(raw.rw(), [](view) {});  // expect: an untyped dependency has no view
#endif
}

void too_few_parameters(ms::context& ctx, data x, data y) {
#ifdef CORRECT
  ctx.task(x.read(), y.rw(), [](ms::view<const double>, view) {});
#else
  ctx.task(x.read(), y.rw(), [](view) {});  // expect: task body must accept ([stream,] one view
#endif
}

void reader_wants_to_write(ms::context& ctx, data x) {
#ifdef CORRECT
  ctx.task(x.read(), [](ms::view<const double>) {});
#else
  ctx.task(x.read(), [](view) {});  // expect: view<const T, Rank> for read()
#endif
}

void view_by_reference(ms::context& ctx, data x) {
#ifdef CORRECT
  ctx.task(x.rw(), [](const view&) {});
#else
  ctx.task(x.rw(), [](view&) {});  // expect: by value or const reference
#endif
}

void token_has_no_view(ms::context& ctx, data x, ms::token order) {
#ifdef CORRECT
  ctx.task(order.rw(), x.rw(), [](view) {});
#else
  ctx.task(order.rw(), x.rw(), [](int, view) {});  // expect: one view per non-token dependency
#endif
}

void reduction_in_a_task(ms::context& ctx, ms::logical_data<double, 0> sum) {
#ifdef CORRECT
  ctx.task(sum.rw(), [](ms::view<double, 0>) {});
#else
  auto op = ms::reducer::sum<double>{};
  ctx.task(sum.reduce(op), [](double&) {});  // expect: reduce() is for parallel_for
#endif
}

void body_that_cannot_be_copied(ms::context& ctx, data x) {
  auto body = [owned = std::make_unique<int>(1)](view) {};
#ifdef CORRECT
  ctx.task(x.rw(), std::move(body));
#else
  ctx.task(x.rw(), body);  // expect: must be copyable, or moved in with std::move(body)
#endif
}

void wrong_host_body(ms::context& ctx, data x) {
#ifdef CORRECT
  ctx.host_launch(x.read(), [](ms::view<const double>) {});
#else
  ctx.host_launch(x.read(), [](int*) {});  // expect: task body must accept ([stream,] one view
#endif
}

void bare_data_in_a_dynamic_task(ms::context& ctx, data x) {
  auto t = ctx.task();
#ifdef CORRECT
  t.add_deps(x.rw());
#else
  t.add_deps(x);  // expect: add_deps takes accesses, such as x.read(), y.write() or z.rw()
#endif
}

void get_without_a_view(const ms::dynamic_task& task) {
#ifdef CORRECT
  static_cast<void>(task.get<ms::view<double, 1>>(0));
#else
  static_cast<void>(task.get<double>(0));  // expect: get<View>(index) needs a view type
#endif
}

void two_places(ms::context& ctx, data x) {
#ifdef CORRECT
  ctx.task(ms::exec_place::host(), x.rw(), [](view) {});
#else
  ctx.task(ms::exec_place::host(), ms::exec_place::device(0), x.rw(), [](view) {});  // expect: one place
#endif
}
