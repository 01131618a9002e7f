// SPDX-License-Identifier: Apache-2.0
/// Views of a task's arguments: arrays over the memory of an instance, valid until the task ends.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <millstream/untyped.hpp>

#include "context.hpp"
#include "numpy.hpp"

namespace millstream::python {

struct py_data;

/// Where the memory of an argument is.
struct argument_home {
  data_place place = data_place::host();
  bool host = true;  ///< the body reads and writes it as ordinary memory
};
/// Of a dependency that asked for `wanted`, in a body on that device (-1 = the host).
[[nodiscard]] argument_home home_of(const context_state& in, data_place wanted,
                                    int device) noexcept;

/// Whether that is memory of a device which GPU libraries can use.
[[nodiscard]] bool is_device_memory(const context_state& in, const argument_home& home) noexcept;
/// What `maker` made of data of this layout at that address of a device; null if nothing is kept.
[[nodiscard]] nb::object kept_description(const layout& of, const void* address, int device,
                                          nb::handle maker) noexcept;

/// Shared by the views of one task. Any thread.
class lease {
 public:
  /// What is left to say of a task that has ended.
  struct ended_task {
    std::string name;
    std::vector<std::string> data;  ///< names of the dependencies
    source_site site;
  };

  lease(std::shared_ptr<context_state> in, std::uint64_t queue_number)
      : queue(queue_number), native_memory(in->native_memory), in_(std::move(in)) {}

  const std::uint64_t queue;  ///< number of the task's queue
  const bool native_memory;   ///< of the context

  [[nodiscard]] bool is_over() const noexcept { return over_.get(); }
  /// Throws error(usage) naming the task, the datum and the line once it is over.
  void check(std::size_t index) const {
    if (is_over()) refuse(index);
  }
  /// The same, and gives the context.
  [[nodiscard]] std::shared_ptr<context_state> context(std::size_t index) const;
  [[nodiscard]] std::string message(std::size_t index) const;
  void end(ended_task what) noexcept;

 private:
  [[noreturn]] void refuse(std::size_t index) const;
  [[nodiscard]] ended_task ended() const;

  shared_value<bool> over_{false};
  // For what follows.
  [[no_unique_address]] mutable short_lock lock_;
  std::shared_ptr<context_state> in_;  // until it is over
  ended_task ended_;
};

/// The Python class `stf_cai`.
struct py_view {
  void* address = nullptr;
  layout_ptr what;
  std::uint64_t stream = 0;
  bool readonly = false;
  argument_home home{{}, false};      ///< `host`: `__array_interface__` instead of the CUDA one
  std::shared_ptr<const lease> lent;  ///< null = made by the user
  std::size_t index = 0;              ///< of the dependency
  nb::object base;                    ///< kept alive; may be null
  nb::object interface;               ///< dict, made at the first use
  [[no_unique_address]] call_lock lock;

  void check() const {
    if (lent) lent->check(index);
  }
  friend call_lock& lock_of(py_view& view) noexcept { return view.lock; }
  /// A tuple that is equal for views of equal arrays, and of no others; None in host memory.
  [[nodiscard]] nb::object key() const;
};

/// The arguments of one open task or running body, as Python sees them. Arrays and views are made
/// when first asked for. Needs the interpreter lock, and the lock of the task.
class argument_list {
 public:
  struct entry {
    layout_ptr what;                    ///< null for a token
    const core::data* datum = nullptr;  ///< for look-up only
    void* address = nullptr;
    bool writable = false;
    argument_home home;
    nb::object base;  ///< kept alive by the array; may be null
    nb::object array;
    nb::object view;
  };

  /// `queue` is that of the task. In checker mode, arrays raise when used after the end.
  argument_list(std::vector<entry> entries, std::shared_ptr<context_state> in, std::uint64_t queue)
      : entries_(std::move(entries)), in_(std::move(in)), queue_(queue) {}

  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  [[nodiscard]] const entry& at(std::size_t index) const noexcept { return entries_[index]; }

  /// What a body works with: a NumPy array on the host, else a view. Throws error(out_of_range),
  /// error(usage) for a token.
  [[nodiscard]] nb::object array(std::size_t index);
  [[nodiscard]] nb::object view(std::size_t index);
  [[nodiscard]] std::uintptr_t address(std::size_t index) {
    return reinterpret_cast<std::uintptr_t>(checked(index).address);
  }
  /// All arrays but those of tokens.
  [[nodiscard]] nb::object arrays();
  /// None, the view, or a tuple of views, tokens left out.
  [[nodiscard]] nb::object views();
  /// A tuple with one DLPack capsule for each argument but tokens, which asks for no order; None
  /// where the protocol cannot say where one of them is, or a GPU library would not take it.
  [[nodiscard]] nb::object capsules() const;
  /// A tuple with `maker(view)` for each argument but tokens, called once for each instance: the
  /// result is kept with the layout of the datum, so that it may not refer to the view. None where
  /// one of them is not memory of a device.
  [[nodiscard]] nb::object described(nb::handle maker);
  /// What `item` takes: a datum or a number, negative from the end. Runs code of the user's, which
  /// may end the task, so that it is asked for before the list is.
  struct item_key {
    const py_data* datum = nullptr;  ///< lives as long as what was asked with
    std::int64_t index = 0;
  };
  [[nodiscard]] static item_key to_key(nb::handle key);
  /// By position or by datum. MissingDataError for a datum that is no dependency.
  [[nodiscard]] nb::object item(const item_key& key);

  /// The task has ended: views that are left raise when used, and say what `name` and `names` say.
  template <class Name, class Names>
  void close(source_site site, Name&& name, Names&& names) {
    entries_.clear();
    end_lease(site, name, names);
  }
  /// The same where other threads may be looking at the arguments: these stay, while views raise.
  template <class Name, class Names>
  void end_lease(source_site site, Name&& name, Names&& names) {
    if (!lent_ || lent_.use_count() == 1) return;
    lent_->end({name(), names(), site});
  }

 private:
  [[nodiscard]] entry& checked(std::size_t index);
  [[nodiscard]] std::size_t content_count() const noexcept;
  /// A tuple of what `get(index)` gives for each argument but tokens.
  template <class Get>
  [[nodiscard]] nb::object each_with_content(Get&& get);
  [[nodiscard]] nb::object description(std::size_t index, nb::handle maker);
  [[nodiscard]] const std::shared_ptr<lease>& lent();

  std::vector<entry> entries_;
  std::shared_ptr<context_state> in_;
  std::uint64_t queue_;
  std::shared_ptr<lease> lent_;
};

}  // namespace millstream::python
