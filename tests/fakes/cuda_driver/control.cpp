// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "tests/fakes/cuda_driver/fake_cuda.h"
#include "tests/fakes/cuda_driver/proc.hpp"
#include "tests/fakes/cuda_driver/state.hpp"

#define FAKE_CUDA_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using fake_cuda::block_kind;
using fake_cuda::result;
using fake_cuda::state;
using fake_cuda::the_state;

class locked {
 public:
  locked() : all_(the_state()), hold_(all_.mutex) {}
  state* operator->() const noexcept { return &all_; }
  state& operator*() const noexcept { return all_; }

 private:
  state& all_;
  std::unique_lock<std::mutex> hold_;
};

result to_result(int number) {
  return static_cast<result>(number);
}

/// Memory whose free is queued counts as given back, and that of graphs only if a launch left it.
std::int64_t count_blocks(const state& all, block_kind kind) {
  return std::count_if(all.memory.blocks().begin(), all.memory.blocks().end(),
                       [kind](const auto& one) {
                         const fake_cuda::block& block = *one.second;
                         const bool is_there = !block.of_graph || block.of_graph->is_out;
                         return block.kind == kind && is_there && !block.free_was_queued;
                       });
}

template <class Table>
std::int64_t size_of(const Table& in) {
  return static_cast<std::int64_t>(in.size());
}

struct kind {
  std::string_view name;
  std::int64_t (*count)(const state& all);
};

constexpr std::array kinds{
    kind{"context", [](const state& all) { return size_of(all.contexts) - size_of(all.greens); }},
    kind{"stream", [](const state& all) { return size_of(all.streams); }},
    kind{"event", [](const state& all) { return size_of(all.events); }},
    kind{"device_memory", [](const state& all) { return count_blocks(all, block_kind::device); }},
    kind{"host_memory", [](const state& all) { return count_blocks(all, block_kind::pinned); }},
    kind{"managed_memory", [](const state& all) { return count_blocks(all, block_kind::managed); }},
    kind{"registration",
         [](const state& all) { return count_blocks(all, block_kind::registered); }},
    kind{"pool", [](const state& all) { return size_of(all.pools) - size_of(all.default_pools); }},
    kind{"range", [](const state& all) { return size_of(all.ranges); }},
    kind{"physical", [](const state& all) { return size_of(all.physical); }},
    kind{"module", [](const state& all) { return size_of(all.modules); }},
    kind{"library", [](const state& all) { return size_of(all.libraries); }},
    kind{"graph", [](const state& all) { return size_of(all.graphs); }},
    kind{"executable_graph", [](const state& all) { return size_of(all.executables); }},
    kind{"green_context", [](const state& all) { return size_of(all.greens); }},
};

std::uint64_t count_all(const state& all) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < fake_cuda::row_count; ++i)
    sum += all.log.counted(static_cast<fake_cuda::row>(i));
  return sum;
}

}  // namespace

FAKE_CUDA_EXPORT void fake_cuda_reset(void) {
  the_state().reset();
}

FAKE_CUDA_EXPORT void fake_cuda_seed(uint64_t seed) {
  const locked all;
  all->config.seed = seed;
  all->work.seed(seed);
}

FAKE_CUDA_EXPORT size_t fake_cuda_step(size_t limit) {
  const locked all;
  size_t ran = 0;
  while (ran < limit && all->work.step(false))
    ++ran;
  return ran;
}

FAKE_CUDA_EXPORT size_t fake_cuda_pending(void) {
  return locked()->work.pending();
}
FAKE_CUDA_EXPORT uint64_t fake_cuda_executed(void) {
  return locked()->work.executed();
}

FAKE_CUDA_EXPORT void fake_cuda_background(int on) {
  const locked all;
  all->config.background = on != 0;
  all->work.changed().notify_all();
}

FAKE_CUDA_EXPORT void fake_cuda_park_limit(size_t limit) {
  locked()->work.park_limit(limit);
}
FAKE_CUDA_EXPORT uint64_t fake_cuda_stalls(void) {
  return locked()->work.stalls();
}

