// SPDX-License-Identifier: Apache-2.0
/// The steps of a body, for those who call them: body.cpp one after the other, device_body.cpp each
/// when a stream comes by.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tests/scenario/body.hpp"

namespace millstream::scenario {

/// Works on the addresses of the call, which the CPU must be able to follow from `read_inputs` on.
class body_run {
 public:
  body_run(const task_record& task, const body_call& call, const body_world& world)
      : task_(task), call_(call), world_(world) {}

  [[nodiscard]] bool check_call() const {
    const task_forecast& plan = *task_.forecast;
    if (call_.pointers.size() != plan.accesses.size()) {
      complain("gets " + std::to_string(call_.pointers.size()) + " pointers");
      return false;
    }
    if (call_.device != plan.place) complain("runs on " + place_name(call_.device));
    if (call_.queue == 0) complain("has queue number 0");
    bool sound = true;
    for (std::size_t i = 0; i < plan.accesses.size(); ++i)
      sound = check_pointer(i) && sound;
    return sound;
  }

  [[nodiscard]] std::vector<std::int64_t> read_inputs() const {
    std::vector<std::int64_t> seen;
    for (std::size_t i = 0; i < call_.pointers.size(); ++i)
      seen.push_back(read_input(i));
    return seen;
  }

  [[nodiscard]] std::int64_t combined(const std::vector<std::int64_t>& seen) const {
    const work& body = task_.what->body;
    const bool sums = body.what == effect::adds;
    std::int64_t total = sums ? 0 : name_hash(task_.what->name);
    for (std::size_t i = 0; i < seen.size(); ++i) {
      const access_forecast& one = plan(i);
      if (one.first != i || !one.reads || one.elements == 0 || (sums && one.writes)) continue;
      total = sums ? sum(total, seen[i]) : mix(total, seen[i]);
    }
    return total;
  }

  void write_outputs(const std::vector<std::int64_t>& seen) const {
    const std::int64_t inputs = combined(seen);
    for (std::size_t i = 0; i < seen.size(); ++i) {
      const access_forecast& one = plan(i);
      if (!one.writes || one.first != i) continue;
      // Rubbish first: a reader that comes too early then sees it.
      write(i, rubbish);
      std::this_thread::yield();
      write(i, output(one, inputs, seen[i]));
    }
  }

  /// Nobody may have overwritten what this task only reads.
  void check_still(const std::vector<std::int64_t>& seen) const {
    for (std::size_t i = 0; i < seen.size(); ++i) {
      const access_forecast& one = plan(i);
      if (!one.reads || one.writes) continue;
      for (const std::int64_t element : elements(i)) {
        if (element == seen[i]) continue;
        complain("'" + name(i) + "' was overwritten by " + std::to_string(element) +
                 " while it was being read");
        return;
      }
    }
  }

 private:
  [[nodiscard]] const access_forecast& plan(std::size_t index) const {
    return task_.forecast->accesses[index];
  }
  [[nodiscard]] const std::string& name(std::size_t index) const {
    return task_.what->accesses[index].data;
  }
  [[nodiscard]] std::span<std::int64_t> elements(std::size_t index) const {
    return {static_cast<std::int64_t*>(call_.pointers[index]), plan(index).elements};
  }

  [[nodiscard]] bool check_pointer(std::size_t index) const {
    const access_forecast& one = plan(index);
    const void* const address = call_.pointers[index];
    const bool needed = one.elements != 0;
    if (needed && address == nullptr) complain("gets no address for '" + name(index) + "'");
    if (one.is_token && address != nullptr)
      complain("gets an address for token '" + name(index) + "'");
    if (address != call_.pointers[one.first]) {
      complain("gets two addresses for '" + name(index) + "'");
    }
    if (needed && task_.homes[index] != nullptr && task_.homes[index] != address) {
      complain("does not get the user's buffer for '" + name(index) + "'");
    }
    return !needed || address != nullptr;
  }

  [[nodiscard]] std::int64_t read_input(std::size_t index) const {
    const access_forecast& one = plan(index);
    if (!one.reads || one.elements == 0) return 0;
    const std::span<const std::int64_t> all = elements(index);
    const bool known = one.input && !task_.shared[index];
    const std::int64_t wanted = known ? *one.input : all[0];
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i] == wanted) continue;
      complain("sees " + name(index) + "[" + std::to_string(i) + "] = " + std::to_string(all[i]) +
               ", expected " + std::to_string(wanted));
      break;
    }
    return all[0];
  }

  static std::int64_t sum(std::int64_t left, std::int64_t right) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(left) +
                                     static_cast<std::uint64_t>(right));
  }

  [[nodiscard]] std::int64_t output(const access_forecast& one, std::int64_t inputs,
                                    std::int64_t before) const {
    const work& body = task_.what->body;
    switch (body.what) {
      case effect::mix: return mix(inputs, static_cast<std::int64_t>(one.first));
      case effect::adds: return sum(one.reads ? sum(inputs, before) : inputs, body.number);
      case effect::sets: return body.number;
      case effect::fails: return rubbish;
    }
    return rubbish;
  }

  void write(std::size_t index, std::int64_t value) const {
    for (std::int64_t& element : elements(index))
      element = value;
    // Keeps the compiler from dropping the first of two writes.
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }

  void complain(const std::string& text) const {
    if (!task_.forecast->runs) return;  // its inputs may be anything
    world_.problems->add(world_.file, task_.line, "task '" + task_.what->name + "' " + text);
  }

  const task_record& task_;
  const body_call call_;
  const body_world& world_;
};

}  // namespace millstream::scenario
