// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/program.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "backend/cuda/state.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/guarded.hpp"

namespace millstream::backend::cuda {
namespace {

/// A number at some place of an image; zero beyond its end.
template <class Number>
Number read_at(std::span<const std::byte> image, std::size_t at) noexcept {
  Number number{};
  if (at + sizeof number <= image.size()) std::memcpy(&number, image.data() + at, sizeof number);
  return number;
}

constexpr std::uint32_t elf_magic = 0x464c457f;     // "\x7fELF"
constexpr std::uint32_t fatbin_magic = 0xba55ed50;  // a container of images

/// How long the image says it is: the driver takes no size and would read that far. A cubin is an
/// ELF file of 64 bits, whose table of sections comes last but for the one of programs; other
/// images are texts and end with a zero byte, which is added.
std::size_t claimed_bytes(std::span<const std::byte> image) noexcept {
  if (read_at<std::uint32_t>(image, 0) == fatbin_magic) {
    return read_at<std::uint16_t>(image, 6) + read_at<std::uint64_t>(image, 8);
  }
  if (read_at<std::uint32_t>(image, 0) != elf_magic) return image.size();
  const std::uint64_t programs =
      read_at<std::uint64_t>(image, 32) +
      std::uint64_t{read_at<std::uint16_t>(image, 54)} * read_at<std::uint16_t>(image, 56);
  const std::uint64_t sections =
      read_at<std::uint64_t>(image, 40) +
      std::uint64_t{read_at<std::uint16_t>(image, 58)} * read_at<std::uint16_t>(image, 60);
  return std::max(programs, sections);
}

status refuse(const device_state& on, std::string_view why) {
  return {errc::invalid_value,
          base::cat(on.who(), " cannot load device code: ", why,
                    "; give a whole cubin, fatbin or PTX text for this device")};
}

struct load_answer {
  abi::result answer = abi::result::success;
  abi::module module = nullptr;
  std::string log;
};

/// Not on a stream, so the thread's capture mode matters.
load_answer call_driver(device_state& on, const std::vector<std::byte>& image) {
  std::array<char, 8192> log{};
  std::array options{abi::jit_option::error_log_buffer, abi::jit_option::error_log_buffer_bytes};
  std::array<void*, 2> values{log.data(), reinterpret_cast<void*>(log.size() - 1)};
  const context_guard in(on.api(), on.context());
  const relaxed_capture allowed(on.api());
  load_answer loaded;
  loaded.answer = on.api()->cuModuleLoadDataEx(&loaded.module, image.data(), options.size(),
                                               options.data(), values.data());
  loaded.log = log.data();
  return loaded;
}

bool is_about_the_image(abi::result error) noexcept {
  constexpr std::array about{
      abi::result::invalid_value,           abi::result::invalid_image,
      abi::result::no_binary_for_gpu,       abi::result::invalid_ptx,
      abi::result::unsupported_ptx_version, abi::result::shared_object_symbol_not_found};
  return std::find(about.begin(), about.end(), error) != about.end();
}

}  // namespace

result<std::unique_ptr<program>> program::load(std::shared_ptr<device_state> on,
                                               std::span<const std::byte> image) {
  if (image.empty()) return refuse(*on, "the image is empty");
  if (claimed_bytes(image) > image.size()) return refuse(*on, "the image is cut off");
  std::vector<std::byte> whole(image.begin(), image.end());
  whole.push_back(std::byte{0});
  on->sweep_modules();
  load_answer loaded = call_driver(*on, whole);
  if (is_about_the_image(loaded.answer)) {
    const std::string log = loaded.log.empty() ? "" : base::cat(": ", loaded.log);
    return refuse(*on, on->api().describe(loaded.answer) + log);
  }
  if (status failed = on->check("load device code", loaded.answer); !failed) return failed;
  return std::make_unique<program>(std::move(on), loaded.module);
}

program::program(std::shared_ptr<device_state> on, abi::module module)
    : on_(std::move(on)),
      alive_(on_->machine().live),
      module_(std::make_unique<loaded_module>(loaded_module{module, false, {}})) {}

program::~program() {
  if (base::forked_child()) return;
  const status noted = guarded(on_->who(), [&]() -> status {
    for (const std::shared_ptr<stream_tail>& each : users_) {
      auto tail = each->now();
      // A captured or a failed stream does not tell when its launches have ended.
      module_->in_graph = module_->in_graph || !tail || tail.value().captured;
      if (tail) module_->last_launches.push_back(std::move(tail.value()));
    }
    return {};
  });
  module_->in_graph = module_->in_graph || !noted;
  on_->retire(std::move(module_));
  on_->sweep_modules();
}

result<backend::kernel*> program::find(const std::string& entry) {
  return guarded(on_->who(), [&]() -> result<backend::kernel*> {
    const std::scoped_lock hold(mutex_);
    std::unique_ptr<kernel>& known = kernels_[entry];
    if (known == nullptr) {
      auto found = look_up(entry);
      if (!found) return found.take_status();
      known = std::move(found.value());
    }
    return static_cast<backend::kernel*>(known.get());
  });
}

result<std::unique_ptr<kernel>> program::look_up(const std::string& entry) {
  const context_guard in(on_->api(), on_->context());
  const relaxed_capture allowed(on_->api());
  abi::function found = nullptr;
  const abi::result answer =
      on_->api()->cuModuleGetFunction(&found, module_->handle, entry.c_str());
  if (answer == abi::result::not_found) {
    return status(errc::invalid_value,
                  base::cat(on_->who(), " finds no kernel ", base::quoted(entry),
                            " in this image; give the name as it is in the image"));
  }
  if (status failed = on_->check("look a kernel up", answer); !failed) return failed;
  return std::make_unique<kernel>(*on_, *this, entry, found);
}

// Tails that are noted are kept, so that an address stands for one of them. Callers' streams are
// adopted again and again: those that have ended are forgotten.
void program::note_launch(const std::shared_ptr<stream_tail>& on, bool captured) {
  if (captured) note_graph();
  if (last_user_.load(std::memory_order_relaxed) == on.get()) return;
  const std::scoped_lock hold(mutex_);
  if (std::find(users_.begin(), users_.end(), on) == users_.end()) {
    if (users_.size() > 2 * users_looked_at_) forget_ended_users();
    users_.push_back(on);
  }
  last_user_.store(on.get(), std::memory_order_relaxed);
}

// Before an address can come again it is nobody's last one.
void program::forget_ended_users() noexcept {
  last_user_.store(nullptr, std::memory_order_relaxed);
  std::erase_if(users_, [&](const std::shared_ptr<stream_tail>& each) {
    const stream_tail::state now = each->look();
    if (now == stream_tail::state::captured) {
      module_->in_graph = true;
      in_graph_.store(true, std::memory_order_relaxed);
    }
    return now == stream_tail::state::captured || now == stream_tail::state::ended;
  });
  users_looked_at_ = users_.size();
}

void program::note_graph() {
  if (in_graph_.load(std::memory_order_relaxed)) return;
  const std::scoped_lock hold(mutex_);
  module_->in_graph = true;
  in_graph_.store(true, std::memory_order_relaxed);
}

}  // namespace millstream::backend::cuda
