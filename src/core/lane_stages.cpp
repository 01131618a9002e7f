// SPDX-License-Identifier: Apache-2.0
/// Lanes and the stages of a recording: what positions in them have become, and how they end.
#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "base/text.hpp"
#include "core/lanes.hpp"
#include "core/notifier.hpp"
#include "core/wait_graph.hpp"

namespace millstream::core {

void lane_set::wait_recorded(lane_index waiter, completion what) {
  if (what.is_recorded()) {
    recorder_->wait(waiter, what);
  } else if (!is_done(what)) {
    before_stage_.add(what);
  }
}

completion_set lane_set::settled(const completion_set& what) const {
  completion_set now;
  for (const completion& each : what)
    for_each_settled(each, [&](completion position) { now.add(position); });
  return now;
}

bool lane_set::are_launched(const completion_set& what) const noexcept {
  return std::none_of(what.begin(), what.end(),
                      [&](const completion& each) { return settled(each).is_recorded(); });
}

const lane_set::ended_stage* lane_set::find_ended(std::uint32_t stage) const noexcept {
  return stage < first_ended_ ? nullptr : &ended_stages_[stage - first_ended_];
}

completion lane_set::launch_of(std::uint32_t stage) const noexcept {
  const ended_stage* const found = find_ended(stage);
  return found == nullptr ? completion{} : found->launch;
}

const completion_set* lane_set::given_up(completion what) const noexcept {
  if (!what.is_recorded() || what.stage() == recorder_->stage()) return nullptr;
  const ended_stage* const found = find_ended(what.stage());
  return found == nullptr || found->before.empty() ? nullptr : &found->before;
}

bool lane_set::is_recorded_done(completion what) const noexcept {
  if (const completion_set* before = given_up(what)) return are_done(*before);
  what = settled(what);
  return !what.is_recorded() && is_done(what);
}

// All stages are launched in one lane, on the device of the first task.
lane_index lane_set::open_recorded(place_index place) {
  if (launch_lane_ == no_lane) {
    launch_lane_ = has_caller_ ? 0 : from_pool(std::max<place_index>(place, 0));
    recorder_->show_queue(queue(launch_lane_).handle());
  }
  return recorder_->open(place);
}

void lane_set::hold_back_launch() {
  if (!is_done(nodes_end_)) before_stage_.add(nodes_end_);
  if (!machine_.has(backend::capability::runs_jobs) && launch_lane_ != no_lane &&
      (is_held_up(before_stage_) || has_waits(launch_lane_))) {
    if (current_job().owner == nullptr && !is_notifier_thread()) {
      completion_set all = before_stage_;
      all.add(tail(launch_lane_));
      hold_back(all);
    }
    park(launch_lane_);
  }
}

void lane_set::hold_back_behind_nodes() const {
  if (is_done(nodes_end_) || current_job().owner != nullptr || is_notifier_thread()) return;
  completion_set behind;
  behind.add(nodes_end_);
  throw held_back(std::move(behind));
}

bool lane_set::are_before_launch(const completion_set& what) const noexcept {
  return std::all_of(what.begin(), what.end(), [&](completion each) {
    each = settled(each);
    return each.is_recorded() || is_done(each) ||
           (each.lane == nodes_end_.lane && each.sequence <= nodes_end_.sequence);
  });
}

// One that cannot be made is a loss of order with other calls of the driver only.
completion lane_set::end_on_host(completion launched, backend::job& at_end) noexcept {
  bool taken = false;
  try {
    const lane_index host = idle_host_lane();
    wait(host, launched);
    taken = queue(host).run(at_end).ok();
    if (taken) return nodes_end_ = advance(host);
  } catch (const std::exception& broken) {
    base::log(base::log_level::debug, base::cat("the end of a stage: ", broken.what()));
  }
  if (!taken) at_end.discard();
  return launched;
}

completion lane_set::launch_stage(backend::job* at_end) {
  try {
    wait(launch_lane_, before_stage_);
    recorder_->launch(queue(launch_lane_));
  } catch (...) {
    if (at_end != nullptr) at_end->discard();
    recorder_->give_up();
    end_stage({{}, before_stage_});
    throw;
  }
  completion launched = advance(launch_lane_);
  if (at_end != nullptr) launched = end_on_host(launched, *at_end);
  end_stage({launched, {}});
  return launched;
}

void lane_set::give_up_stage() noexcept {
  if (recorder_ == nullptr || recorder_->is_empty()) return;
  recorder_->give_up();
  end_stage({{}, before_stage_});
}

bool lane_set::await_stage() {
  if (launch_lane_ == no_lane || !recorder_->await_streams(queue(launch_lane_))) return false;
  advance(launch_lane_);
  return true;
}

recorder::taken_stage lane_set::take_stage() {
  recorder::taken_stage taken = recorder_->take_stage();
  end_stage({});
  return taken;
}

void lane_set::end_stage(ended_stage ended) {
  before_stage_.clear();
  ended_stages_.push_back(std::move(ended));
  const auto is_past = [&](const ended_stage& each) {
    return is_done(each.launch) && are_done(each.before);
  };
  while (!ended_stages_.empty() && is_past(ended_stages_.front())) {
    ended_stages_.pop_front();
    ++first_ended_;
  }
}

}  // namespace millstream::core
