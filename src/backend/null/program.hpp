// SPDX-License-Identifier: Apache-2.0
/// Device code of the null machine: any image, with any entry.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "backend/live_count.hpp"
#include "backend/program.hpp"

namespace millstream::backend::null {

class kernel final : public backend::kernel {
 public:
  explicit kernel(std::string name) : name_(std::move(name)) {}
  [[nodiscard]] const std::string& name() const noexcept override { return name_; }

 private:
  const std::string name_;
};

/// Kernels by what they were asked for with: one object for each, kept as long as the table.
/// Any thread; asking for a known one allocates nothing.
template <class Key>
class kernel_table {
 public:
  [[nodiscard]] backend::kernel* find(const Key& key, std::string (*name)(const Key&)) {
    const std::scoped_lock hold(mutex_);
    auto known = known_.find(key);
    if (known == known_.end()) known = known_.try_emplace(key, name(key)).first;
    return &known->second;
  }

 private:
  std::mutex mutex_;  // guards the member below; innermost
  std::map<Key, kernel> known_;
};

class program final : public backend::program {
 public:
  program(live_count& in, std::string who) : who_(std::move(who)), alive_(in) {}
  [[nodiscard]] result<backend::kernel*> find(const std::string& entry) override;

 private:
  const std::string who_;
  const live_mark alive_;
  kernel_table<std::string> kernels_;
};

}  // namespace millstream::backend::null
