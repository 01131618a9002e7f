// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/cuda/engine_test.hpp"

#include <cstdlib>

namespace millstream::test {
namespace {

// On an H200 the first launch of a kernel that is loaded when it is first needed stood still while
// any stream waited for the host (docs/design/0003), and some of these tests have such a stream.
const bool kernels_are_loaded_at_once = setenv("CUDA_MODULE_LOADING", "EAGER", 0) == 0;

}  // namespace

const first_device& device_0() {
  static const first_device* const only = [] {
    EXPECT_TRUE(kernels_are_loaded_at_once);
    auto* const made = new first_device;
    const abi::context before = current_context();
    must(cuda_driver().call.cuInit(0));
    must(cuda_driver().call.cuDevicePrimaryCtxRetain(&made->context, 0));
    must(cuda_driver().call.cuCtxSetCurrent(made->context));
    must(
        cuda_driver().call.cuModuleLoadData(&made->kernels, fake_cuda_test::kernel_text().c_str()));
    must(cuda_driver().call.cuCtxSetCurrent(before));
    return made;
  }();
  return *only;
}

}  // namespace millstream::test
