// SPDX-License-Identifier: Apache-2.0
// Modules, libraries and their entry points.
#include <algorithm>
#include <cctype>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fakes/cuda_driver/call.hpp"
#include "tests/fakes/cuda_driver/kernels.hpp"
#include "tests/fakes/cuda_driver/launch.hpp"

namespace fake_cuda {

namespace {

constexpr int most_shared = 227 << 10;

bool is_text(const char* image) {
  const auto first = static_cast<unsigned char>(image[0]);
  return std::isprint(first) != 0 || std::isspace(first) != 0;
}

bool is_binary_code(const void* image) {
  constexpr unsigned char elf[4] = {0x7f, 'E', 'L', 'F'};
  constexpr unsigned char fat[4] = {0x50, 0xed, 0x55, 0xba};
  return std::memcmp(image, elf, 4) == 0 || std::memcmp(image, fat, 4) == 0;
}

bool is_name(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' || letter == '$';
}

std::string without_comments(std::string text) {
  for (std::size_t at = text.find("//"); at != std::string::npos; at = text.find("//", at))
    text.erase(at, text.find('\n', at) - at);
  return text;
}

/// The names behind each `.entry` of a text.
std::vector<std::string> entry_names(const std::string& text) {
  constexpr std::string_view mark = ".entry";
  std::vector<std::string> names;
  for (std::size_t at = text.find(mark); at != std::string_view::npos; at = text.find(mark, at)) {
    at += mark.size();
    while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at])) != 0)
      ++at;
    std::size_t end = at;
    while (end < text.size() && is_name(text[end]))
      ++end;
    names.push_back(text.substr(at, end - at));
  }
  return names;
}

struct jit_log {
  char* text = nullptr;
  std::size_t bytes = 0;

  void write(const std::string& what) const {
    if (text == nullptr || bytes == 0) return;
    const std::size_t count = std::min(what.size(), bytes - 1);
    std::memcpy(text, what.data(), count);
    text[count] = '\0';
  }
};

jit_log error_log(std::uint32_t count, const jit_option* options, void** values) {
  jit_log found;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (options[i] == jit_option::error_log_buffer) found.text = static_cast<char*>(values[i]);
    if (options[i] == jit_option::error_log_buffer_bytes)
      found.bytes = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(values[i]));
  }
  return found;
}

image_ptr load(call& in, const void* image, const jit_log& log) {
  require(image != nullptr);
  require(!is_binary_code(image), result::no_binary_for_gpu);
  require(is_text(static_cast<const char*>(image)), result::invalid_image);
  const auto made = std::make_shared<image_state>();
  made->handle = in.new_handle<std::uint64_t>();
  for (const std::string& name : entry_names(without_comments(static_cast<const char*>(image)))) {
    const builtin_kernel* const found = find_builtin(name);
    if (found == nullptr) {
      log.write("entry '" + name + "' is not among the look-alike driver's kernels");
      throw refusal{result::invalid_ptx};
    }
    made->entries.push_back(found);
  }
  if (made->entries.empty()) {
    log.write("the text has no '.entry'");
    throw refusal{result::invalid_ptx};
  }
  return made;
}

image_ptr load_module(call& in, const void* image, const jit_log& log) {
  const context_ptr here = in.current();
  const image_ptr made = load(in, image, log);
  made->owner = here;
  in.all.modules[made->handle] = made;
  return made;
}

void unload(call& in, table<std::uint64_t, image_state>& from, std::uint64_t handle) {
  const image_ptr gone = look_up(from, handle);
  require(gone != nullptr, result::invalid_handle);
  gone->unloaded = true;
  std::erase_if(in.all.functions, [&](const auto& one) {
    if (one.second->image != gone) return false;
    in.all.unloaded_functions.push_back(one.first);
    return true;
  });
  from.erase(handle);
}

std::uint64_t number(const void* handle) {
  return reinterpret_cast<std::uint64_t>(handle);
}

template <class Handle>
Handle handle_of(std::uint64_t number) {
  return reinterpret_cast<Handle>(number);
}

/// The handle of a function that was unloaded stands for the next one that is looked up.
std::uint64_t take_handle(call& in) {
  std::vector<std::uint64_t>& free = in.all.unloaded_functions;
  if (free.empty()) return in.new_handle<std::uint64_t>();
  const std::uint64_t handle = free.back();
  free.pop_back();
  return handle;
}

