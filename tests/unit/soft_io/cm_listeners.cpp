// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Listeners of the connection manager: their ports and addresses, and when they may be destroyed.
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <thread>

#include "providers/connecting/socket_address.h"
#include "tests/unit/soft_io/cm_fixture.h"
#include "tests/unit/soft_io/errors_of.h"

namespace {

std::atomic<int> accept_error{0};  // 0: accept4 works
std::atomic<int> refused_accepts{0};

}  // namespace

// Takes the place of the function of the C library, as in a sandbox that forbids it.
extern "C" int accept4(int fd, sockaddr* address, socklen_t* size, int flags) {
  if (const int error = accept_error.load(); error != 0) {
    refused_accepts.fetch_add(1);
    errno = error;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_accept4, fd, address, size, flags));
}

namespace udapl::soft::test {

BOOST_FIXTURE_TEST_SUITE(cm_listeners, CmFixture)

// Maps to the same ports as the OpenFabrics provider for rdma_cm.
BOOST_AUTO_TEST_CASE(qualifiers_beyond_ports_are_folded) {
  using transport::port_of;
  BOOST_TEST(port_of(1) == 1);
  BOOST_TEST(port_of(65535) == 65535);
  BOOST_TEST(port_of(65536) == 35068);
  BOOST_TEST(port_of(70000) == 39532);
  for (const DAT_CONN_QUAL qual :
       {DAT_CONN_QUAL{65536}, DAT_CONN_QUAL{1} << 40, ~DAT_CONN_QUAL{0}}) {
    BOOST_TEST(port_of(qual) >= 33534);
    BOOST_TEST(port_of(qual) == port_of(qual % 32001 + 3 * 32001));
  }
  Desk desk;
  auto listener = listen(desk);
  while (listener->conn_qual() < 33534) listener = listen(desk);
  // Another qualifier that means the same port, on both sides.
  const DAT_CONN_QUAL port = listener->conn_qual();
  DAT_CONN_QUAL folded = 1'000'000;
  while (port_of(folded) != port) ++folded;
  BOOST_TEST((cm.listen({folded, nullptr}, desk).status().type() == DAT_CONN_QUAL_IN_USE));
  FakeQp active;
  start(active, request(folded));
  BOOST_TEST(desk.next() != nullptr);
  listener.reset();
  listener = listen(desk, folded);
  BOOST_TEST(listener->conn_qual() == folded);
  BOOST_TEST(listener->address().port() == port);
}

BOOST_AUTO_TEST_CASE(port_is_picked_taken_and_freed) {
  Desk desk;
  auto listener = listen(desk);
  const DAT_CONN_QUAL qual = listener->conn_qual();
  BOOST_TEST(qual >= 1024U);
  BOOST_TEST(to_text(listener->address()) == "127.0.0.1:" + std::to_string(qual));
  BOOST_TEST((cm.listen({qual, nullptr}, desk).status().type() == DAT_CONN_QUAL_IN_USE));
  // The port is free at once, even if an old connection still uses it.
  check_service(*listener, desk);
  listener.reset();
  BOOST_TEST(listen(desk, qual)->conn_qual() == qual);
}

BOOST_AUTO_TEST_CASE(system_that_refuses_every_accept_is_named_once) {
  Desk desk;
  const auto listener = listen(desk);
  RawSocket peer;
  accept_error = EPERM;
  const std::string said = errors_of([&] {
    BOOST_CHECK(peer.connect(listener->address()));
    BOOST_CHECK(eventually([] { return refused_accepts.load() >= 4; }));
  });
  accept_error = 0;
  const std::string line = "not accepting connections at " + to_text(listener->address());
  const auto at = said.find(line);
  BOOST_TEST_REQUIRE(at != std::string::npos);
  BOOST_TEST(said.find(line, at + 1) == std::string::npos);
  BOOST_TEST(said.find("Operation not permitted") != std::string::npos);
  peer.send(encoded(good_request()));
  BOOST_TEST(desk.next() != nullptr);
}

// Consumers use fixed qualifiers in the range of the kernel's ephemeral ports.
BOOST_AUTO_TEST_CASE(outgoing_port_does_not_block_a_listener) {
  Desk desk;
  const auto listener = listen(desk);
  bool could_listen = false;
  // Retried, because a socket of another program may use the port, too, without allowing its reuse.
  for (int tries = 0; tries < 20 && !could_listen; ++tries) {
    FakeQp active;
    start(active, request(listener->conn_qual()));
    const auto incoming = desk.next();
    BOOST_REQUIRE(incoming != nullptr);
    FakeQp passive;
    BOOST_REQUIRE(incoming->accept(passive, {}).ok());
    BOOST_REQUIRE(eventually([&] { return active.attached(); }));
    could_listen = cm.listen({active.stream().endpoints().local_port, nullptr}, desk).ok();
  }
  BOOST_TEST(could_listen);
}

BOOST_AUTO_TEST_CASE(listener_takes_any_address_of_this_machine) {
  Desk desk;
  const auto other = ipv4("127.0.0.5");
  auto listener = cm.listen({0, &other}, desk);
  BOOST_REQUIRE(listener.ok());
  FakeQp active;
  auto to = request((*listener)->conn_qual());
  to.remote = other;
  start(active, to);
  BOOST_TEST(desk.next() != nullptr);  // the request is dropped
  const auto foreign = ipv4("192.0.2.1");
  BOOST_TEST((cm.listen({0, &foreign}, desk).status().type() == DAT_INVALID_ADDRESS));
}

BOOST_AUTO_TEST_CASE(listener_may_go_at_any_time) {
  for (int round = 0; round < 40; ++round) {
    Desk desk;
    auto listener = listen(desk);
    FakeQp active;
    start(active, request(listener->conn_qual()));
    std::this_thread::sleep_for(std::chrono::microseconds(round * 10));
    listener.reset();
    const int requests = desk.count();  // final, as the destructor ends the sink calls
    const auto incoming = desk.next(0s);
    if (incoming != nullptr) incoming->reject({});
    const SetupFailure how = outcome(active);
    BOOST_TEST(
        (how == SetupFailure::kRefused || (requests == 1 && how == SetupFailure::kRejected)));
    BOOST_TEST(desk.count() == requests);
  }
}

BOOST_AUTO_TEST_CASE(listener_may_go_in_its_own_sink_call) {
  struct OneShot final : transport::ListenSink {
    void on_request(std::unique_ptr<transport::IncomingConnection> incoming) noexcept override {
      listener.reset();
      incoming->reject({});
      ++calls;
    }
    std::unique_ptr<transport::Listener> listener;
    std::atomic<int> calls{0};
  } sink;
  auto made = cm.listen({0, nullptr}, sink);
  BOOST_REQUIRE(made.ok());
  sink.listener = *std::move(made);
  const DAT_CONN_QUAL qual = sink.listener->conn_qual();
  FakeQp active;
  start(active, request(qual));
  BOOST_TEST(outcome(active) == SetupFailure::kRejected);
  FakeQp late;
  start(late, request(qual));
  BOOST_TEST(outcome(late) == SetupFailure::kRefused);
  BOOST_TEST(sink.calls == 1);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::soft::test
