// SPDX-License-Identifier: Apache-2.0
/// Entry points: ours and those of others.
#include <utility>

#include "backend/cuda/program.hpp"
#include "backend/cuda/state.hpp"
#include "base/text.hpp"

namespace millstream::backend::cuda {
namespace {

constexpr std::size_t unknown_size = ~std::size_t{0};

/// Bytes of the packed argument block: up to the end of the last parameter. `unknown_size` where
/// the driver does not tell.
std::size_t ask_argument_bytes(const driver& api, abi::function entry) noexcept {
  if (api->cuFuncGetParamInfo == nullptr) return unknown_size;
  std::size_t end = 0;
  for (std::size_t index = 0;; ++index) {
    std::size_t offset = 0;
    std::size_t bytes = 0;
    const abi::result answer = api->cuFuncGetParamInfo(entry, index, &offset, &bytes);
    if (answer == abi::result::invalid_value) return end;  // past the last one
    if (answer != abi::result::success) return unknown_size;
    end = offset + bytes;
  }
}

/// A kernel of a library stands for a function in each context. A driver that knows no such kernel
/// by this handle has a function there.
abi::function function_of(const driver& api, std::uint64_t native) noexcept {
  abi::function found = nullptr;
  if (api->cuKernelGetFunction != nullptr &&
      api->cuKernelGetFunction(&found, reinterpret_cast<abi::kernel>(native)) ==
          abi::result::success &&
      found != nullptr) {
    return found;
  }
  return reinterpret_cast<abi::function>(native);
}

std::string name_of(const driver& api, abi::function entry) {
  const char* name = nullptr;
  const bool told = api->cuFuncGetName != nullptr &&
                    api->cuFuncGetName(&name, entry) == abi::result::success && name != nullptr;
  return told ? name : "of a native handle";
}

}  // namespace

kernel::kernel(device_state& on, program* of, std::string name, abi::function entry)
    : context_(on.context()),
      of_(of),
      name_(std::move(name)),
      entry_(entry),
      argument_bytes_(ask_argument_bytes(on.api(), entry)) {}

status kernel::check(const device_state& on, const launch_request& request) const {
  if (context_ != on.context()) {
    return {errc::invalid_value,
            base::cat(on.who(), " cannot launch kernel ", base::quoted(name_),
                      ", which was loaded for another device; load it here too")};
  }
  return check_arguments(on, request);
}

status kernel::check_arguments(const device_state& on, const launch_request& request) const {
  if (argument_bytes_ != unknown_size && argument_bytes_ != request.arguments.size()) {
    return {errc::invalid_value,
            base::cat(on.who(), " cannot launch kernel ", base::quoted(name_), " with ",
                      base::bytes_text(request.arguments.size()), " of arguments; it takes ",
                      base::bytes_text(argument_bytes_))};
  }
  return {};
}

void kernel::note_launch(const std::shared_ptr<stream_tail>& on, bool captured) {
  if (of_ != nullptr) of_->note_launch(on, captured);
}

void kernel::note_graph() {
  if (of_ != nullptr) of_->note_graph();
}

result<backend::kernel*> adopted_kernels::adopt(device_state& on, std::uint64_t native) {
  if (native == 0) {
    return status(errc::invalid_value,
                  base::cat(on.who(), " cannot adopt no kernel; give the handle of a loaded one"));
  }
  const std::scoped_lock hold(mutex_);
  std::unique_ptr<kernel>& known = kernels_[native];
  if (known == nullptr) {
    const context_guard in(on.api(), on.context());
    const relaxed_capture allowed(on.api());
    const abi::function entry = function_of(on.api(), native);
    known = std::make_unique<kernel>(on, nullptr, name_of(on.api(), entry), entry);
  }
  return static_cast<backend::kernel*>(known.get());
}

}  // namespace millstream::backend::cuda
