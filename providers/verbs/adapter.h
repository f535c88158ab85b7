// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <infiniband/verbs.h>

#include "common/result.h"
#include "dapl/transport/adapter.h"
#include "providers/reactor/sink_gate.h"
#include "providers/reactor/watch.h"
#include "providers/verbs/connector.h"
#include "providers/verbs/cq_channel.h"
#include "providers/verbs/device.h"
#include "providers/verbs/environment.h"
#include "providers/verbs/idle_cq_scanner.h"
#include "providers/verbs/memory_table.h"
#include "providers/verbs/mr.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

namespace udapl::verbs {

// An RDMA device with one port and IP address: creates all objects and holds what they share.
// Thread-safe. Owned by an Ia.
class Adapter final : public transport::Adapter {
 public:
  // Implements the open function of dapl::ProviderKit. Errors of find_device,
  // INSUFFICIENT_RESOURCES. `kit` lives as long as the process.
  static Result<std::unique_ptr<transport::Adapter>> open(std::string_view ia_params,
                                                          transport::AdapterSink& sink,
                                                          const ConnectorKit& kit);

  ~Adapter() override;
  Adapter(const Adapter&) = delete;
  Adapter& operator=(const Adapter&) = delete;

  [[nodiscard]] const transport::Attributes& attributes() const noexcept override {
    return attributes_;
  }
  Result<std::unique_ptr<transport::Pd>> create_pd() override;
  Result<std::unique_ptr<transport::Mr>> register_memory(transport::Pd& pd,
                                                         const transport::MrInit& init) override;
  Result<std::unique_ptr<transport::Window>> create_window(transport::Pd& pd,
                                                           transport::WindowScope scope) override;
  Result<std::unique_ptr<transport::Cq>> create_cq(int depth, transport::CqSink& sink) override;
  Result<std::unique_ptr<transport::Cq>> create_cq_to_block(int depth,
                                                            transport::CqSink& sink) override;
  std::unique_ptr<transport::EventDescriptor> create_event_descriptor(int signal) override;
  Result<std::unique_ptr<transport::Cq>> create_cq_for(transport::EventDescriptor& descriptor,
                                                       int depth, transport::CqSink& sink) override;
  std::unique_ptr<transport::WaitPlace> create_wait_place() override;
  Result<std::unique_ptr<transport::Cq>> create_cq_for(transport::WaitPlace& place, int depth,
                                                       transport::CqSink& sink) override;
  Result<std::unique_ptr<transport::Srq>> create_srq(transport::Pd& pd, int depth, int max_segments,
                                                     transport::SrqSink& sink) override;
  Result<std::unique_ptr<transport::Qp>> create_qp(const transport::QpInit& init) override;
  Result<std::unique_ptr<transport::Listener>> listen(const transport::ListenRequest& request,
                                                      transport::ListenSink& sink) override;
  WaitResult block(WaitWord& word, std::uint32_t seen, const Deadline& deadline) noexcept override {
    return reactor_->block(word, seen, deadline);
  }
  [[nodiscard]] Call idle_poll() noexcept override {
    return Call::to<&Reactor::end_unused_lease>(reactor_.get());
  }

  // ---- for the objects made here ---------------------------------------------------------------
  // A context of the adapter alone, so that its asynchronous events concern only this adapter. QPs,
  // CQs, MRs etc. are created in it, not in a context that a Connector opens for itself.
  [[nodiscard]] ibv_context* context() const noexcept { return device_.context.get(); }
  [[nodiscard]] const Device& device() const noexcept { return device_; }  // port, GID, address
  [[nodiscard]] const Environment& environment() const noexcept { return environment_; }
  [[nodiscard]] Reactor& reactor() const noexcept { return *reactor_; }
  [[nodiscard]] Connector& connector() const noexcept { return *connector_; }
  // Spreads completion interrupts over the device's vectors.
  [[nodiscard]] int next_completion_vector() noexcept;
  [[nodiscard]] IdleCqScanner& idle_cqs() noexcept { return idle_cqs_; }
  [[nodiscard]] MemoryTable& memory() noexcept { return memory_; }
  // The number of inline bytes to request for a new QP. All QPs created so far have at least as
  // many.
  [[nodiscard]] std::uint32_t max_inline() const noexcept {
    return max_inline_.load(std::memory_order_relaxed);
  }
  // Called when the device has refused more than `bytes`.
  void fewer_inline(std::uint32_t bytes) noexcept;
  // The device or its driver has been removed: verbs calls fail with EIO from now on. Set before
  // the sink is notified.
  [[nodiscard]] bool dead() const noexcept { return dead_.load(std::memory_order_acquire); }
  // Called by the driving thread when the Connector is notified that the device was removed.
  void on_removal() noexcept;

 private:
  Adapter(Device device, const Environment& environment, std::unique_ptr<Reactor> reactor,
          transport::AdapterSink& sink, const ConnectorKit& kit);
  Status start(const ConnectorKit& kit);
  void descriptors_lost() noexcept { gate_.post(0); }
  void deliver(unsigned) noexcept { sink_.on_internal_error(); }
  void on_async_fd() noexcept;
  void on_async_event(const ibv_async_event& event) noexcept;

  Device device_;  // its context is closed last
  const Environment environment_;
  std::atomic<std::uint32_t> max_inline_;
  const transport::Attributes attributes_;
  transport::AdapterSink& sink_;
  std::atomic<bool> dead_{false};
  std::atomic<unsigned> completion_vector_{0};
  MemoryTable memory_;
  const std::unique_ptr<Reactor> reactor_;
  std::shared_ptr<CqChannel> cq_channel_;
  IdleCqScanner idle_cqs_;
  Watch async_watch_;
  std::unique_ptr<Connector> connector_;
  SinkGate gate_;
};

}  // namespace udapl::verbs
