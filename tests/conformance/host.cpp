// SPDX-License-Identifier: Apache-2.0
/// The host machine keeps these promises.
#include "backend/host/machine.hpp"

#include "tests/conformance/join.hpp"

namespace conformance {
namespace {

const joined host({
    .name = "host",
    .open = backend::host::open,
    .bits = backend::capability_set{capability::runs_jobs, capability::host_memory,
                                    capability::values, capability::managed, capability::peer,
                                    capability::graphs},
    .never_list = {},
    .not_yet_list = {},
    .never_seeded =
        {
            {"jobs.QueuesOverlap", "under a seed one job runs at a time"},
            {"shutdown_values.ClosingAQueueDoesNotWaitForARunningJob",
             "under a seed a job runs only while somebody waits"},
        },
});

}  // namespace
}  // namespace conformance