/// The same entry point of the same image in the same context is one function.
std::uint64_t function_in(call& in, const image_ptr& image, const builtin_kernel* what,
                          const context_ptr& owner) {
  for (const auto& [handle, one] : in.all.functions)
    if (one->image == image && one->what == what && one->owner == owner) return handle;
  const auto made = std::make_shared<function_state>();
  made->what = what;
  made->image = image;
  made->owner = owner;
  const std::uint64_t handle = take_handle(in);
  in.all.functions[handle] = made;
  return handle;
}

std::uint64_t find_entry(call& in, const image_ptr& image, const char* name) {
  require(name != nullptr);
  require(image != nullptr, result::invalid_handle);
  const auto found = std::find_if(image->entries.begin(), image->entries.end(),
                                  [name](const builtin_kernel* one) { return one->name == name; });
  require(found != image->entries.end(), result::not_found);
  return function_in(in, image, *found, image->owner);
}

}  // namespace

namespace served {

result cuModuleLoadData(call& in, module* loaded, const void* image) {
  require(loaded != nullptr);
  *loaded = handle_of<module>(load_module(in, image, {})->handle);
  return result::success;
}

result cuModuleLoadDataEx(call& in, module* loaded, const void* image, std::uint32_t count,
                          jit_option* options, void** values) {
  require(loaded != nullptr);
  const image_ptr made = load_module(in, image, error_log(count, options, values));
  *loaded = handle_of<module>(made->handle);
  return result::success;
}

result cuModuleUnload(call& in, module gone) {
  unload(in, in.all.modules, number(gone));
  return result::success;
}

result cuModuleGetFunction(call& in, function* found, module of, const char* name) {
  require(found != nullptr);
  *found = handle_of<function>(find_entry(in, look_up(in.all.modules, number(of)), name));
  return result::success;
}

result cuLibraryLoadData(call& in, library* loaded, const void* image, jit_option* options,
                         void** values, std::uint32_t count, std::uint32_t* /*library_options*/,
                         void** /*library_values*/, std::uint32_t /*library_count*/) {
  require(loaded != nullptr);
  const image_ptr made = load(in, image, error_log(count, options, values));
  in.all.libraries[made->handle] = made;
  *loaded = handle_of<library>(made->handle);
  return result::success;
}

result cuLibraryUnload(call& in, library gone) {
  unload(in, in.all.libraries, number(gone));
  return result::success;
}

result cuLibraryGetKernel(call& in, kernel* found, library of, const char* name) {
  require(found != nullptr);
  *found = handle_of<kernel>(find_entry(in, look_up(in.all.libraries, number(of)), name));
  return result::success;
}

result cuKernelGetFunction(call& in, function* found, kernel of) {
  require(found != nullptr);
  const function_ptr what = function_of(in, of);
  require(what->owner == nullptr, result::invalid_handle);  // a function is no kernel
  *found = handle_of<function>(function_in(in, what->image, what->what, in.current()));
  return result::success;
}

result cuFuncGetAttribute(call& in, int* value, function_attribute what, function of) {
  require(value != nullptr);
  *value = attribute_of(*function_of(in, of), what);
  return result::success;
}

result cuFuncSetAttribute(call& in, function of, function_attribute what, int value) {
  require(what == function_attribute::max_dynamic_shared_bytes);
  require(value >= 0 && value <= most_shared);
  function_of(in, of)->attributes[static_cast<std::uint32_t>(what)] = value;
  return result::success;
}

result cuFuncGetName(call& in, const char** name, function of) {
  require(name != nullptr);
  *name = function_of(in, of)->what->name.c_str();
  return result::success;
}

result cuFuncGetParamInfo(call& in, function of, std::size_t index, std::size_t* offset,
                          std::size_t* bytes) {
  require(offset != nullptr);
  const builtin_kernel& what = *function_of(in, of)->what;
  require(index < what.parameters.size());
  *offset = what.parameters[index].offset;
  if (bytes != nullptr) *bytes = what.parameters[index].bytes;
  return result::success;
}

}  // namespace served
}  // namespace fake_cuda
