// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The connection manager of a process that was stopped and continues after a time limit has passed:
// what the peer has sent meanwhile must count.
#include <thread>

#include "tests/unit/reactor/bell.h"
#include "tests/unit/soft_io/cm_fixture.h"

namespace udapl::soft::test {
namespace {

constexpr auto kLimit = 1s;

// Keeps every thread from driving the reactor during its lifetime. Begins once the service thread
// has taken over, so that timers are what it looks at first afterwards.
class Stopped {
 public:
  explicit Stopped(Reactor& reactor) : hold_(reactor, Call::to<&Counter::call>(&counter_)) {
    std::this_thread::sleep_for(50ms);
    counter_.held = true;
    hold_.post();
    BOOST_REQUIRE(eventually([this] { return counter_.begun == 1; }));
  }
  ~Stopped() {
    counter_.held = false;
    hold_.close();
  }

 private:
  Counter counter_;
  Deferred hold_;
};

struct Fixture : CmFixture {
  Fixture() : CmFixture({.half_open_limit = 1, .handshake_time = kLimit}) {}
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cm_stopped, Fixture)

BOOST_AUTO_TEST_CASE(request_has_arrived) {
  Desk desk;
  const auto listener = listen(desk);
  RawSocket peer;
  BOOST_REQUIRE(peer.connect(listener->address()));
  const Bytes frame = encoded(good_request());
  peer.send(std::span(frame).first(9));
  {
    const Stopped stopped(*reactor);
    peer.send(std::span(frame).subspan(9));
    std::this_thread::sleep_for(kLimit);
  }
  BOOST_TEST((desk.next() != nullptr));
}

// Regression: whose place was needed for another one was dropped though its request had arrived.
BOOST_AUTO_TEST_CASE(request_has_arrived_in_a_place_that_is_needed) {
  Desk desk;
  const auto listener = listen(desk);
  RawSocket peer;
  BOOST_REQUIRE(peer.connect(listener->address()));
  RawSocket next;
  {
    const Stopped stopped(*reactor);
    BOOST_REQUIRE(next.connect(listener->address()));  // what the reactor looks at first
    peer.send(encoded(good_request()));
    std::this_thread::sleep_for(400ms);
  }
  const auto incoming = desk.next();
  BOOST_REQUIRE(incoming != nullptr);
  incoming->reject({});
  BOOST_TEST(revision_of(peer.receive(24)) == 2);
}

BOOST_AUTO_TEST_CASE(reply_has_arrived) {
  RawSocket server;
  const auto place = server.listen();
  FakeQp active;
  start(active, request(place.port(), {}, std::chrono::microseconds(kLimit).count()));
  RawSocket peer = server.accept();
  BOOST_REQUIRE(peer.receive(24).size() == 24U);
  {
    const Stopped stopped(*reactor);
    peer.send(encoded(iwarp::make_reply({}, good_request(), {}).reply));
    std::this_thread::sleep_for(kLimit);
  }
  BOOST_TEST(eventually([&] { return active.attached(); }));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::soft::test
