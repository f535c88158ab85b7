// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The driving thread decides to make a call and is held up before it makes it, while the core does
// something else: every pair of such a call and such an action.
#include "mock_control.h"
#include "providers/verbs/adapter.h"
#include "providers/verbs/qp.h"
#include "providers/verbs/rdma_cm/connector.h"
#include "tests/parked/interleaving.h"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace udapl::verbs {
namespace {

using transport::DisconnectMode;
using udapl::test::Parked;
using namespace std::chrono_literals;

template <class Condition>
[[nodiscard]] bool eventually(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + 20s;  // only a hang takes longer
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(100us);
  }
  return true;
}

class NoFaults final : public transport::AdapterSink {
  void on_catastrophic() noexcept override {}
  void on_internal_error() noexcept override {}
};

class NoNotices final : public transport::CqSink {
  void on_notify() noexcept override {}
  void on_overflow() noexcept override {}
};

// Records the sink calls of a QP in order, for example "established disconnected".
class Calls final : public transport::ConnectionSink {
 public:
  void on_established(transport::PrivateData) noexcept override { add("established"); }
  void on_rejected(transport::PrivateData) noexcept override { add("rejected"); }
  void on_refused() noexcept override { add("refused"); }
  void on_unreachable() noexcept override { add("unreachable"); }
  void on_timed_out() noexcept override { add("timed_out"); }
  void on_accept_failed() noexcept override { add("accept_failed"); }
  void on_disconnected() noexcept override { add("disconnected"); }
  void on_broken(transport::BreakCause) noexcept override { add("broken"); }
  void on_soft_watermark() noexcept override {}
  void on_async_error() noexcept override {}

  [[nodiscard]] std::string made() const {
    const std::scoped_lock lock(mutex_);
    return made_;
  }

 private:
  void add(const char* call) noexcept {
    const std::scoped_lock lock(mutex_);
    if (!made_.empty()) made_ += ' ';
    made_ += call;
  }
  mutable std::mutex mutex_;
  std::string made_;
};

class Requests final : public transport::ListenSink {
 public:
  void on_request(std::unique_ptr<transport::IncomingConnection> request) noexcept override {
    const std::scoped_lock lock(mutex_);
    next_ = std::move(request);
  }
  // Waits for a request. Null if none comes.
  [[nodiscard]] std::unique_ptr<transport::IncomingConnection> take() {
    std::unique_ptr<transport::IncomingConnection> taken;
    static_cast<void>(eventually([&] {
      const std::scoped_lock lock(mutex_);
      taken = std::move(next_);
      return taken != nullptr;
    }));
    return taken;
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<transport::IncomingConnection> next_;
};

// Two processes, as it were: the one with the QP that is observed, and its peer. A call for that QP
// is held up in the service thread of its own adapter, so that the peer goes on.
struct Process {
  Process() {
    auto opened = Adapter::open("lo 0", faults, kRdmaCm);
    BOOST_REQUIRE(opened.ok());
    adapter = std::move(*opened);
    auto made_pd = adapter->create_pd();
    auto made_cq = adapter->create_cq(64, notices);
    BOOST_REQUIRE(made_pd.ok());
    BOOST_REQUIRE(made_cq.ok());
    pd = std::move(*made_pd);
    cq = std::move(*made_cq);
    auto made_qp = adapter->create_qp({.context = this,
                                       .sink = &calls,
                                       .pd = pd.get(),
                                       .recv_cq = cq.get(),
                                       .request_cq = cq.get(),
                                       .srq = nullptr,
                                       .max_recv = 8,
                                       .max_request = 8,
                                       .max_recv_segments = 1,
                                       .max_request_segments = 1,
                                       .max_rdma_read_in = 1,
                                       .max_rdma_read_out = 1,
                                       .max_unseen = 0,
                                       .solicited_only = false});
    BOOST_REQUIRE(made_qp.ok());
    qp = std::move(*made_qp);
  }

