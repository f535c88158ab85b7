// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The driving thread decides to make a call and is held up before it makes it, while the core does
// something else: every pair of such a call and such an action.
#include "tests/parked/interleaving.h"
#include "tests/unit/soft/support.h"

namespace udapl::soft::test {
namespace {

using transport::DisconnectMode;
using udapl::test::Parked;

// A QP and a call that is held up.
struct Held {
  static Side::Options impatient() {
    Side::Options options;
    options.drain_limit = 200ms;
    return options;
  }
  Side side{impatient()};
  Fd peer;
  std::unique_ptr<Parked> call;

  void connecting() { REQUIRE_OK(side.qp->connect({}).code()); }
  // An initiator whose peer is a plain socket.
  void connect(iwarp::RtrSet rtr) {
    connecting();
    auto [active, passive] = tcp_pair();
    BOOST_REQUIRE(::send(passive.get(), kReply.data(), kReply.size(), 0) ==
                  static_cast<ssize_t>(kReply.size()));
    peer = std::move(passive);
    attach_initiator(side, std::move(active), negotiated(true, rtr));
  }
  void connected(iwarp::RtrSet rtr = iwarp::kRtrNone) {
    connect(rtr);
    BOOST_REQUIRE(eventually([&] { return side.sink.calls() == "established"; }));
  }
  void hold(Decided what) { call = std::make_unique<Parked>(what); }

  [[nodiscard]] auto& qp() { return side.qp; }
  void connect_again() { static_cast<void>(side.qp->connect({})); }
  [[nodiscard]] std::string calls() const { return side.sink.calls(); }
};

const udapl::test::Decision<Held> kDecisions[] = {
    {"established",
     [](Held& h) {
       h.hold(Decided::kSinkCall);
       h.connect(iwarp::kRtrNone);
     },
     "", "established"},
    {"refused",
     [](Held& h) {
       h.connecting();
       h.hold(Decided::kSinkCall);
       h.side.qp->on_failed(SetupFailure::kRefused, {});
     },
     "", "refused"},
    {"timed out",
     [](Held& h) {
       h.connecting();
       h.hold(Decided::kSinkCall);
       h.side.qp->on_failed(SetupFailure::kTimedOut, {});
     },
     "", "timed_out"},
    {"disconnected",
     [](Held& h) {
       h.connected();
       h.hold(Decided::kSinkCall);
       h.peer.reset();
     },
     "established", "disconnected"},
    {"broken",
     [](Held& h) {
       h.connected();
       h.hold(Decided::kSinkCall);
       const std::byte half[] = {std::byte{1}, std::byte{0}, std::byte{0}};
       BOOST_REQUIRE(::send(h.peer.get(), half, sizeof half, 0) == sizeof half);
       h.peer.reset();
     },
     "established", "broken"},
    {"kick",
     [](Held& h) {
       h.hold(Decided::kTimer);
       h.connect(iwarp::kRtrWrite);
     },
     "established", ""},
    {"a look at a drain",
     [](Held& h) {
       h.connected();
       h.hold(Decided::kTimer);
       const DAT_RMR_TRIPLET nothing{};
       REQUIRE_OK(
           h.side.qp->post_rdma_read(1, nullptr, 0, nothing, kSignalled));  // is not answered
       h.side.qp->disconnect(DisconnectMode::kGraceful);
     },
     "established", ""},
};

BOOST_AUTO_TEST_SUITE(interleavings)

BOOST_AUTO_TEST_CASE(every_decided_call_and_every_action) {
  udapl::test::check_interleavings<Held>(
      kDecisions, {"time-out of the set-up",
                   [](Held& h) { h.side.qp->on_failed(SetupFailure::kTimedOut, {}); }, false});
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
