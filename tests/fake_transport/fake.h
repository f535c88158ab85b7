// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/table/provider.h"
#include "dapl/transport/adapter.h"
#include "tests/fake_transport/qp.h"
#include "tests/fake_transport/queues.h"
#include "tests/fake_transport/scheduler.h"

#include <atomic>
#include <functional>
#include <memory>
#include <string>

// A transport inside the process for tests of the provider core: no threads, no time. A test
// triggers what happens (establish, break_, push ...) and decides when the core is notified of it
// (Scheduler::run).
namespace udapl::fake {

class Adapter final : public transport::Adapter {
 public:
  Adapter(transport::Attributes attributes, transport::AdapterSink& sink);
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
                                                      transport::ListenSink& sink) override;
  // Sleeps on the word. Runs the scheduler first if Settings::drive is set.
  WaitResult block(WaitWord& word, std::uint32_t seen, const Deadline& deadline) noexcept override;
  [[nodiscard]] Call idle_poll() noexcept override;
  // The thread that drives the scheduler takes the place of the service thread.

  // ---- for tests
  void catastrophe();
  void internal_error();

 private:
  const transport::Attributes attributes_;
  transport::AdapterSink& sink_;
};

// Settings shared by the adapters of a test.
struct Settings {
  transport::Attributes attributes;  // of adapters opened from now on
  // The n-th creation from now on fails with INSUFFICIENT_RESOURCES, and all later ones; 0: none.
  std::atomic<int> fail_from{0};
  std::atomic<bool> drive{false};  // block() runs the scheduler
  // block() returns kSleptLong at once, as if it had slept for some seconds.
  std::atomic<bool> sleep_briefly{false};
  std::atomic<int> sleeps{0};  // of block(), while sleep_briefly
  void count_idle_poll() noexcept { ++idle_polls; }
  std::atomic<int> idle_polls{0};  // calls of Adapter::idle_poll()
  std::atomic<bool> refuse_open{false};
  std::function<void()> before_request;  // called before the core is notified of a request
  std::function<void()> before_listen;   // called in Adapter::listen()
  Adapter* latest = nullptr;             // the adapter opened last
  std::string latest_params;

  // Restores the defaults.
  void reset();
};
Settings& settings();

// The network between QPs. All of it is used under world().
class Network {
 public:
  [[nodiscard]] static transport::SocketAddress address();
  static DAT_PORT_QUAL next_port_locked();
  // Passes the request to the listener of `conn_qual`, or refuses it.
  static void offer_locked(DAT_CONN_QUAL conn_qual, const std::shared_ptr<Handshake>& handshake);
};

// A provider on this transport.
[[nodiscard]] const dapl::ProviderKit& provider_kit();

}  // namespace udapl::fake
