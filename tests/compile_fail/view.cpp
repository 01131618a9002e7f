// SPDX-License-Identifier: Apache-2.0
// Mistakes in using views and shapes. See check.py.
#include <millstream/millstream.hpp>

namespace ms = millstream;

double one_index_too_few(ms::view<double, 2> v) {
#ifdef CORRECT
  return v(1, 0);
#else
  return v(1);  // expect: a view takes one index per dimension
#endif
}

double index_that_is_no_integer(ms::view<double, 1> v) {
#ifdef CORRECT
  return v(1);
#else
  return v(1.5);  // expect: view indices are integers
#endif
}

void write_through_a_reader(ms::view<const double> v) {
#ifdef CORRECT
  static_cast<void>(v[0]);
#else
  v[0] = 1.0;  // expect: assignment of read-only location
#endif
}

void five_dimensions() {
#ifdef CORRECT
  static_cast<void>(ms::shape(1, 2, 3, 4));
#else
  static_cast<void>(ms::shape(1, 2, 3, 4, 5));  // expect: millstream data and loops have at most 4
#endif
}
