// SPDX-License-Identifier: Apache-2.0
#include "core/strided.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "base/text.hpp"

namespace millstream::core {
namespace {

[[noreturn]] void refuse(std::string_view why) {
  throw error(errc::invalid_value,
              base::cat("logical_data got a layout that ", why,
                        "; give one stride in bytes for each extent, and the bytes of all "
                        "elements together"));
}

void check_bytes(const registration& what) {
  std::size_t bytes = what.element_bytes;
  for (const std::size_t extent : what.extents) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) refuse("has more bytes than memory");
  }
  if (bytes != what.bytes) refuse("has not as many bytes as the buffer");
}

// Everything below counts with 64 bits.
void check_reach(const strided& of) {
  std::int64_t reach = 0;
  for (const strided_axis& axis : of.axes) {
    std::int64_t part = 0;
    if (__builtin_mul_overflow(static_cast<std::int64_t>(axis.extent) - 1, axis.stride, &part) ||
        __builtin_add_overflow(reach, part < 0 ? -part : part, &reach)) {
      refuse("leaves the memory");
    }
  }
}

void append(strided& to, strided_axis outer) {
  if (outer.extent != 1) to.axes.push_back(outer);
}

// Axes come in from the last one, so the vector is in reverse order until the end.
void join(strided& to, strided_axis outer) {
  strided_axis& inner = to.axes.back();
  if (outer.stride == static_cast<std::ptrdiff_t>(inner.extent) * inner.stride) {
    inner.extent *= outer.extent;
  } else {
    append(to, outer);
  }
}

/// Numbers x with 0 <= x <= most, each times `factor`, whose sum is looked for.
struct term {
  std::int64_t factor;
  std::int64_t most;
};

/// Whether a sum of terms can have a value: a search that leaves out what cannot lead there.
class sum_search {
 public:
  explicit sum_search(std::vector<term> terms) : terms_(std::move(terms)) {
    std::sort(terms_.begin(), terms_.end(),
              [](const term& a, const term& b) { return a.factor > b.factor; });
    join_equal();
    rest_.resize(terms_.size() + 1);
    for (std::size_t i = terms_.size(); i-- > 0;) {
      const term& each = terms_[i];
      const rest& next = rest_[i + 1];
      rest_[i] = {next.most + each.factor * each.most, std::gcd(next.divisor, each.factor),
                  next.is_dense && each.factor <= next.most + 1};
    }
  }

  [[nodiscard]] bool reaches(std::int64_t value) { return reaches(0, value); }

 private:
  /// What the terms from one on can make: multiples of `divisor` up to `most`, all if dense.
  struct rest {
    std::int64_t most = 0;
    std::int64_t divisor = 0;
    bool is_dense = true;
  };

  void join_equal() {
    std::vector<term> joined;
    for (const term& each : terms_) {
      if (each.most == 0) continue;
      if (!joined.empty() && joined.back().factor == each.factor) {
        joined.back().most += each.most;
      } else {
        joined.push_back(each);
      }
    }
    terms_ = std::move(joined);
  }

  [[nodiscard]] bool reaches(std::size_t from, std::int64_t value) {
    const rest& of = rest_[from];
    if (value < 0 || value > of.most) return false;
    if (value == 0 || of.is_dense) return true;
    if (value % of.divisor != 0) return false;
    const term& each = terms_[from];
    const std::int64_t lacking = value - rest_[from + 1].most;
    const std::int64_t least = lacking <= 0 ? 0 : (lacking + each.factor - 1) / each.factor;
    const std::int64_t most = std::min(each.most, value / each.factor);
    for (std::int64_t x = most; x >= least; --x) {
      if (--tries_ < 0) return true;
      if (reaches(from + 1, value - x * each.factor)) return true;
    }
    return false;
  }

  std::vector<term> terms_;
  std::vector<rest> rest_;
  std::int64_t tries_ = 20'000'000;  // a fraction of a second
};

