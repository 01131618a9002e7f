// SPDX-License-Identifier: Apache-2.0
// Mistakes in making and using data. See check.py.
#include <string>
#include <vector>

#include <millstream/millstream.hpp>

namespace ms = millstream;

void write_to_const_data(ms::context& ctx, const std::vector<double>& input) {
  auto x = ctx.logical_data(input);
#ifdef CORRECT
  static_cast<void>(x.read());
#else
  static_cast<void>(x.write());  // expect: write() needs data registered from a non-const buffer
#endif
}

void modify_const_data(ms::context& ctx, const std::vector<float>& input) {
  auto x = ctx.logical_data(input);
#ifdef CORRECT
  static_cast<void>(x.read());
#else
  static_cast<void>(x.rw());  // expect: rw() needs data registered from a non-const buffer
#endif
}

void vector_of_bool(ms::context& ctx) {
#ifdef CORRECT
  std::vector<char> flags(3);
  static_cast<void>(ctx.logical_data(flags));
#else
  static_cast<void>(ctx.logical_data(std::vector<bool>(3)));  // expect: std::vector<bool> has no elements
#endif
}

void elements_that_own_memory(ms::context& ctx) {
#ifdef CORRECT
  std::vector<char> names(3);
  static_cast<void>(ctx.logical_data(names));
#else
  std::vector<std::string> names(3);
  static_cast<void>(ctx.logical_data(names));  // expect: elements of logical data must be trivially copyable
#endif
}

struct large {
  double values[4];
};
void fill_of_large_elements(ms::context& ctx) {
#ifdef CORRECT
  auto x = ctx.logical_data<double>(3);
  ctx.fill(x, 1.0);
#else
  auto x = ctx.logical_data<large>(3);
  ctx.fill(x, large{});  // expect: fill takes elements of at most 16 bytes
#endif
}

void wait_for_an_access(ms::context& ctx, ms::logical_data<double, 1> x) {
#ifdef CORRECT
  static_cast<void>(ctx.wait(x));
#else
  ctx.wait(x.read());  // expect: wait takes the data: write wait(x), not wait(x.read())
#endif
}

void fill_an_access(ms::context& ctx, ms::logical_data<double, 1> x) {
#ifdef CORRECT
  ctx.fill(x, 1.0);
#else
  ctx.fill(x.write(), 1.0);  // expect: fill takes the data: write fill(x, v), not fill(x.write(), v)
#endif
}

void reduce_in_another_type(ms::logical_data<double, 0> x) {
#ifdef CORRECT
  static_cast<void>(x.reduce(ms::reducer::sum<double>{}));
#else
  static_cast<void>(x.reduce(ms::reducer::sum<float>{}));  // expect: which both give the element type
#endif
}

void pointer_without_extents(ms::context& ctx, double* p) {
#ifdef CORRECT
  static_cast<void>(ctx.logical_data(p, 4));
#else
  ctx.logical_data(p);  // expect: a pointer needs the number of elements: write logical_data(p, n)
#endif
}

void text_as_data(ms::context& ctx, std::string& text) {
#ifdef CORRECT
  static_cast<void>(ctx.logical_data(std::span(text)));
#else
  ctx.logical_data(text);  // expect: register the characters
#endif
}
