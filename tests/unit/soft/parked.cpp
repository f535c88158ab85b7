// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Events between the decision to make a call and the call: reset, disconnect, destruction.
#include "tests/parked/parked.h"
#include "tests/unit/soft/support.h"

namespace udapl::soft::test {
namespace {

using transport::DisconnectMode;
using udapl::test::Parked;

// An initiator in the middle of its setup, whose peer is a plain socket.
struct Plain {
  Plain() {
    auto [active, passive] = tcp_pair();
    BOOST_REQUIRE(::send(passive.get(), kReply.data(), kReply.size(), 0) ==
                  static_cast<ssize_t>(kReply.size()));
    BOOST_REQUIRE(side.qp->connect({}).ok());
    peer = std::move(passive);
    socket = std::move(active);
  }
  Side side;
  Fd peer;
  Fd socket;
};

BOOST_AUTO_TEST_SUITE(parked)

// Regression: a TIMED_OUT decided before the reset was reported after it, to the next connection.
BOOST_AUTO_TEST_CASE(reset_waits_for_a_decided_sink_call) {
  Side side;
  REQUIRE_OK(side.qp->connect({}).code());
  Parked call(Decided::kSinkCall);
  side.qp->on_failed(SetupFailure::kTimedOut, {});
  BOOST_REQUIRE(call.reached());
  std::string calls;
  std::thread resetter([&] {
    CHECK_OK(side.qp->reset().code());
    calls = side.sink.calls();
    CHECK_OK(side.qp->connect({}).code());
  });
  std::this_thread::sleep_for(50ms);  // lets the reset get as far as it can
  call.release();
  resetter.join();
  BOOST_TEST(calls == "timed_out");
  std::this_thread::sleep_for(5ms);
  BOOST_TEST(side.sink.calls() == "timed_out");
}

// Regression: a timer call of the connection setup was made after the disconnect had restarted the
// timer, and reset the connection.
BOOST_FIXTURE_TEST_CASE(a_stale_timer_call_does_not_cut_a_graceful_end, Plain) {
  Parked timer(Decided::kTimer);  // the timer call for the first kick
  attach_initiator(side, std::move(socket), negotiated(true, iwarp::kRtrWrite));
  BOOST_REQUIRE(timer.reached());
  REQUIRE_OK(side.qp->post_send(1, nullptr, 0, kSignalled));
  side.qp->disconnect(DisconnectMode::kGraceful);
  timer.release();
  std::this_thread::sleep_for(50ms);
  BOOST_TEST(side.sink.calls() == "established");  // still waits for the peer to close
  peer.reset();
  BOOST_REQUIRE(eventually([&] { return side.sink.ended(); }));
}

// The destructor waits for a decided call, and no call is made afterwards.
BOOST_AUTO_TEST_CASE(the_destructor_waits_for_a_decided_sink_call) {
  Side side;
  REQUIRE_OK(side.qp->connect({}).code());
  Parked call(Decided::kSinkCall);
  side.qp->on_failed(SetupFailure::kRefused, {});
  BOOST_REQUIRE(call.reached());
  std::string calls;
  std::thread destroyer([&] {
    side.qp.reset();
    calls = side.sink.calls();
  });
  std::this_thread::sleep_for(20ms);
  call.release();
  destroyer.join();
  BOOST_TEST(calls == "refused");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
