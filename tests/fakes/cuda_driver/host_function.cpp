// SPDX-License-Identifier: Apache-2.0
// Host functions, and words of memory that streams wait for and write.
#include <atomic>

#include "tests/fakes/cuda_driver/call.hpp"
#include "tests/fakes/cuda_driver/graph.hpp"
#include "tests/fakes/cuda_driver/memory_view.hpp"

namespace fake_cuda {

namespace {

template <class Word>
std::atomic_ref<Word> word_at(const memory_view& seen, device_pointer where, access_flags how) {
  std::size_t bytes = sizeof(Word);
  std::byte* const found = seen.touch(where, bytes, how);
  if (bytes < sizeof(Word)) throw device_fault{result::illegal_address, "the word is cut in two"};
  return std::atomic_ref<Word>(*reinterpret_cast<Word*>(found));
}

template <class Word>
bool is_reached(Word now, Word wanted, wait_value_flags how) {
  // "At least" is cyclic, so that counters may run over.
  constexpr Word half = Word{1} << (sizeof(Word) * 8 - 1);
  return how == wait_value_flags::equal ? now == wanted : static_cast<Word>(now - wanted) < half;
}

template <class Word>
result wait_value(call& in, stream on, device_pointer where, Word value, wait_value_flags how) {
  require(static_cast<std::uint32_t>(how) <= 1 && where % sizeof(Word) == 0);
  const stream_ptr here = in.at(on);
  const memory_view seen(in.all, here->owner);
  require(seen.may_name(where, sizeof(Word), access_flags::read));
  issue(in, here, node_type::memory_words, [=] {
    op_ptr made = make_operation("wait for a word", here->owner, nullptr);
    made->may_start = [=] {
      // A word that is gone is found by the turn itself.
      if (!seen.can_reach(where, sizeof(Word), access_flags::read)) return true;
      const Word now = word_at<Word>(seen, where, access_flags::read).load();
      return is_reached(now, value, how) || here->owner->faults->sticky != result::success;
    };
    made->run = [=] {
      static_cast<void>(word_at<Word>(seen, where, access_flags::read));
      return turn::done;
    };
    return made;
  });
  return result::success;
}

template <class Word>
result write_value(call& in, stream on, device_pointer where, Word value) {
  require(where % sizeof(Word) == 0);
  const stream_ptr here = in.at(on);
  const memory_view seen(in.all, here->owner);
  require(seen.may_name(where, sizeof(Word), access_flags::read_write));
  issue(in, here, node_type::memory_words, [=] {
    op_ptr made = make_operation("write of a word", here->owner, [=] {
      word_at<Word>(seen, where, access_flags::read_write).store(value);
      return turn::done;
    });
    made->host_sees_it = true;  // it may poll the word
    return made;
  });
  return result::success;
}

}  // namespace

// Whoever launches a node without an owner puts the operation into its own context.
op_factory make_host_call(call& in, const context_ptr& owner, host_function function, void* data) {
  require(function != nullptr);
  return [=, all = &in.all] {
    op_ptr made = std::make_shared<operation>();
    if (owner != nullptr) made = make_operation("", owner, nullptr);
    made->what = "host function";
    made->host_sees_it = true;
    const std::weak_ptr<operation> itself = made;
    made->run = [=] {
      all->thread.run(itself.lock(), function, data);
      return turn::handed_over;
    };
    return made;
  };
}

namespace served {

result cuLaunchHostFunc(call& in, stream on, host_function function, void* data) {
  const stream_ptr here = in.at(on);
  issue(in, here, node_type::host, make_host_call(in, here->owner, function, data));
  return result::success;
}

result cuStreamWaitValue32(call& in, stream on, device_pointer word, std::uint32_t value,
                           wait_value_flags flags) {
  return wait_value(in, on, word, value, flags);
}

result cuStreamWaitValue64(call& in, stream on, device_pointer word, std::uint64_t value,
                           wait_value_flags flags) {
  return wait_value(in, on, word, value, flags);
}

result cuStreamWriteValue32(call& in, stream on, device_pointer word, std::uint32_t value,
                            write_value_flags /*flags*/) {
  return write_value(in, on, word, value);
}

result cuStreamWriteValue64(call& in, stream on, device_pointer word, std::uint64_t value,
                            write_value_flags /*flags*/) {
  return write_value(in, on, word, value);
}

}  // namespace served
}  // namespace fake_cuda
