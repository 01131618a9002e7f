// SPDX-License-Identifier: Apache-2.0
// Images, entry points and launches.
#include <array>
#include <cstring>

#include "tests/unit/fake_cuda/driver.hpp"

namespace fake_cuda_test {
namespace {

class Kernel : public DriverTest {
 protected:
  result launch_shape(std::uint32_t grid, std::uint32_t block, std::uint32_t shared) {
    std::uint64_t turns = 0;
    void* list[] = {&turns};
    return call.cuLaunchKernel(find_kernel("test_spin"), grid, 1, 1, block, 1, 1, shared, nullptr,
                               list, nullptr);
  }
};
class FakeKernel : public FakeDriverTest {};

TEST_F(Kernel, ArgumentsArriveByPointers) {
  const device_pointer block = make_block(40);
  OK(launch(nullptr, "test_fill_u32", block, std::uint32_t{7}, std::uint64_t{10}));
  EXPECT_EQ(read_words(block, 10), std::vector<std::uint32_t>(10, 7));
}

TEST_F(Kernel, ArgumentsArriveInABlock) {
  const device_pointer block = make_block(40);
  struct {
    device_pointer to;
    std::uint32_t value;
    std::uint64_t count;
  } packed{block, 8, 10};
  std::size_t bytes = sizeof packed;
  void* extra[] = {reinterpret_cast<void*>(launch_key::buffer_pointer), &packed,
                   reinterpret_cast<void*>(launch_key::buffer_bytes), &bytes, launch_end};
  OK(call.cuLaunchKernel(find_kernel("test_fill_u32"), 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr,
                         extra));
  EXPECT_EQ(read_words(block, 10), std::vector<std::uint32_t>(10, 8));
}

TEST_F(Kernel, AConfigurationLaunchesTheSame) {
  const device_pointer block = make_block(40);
  std::uint32_t value = 9;
  std::uint64_t count = 10;
  device_pointer to = block;
  void* list[] = {&to, &value, &count};
  const launch_config how{2, 1, 1, 32, 1, 1, 0, nullptr, nullptr, 0};
  OK(call.cuLaunchKernelEx(&how, find_kernel("test_fill_u32"), list, nullptr));
  EXPECT_EQ(read_words(block, 10), std::vector<std::uint32_t>(10, 9));
}

TEST_F(Kernel, ImpossibleAttributesAreRefused) {
  std::uint64_t turns = 0;
  void* list[] = {&turns};
  const auto answer = [&](launch_attribute_id id, std::array<std::uint32_t, 3> value,
                          std::uint32_t grid) {
    launch_attribute attribute{};
    attribute.id = id;
    std::memcpy(attribute.value.bytes, value.data(), sizeof value);
    const launch_config how{grid, 1, 1, 1024, 1, 1, 0, nullptr, &attribute, 1};
    return call.cuLaunchKernelEx(&how, find_kernel("test_spin"), list, nullptr);
  };
  OK(answer(launch_attribute_id::cooperative, {1}, 1));
  EXPECT_EQ(answer(launch_attribute_id::cooperative, {1}, 1 << 20),
            result::cooperative_launch_too_large);
  OK(answer(launch_attribute_id::programmatic_stream_serialization, {1}, 1));
}

TEST_F(FakeKernel, AClusterDividesTheGridAndIsSmall) {
  std::uint64_t turns = 0;
  void* list[] = {&turns};
  const auto answer = [&](std::uint32_t blocks, std::uint32_t grid) {
    launch_attribute attribute{};
    attribute.id = launch_attribute_id::cluster_dimension;
    const std::array<std::uint32_t, 3> value{blocks, 1, 1};
    std::memcpy(attribute.value.bytes, value.data(), sizeof value);
    const launch_config how{grid, 1, 1, 1, 1, 1, 0, nullptr, &attribute, 1};
    return call.cuLaunchKernelEx(&how, find_kernel("test_spin"), list, nullptr);
  };
  OK(answer(2, 4));
  EXPECT_EQ(control.launch_attributes(), 1U << 4U);
  EXPECT_EQ(answer(2, 3), result::invalid_cluster_size);
  EXPECT_EQ(answer(16, 16), result::invalid_cluster_size);
}

TEST_F(Kernel, AFunctionTellsItsName) {
  const char* name = nullptr;
  OK(call.cuFuncGetName(&name, find_kernel("test_spin")));
  EXPECT_STREQ(name, "test_spin");
}

TEST_F(Kernel, TheArithmeticIsThatOfTheHost) {
  const device_pointer x = make_block(16);
  const device_pointer y = make_block(16);
  OK(launch(nullptr, "test_fill_f64", x, 0.1, std::uint64_t{2}));
  OK(launch(nullptr, "test_fill_f64", y, 0.2, std::uint64_t{2}));
  OK(launch(nullptr, "test_axpy_f64", y, x, 3.0, std::uint64_t{2}));
  OK(launch(nullptr, "test_scale_f64", y, 7.0, std::uint64_t{2}));
  OK(launch(nullptr, "test_add_f64", x, x, y, std::uint64_t{2}));
  std::array<double, 2> back{};
  OK(call.cuMemcpyDtoH(back.data(), x, sizeof back));
  const volatile double product = 3.0 * 0.1;
  EXPECT_EQ(back[1], 0.1 + (0.2 + product) * 7.0);
}

TEST_F(Kernel, EveryEntryOfTheFileIsKnown) {
  for (const char* name : {"test_fill_u8", "test_scale_f32", "test_add_u32", "test_spin_until_set",
                           "test_write_word", "test_touch"})
    EXPECT_NE(find_kernel(name), nullptr) << name;
}

TEST_F(Kernel, ParametersAreDescribed) {
  const function fill = find_kernel("test_fill_u32");
  std::size_t offset = 0;
  std::size_t bytes = 0;
  OK(call.cuFuncGetParamInfo(fill, 2, &offset, &bytes));
  EXPECT_EQ(offset, 16U);
  EXPECT_EQ(bytes, 8U);
  EXPECT_EQ(call.cuFuncGetParamInfo(fill, 3, &offset, &bytes), result::invalid_value);
}

TEST_F(Kernel, ALibraryServesAllContexts) {
  library loaded = nullptr;
  kernel found = nullptr;
  function entry = nullptr;
  OK(call.cuLibraryLoadData(&loaded,
                            ".version 6.0\n.target sm_60\n.address_size 64\n"
                            ".visible .entry test_spin(.param .u64 turns) { ret; }",
                            nullptr, nullptr, 0, nullptr, nullptr, 0));
  OK(call.cuLibraryGetKernel(&found, loaded, "test_spin"));
  OK(call.cuKernelGetFunction(&entry, found));
  function none = nullptr;
  EXPECT_EQ(call.cuKernelGetFunction(&none, reinterpret_cast<kernel>(entry)),
            result::invalid_handle);
  std::uint64_t turns = 1;
  void* list[] = {&turns};
  OK(call.cuLaunchKernel(entry, 1, 1, 1, 1, 1, 1, 0, nullptr, list, nullptr));
  OK(call.cuCtxSynchronize());
  OK(call.cuLibraryUnload(loaded));
}

TEST_F(Kernel, ImpossibleShapesAreRefused) {
  EXPECT_EQ(launch_shape(0, 1, 0), result::invalid_value);
  EXPECT_EQ(launch_shape(1, 0, 0), result::invalid_value);
  EXPECT_EQ(launch_shape(1, 1025, 0), result::invalid_value);
  EXPECT_EQ(launch_shape(1, 1, 64 << 10), result::invalid_value);
  OK(call.cuFuncSetAttribute(find_kernel("test_spin"), function_attribute::max_dynamic_shared_bytes,
                             64 << 10));
  OK(launch_shape(1, 1, 64 << 10));
}

TEST_F(Kernel, WrongImagesAreRefusedWithALog) {
  char log[200] = "";
  jit_option options[] = {jit_option::error_log_buffer, jit_option::error_log_buffer_bytes};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
  module loaded = nullptr;
  EXPECT_EQ(call.cuModuleLoadDataEx(&loaded, ".version 6.0 this is no program", 2, options, values),
            result::invalid_ptx);
  EXPECT_GT(std::strlen(log), 0U);
  const char garbage[64] = {1, 2, 3};
  EXPECT_EQ(call.cuModuleLoadDataEx(&loaded, garbage, 0, nullptr, nullptr), result::invalid_image);
}

TEST_F(Kernel, AMissingEntryIsNotFound) {
  find_kernel("test_spin");
  function found = nullptr;
  module loaded = nullptr;
  OK(call.cuModuleLoadData(&loaded,
                           ".version 6.0\n.target sm_60\n.address_size 64\n"
                           ".visible .entry test_spin(.param .u64 turns) { ret; }"));
  EXPECT_EQ(call.cuModuleGetFunction(&found, loaded, "missing"), result::not_found);
  OK(call.cuModuleUnload(loaded));
}

TEST_F(Kernel, AFunctionRunsInItsOwnContextOnly) {
  context other = nullptr;
  OK(call.cuCtxCreate(&other, 0, 0));
  stream theirs = nullptr;
  OK(call.cuStreamCreate(&theirs, stream_flags::non_blocking));
  OK(call.cuCtxSetCurrent(here));
  EXPECT_EQ(launch(theirs, "test_spin", std::uint64_t{1}), result::invalid_handle);
  OK(call.cuCtxDestroy(other));
}

TEST_F(FakeKernel, TouchingForeignMemoryIsAFaultThatStays) {
  const stream on = make_stream();
  OK(launch(on, "test_touch", std::uint64_t{64}));
  EXPECT_EQ(call.cuStreamSynchronize(on), result::illegal_address);
  device_pointer block = 0;
  EXPECT_EQ(call.cuMemAlloc(&block, 64), result::illegal_address);
  EXPECT_NE(last_fault().find("test_touch"), std::string::npos);
}

TEST_F(FakeKernel, OrdinaryHostMemoryIsForeign) {
  std::uint32_t word = 0;
  const stream on = make_stream();
  OK(launch(on, "test_touch", reinterpret_cast<std::uint64_t>(&word)));
  EXPECT_EQ(call.cuStreamSynchronize(on), result::illegal_address);
}

TEST_F(FakeKernel, AnImageOutlivesItsLaunches) {
  module loaded = nullptr;
  OK(call.cuModuleLoadData(&loaded, ".entry test_spin"));
  function found = nullptr;
  OK(call.cuModuleGetFunction(&found, loaded, "test_spin"));
  const stream on = make_stream();
  std::uint64_t turns = 1;
  void* list[] = {&turns};
  OK(call.cuLaunchKernel(found, 1, 1, 1, 1, 1, 1, 0, on, list, nullptr));
  OK(call.cuModuleUnload(loaded));
  EXPECT_EQ(call.cuStreamSynchronize(on), result::launch_failed);
}

}  // namespace
}  // namespace fake_cuda_test