void add_terms(std::vector<term>& terms, const strided& of) {
  for (const strided_axis& axis : of.axes) {
    terms.push_back({std::abs(axis.stride), static_cast<std::int64_t>(axis.extent) - 1});
  }
  std::erase_if(terms, [](const term& each) { return each.factor == 0; });
}

/// Whether two different lists of indices lead to bytes `apart` from one another or nearer than an
/// element. Axes by falling stride, the last being the bytes of an element.
class repeat_search {
 public:
  explicit repeat_search(const strided& of) : axes_(of.axes.begin(), of.axes.end()) {
    std::stable_sort(axes_.begin(), axes_.end() - 1,
                     [](const strided_axis& a, const strided_axis& b) {
                       return std::abs(a.stride) > std::abs(b.stride);
                     });
    reach_.resize(axes_.size());
    for (std::size_t i = axes_.size(); i-- > 1;) {
      reach_[i - 1] = reach_[i] + std::abs(axes_[i].stride) * most(i);
    }
  }
  [[nodiscard]] bool finds() { return finds(0, 0, false); }

 private:
  [[nodiscard]] std::int64_t most(std::size_t axis) const {
    return static_cast<std::int64_t>(axes_[axis].extent) - 1;
  }
  [[nodiscard]] bool finds(std::size_t axis, std::int64_t apart, bool differs) {
    if (axis + 1 == axes_.size()) return differs && std::abs(apart) <= most(axis);
    const std::int64_t step = std::abs(axes_[axis].stride);
    if (step == 0) return true;
    const std::int64_t least = std::max(-most(axis), (-reach_[axis] - apart) / step);
    const std::int64_t last = std::min(most(axis), (reach_[axis] - apart) / step);
    for (std::int64_t by = least; by <= last; ++by) {
      if (--tries_ < 0 || finds(axis + 1, apart + by * step, differs || by != 0)) return true;
    }
    return false;
  }

  std::vector<strided_axis> axes_;
  std::vector<std::int64_t> reach_;  // of the axes after this one
  std::int64_t tries_ = 20'000'000;
};

}  // namespace

std::byte* strided::low() const noexcept {
  std::byte* lowest = first;
  for (const strided_axis& axis : axes) {
    if (axis.stride < 0) lowest += (static_cast<std::ptrdiff_t>(axis.extent) - 1) * axis.stride;
  }
  return lowest;
}

std::size_t strided::span() const noexcept {
  if (axes.empty()) return 0;
  std::size_t past_first = 1;
  for (const strided_axis& axis : axes)
    past_first += (axis.extent - 1) * static_cast<std::size_t>(std::abs(axis.stride));
  return past_first;
}

bool strided::is_same(const strided& other) const noexcept {
  return first == other.first &&
         std::equal(axes.begin(), axes.end(), other.axes.begin(), other.axes.end());
}

strided strided_of(const registration& what) {
  strided made;
  made.first = static_cast<std::byte*>(what.block);
  if (what.bytes == 0) return made;
  if (what.extents.empty()) {
    made.axes.push_back({what.bytes, 1});
    return made;
  }
  if (what.extents.size() != what.strides.size()) refuse("has not as many strides as extents");
  check_bytes(what);
  made.axes.push_back({what.element_bytes, 1});
  for (std::size_t i = what.extents.size(); i-- > 0;) {
    if (what.extents[i] != 1) join(made, {what.extents[i], what.strides[i]});
  }
  std::reverse(made.axes.begin(), made.axes.end());
  check_reach(made);
  return made;
}

bool share_a_byte(const strided& a, const strided& b) {
  if (a.axes.empty() || b.axes.empty()) return false;
  // Both count from their lowest byte; the one backwards, so that all terms are positive.
  const std::int64_t apart = b.low() - a.low();
  std::vector<term> terms;
  add_terms(terms, a);
  add_terms(terms, b);
  return sum_search(std::move(terms)).reaches(apart + static_cast<std::int64_t>(b.span()) - 1);
}

bool repeats_a_byte(const strided& of) {
  return !of.is_packed() && repeat_search(of).finds();
}

}  // namespace millstream::core
