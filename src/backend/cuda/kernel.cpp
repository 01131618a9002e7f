// SPDX-License-Identifier: Apache-2.0
/// Entry points: ours and those of others.
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

kernel::kernel(device_state& on, program& of, std::string name, abi::function entry)
    : on_(on),
      context_(on.context()),
      of_(&of),
      name_(std::move(name)),
      entry_(entry),
      parameters_(ask_parameters(on.api(), entry)) {}

kernel::kernel(device_state& on, std::uint64_t native, std::string name, abi::function entry)
    : on_(on),
      context_(on.context()),
      native_(native),
      name_(std::move(name)),
      entry_(entry),
      parameters_(ask_parameters(on.api(), entry)) {}

bool kernel::has_the_same_last_parameter() const {
  if (!parameters_ || parameters_->empty()) return true;
  const kernel_parameter& last = parameters_->back();
  kernel_parameter now;
  const abi::result answer =
      on_.api()->cuFuncGetParamInfo(entry_, parameters_->size() - 1, &now.offset, &now.bytes);
  return answer == abi::result::success && now.offset == last.offset && now.bytes == last.bytes;
}

// One call that finds what it looks for. That a kernel takes more arguments could be told by one
// that fails only, which is dear; whoever gives more of them asks again.
bool kernel::is_current() const {
  if (of_ != nullptr) return true;
  if (entry_ != reinterpret_cast<abi::function>(native_)) {
    const context_guard in(on_.api(), context_);
    const relaxed_capture allowed(on_.api());
    if (function_of(on_.api(), native_) != entry_) return false;
  }
  return has_the_same_last_parameter();
}

// A handle may come again when its kernel was unloaded. The last parameter and that it is the last
// tell the size of the argument block.
bool kernel::takes_the_same() const {
  if (!parameters_) return true;
  if (!has_the_same_last_parameter()) return false;
  kernel_parameter none;
  return on_.api()->cuFuncGetParamInfo(entry_, parameters_->size(), &none.offset, &none.bytes) ==
         abi::result::invalid_value;
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
  const bool is_function =
      known != nullptr && known->entry() == reinterpret_cast<abi::function>(native);
  if (is_function && known->takes_the_same()) {
    return static_cast<backend::kernel*>(known.get());
  }
  const context_guard in(on.api(), on.context());
  const relaxed_capture allowed(on.api());
  const abi::function entry = function_of(on.api(), native);
  if (known == nullptr || known->entry() != entry || !known->takes_the_same()) {
    if (known != nullptr) gone_.push_back(std::move(known));
    known = std::make_unique<kernel>(on, native, name_of(on.api(), entry), entry);
  }
  return static_cast<backend::kernel*>(known.get());
}

}  // namespace millstream::backend::cuda
