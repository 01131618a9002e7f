// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/driver.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "backend/guarded.hpp"
#include "base/dynamic_library.hpp"

namespace millstream::backend::cuda {
namespace {

constexpr int oldest_version = 12000;
constexpr const char* default_library = "libcuda.so.1";
constexpr const char* way_out =
    "; install a CUDA driver of version 12.0 or later, or choose the machine 'host'";

struct row {
  const char* name;
  int version;
  bool required;
  std::size_t offset;  // of the pointer in entry_points
};

constexpr bool required = true;
constexpr bool optional = false;
constexpr std::array rows{
#define MILLSTREAM_CUDA_ROW(name, version, need, parameters) \
  row{#name, version, need, offsetof(abi::entry_points, name)},
#include "backend/cuda/driver.inc"
#undef MILLSTREAM_CUDA_ROW
};

std::string version_text(int version) {
  return base::cat(version / 1000, '.', version % 1000 / 10);
}

std::string row_text(const row& missing) {
  return base::cat(missing.name, " (", version_text(missing.version), ")");
}

status unavailable(const std::string& library, const std::string& how) {
  return {errc::unavailable,
          base::cat("the CUDA driver ", base::quoted(library), ' ', how, way_out)};
}

constexpr std::array sticky_errors{
    abi::result::deinitialized,        abi::result::ecc_uncorrectable,
    abi::result::nvlink_uncorrectable, abi::result::contained,
    abi::result::illegal_address,      abi::result::launch_timeout,
    abi::result::context_is_destroyed, abi::result::assertion,
    abi::result::hardware_stack_error, abi::result::illegal_instruction,
    abi::result::misaligned_address,   abi::result::invalid_address_space,
    abi::result::invalid_pc,           abi::result::launch_failed,
    abi::result::tensor_memory_leak,
};

errc code_of(abi::result error) noexcept {
  if (is_sticky(error)) return errc::device_lost;
  switch (error) {
    case abi::result::out_of_memory: return errc::out_of_memory;
    case abi::result::not_supported: return errc::unsupported;
    case abi::result::not_initialized: return errc::unavailable;  // a forked child, above all
    default: return errc::device;
  }
}

}  // namespace

bool is_sticky(abi::result error) noexcept {
  return std::find(sticky_errors.begin(), sticky_errors.end(), error) != sticky_errors.end();
}

status driver::look_up(void* get_address) noexcept {
  return guarded("the CUDA driver", [&]() -> status {
    const auto get = reinterpret_cast<abi::get_proc_address>(get_address);
    for (const row& each : rows) {
      void* address = nullptr;
      auto answer = abi::proc_address_answer::not_found;
      const abi::result found =
          get(each.name, &address, each.version, abi::proc_address_flags::legacy_stream, &answer);
      if (found != abi::result::success || answer != abi::proc_address_answer::found) {
        address = nullptr;
      }
      std::memcpy(reinterpret_cast<std::byte*>(&calls_) + each.offset,
                  static_cast<const void*>(&address), sizeof address);
      if (address == nullptr && each.required && missing_.empty()) missing_ = row_text(each);
    }
    return {};
  });
}

result<std::shared_ptr<const driver>> driver::load(const std::string& path) noexcept {
  return guarded("the CUDA driver", [&]() -> result<std::shared_ptr<const driver>> {
    const std::string name = path.empty() ? default_library : path;
    std::string why;
    auto library = base::dynamic_library::open(name, why);
    if (!library) return unavailable(name, base::cat("cannot be loaded (", why, ")"));
    void* const get_address = library.find(abi::get_proc_address_name);
    if (get_address == nullptr) {
      return unavailable(name,
                         base::cat("is older than 12.0: it has no ", abi::get_proc_address_name));
    }
    auto made = std::make_shared<driver>();
    if (status failed = made->look_up(get_address); !failed) return failed;
    library.keep_loaded();
    // The version first, as it explains best why a function is missing. It may be asked for before
    // the initialisation.
    if (made->calls_.cuDriverGetVersion != nullptr &&
        made->calls_.cuDriverGetVersion(&made->version_) == abi::result::success &&
        made->version_ < oldest_version) {
      return unavailable(name, base::cat("has version ", version_text(made->version_)));
    }
    if (!made->missing_.empty()) return unavailable(name, base::cat("lacks ", made->missing_));
    if (const abi::result started = made->calls_.cuInit(0); started != abi::result::success) {
      return unavailable(name, base::cat("does not start: ", made->describe(started)));
    }
    return std::shared_ptr<const driver>(std::move(made));
  });
}

std::string driver::describe(abi::result error) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (calls_.cuGetErrorName(error, &name) != abi::result::success) name = "unknown error";
  if (calls_.cuGetErrorString(error, &text) != abi::result::success) text = "unknown error";
  return base::cat(text, " (", name, ", ", static_cast<std::uint32_t>(error), ")");
}

status driver::failed(std::string_view who, std::string_view what,
                      abi::result error) const noexcept {
  return guarded(who, [&] {
    return status(code_of(error), base::cat(who, " failed to ", what, ": ", describe(error)));
  });
}

}  // namespace millstream::backend::cuda
