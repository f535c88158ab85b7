// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "harness.h"

#include <csignal>
#include <cstdlib>
#include <string>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

// kill -9 of the peer in the middle of a transfer. The peer is another process of this program that
// runs a case of suite `peer` (disabled otherwise) and gets the conn qual in an environment
// variable.
namespace conformance {

namespace {

constexpr std::size_t kSize = 256 * 1024;
constexpr int kDepth = 8;
constexpr const char* kConnQualVariable = "STRESS_PEER_CONN_QUAL";

class PeerProcess {
 public:
  PeerProcess(const std::string& role, DAT_CONN_QUAL conn_qual) {
    ::setenv(kConnQualVariable, std::to_string(conn_qual).c_str(), 1);
    std::string program = "stress";
    std::string ia = "--ia=" + options().ia;
    std::string test = "--run_test=peer/" + role;
    char* arguments[] = {program.data(), ia.data(), test.data(), nullptr};
    const int error = ::posix_spawn(&pid_, "/proc/self/exe", nullptr, nullptr, arguments, environ);
    BOOST_REQUIRE_EQUAL(error, 0);
  }
  ~PeerProcess() { kill(); }
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
};

DAT_CONN_QUAL told_conn_qual() {
  const char* const text = std::getenv(kConnQualVariable);
  BOOST_REQUIRE(text != nullptr);
  return std::strtoull(text, nullptr, 10);
}

// Connects `end` to a peer that may not listen yet.
void connect_with_retries(End& end, const Ia& ia, DAT_CONN_QUAL conn_qual) {
  for (int attempt = 0; attempt < 500; ++attempt) {
    REQUIRE_OK(dat_ep_connect(end.ep, ia.attr.ia_address_ptr, conn_qual, kPatience, 0, nullptr,
                              DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
    const auto event = next_event(end.connect_evd);
    BOOST_REQUIRE(event);
    if (event->event_number == DAT_CONNECTION_EVENT_ESTABLISHED) return;
    BOOST_REQUIRE_EQUAL(event->event_number, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
    drain(end.recv_evd);
    REQUIRE_OK(dat_ep_reset(end.ep));
    ::usleep(10000);
  }
  BOOST_FAIL("the peer never listened");
}

// A server with a listener: accepts the next request into a fresh EP with kDepth receives posted.
struct Server {
  Server() : pz(make_pz(ia)), cr_evd(make_evd(ia, DAT_EVD_CR_FLAG, 8)), buffer(ia, pz, kSize) {}
  void listen(DAT_CONN_QUAL conn_qual) {
    REQUIRE_OK(dat_psp_create(ia, conn_qual, cr_evd, DAT_PSP_CONSUMER_FLAG, psp.out()));
  }
  void accept(End& end) {
    end.create(ia, pz, nullptr);
    for (int i = 0; i < kDepth; ++i) REQUIRE_OK(end.post_recv(buffer, kSize, i));
    const DAT_EVENT event = expect_event(cr_evd, DAT_CONNECTION_REQUEST_EVENT);
    REQUIRE_OK(dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, end.ep, 0, nullptr));
    expect_event(end.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  }
  // Sends back `count` messages (0: for ever), keeping kDepth receives posted.
  void echo(End& end, int count) {
    for (int i = 0; count == 0 || i < count; ++i) {
      const DAT_EVENT event = expect_event(end.recv_evd, DAT_DTO_COMPLETION_EVENT);
      const auto& dto = event.event_data.dto_completion_event_data;
      BOOST_REQUIRE_EQUAL(dto.status, DAT_DTO_SUCCESS);
      REQUIRE_OK(end.post_recv(buffer, kSize, dto.user_cookie.as_64));
      REQUIRE_OK(end.post_send(buffer, kSize, 1));
      expect_dto(end.request_evd, DAT_DTO_SUCCESS, 1);
    }
  }

  Ia ia;
  Pz pz;
  Evd cr_evd;
  Buffer buffer;
  Psp psp;
};

// A client: connects and exchanges messages with an echo, never more than kDepth in flight.
struct Client {
  Client() : pz(make_pz(ia)), buffer(ia, pz, kSize) { end.create(ia, pz, nullptr); }
  // Sends `count` messages, each after the echo of the last.
  void exchange(int count) {
    for (int i = 0; count == 0 || i < count; ++i) {
      REQUIRE_OK(end.post_recv(buffer, kSize, 1));
      REQUIRE_OK(end.post_send(buffer, kSize, 2));
      expect_dto(end.request_evd, DAT_DTO_SUCCESS, 2);
      expect_dto(end.recv_evd, DAT_DTO_SUCCESS, 1);
    }
  }

  Ia ia;
  Pz pz;
  Buffer buffer;
  End end;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(peer, *boost::unit_test::disabled())

BOOST_AUTO_TEST_CASE(serve) {
  Server server;
  server.listen(told_conn_qual());
  End end;
  server.accept(end);
  server.echo(end, 0);
}

BOOST_AUTO_TEST_CASE(stream) {
  Client client;
  connect_with_retries(client.end, client.ia, told_conn_qual());
  client.exchange(0);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(killed_peer)

// The survivor is the active side, with sends in flight and receives outstanding.
BOOST_AUTO_TEST_CASE(passive_side_killed_then_connect_anew) {
  Client client;
  for (int life = 0; life < 3; ++life) {
    const DAT_CONN_QUAL conn_qual = fresh_conn_qual();
    PeerProcess peer("serve", conn_qual);
    connect_with_retries(client.end, client.ia, conn_qual);
    client.exchange(20);
    constexpr int kUnderWay = kDepth;
    for (int i = 0; i < kUnderWay; ++i)
      REQUIRE_OK(client.end.post_recv(client.buffer, kSize, 10 + i));
    for (int i = 0; i < kUnderWay; ++i)
      REQUIRE_OK(client.end.post_send(client.buffer, kSize, 20 + i));
    peer.kill();
    expect_connection_end(client.end.connect_evd);
    BOOST_CHECK_EQUAL(ep_state(client.end.ep), DAT_EP_STATE_DISCONNECTED);
    // Every post completes exactly once, no matter how much was echoed before.
    for (int i = 0; i < kUnderWay; ++i) expect_event(client.end.recv_evd, DAT_DTO_COMPLETION_EVENT);
    for (int i = 0; i < kUnderWay; ++i)
      expect_event(client.end.request_evd, DAT_DTO_COMPLETION_EVENT);
    expect_silence(client.end.recv_evd);
    expect_silence(client.end.request_evd);
    expect_silence(client.end.connect_evd);  // one terminal event
    REQUIRE_OK(dat_ep_reset(client.end.ep));
  }
}

BOOST_AUTO_TEST_CASE(active_side_killed_then_accept_anew) {
  Server server;
  const DAT_CONN_QUAL conn_qual = fresh_conn_qual();
  server.listen(conn_qual);
  for (int life = 0; life < 3; ++life) {
    PeerProcess peer("stream", conn_qual);
    End end;
    server.accept(end);
    server.echo(end, 50);
    peer.kill();
    expect_connection_end(end.connect_evd);
    BOOST_CHECK_EQUAL(ep_state(end.ep), DAT_EP_STATE_DISCONNECTED);
    for (int i = 0; i < kDepth; ++i) expect_event(end.recv_evd, DAT_DTO_COMPLETION_EVENT);
    expect_silence(end.recv_evd);
    expect_silence(end.connect_evd);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
