// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/cuda_driver/proc.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "tests/fakes/cuda_driver/call.hpp"

namespace fake_cuda {

namespace {

// As seen on an H200 (tests/unit/fake_cuda/unsafe_calls_test.cpp); unlike a GPU, loading device
// code always counts. Allocation in stream order is unsafe, too, unless the stream itself is
// captured.
constexpr std::array unsafe_rows{
    row::cuMemAlloc,         row::cuMemFree,         row::cuMemHostAlloc,
    row::cuMemFreeHost,      row::cuMemHostRegister, row::cuMemHostUnregister,
    row::cuMemAllocManaged,  row::cuModuleLoadData,  row::cuModuleLoadDataEx,
    row::cuModuleUnload,     row::cuLibraryUnload,   row::cuEventQuery,
    row::cuEventSynchronize, row::cuStreamQuery,     row::cuStreamSynchronize,
    row::cuCtxSynchronize,   row::cuMemPoolCreate,   row::cuMemPoolDestroy,
    row::cuMemPoolSetAccess, row::cuMemPoolTrimTo};

bool is_unsafe(row which) {
  return std::find(unsafe_rows.begin(), unsafe_rows.end(), which) != unsafe_rows.end();
}

using row_table = std::array<row_info, row_count>;

row_table make_table() {
  row_table made;
  const auto add = [&made](row which, std::string_view name, int version, void* address) {
    made[static_cast<std::size_t>(which)] = {which, name, version, address, is_unsafe(which)};
  };
#define MILLSTREAM_CUDA_ROW(name, version, need, parameters) \
  add(row::name, #name, version, reinterpret_cast<void*>(&entry<row::name, &served::name>::run));
#include "backend/cuda/driver.inc"
#include "tests/fakes/cuda_driver/extra.inc"
#undef MILLSTREAM_CUDA_ROW
  return made;
}

const row_table& rows() {
  static const row_table all = make_table();
  return all;
}

proc_address_answer find_for(const settings& config, std::string_view name, int version,
                             void** address) {
  const row_info* const found = find_row(name);
  if (found == nullptr || config.hidden.count(std::string(name)) != 0 ||
      found->version > config.version)
    return proc_address_answer::not_found;
  if (version < found->version) return proc_address_answer::version_too_low;
  *address = found->address;
  return proc_address_answer::found;
}

}  // namespace

const row_info& info_of(row which) noexcept {
  return rows()[static_cast<std::size_t>(which)];
}

const row_info* find_row(std::string_view name) noexcept {
  const row_table& all = rows();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [name](const row_info& one) { return one.name == name; });
  return found == all.end() ? nullptr : &*found;
}

result answer_proc_address(const char* name, void** address, int version,
                           proc_address_answer* answer) noexcept {
  if (name == nullptr || address == nullptr) return result::invalid_value;
  *address = nullptr;
  state& all = the_state();
  const std::unique_lock hold(all.mutex);
  const proc_address_answer found = find_for(all.config, name, version, address);
  if (answer != nullptr) *answer = found;
  return found == proc_address_answer::found ? result::success : result::not_found;
}

}  // namespace fake_cuda
