// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/result.h"
#include "dapl/transport/adapter.h"
#include "providers/reactor/reactor.h"
#include "providers/reactor/sink_gate.h"
#include "providers/soft/accepted_connections.h"
#include "providers/soft/cm/connector.h"
#include "providers/soft/io/address_watch.h"
#include "providers/soft/mr_table.h"
#include "providers/soft/netdev.h"
#include "providers/soft/settings.h"
#include "providers/soft/staging_pool.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string_view>

namespace udapl::soft {

// The software RNIC at one IP address: the factory of its objects, and the state that they share.
// Thread-safe. Owned by an Ia.
class Adapter final : public transport::Adapter {
 public:
  // For dapl::ProviderKit. Fails with the errors of find_netdev and read_settings, and with
  // INSUFFICIENT_RESOURCES. The sink is notified when the address is removed from this machine, and
  // when the program has closed the adapter's descriptors.
  static Result<std::unique_ptr<transport::Adapter>> open(std::string_view ia_params,
                                                          transport::AdapterSink& sink);

  Adapter(std::unique_ptr<Reactor> reactor, const Netdev& netdev, const Settings& settings,
          transport::AdapterSink& sink);
  ~Adapter() override;

  [[nodiscard]] const transport::Attributes& attributes() const noexcept override {
    return attributes_;
  }
  Result<std::unique_ptr<transport::Pd>> create_pd() override;
  Result<std::unique_ptr<transport::Mr>> register_memory(transport::Pd& pd,
                                                         const transport::MrInit& init) override;
  Result<std::unique_ptr<transport::Window>> create_window(transport::Pd& pd,
                                                           transport::WindowScope scope) override;
  Result<std::unique_ptr<transport::Cq>> create_cq(int depth, transport::CqSink& sink) override;
  Result<std::unique_ptr<transport::Srq>> create_srq(transport::Pd& pd, int depth, int max_segments,
                                                     transport::SrqSink& sink) override;
  Result<std::unique_ptr<transport::Qp>> create_qp(const transport::QpInit& init) override;
  Result<std::unique_ptr<transport::Listener>> listen(const transport::ListenRequest& request,
                                                      transport::ListenSink& sink) override {
    return cm_.listen(request, sink);
  }
  WaitResult block(WaitWord& word, std::uint32_t seen, const Deadline& deadline) noexcept override {
    return reactor_->block(word, seen, deadline);
  }
  [[nodiscard]] Call idle_poll() noexcept override {
    return Call::to<&Reactor::end_unused_lease>(reactor_.get());
  }

 private:
  void descriptors_lost() noexcept { gate_.post(0); }
  void deliver(unsigned) noexcept { sink_.on_internal_error(); }

  const transport::Attributes attributes_;
  const Settings settings_;
  const std::optional<std::chrono::microseconds> no_receive_limit_;
  const std::chrono::milliseconds first_message_limit_;
  const std::unique_ptr<Reactor> reactor_;  // destroyed after the members that use it
  MrTable memory_;
  StagingPool staging_;
  AcceptedConnections accepted_;
  TcpConnector cm_;
  AddressWatch address_watch_;
  std::atomic<ScopeId> last_pd_{0};
  transport::AdapterSink& sink_;
  SinkGate gate_;
};

}  // namespace udapl::soft
