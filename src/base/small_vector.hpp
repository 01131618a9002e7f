// SPDX-License-Identifier: Apache-2.0
/// A vector that keeps its first elements inside itself.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

namespace millstream::base {

/// Up to `Inline` elements cost no allocation; more move to the heap, and the room found there is
/// kept until destruction, `clear` included, so that a reused vector stops allocating.
/// References are void after growth, as with std::vector. One user at a time. Growth may throw
/// std::bad_alloc and then changes nothing.
template <class T, std::size_t Inline>
class small_vector {
  static_assert(std::is_nothrow_move_constructible_v<T>, "growth moves and must not fail half-way");
  static_assert(Inline > 0);

 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  small_vector() noexcept = default;
  small_vector(const small_vector& other)
    requires std::copy_constructible<T>
  {
    append({other.begin(), other.size()});
  }
  small_vector(small_vector&& other) noexcept { take(other); }
  small_vector& operator=(const small_vector& other)
    requires std::copy_constructible<T>
  {
    if (this == &other) return *this;
    clear();
    append({other.begin(), other.size()});
    return *this;
  }
  small_vector& operator=(small_vector&& other) noexcept {
    if (this == &other) return *this;
    clear();
    let_go();
    take(other);
    return *this;
  }
  ~small_vector() {
    clear();
    let_go();
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::size_t capacity() const noexcept { return Inline + extra_; }
  [[nodiscard]] T* data() noexcept { return data_; }
  [[nodiscard]] const T* data() const noexcept { return data_; }
  [[nodiscard]] T* begin() noexcept { return data_; }
  [[nodiscard]] T* end() noexcept { return data_ + size_; }
  [[nodiscard]] const T* begin() const noexcept { return data_; }
  [[nodiscard]] const T* end() const noexcept { return data_ + size_; }
  [[nodiscard]] T& operator[](std::size_t i) noexcept {
    assert(i < size_);
    return data_[i];
  }
  [[nodiscard]] const T& operator[](std::size_t i) const noexcept {
    assert(i < size_);
    return data_[i];
  }
  [[nodiscard]] T& front() noexcept { return (*this)[0]; }
  [[nodiscard]] const T& front() const noexcept { return (*this)[0]; }
  [[nodiscard]] T& back() noexcept { return (*this)[size_ - 1U]; }
  [[nodiscard]] const T& back() const noexcept { return (*this)[size_ - 1U]; }

  /// The value may be an element of this vector.
  void push_back(const T& value) { emplace_back(value); }
  void push_back(T&& value) { emplace_back(std::move(value)); }
  template <class... Args>
  T& emplace_back(Args&&... args) {
    if (size_ == capacity()) return grow_and_add(std::forward<Args>(args)...);
    T* added = std::construct_at(data_ + size_, std::forward<Args>(args)...);
    ++size_;
    return *added;
  }
  void append(std::span<const T> values) {
    // By doubling, so that appending again and again stays linear.
    const std::size_t needed = size_ + values.size();
    if (needed > capacity()) reserve(std::max(needed, std::size_t{2} * capacity()));
    std::uninitialized_copy_n(values.data(), values.size(), data_ + size_);
    size_ = static_cast<std::uint32_t>(needed);
  }
  void pop_back() noexcept {
    assert(size_ > 0);
    --size_;
    std::destroy_at(data_ + size_);
  }
  /// Removes the element and puts the last one in its place: the order is not kept.
  void erase_swap(std::size_t i) noexcept {
    assert(i < size_);
    if (i + 1U != size_) data_[i] = std::move(back());
    pop_back();
  }
  void clear() noexcept {
    std::destroy_n(data_, size_);
    size_ = 0;
  }
  /// New elements are value-initialised.
  void resize(std::size_t count) {
    reserve(count);
    if (count < size_) {
      std::destroy_n(data_ + count, size_ - count);
    } else {
      std::uninitialized_value_construct_n(data_ + size_, count - size_);
    }
    size_ = static_cast<std::uint32_t>(count);
  }
  void reserve(std::size_t count) {
    if (count > capacity()) move_to(allocate(count), count);
  }

 private:
  [[nodiscard]] T* inline_data() noexcept { return reinterpret_cast<T*>(storage_); }
  [[nodiscard]] bool on_heap() noexcept { return data_ != inline_data(); }
  static T* allocate(std::size_t count) { return std::allocator<T>().allocate(count); }

  // Out of the way of those that add, since it is rare.
  template <class... Args>
  [[gnu::cold, gnu::noinline]] T& grow_and_add(Args&&... args) {
    const std::size_t room = capacity() * 2;
    T* fresh = allocate(room);
    // Made before the old elements move, because the arguments may refer to one of them.
    T* added = std::construct_at(fresh + size_, std::forward<Args>(args)...);
    move_to(fresh, room);
    ++size_;
    return *added;
  }
  void move_to(T* fresh, std::size_t room) noexcept {
    std::uninitialized_move_n(data_, size_, fresh);
    std::destroy_n(data_, size_);
    let_go();
    data_ = fresh;
    extra_ = static_cast<std::uint32_t>(room - Inline);
  }
  void let_go() noexcept {
    if (on_heap()) std::allocator<T>().deallocate(data_, capacity());
    data_ = inline_data();
    extra_ = 0;
  }
  /// Needs an empty vector without heap room; leaves `other` so.
  void take(small_vector& other) noexcept {
    if (other.on_heap()) {
      data_ = std::exchange(other.data_, other.inline_data());
      extra_ = std::exchange(other.extra_, 0U);
    } else {
      std::uninitialized_move_n(other.data_, other.size_, data_);
      std::destroy_n(other.data_, other.size_);
    }
    size_ = std::exchange(other.size_, 0U);
  }

  T* data_ = inline_data();
  std::uint32_t size_ = 0;
  std::uint32_t extra_ = 0;  // room beyond `Inline`, so that an empty one begins with zeros
  alignas(T) std::byte storage_[Inline * sizeof(T)];
};

}  // namespace millstream::base
