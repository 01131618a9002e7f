// SPDX-License-Identifier: Apache-2.0
#include "core/late_copy.hpp"

#include <exception>
#include <string>
#include <utility>

#include "backend/late_failure.hpp"
#include "base/text.hpp"
#include "core/context.hpp"

namespace millstream::core {
namespace {

/// What the failure is called.
failure name_failure(const data& of, copy_reason why, std::uint64_t task_id) {
  const bool is_back = why == copy_reason::write_back;
  return {nullptr, task_id, is_back ? "write-back" : base::cat("copy of ", of.name()), of.name(),
          of.site};
}

class poisoning_job final : public backend::job {
 public:
  poisoning_job(data& of, failure named) : of_(of), version_(of.version), named_(std::move(named)) {
    of_.add_reference();
  }
  void run() noexcept override {
    if (const backend::status failed = backend::take_failure_of_copy(); !failed) poison(failed);
    of_.drop_reference();
    delete this;
  }
  /// The queue is closed, perhaps with locks held: the datum is left alone.
  void discard() noexcept override { delete this; }

 private:
  ~poisoning_job() = default;
  void poison(const backend::status& failed) noexcept {
    context& in = *of_.owner;
    named_.cause = std::make_exception_ptr(error(failed.code(), failed.text()));
    of_.poison.add(version_, in.failures().add(std::move(named_), /*known=*/false));
    in.spread_poison();
  }

  data& of_;
  const std::uint64_t version_;
  failure named_;
};

class telling_job final : public backend::job {
 public:
  explicit telling_job(std::shared_ptr<backend::status> into) : into_(std::move(into)) {}
  void run() noexcept override {
    *into_ = backend::take_failure_of_copy();
    delete this;
  }
  void discard() noexcept override { delete this; }

 private:
  ~telling_job() = default;
  const std::shared_ptr<backend::status> into_;
};

}  // namespace

bool has_late_copies(const machine& on) noexcept {
  return on.has(backend::capability::values) && !on.has(backend::capability::runs_jobs);
}

backend::status poison_if_copy_fails(backend::queue& in, data& of, copy_reason why,
                                     std::uint64_t task_id) {
  auto* const job = new poisoning_job(of, name_failure(of, why, task_id));
  backend::status taken = in.run(*job);
  if (!taken) {
    job->discard();
    of.drop_reference();  // not the last one: the caller uses the datum
  }
  return taken;
}

backend::status tell_if_copy_fails(backend::queue& in, std::shared_ptr<backend::status> into) {
  auto* const job = new telling_job(std::move(into));
  backend::status taken = in.run(*job);
  if (!taken) job->discard();
  return taken;
}

}  // namespace millstream::core
