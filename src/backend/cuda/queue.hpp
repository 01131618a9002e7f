// SPDX-License-Identifier: Apache-2.0
/// Queues of devices and of the host side.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "backend/cuda/state.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/queue.hpp"

namespace millstream::backend::cuda {

/// What the memory of all devices needs of a queue that gives it its order.
class any_queue : public backend::queue {
 public:
  /// Null for a queue of the host side.
  [[nodiscard]] virtual stream* native() noexcept = 0;
  [[nodiscard]] virtual result<mark> tail() = 0;
};

/// A stream, leased from its device or adopted.
class queue final : public any_queue {
 public:
  queue(std::shared_ptr<device_state> on, std::unique_ptr<stream> leased);
  ~queue() override;

  [[nodiscard]] std::uint64_t handle() const noexcept override;
  status copy(const copy_request& request) override;
  status fill(const fill_request& request) override;
  status run(job& work) override;
  status launch(const launch_request& request) override;
  status record(backend::event& into) override;
  status wait(backend::event& what) override;
  [[nodiscard]] result<bool> is_capturing() override;
  status keep(std::shared_ptr<void> what) override;

  [[nodiscard]] stream* native() noexcept override { return stream_.get(); }
  [[nodiscard]] result<mark> tail() override { return stream_->record(); }

 private:
  template <class Body>
  status call(backend::call kind, Body&& body);

  const std::shared_ptr<device_state> on_;
  const live_mark alive_;
  std::unique_ptr<stream> stream_;
};

/// Streams through which a host queue moves device memory. Used by the queue's thread only; the
/// streams go back to their devices at the end.
class helper_streams {
 public:
  explicit helper_streams(machine_state& of) : of_(of) {}
  ~helper_streams();
  helper_streams(const helper_streams&) = delete;
  helper_streams& operator=(const helper_streams&) = delete;
  [[nodiscard]] result<stream*> on(int device, const std::string& who);

 private:
  machine_state& of_;
  std::map<int, std::unique_ptr<stream>> streams_;
};

/// Runs jobs, and moves of any memory, on a thread of its own. Streams wait for it through its
/// counter, a word of page-locked memory.
class host_queue final : public any_queue {
 public:
  [[nodiscard]] static result<std::unique_ptr<host_queue>> make(
      std::shared_ptr<machine_state> machine, const std::string& who);
  host_queue(std::shared_ptr<machine_state> machine, std::string who, std::shared_ptr<lane> lane);
  ~host_queue() override;

  [[nodiscard]] std::uint64_t handle() const noexcept override { return number_; }
  status copy(const copy_request& request) override;
  status fill(const fill_request& request) override;
  status run(job& work) override;
  status launch(const launch_request& request) override;
  status record(backend::event& into) override;
  status wait(backend::event& what) override;
  [[nodiscard]] bool has_ended() const noexcept override { return lane_->is_empty(); }

  [[nodiscard]] stream* native() noexcept override { return nullptr; }
  [[nodiscard]] result<mark> tail() override;
  status wait_for(const mark& what);
  /// Gives device memory back at this queue's turn.
  status release(device_state& of, void* block, std::size_t bytes);

 private:
  template <class Body>
  status call(backend::call kind, Body&& body);
  template <class Body>
  status add_turn(Body body);

  const std::shared_ptr<machine_state> machine_;
  const std::string who_;
  const live_mark alive_;
  const std::uint64_t number_;
  const std::shared_ptr<lane> lane_;
  const std::shared_ptr<helper_streams> helpers_;
  const std::shared_ptr<late_fault> fault_;
};

}  // namespace millstream::backend::cuda
