// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/guard.hpp"

#include <utility>

namespace millstream::backend::cuda {
namespace {

// The context of the innermost guard of this thread.
thread_local abi::context guarded_context = nullptr;

}  // namespace

context_guard::context_guard(const driver& api, abi::context wanted) noexcept
    : api_(api), outer_(guarded_context) {
  if (guarded_context == wanted) return;
  abi::context now = nullptr;
  answer_ = api_->cuCtxGetCurrent(&now);
  if (answer_ != abi::result::success) return;
  if (now != wanted) {
    answer_ = api_->cuCtxPushCurrent(wanted);
    pushed_ = answer_ == abi::result::success;
  }
  if (answer_ == abi::result::success) guarded_context = wanted;
}

context_guard::~context_guard() {
  guarded_context = outer_;
  if (!pushed_) return;
  abi::context popped = nullptr;
  api_->cuCtxPopCurrent(&popped);
}

}  // namespace millstream::backend::cuda
