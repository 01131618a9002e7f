// SPDX-License-Identifier: Apache-2.0
// A device that failed for good takes the contexts of its machine with it.
#include "core/context.hpp"

namespace millstream::core {

error context::loss_error(const lock& held) {
  (void)held;
  if (loss_text_.empty()) {
    const std::string suspects = recent_.unfinished(lanes_);
    loss_text_ = on().driver().loss().text();
    if (!suspects.empty()) loss_text_ += "; what failed is " + suspects;
  }
  return {errc::device_lost, loss_text_};
}

// Nothing runs on the device any more, so its memory is left alone and buffers of the user's need
// no wait.
void context::abandon_content(data& of, std::vector<std::shared_ptr<void>>& dropped) {
  of.let_go = true;
  if (of.registered) {
    ranges_.remove(of);
    leave_sharing(of);
    dropped.push_back(std::move(of.keep_alive));
  }
  of.instances.clear();
  of.valid = {};
}

void context::finish_lost(lock& held, std::vector<std::shared_ptr<void>>& dropped) {
  phase_ = phase::finishing;
  lanes_.give_up_stage();
  for (;;) {
    const std::uint64_t ends = on().host_end_count();
    if (!lanes_.has_unfinished_host_job()) break;
    wait_for_host_end(held, ends);
  }
  static_cast<void>(await_notices(held));
  for (data* each : all_data_) {
    if (!each->let_go) abandon_content(*each, dropped);
  }
  close_lanes(dropped);
}

}  // namespace millstream::core
