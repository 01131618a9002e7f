// SPDX-License-Identifier: Apache-2.0
/// The null machine keeps these promises: those that need no values.
#include "backend/null/machine.hpp"

#include "tests/conformance/join.hpp"

namespace conformance {
namespace {

const joined null({
    .name = "null",
    .open = backend::null::open,
    .bits = backend::capability_set{capability::runs_jobs, capability::kernels, capability::graphs,
                                    capability::capture_to_graph},
    .never_list = {},
    .not_yet_list = {},
    .never_seeded = {},
});

}  // namespace
}  // namespace conformance