  NoFaults faults;
  NoNotices notices;
  Calls calls;
  std::unique_ptr<transport::Adapter> adapter;
  std::unique_ptr<transport::Pd> pd;
  std::unique_ptr<transport::Cq> cq;
  std::unique_ptr<transport::Qp> qp;
};

struct Held {
  Process ours;
  Process peer;
  Requests requests;  // to the peer, or, if we accept, to us
  std::unique_ptr<transport::Listener> listener;
  std::unique_ptr<transport::IncomingConnection> request;
  std::unique_ptr<Parked> call;

  ~Held() {
    call.reset();
    request.reset();
    listener.reset();
  }

  void hold(Decided what) { call = std::make_unique<Parked>(what, ours.qp.get(), sizeof(Qp)); }
  void listen(Process& at) {
    auto made = at.adapter->listen({.conn_qual = 0, .address = nullptr}, requests);
    BOOST_REQUIRE(made.ok());
    listener = std::move(*made);
  }
  [[nodiscard]] transport::ConnectRequest to(DAT_CONN_QUAL qualifier, DAT_TIMEOUT limit) const {
    return {.remote = ours.adapter->attributes().address,
            .conn_qual = qualifier,
            .timeout_us = limit,
            .private_data = {}};
  }
  void connect(Process& from, DAT_TIMEOUT limit = DAT_TIMEOUT_INFINITE) {
    BOOST_REQUIRE(from.qp->connect(to(listener->conn_qual(), limit)).ok());
  }
  void take_request() {
    request = requests.take();
    BOOST_REQUIRE(request != nullptr);
  }
  void accept(Process& by) {
    take_request();
    BOOST_REQUIRE(request->accept(*by.qp, {}).ok());
  }
  void connected() {
    listen(peer);
    connect(ours);
    accept(peer);
    BOOST_REQUIRE(eventually([&] { return ours.calls.made() == "established"; }));
    BOOST_REQUIRE(eventually([&] { return peer.calls.made() == "established"; }));
  }

  [[nodiscard]] auto& qp() { return ours.qp; }
  void connect_again() {  // is pending
    static_cast<void>(ours.qp->connect(to(listener->conn_qual(), DAT_TIMEOUT_INFINITE)));
  }
  [[nodiscard]] std::string calls() const { return ours.calls.made(); }
};

const udapl::test::Decision<Held> kDecisions[] = {
    {"established",
     [](Held& h) {
       h.listen(h.peer);
       h.hold(Decided::kSinkCall);
       h.connect(h.ours);
       h.accept(h.peer);
     },
     "", "established"},
    {"established, as the side that accepts",
     [](Held& h) {
       h.listen(h.ours);
       h.hold(Decided::kSinkCall);
       h.connect(h.peer);
       h.accept(h.ours);
     },
     "", "established"},
    {"rejected",
     [](Held& h) {
       h.listen(h.peer);
       h.hold(Decided::kSinkCall);
       h.connect(h.ours);
       h.take_request();
       h.request->reject({});
     },
     "", "rejected"},
    {"refused",
     [](Held& h) {
       h.listen(h.peer);
       h.hold(Decided::kSinkCall);
       h.connect(h.ours);
       h.take_request();
       h.request.reset();
     },
     "", "refused"},
    {"timed out",
     [](Held& h) {
       h.listen(h.peer);
       h.hold(Decided::kSinkCall);
       h.connect(h.ours, 20'000);
     },
     "", "timed_out"},
    {"disconnected",
     [](Held& h) {
       h.connected();
       h.hold(Decided::kSinkCall);
       h.peer.qp->disconnect(DisconnectMode::kAbrupt);
     },
     "established", "disconnected"},
    {"broken",
     [](Held& h) {
       h.connected();
       h.hold(Decided::kSinkCall);
       verbs_mock_lose_peers();
     },
     "established", "broken"},
    {"the limit of a connect",
     [](Held& h) {
       h.listen(h.peer);
       h.hold(Decided::kTimer);
       h.connect(h.ours, 20'000);
     },
     "", ""},
};

BOOST_AUTO_TEST_SUITE(interleavings)

BOOST_AUTO_TEST_CASE(every_decided_call_and_every_action) {
  udapl::test::check_interleavings<Held>(
      kDecisions, {"the peer's disconnect",
                   [](Held& h) { h.peer.qp->disconnect(DisconnectMode::kAbrupt); }, false});
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::verbs
