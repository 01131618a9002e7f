// SPDX-License-Identifier: Apache-2.0
#include "core/data.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "core/context.hpp"

namespace millstream::core {

void poison_record::add(std::uint64_t version, failed_task* because) {
  const std::scoped_lock hold(mutex_);
  entries_.push_back({version, because});
  if (version == watched_) word_.store(because, std::memory_order_release);
  any_.store(true, std::memory_order_release);
}

failed_task* poison_record::find_entry(std::uint64_t version) const {
  const std::scoped_lock hold(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const entry& each) { return each.version == version; });
  return found == entries_.end() ? nullptr : found->because;
}

void poison_record::watch(std::uint64_t version) {
  const std::scoped_lock hold(mutex_);
  watched_ = version;
  for (const entry& each : entries_) {
    if (each.version == version) word_.store(each.because, std::memory_order_release);
  }
}

void poison_record::remember() {
  const std::scoped_lock hold(mutex_);
  remembered_ = entries_.size();
}

void poison_record::forget_later() {
  if (!any_.load(std::memory_order_acquire)) return;
  const std::scoped_lock hold(mutex_);
  entries_.resize(remembered_);
  any_.store(!entries_.empty(), std::memory_order_release);
  failed_task* left = nullptr;
  for (const entry& each : entries_) {
    if (each.version == watched_) left = each.because;
  }
  word_.store(left, std::memory_order_release);
}

std::mutex& names_mutex() noexcept {
  static auto* const only = new std::mutex;
  return *only;
}

data::data(std::shared_ptr<context> in, std::uint64_t number, std::size_t size)
    : owner(std::move(in)), bytes(size), id(number) {}

data::~data() {
  owner->forget(*this);
}

std::string data::name() const {
  if (!symbol.empty()) return base::quoted(symbol);
  if (token) return base::cat("token ", id);
  return base::cat("data ", id, " (", base::bytes_text(bytes), ")");
}

completion_set data::uses() const {
  completion_set all = readers;
  all.add(writer);
  for (const instance& each : instances)
    all.add(each.ready);
  return all;
}

void data::drop_reference() noexcept {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

}  // namespace millstream::core