FAKE_CUDA_EXPORT void fake_cuda_log(int on) {
  locked()->log.turn(on != 0);
}
FAKE_CUDA_EXPORT size_t fake_cuda_log_size(void) {
  return locked()->log.calls().size();
}

FAKE_CUDA_EXPORT int fake_cuda_log_entry(size_t index, struct fake_cuda_call* entry) {
  const locked all;
  if (index >= all->log.calls().size() || entry == nullptr) return 0;
  const fake_cuda::logged_call& found = all->log.calls()[index];
  entry->name = fake_cuda::info_of(found.which).name.data();
  entry->result = static_cast<int>(found.answer);
  entry->thread = found.thread;
  entry->arguments = static_cast<int>(found.words);
  std::copy(found.argument.begin(), found.argument.end(), entry->argument);
  return 1;
}

FAKE_CUDA_EXPORT uint64_t fake_cuda_count(const char* name) {
  const locked all;
  if (name == nullptr) return count_all(*all);
  const fake_cuda::row_info* const found = fake_cuda::find_row(name);
  return found == nullptr ? 0 : all->log.counted(found->which);
}

FAKE_CUDA_EXPORT void fake_cuda_clear_counts(void) {
  locked()->log.clear_counts();
}

FAKE_CUDA_EXPORT uint64_t fake_cuda_launch_attributes(void) {
  return locked()->launch_attributes;
}

FAKE_CUDA_EXPORT void fake_cuda_fail(const char* name, uint64_t nth, int answer, int sticky) {
  const locked all;
  if (nth == 0) {
    all->config.faults.clear();
  } else {
    all->config.faults.push_back(
        {name == nullptr ? "" : name, nth, to_result(answer), sticky != 0});
  }
}

FAKE_CUDA_EXPORT uint64_t fake_cuda_faults_fired(void) {
  return locked()->faults_fired;
}

FAKE_CUDA_EXPORT size_t fake_cuda_last_fault(char* text, size_t bytes) {
  const locked all;
  const std::string& last = all->work.last_fault();
  if (text != nullptr && bytes > 0) {
    const std::size_t count = std::min(last.size(), bytes - 1);
    std::memcpy(text, last.data(), count);
    text[count] = '\0';
  }
  return last.size();
}

FAKE_CUDA_EXPORT void fake_cuda_pose(int version) {
  locked()->config.version = version;
}

FAKE_CUDA_EXPORT void fake_cuda_hide(const char* name, int hidden) {
  const locked all;
  if (name == nullptr) {
    all->config.hidden.clear();
  } else if (hidden != 0) {
    all->config.hidden.insert(name);
  } else {
    all->config.hidden.erase(name);
  }
}

FAKE_CUDA_EXPORT void fake_cuda_devices(int count) {
  locked()->config.devices = count;
}

FAKE_CUDA_EXPORT void fake_cuda_fail_init(int answer) {
  locked()->config.init_answer = to_result(answer);
}

FAKE_CUDA_EXPORT void fake_cuda_device_memory(size_t bytes) {
  locked()->config.device_bytes = bytes;
}

FAKE_CUDA_EXPORT void fake_cuda_peers(int on) {
  locked()->config.peers = on != 0;
}

FAKE_CUDA_EXPORT void fake_cuda_refuse_node(int type) {
  locked()->config.refused_node = type;
}

FAKE_CUDA_EXPORT void fake_cuda_attribute(int attribute, int value) {
  locked()->config.attributes[static_cast<std::uint32_t>(attribute)] = value;
}

FAKE_CUDA_EXPORT int64_t fake_cuda_live(const char* name) {
  const locked all;
  std::int64_t sum = 0;
  bool found = false;
  for (const kind& one : kinds) {
    if (name != nullptr && one.name != name) continue;
    sum += one.count(*all);
    found = true;
  }
  return found ? sum : -1;
}

FAKE_CUDA_EXPORT uint64_t fake_cuda_abandoned(void) {
  return locked()->abandoned;
}

FAKE_CUDA_EXPORT uint64_t fake_cuda_used_bytes(int device) {
  return locked()->used(device);
}
