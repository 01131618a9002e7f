// SPDX-License-Identifier: Apache-2.0
#include "base/dynamic_library.hpp"

#include <dlfcn.h>

namespace millstream::base {

dynamic_library::~dynamic_library() {
  if (handle_ != nullptr) dlclose(handle_);
}

dynamic_library dynamic_library::open(const std::string& path, std::string& why) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = dlerror();
    why = reason == nullptr ? "the loader gave no reason" : reason;
  }
  return dynamic_library(handle);
}

void* dynamic_library::find(const char* name) const noexcept {
  return handle_ == nullptr ? nullptr : dlsym(handle_, name);
}

}  // namespace millstream::base
