// SPDX-License-Identifier: Apache-2.0
/// Copies in host lanes, whose failures are found only when their turn comes.
#pragma once

#include <cstdint>
#include <memory>

#include <millstream/trace.hpp>

#include "backend/queue.hpp"

namespace millstream::core {

class data;
class machine;

/// Whether copies of its devices' memory in host lanes may fail after they were queued.
[[nodiscard]] bool has_late_copies(const machine& on) noexcept;

/// Called right after a copy of the datum's present version was queued there, under the context's
/// lock. If the copy fails, that version is poisoned before anything that comes after it in the
/// lane begins, and the failure is one of the context's, of that task. A refused job is an error:
/// then nobody looks.
[[nodiscard]] backend::status poison_if_copy_fails(backend::queue& in, data& of, copy_reason why,
                                                   std::uint64_t task_id);

/// The same for who waits for the copy: its failure is put there. Nobody else is told.
[[nodiscard]] backend::status tell_if_copy_fails(backend::queue& in,
                                                 std::shared_ptr<backend::status> into);

}  // namespace millstream::core
