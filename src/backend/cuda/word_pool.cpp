// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/word_pool.hpp"

#include <new>

#include "backend/cuda/host_memory.hpp"
#include "backend/cuda/state.hpp"

namespace millstream::backend::cuda {
namespace {

constexpr std::size_t page_bytes = 4096;
// A cache line each, so that threads which count do not disturb one another.
constexpr std::size_t step = 64;

}  // namespace

result<std::shared_ptr<word_pool::word>> word_pool::take(const std::string& who) {
  word* taken = nullptr;
  while (taken == nullptr) {
    {
      const std::scoped_lock hold(mutex_);
      if (!free_.empty()) {
        taken = free_.back();
        free_.pop_back();
        break;
      }
    }
    if (status failed = make_page(who); !failed) return failed;
  }
  return std::shared_ptr<word>(taken, [this](word* back) {
    const std::scoped_lock hold(mutex_);
    free_.push_back(back);  // within the room that make_page reserved
  });
}

status word_pool::make_page(const std::string& who) {
  auto page = of_.host->pinned().take(page_bytes, who);
  if (!page) return page.take_status();
  const std::scoped_lock hold(mutex_);
  words_ += page_bytes / step;
  free_.reserve(words_);
  for (std::size_t at = 0; at < page_bytes; at += step) {
    free_.push_back(new (static_cast<std::byte*>(page.value()) + at) word(0));
  }
  return {};
}

}  // namespace millstream::backend::cuda
