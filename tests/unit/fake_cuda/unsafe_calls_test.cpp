// SPDX-License-Identifier: Apache-2.0
// Which calls disturb a capture in global mode, seen on an H200 with driver 13.0.
#include <array>

#include "tests/unit/fake_cuda/driver.hpp"

namespace fake_cuda_test {
namespace {

/// What the calls are made with.
struct things {
  const entry_points& call;
  context here;
  stream other;
  event passed;
  device_pointer block;
  void* pinned;
  memory_pool pool;
  module code;
  function entry;
};

struct candidate {
  const char* name;
  bool disturbs;
  result (*make)(const things& with);
};

constexpr std::size_t large = std::size_t{2} << 20U;
const char code_text[] =
    ".version 6.0\n.target sm_60\n.address_size 64\n"
    ".visible .entry test_spin(.param .u64 turns) { ret; }\n";

const std::array candidates{
    candidate{"cuCtxGetCurrent", false,
              [](const things& with) {
                context now = nullptr;
                return with.call.cuCtxGetCurrent(&now);
              }},
    candidate{
        "cuCtxGetStreamPriorityRange", false,
        [](const things& with) { return with.call.cuCtxGetStreamPriorityRange(nullptr, nullptr); }},
    candidate{"cuDevicePrimaryCtxRetain", false,
              [](const things& with) {
                context again = nullptr;
                const result answer = with.call.cuDevicePrimaryCtxRetain(&again, 0);
                with.call.cuDevicePrimaryCtxRelease(0);
                return answer;
              }},
    candidate{"cuStreamCreate", false,
              [](const things& with) {
                stream made = nullptr;
                const result answer = with.call.cuStreamCreate(&made, stream_flags::non_blocking);
                with.call.cuStreamDestroy(made);
                return answer;
              }},
    candidate{"cuStreamGetCtx", false,
              [](const things& with) {
                context owner = nullptr;
                return with.call.cuStreamGetCtx(with.other, &owner);
              }},
    candidate{"cuStreamQuery", true,
              [](const things& with) { return with.call.cuStreamQuery(with.other); }},
    candidate{"cuStreamSynchronize", true,
              [](const things& with) { return with.call.cuStreamSynchronize(with.other); }},
    candidate{"cuStreamWaitEvent", false,
              [](const things& with) {
                return with.call.cuStreamWaitEvent(with.other, with.passed, event_wait_flags::none);
              }},
    candidate{"cuEventCreate", false,
              [](const things& with) {
                event made = nullptr;
                const result answer = with.call.cuEventCreate(&made, event_flags::disable_timing);
                with.call.cuEventDestroy(made);
                return answer;
              }},
    candidate{"cuEventRecord", false,
              [](const things& with) { return with.call.cuEventRecord(with.passed, with.other); }},
    candidate{"cuEventQuery", true,
              [](const things& with) { return with.call.cuEventQuery(with.passed); }},
    candidate{"cuEventSynchronize", true,
              [](const things& with) { return with.call.cuEventSynchronize(with.passed); }},
    candidate{"cuCtxSynchronize", true,
              [](const things& with) { return with.call.cuCtxSynchronize(); }},
    candidate{"cuMemGetInfo", false,
              [](const things& with) {
                std::size_t free = 0;
                std::size_t total = 0;
                return with.call.cuMemGetInfo(&free, &total);
              }},
    candidate{"cuMemAlloc", true,
              [](const things& with) {
                device_pointer made = 0;
                const result answer = with.call.cuMemAlloc(&made, 64);
                if (answer == result::success) with.call.cuMemFree(made);
                return answer;
              }},
    candidate{"cuMemHostAlloc", true,
              [](const things& with) {
                void* made = nullptr;
                const result answer =
                    with.call.cuMemHostAlloc(&made, 64, host_alloc_flags::portable);
                if (answer == result::success) with.call.cuMemFreeHost(made);
                return answer;
              }},
    candidate{"cuMemHostGetDevicePointer", false,
              [](const things& with) {
                device_pointer seen = 0;
                return with.call.cuMemHostGetDevicePointer(&seen, with.pinned, 0);
              }},
    candidate{"cuMemHostRegister", true,
              [](const things& with) {
                static std::array<unsigned char, 3 * 4096> mine;
                const result answer = with.call.cuMemHostRegister(mine.data(), mine.size(),
                                                                  host_register_flags::portable);
                if (answer == result::success) with.call.cuMemHostUnregister(mine.data());
                return answer;
              }},
    candidate{"cuMemAllocManaged", true,
              [](const things& with) {
                device_pointer made = 0;
                const result answer = with.call.cuMemAllocManaged(&made, 64, attach_flags::global);
                if (answer == result::success) with.call.cuMemFree(made);
                return answer;
              }},
    candidate{"cuPointerGetAttribute", false,
              [](const things& with) {
                std::uint32_t type = 0;
                return with.call.cuPointerGetAttribute(&type, pointer_attribute::memory_type,
                                                       with.block);
              }},
    candidate{"cuMemPoolCreate", true,
              [](const things& with) {
                memory_pool_properties properties{};
                properties.type = allocation_type::pinned;
                properties.location = {location_type::at_device, 0};
                memory_pool made = nullptr;
                const result answer = with.call.cuMemPoolCreate(&made, &properties);
                if (answer == result::success) with.call.cuMemPoolDestroy(made);
                return answer;
              }},
    candidate{"cuMemPoolSetAccess", true,
              [](const things& with) {
                const memory_access access{{location_type::at_device, 0}, access_flags::read_write};
                return with.call.cuMemPoolSetAccess(with.pool, &access, 1);
              }},
    candidate{"cuMemPoolTrimTo", true,
              [](const things& with) { return with.call.cuMemPoolTrimTo(with.pool, 0); }},
    candidate{"cuMemAllocFromPoolAsync", true,
              [](const things& with) {
                device_pointer made = 0;
                const result answer =
                    with.call.cuMemAllocFromPoolAsync(&made, 64, with.pool, with.other);
                if (answer == result::success) with.call.cuMemFreeAsync(made, with.other);
                return answer;
              }},
    candidate{
        "cuMemsetD8Async", false,
        [](const things& with) { return with.call.cuMemsetD8Async(with.block, 0, 4, with.other); }},
    candidate{"cuMemcpyHtoDAsync of page-locked memory", false,
              [](const things& with) {
                return with.call.cuMemcpyHtoDAsync(with.block, with.pinned, 4, with.other);
              }},
    candidate{"cuMemcpyHtoDAsync of ordinary memory", false,
              [](const things& with) {
                const int source = 0;
                return with.call.cuMemcpyHtoDAsync(with.block, &source, 4, with.other);
              }},
    candidate{"cuMemcpyDtoHAsync to ordinary memory", false,
              [](const things& with) {
                int target = 0;
                return with.call.cuMemcpyDtoHAsync(&target, with.block, 4, with.other);
              }},
    candidate{"cuMemcpyHtoD", false,
              [](const things& with) {
                const int source = 0;
                return with.call.cuMemcpyHtoD(with.block, &source, 4);
              }},
    candidate{"cuModuleLoadData and cuModuleUnload", true,
              [](const things& with) {
                module made = nullptr;
                const result answer = with.call.cuModuleLoadData(&made, code_text);
                return answer == result::success ? with.call.cuModuleUnload(made) : answer;
              }},
    candidate{"cuModuleGetFunction", false,
              [](const things& with) {
                function found = nullptr;
                return with.call.cuModuleGetFunction(&found, with.code, "test_spin");
              }},
    candidate{"cuFuncGetAttribute", false,
              [](const things& with) {
                int value = 0;
                return with.call.cuFuncGetAttribute(&value, function_attribute::shared_bytes,
                                                    with.entry);
              }},
    candidate{"cuLaunchKernel", false,
              [](const things& with) {
                std::uint64_t turns = 0;
                void* list[] = {&turns};
                return with.call.cuLaunchKernel(with.entry, 1, 1, 1, 1, 1, 1, 0, with.other, list,
                                                nullptr);
              }},
    candidate{"cuLaunchHostFunc", false,
              [](const things& with) {
                return with.call.cuLaunchHostFunc(with.other, [](void*) {}, nullptr);
              }},
    candidate{"cuStreamWriteValue32", false,
              [](const things& with) {
                return with.call.cuStreamWriteValue32(with.other, with.block, 1,
                                                      write_value_flags::none);
              }},
    candidate{"cuMemAddressReserve", false,
              [](const things& with) {
                device_pointer range = 0;
                const result answer = with.call.cuMemAddressReserve(&range, large, 0, 0, 0);
                if (answer == result::success) with.call.cuMemAddressFree(range, large);
                return answer;
              }},
    candidate{"cuMemCreate", false,
              [](const things& with) {
                allocation_properties properties{};
                properties.type = allocation_type::pinned;
                properties.location = {location_type::at_device, 0};
                allocation_handle made = 0;
                const result answer = with.call.cuMemCreate(&made, large, &properties, 0);
                if (answer == result::success) with.call.cuMemRelease(made);
                return answer;
              }},
    candidate{"cuGraphCreate", false,
              [](const things& with) {
                graph made = nullptr;
                const result answer = with.call.cuGraphCreate(&made, 0);
                if (answer == result::success) with.call.cuGraphDestroy(made);
                return answer;
              }},
};

class UnsafeCall : public DriverTest {
 protected:
  things make_things() {
    things made{call,         here,           make_stream(),
                make_event(), make_block(64), make_pinned<char>(64),
                nullptr,      nullptr,        nullptr};
    OK(call.cuDeviceGetDefaultMemPool(&made.pool, 0));
    OK(call.cuModuleLoadData(&made.code, code_text));
    finally([this, code = made.code] { call.cuModuleUnload(code); });
    OK(call.cuModuleGetFunction(&made.entry, made.code, "test_spin"));
    OK(call.cuEventRecord(made.passed, made.other));
    OK(call.cuStreamSynchronize(made.other));
    return made;
  }
  /// Whether a capture of this thread is spoilt by the call.
  bool spoils(const candidate& what, const things& with) {
    const stream captured = make_stream();
    graph made = nullptr;
    OK(call.cuStreamBeginCapture(captured, capture_mode::global));
    const result answer = what.make(with);
    const result end = call.cuStreamEndCapture(captured, &made);
    if (made != nullptr) call.cuGraphDestroy(made);
    EXPECT_EQ(answer == result::success, end == result::success) << what.name;
    EXPECT_TRUE(answer == result::success || answer == result::stream_capture_unsupported ||
                answer == result::stream_capture_implicit)
        << what.name << " answers " << static_cast<std::uint32_t>(answer);
    return end != result::success;
  }
};

TEST_F(UnsafeCall, CapturesInGlobalModeAreSpoiltByTheseCallsOnly) {
  const things with = make_things();
  for (const candidate& one : candidates)
    EXPECT_EQ(spoils(one, with), one.disturbs) << one.name;
}

}  // namespace
}  // namespace fake_cuda_test
