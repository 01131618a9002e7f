// SPDX-License-Identifier: Apache-2.0
/// The CUDA machine keeps these promises, on a GPU and on the look-alike driver.
#include "backend/cuda/machine.hpp"

#include "tests/conformance/join.hpp"

namespace conformance {
namespace {

const joined cuda({
    .name = "cuda",
    .open = backend::cuda::open,
    .bits = backend::capability_set{capability::values, capability::kernels, capability::managed,
                                    capability::peer, capability::capture_to_graph,
                                    capability::graphs, capability::vmm, capability::green_contexts,
                                    capability::stream_memory_ops},
    .never_list = {},
    .not_yet_list = {},
    .never_seeded = {},
});

}  // namespace
}  // namespace conformance
