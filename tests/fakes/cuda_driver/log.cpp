// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/cuda_driver/log.hpp"

#include "tests/fakes/cuda_driver/proc.hpp"

namespace fake_cuda {

void call_log::turn(bool on) {
  if (on) calls_.clear();
  on_ = on;
}

void call_log::write_to(const std::string& path) {
  if (file_ != nullptr) std::fclose(file_);
  file_ = path.empty() ? nullptr : std::fopen(path.c_str(), "a");
}

void call_log::note(const logged_call& what) {
  if (on_) calls_.push_back(what);
  if (file_ != nullptr) write(what);
}

void call_log::write(const logged_call& what) const {
  const std::string_view name = info_of(what.which).name;
  std::fprintf(file_, "%d %.*s(", what.thread, static_cast<int>(name.size()), name.data());
  for (std::size_t i = 0; i < what.words; ++i)
    std::fprintf(file_, "%s0x%llx", i == 0 ? "" : ", ",
                 static_cast<unsigned long long>(what.argument[i]));
  std::fprintf(file_, ") = %u\n", static_cast<unsigned>(what.answer));
  std::fflush(file_);
}

}  // namespace fake_cuda
