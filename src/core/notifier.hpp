// SPDX-License-Identifier: Apache-2.0
/// Tells listeners that work has ended: one thread of the process waits for all of them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <millstream/untyped.hpp>

#include "backend/event.hpp"
#include "core/completion.hpp"
#include "core/wait_graph.hpp"

namespace millstream::core {

class context;
class data;

/// A mark that somebody on the host waits for.
struct host_wait {
  std::unique_ptr<backend::event> event;
  completion reached;
};

/// A listener with what has to end first. It keeps the context, and the datum by a reference of its
/// own.
struct pending_notice {
  std::shared_ptr<context> in;
  std::vector<host_wait> marks;
  data* what = nullptr;  ///< null = whole context
  std::uint64_t version = 0;
  std::uint64_t last_task = 0;
  std::unique_ptr<notice> told;
};

/// Makes sure that there is a thread to tell them. Throws error(device) if the system gives none.
void start_notifier();
/// Never blocks, takes an innermost lock, and needs the notifier started.
void add_notice(pending_notice&& next);
/// Whether the caller is the thread that tells, in a listener.
[[nodiscard]] bool is_notifier_thread() noexcept;
/// Whether the caller is in a listener of a notice of that context.
[[nodiscard]] bool is_told_for(const context& of) noexcept;
/// After `base::mark_shut_down`: those left are told so.
void hurry_notices() noexcept;
/// Whether none is left.
[[nodiscard]] bool are_notices_told() noexcept;

}  // namespace millstream::core
