// SPDX-License-Identifier: Apache-2.0
#include "kernel_arguments.hpp"

#include <complex>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "convert.hpp"
#include "errors.hpp"
#include "view.hpp"

namespace millstream::python {
namespace {

// The buffer of an object, let go at the end of the block.
class held_buffer {
 public:
  explicit held_buffer(nb::handle of) noexcept {
    held_ = PyObject_GetBuffer(of.ptr(), &view_, PyBUF_FORMAT | PyBUF_STRIDES) == 0;
    if (!held_) PyErr_Clear();
  }
  ~held_buffer() {
    if (held_) PyBuffer_Release(&view_);
  }
  held_buffer(const held_buffer&) = delete;
  held_buffer& operator=(const held_buffer&) = delete;
  explicit operator bool() const noexcept { return held_; }
  [[nodiscard]] const Py_buffer& operator*() const noexcept { return view_; }

 private:
  Py_buffer view_{};
  bool held_ = false;
};

enum class content { other, number, structure };

// Numbers in the order of this machine, pointers, and structures.
content content_of(const char* text) noexcept {
  std::string_view format = text == nullptr ? "B" : text;
  if (!format.empty() && std::string_view("@=<").find(format[0]) != format.npos) {
    format.remove_prefix(1);
  }
  if (format.empty()) return content::other;
  if (format[0] == 'T') return content::structure;
  if (format[0] == '&' || format == "Zf" || format == "Zd") return content::number;
  const bool is_number =
      format.size() == 1 && std::string_view("?bBhHiIlLqQnNefdP").find(format[0]) != format.npos;
  return is_number ? content::number : content::other;
}

}  // namespace

kernel_arguments::kernel_arguments(std::size_t count)
    : list_(reinterpret_cast<kernel_argument*>(take(count * sizeof(kernel_argument)))) {}

std::byte* kernel_arguments::take(std::size_t bytes) {
  if (bytes <= room_.size() - used_) return room_.data() + std::exchange(used_, used_ + bytes);
  more_.push_back(std::make_unique<std::byte[]>(bytes));
  return more_.back().get();
}

void kernel_arguments::add_bytes(const void* value, std::size_t bytes, std::size_t alignment,
                                 bool is_integer) {
  std::byte* const kept = take(bytes);
  std::memcpy(kept, value, bytes);
  std::construct_at(list_ + size_, kernel_argument{kept, bytes, alignment, is_integer});
  ++size_;
}

void kernel_arguments::add_integer(nb::handle value) {
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  if (overflow == 0) {
    const auto bits = static_cast<std::int64_t>(number);
    return add_bytes(&bits, sizeof bits, sizeof bits, /*is_integer=*/true);
  }
  const std::uint64_t address = to_index(value, "args");
  add_bytes(&address, sizeof address, sizeof address);
}

bool kernel_arguments::add_buffer(nb::handle value) {
  if (PyObject_CheckBuffer(value.ptr()) == 0) return false;
  const held_buffer found(value);
  if (!found || (*found).ndim != 0) return false;
  const auto bytes = static_cast<std::size_t>((*found).itemsize);
  const content what = content_of((*found).format);
  if (what == content::other) return false;
  std::size_t alignment = bytes;
  if (what == content::structure) {
    static constinit lazy_name ask("millstream._kernel", "alignment");
    alignment = nb::cast<std::size_t>(call_python(ask.get(), value));
  }
  add_bytes((*found).buf, bytes, alignment);
  return true;
}

void kernel_arguments::add(nb::handle value) {
  if (PyLong_Check(value.ptr()) != 0) return add_integer(value);
  if (PyFloat_Check(value.ptr()) != 0) {
    const double number = PyFloat_AsDouble(value.ptr());
    return add_bytes(&number, sizeof number, sizeof number);
  }
  if (const auto* view = as<py_view>(value)) {
    view->check();
    return add_bytes(&view->address, sizeof view->address, sizeof view->address);
  }
  if (add_buffer(value)) return;
  if (PyComplex_Check(value.ptr()) != 0) {
    const std::complex<double> number(PyComplex_RealAsDouble(value.ptr()),
                                      PyComplex_ImagAsDouble(value.ptr()));
    return add_bytes(&number, sizeof number, sizeof number);
  }
  static constinit lazy_name convert("millstream._kernel", "convert");
  const nb::object plain = call_python(convert.get(), value, nb::int_(size_));
  if (!add_buffer(plain)) {
    throw error(errc::invalid_type, "an argument of type " + class_name(value) +
                                        " cannot be given to a kernel; pass its address");
  }
}

}  // namespace millstream::python
