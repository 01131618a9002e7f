// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/cuda/engine_test.hpp"

namespace millstream::test {

const first_device& device_0() {
  static const first_device* const only = [] {
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
