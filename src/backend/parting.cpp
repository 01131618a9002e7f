// SPDX-License-Identifier: Apache-2.0
#include "backend/parting.hpp"

#include <utility>

#include "backend/worker.hpp"
#include "base/fork_guard.hpp"

namespace millstream::backend {
namespace {

class parting final : public own_turn {
 public:
  explicit parting(std::shared_ptr<void> what) : what_(std::move(what)) {}
  void carry_out() noexcept override { what_.reset(); }

 private:
  std::shared_ptr<void> what_;
};

// Never destroyed: what is kept may end after static destructors have run.
worker& the_thread() {
  static auto* const only =
      new std::shared_ptr<worker>(std::make_shared<worker>("what a graph kept", nullptr));
  return **only;
}

// What cannot be handed to the thread is leaked, as nobody else may end it.
void send_off(parting* gone) noexcept {
  if (base::forked_child()) return;
  operation turn{std::unique_ptr<own_turn>(gone)};
  if (the_thread().add(std::move(turn))) return;
  [[maybe_unused]] const auto* const left = std::get<std::unique_ptr<own_turn>>(turn).release();
}

}  // namespace

std::shared_ptr<void> part_elsewhere(std::shared_ptr<void> what) {
  static_cast<void>(the_thread());  // made where memory may still be missing
  return std::shared_ptr<parting>(new parting(std::move(what)), &send_off);
}

}  // namespace millstream::backend
