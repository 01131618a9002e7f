// SPDX-License-Identifier: Apache-2.0
/// Entry points: ours and those of others.
#include <algorithm>
#include <utility>

#include "backend/cuda/program.hpp"
#include "backend/cuda/state.hpp"
#include "base/text.hpp"

namespace millstream::backend::cuda {
namespace {

/// None where the driver does not tell.
std::optional<std::vector<kernel_parameter>> ask_parameters(const driver& api,
                                                            abi::function entry) {
  if (api->cuFuncGetParamInfo == nullptr) return {};
  std::vector<kernel_parameter> all;
  for (;;) {
    kernel_parameter next;
    const abi::result answer =
        api->cuFuncGetParamInfo(entry, all.size(), &next.offset, &next.bytes);
    if (answer == abi::result::invalid_value) return all;  // past the last one
    if (answer != abi::result::success) return {};
    all.push_back(next);
  }
}

/// Bytes of the packed argument block: up to the end of the last parameter.
std::size_t block_bytes(const std::vector<kernel_parameter>& parameters) noexcept {
  return parameters.empty() ? 0 : parameters.back().offset + parameters.back().bytes;
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
      parameters_(ask_parameters(on.api(), entry)) {}

// A handle may come again when its kernel was unloaded.
bool kernel::is(const driver& api, abi::function entry) const {
  if (entry != entry_ || name_of(api, entry) != name_) return false;
  const auto now = ask_parameters(api, entry);
  if (now.has_value() != parameters_.has_value()) return false;
  return !now || std::ranges::equal(*now, *parameters_,
                                    [](const kernel_parameter& a, const kernel_parameter& b) {
                                      return a.offset == b.offset && a.bytes == b.bytes;
                                    });
}

status kernel::check(const device_state& on, const launch_request& request) const {
  if (context_ != on.context()) {
    return {errc::invalid_value,
            base::cat(on.who(), " cannot launch kernel ", base::quoted(name_),
                      ", which was loaded for another device; load it here too")};
  }
  return check_arguments(on, request);
}

status kernel::check_arguments(const device_state& on, const launch_request& request) const {
  if (parameters_ && block_bytes(*parameters_) != request.arguments.size()) {
    return {errc::invalid_value,
            base::cat(on.who(), " cannot launch kernel ", base::quoted(name_), " with ",
                      base::bytes_text(request.arguments.size()), " of arguments; it takes ",
                      base::bytes_text(block_bytes(*parameters_)))};
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
  const context_guard in(on.api(), on.context());
  const relaxed_capture allowed(on.api());
  const abi::function entry = function_of(on.api(), native);
  if (known == nullptr || !known->is(on.api(), entry)) {
    if (known != nullptr) gone_.push_back(std::move(known));
    known = std::make_unique<kernel>(on, nullptr, name_of(on.api(), entry), entry);
  }
  return static_cast<backend::kernel*>(known.get());
}

}  // namespace millstream::backend::cuda
