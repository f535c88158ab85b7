// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "wire.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

// Faults between two hosts: the documented event must arrive in the documented time, the data must
// be intact, and the resources released. Each time limit has its reason beside it. Upper limits are
// wide, because an emulated machine is slow.
namespace wire {

using namespace conformance;

namespace {

constexpr std::size_t kMessage = 4096;
constexpr std::size_t kLarge = 60000;  // several packets

// A message, a write and a read, each checked on arrival; `seed` makes the data of rounds differ.
struct Exchange {
  explicit Exchange(Connection& all)
      : connection(all),
        here(all.hosts.client.ia, all.hosts.client.pz, kLarge),
        there(all.hosts.server.ia, all.hosts.server.pz, kLarge) {}

  void send(std::uint8_t seed) {
    here.fill(seed);
    REQUIRE_OK(connection.passive.post_recv(there, kMessage, 1));
    REQUIRE_OK(connection.active.post_send(here, kMessage, 2));
    const auto dto = expect_dto(connection.passive.recv_evd, DAT_DTO_SUCCESS, 1);
    BOOST_CHECK_EQUAL(dto.transfered_length, kMessage);
    BOOST_CHECK(there.holds(seed, kMessage));
    expect_dto(connection.active.request_evd, DAT_DTO_SUCCESS, 2);
  }
  void write(std::uint8_t seed) {
    here.fill(seed);
    REQUIRE_OK(connection.active.post_write(here, there.remote(kLarge), 3));
    expect_dto(connection.active.request_evd, DAT_DTO_SUCCESS, 3);
    BOOST_CHECK(there.holds(seed, kLarge));
  }
  void read(std::uint8_t seed) {
    there.fill(seed);
    REQUIRE_OK(connection.active.post_read(here, there.remote(kLarge), 4));
    expect_dto(connection.active.request_evd, DAT_DTO_SUCCESS, 4);
    BOOST_CHECK(here.holds(seed, kLarge));
  }
  void rounds(int count) {
    for (int round = 0; round < count; ++round) {
      const auto seed = static_cast<std::uint8_t>(3 * round + 1);
      send(seed);
      write(static_cast<std::uint8_t>(seed + 1));
      read(static_cast<std::uint8_t>(seed + 2));
    }
  }

  Connection& connection;
  Buffer here;
  Buffer there;
};

void disturbed(const char* netem) {
  const NothingLeft nothing_left;
  Hosts hosts;
  Connection connection(hosts);
  Exchange exchange(connection);
  {
    const Disturbance disturbance(netem);
    exchange.rounds(5);
  }
  exchange.rounds(1);
  connection.disconnect();
}

sockaddr_in address_of_nobody() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  ::inet_pton(AF_INET, "192.0.2.77", &address.sin_addr);
  return address;
}

constexpr const char* kConnQualVariable = "WIRE_PEER_CONN_QUAL";

// Starts this program as the client; see suite `peer`.
pid_t start_peer(DAT_CONN_QUAL conn_qual) {
  ::setenv(kConnQualVariable, std::to_string(conn_qual).c_str(), 1);
  std::string program = "vm_wire";
  std::string test = "--run_test=peer/stream";
  char* arguments[] = {program.data(), test.data(), nullptr};
  pid_t pid = -1;
  BOOST_REQUIRE_EQUAL(::posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, arguments, environ),
                      0);
  return pid;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(peer, *boost::unit_test::disabled())

// Connects and sends forever; the test that started it kills it.
BOOST_AUTO_TEST_CASE(stream) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const char* const conn_qual = std::getenv(kConnQualVariable);
  BOOST_REQUIRE(conn_qual != nullptr);
  Host host(kClientIa);
  Buffer buffer(host.ia, host.pz, kMessage);
  End end;
  end.create(host.ia, host.pz, nullptr);
  sockaddr_in server{};
  server.sin_family = AF_INET;
  ::inet_pton(AF_INET, "192.0.2.1", &server.sin_addr);
  REQUIRE_OK(dat_ep_connect(end.ep, reinterpret_cast<sockaddr*>(&server),
                            std::strtoull(conn_qual, nullptr, 10), kPatience, 0, nullptr,
                            DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
  expect_event(end.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  for (std::uint64_t number = 0;; ++number) {
    REQUIRE_OK(end.post_send(buffer, kMessage, number));
    expect_dto(end.request_evd, DAT_DTO_SUCCESS, number);
  }
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(faults)

BOOST_AUTO_TEST_CASE(transfers_complete_undisturbed) { disturbed("delay 0ms"); }
BOOST_AUTO_TEST_CASE(transfers_survive_delay) { disturbed("delay 5ms"); }
BOOST_AUTO_TEST_CASE(transfers_survive_loss) { disturbed("loss 2%"); }
BOOST_AUTO_TEST_CASE(transfers_survive_reordering) { disturbed("delay 2ms reorder 5%"); }
BOOST_AUTO_TEST_CASE(transfers_survive_duplicates) { disturbed("duplicate 5%"); }
BOOST_AUTO_TEST_CASE(transfers_survive_corruption) { disturbed("corrupt 1%"); }

// Messages of the connection manager get lost as well; it repeats them.
BOOST_AUTO_TEST_CASE(connect_while_packets_get_lost) {
  const NothingLeft nothing_left;
  Hosts hosts;
  const Disturbance disturbance("loss 10%");
  Connection connection(hosts);
  Exchange(connection).send(1);
}

BOOST_AUTO_TEST_CASE(missing_listener_is_a_rejection) {
  const NothingLeft nothing_left;
  Hosts hosts;
  End end;
  end.create(hosts.client.ia, hosts.client.pz, nullptr);
  const Stopwatch stopwatch;
  hosts.connect(end.ep, kPatience, nullptr, fresh_conn_qual());
  expect_event(end.connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
  BOOST_CHECK_LT(stopwatch.seconds(), 5);  // one round trip
  BOOST_CHECK_EQUAL(ep_state(end.ep), DAT_EP_STATE_DISCONNECTED);
  // After a reset the EP can be used again.
  REQUIRE_OK(dat_ep_reset(end.ep));
  End passive;
  passive.create(hosts.server.ia, hosts.server.pz, nullptr);
  hosts.connect(end.ep);
  REQUIRE_OK(dat_cr_accept(hosts.take_request(), passive.ep, 0, nullptr));
  expect_event(end.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}

// Every packet is lost, so the server is silent. The consumer's timeout applies, counted from the
// call.
BOOST_AUTO_TEST_CASE(silent_server_ends_at_the_timeout) {
  const NothingLeft nothing_left;
  Hosts hosts;
  End end;
  end.create(hosts.client.ia, hosts.client.pz, nullptr);
  run("ip neigh replace 192.0.2.1 lladdr $(cat /sys/class/net/d0/address) dev d1");
  {
    const Disturbance disturbance("loss 100%");
    const Stopwatch stopwatch;
    hosts.connect(end.ep, 1500 * kMillisecond);
    expect_event(end.connect_evd, DAT_CONNECTION_EVENT_TIMED_OUT);
    BOOST_CHECK_GE(stopwatch.seconds(), 1.5);
    BOOST_CHECK_LT(stopwatch.seconds(), 2.5);
    BOOST_CHECK_EQUAL(ep_state(end.ep), DAT_EP_STATE_DISCONNECTED);
  }
  run("ip neigh del 192.0.2.1 dev d1");
  expect_silence(hosts.cr_evd);
}

// No host has the address. The consumer's timeout also applies to address resolution.
BOOST_AUTO_TEST_CASE(unknown_address_times_out) {
  const NothingLeft nothing_left;
  Hosts hosts;
  End end;
  end.create(hosts.client.ia, hosts.client.pz, nullptr);
  const sockaddr_in nobody = address_of_nobody();
  const Stopwatch stopwatch;
  hosts.connect(end.ep, 700 * kMillisecond, reinterpret_cast<const sockaddr*>(&nobody));
  expect_event(end.connect_evd, DAT_CONNECTION_EVENT_TIMED_OUT);
  BOOST_CHECK_GE(stopwatch.seconds(), 0.7);
  BOOST_CHECK_LT(stopwatch.seconds(), 1.7);  // the timer is exact, the machine is slow
}

// Without a timeout of the consumer, the provider gives up when address resolution does: after the
// timeout times the number of tries.
BOOST_AUTO_TEST_CASE(unknown_address_is_unreachable) {
  const Setting timeout("DAPL_CM_ARP_TIMEOUT_MS", "400");
  const Setting tries("DAPL_CM_ARP_RETRY_COUNT", "2");
  const NothingLeft nothing_left;
  Hosts hosts;
  End end;
  end.create(hosts.client.ia, hosts.client.pz, nullptr);
  const sockaddr_in nobody = address_of_nobody();
  const Stopwatch stopwatch;
  hosts.connect(end.ep, DAT_TIMEOUT_INFINITE, reinterpret_cast<const sockaddr*>(&nobody));
  expect_event(end.connect_evd, DAT_CONNECTION_EVENT_UNREACHABLE);
  BOOST_CHECK_GE(stopwatch.seconds(), 0.4);
  BOOST_CHECK_LT(stopwatch.seconds(), 6);  // the kernel's own ARP gives up after 3 s
}

// The link goes down while connected: the next request fails after the transport's retries, the
// connection breaks, and both hosts can connect again once the link is up.
BOOST_AUTO_TEST_CASE(link_down_breaks_and_up_connects_again) {
  const NothingLeft nothing_left;
  Hosts hosts;
  {
    Connection connection(hosts);
    Exchange exchange(connection);
    exchange.rounds(1);
    const LinkDown down;
    const Stopwatch stopwatch;
    REQUIRE_OK(connection.passive.post_recv(exchange.there, kMessage, 7));
    REQUIRE_OK(connection.active.post_send(exchange.here, kMessage, 8));
    const auto event = next_event(connection.active.request_evd, 3 * kPatience);
    BOOST_REQUIRE(event);
    // Detected by the device's retries or by the connection manager, whichever is first.
    BOOST_CHECK_EQUAL(event->event_data.dto_completion_event_data.status, DAT_DTO_ERR_TRANSPORT);
    BOOST_CHECK_LT(stopwatch.seconds(),
                   45);  // eight times the ack timeout of the connection manager
    BOOST_CHECK_EQUAL(expect_connection_end(connection.active.connect_evd),
                      DAT_CONNECTION_EVENT_BROKEN);
    BOOST_CHECK_EQUAL(ep_state(connection.active.ep), DAT_EP_STATE_DISCONNECTED);
  }
  Connection again(hosts);
  Exchange(again).rounds(1);
}

// kill -9 of the client: its kernel ends the connection, and the server's receives are flushed.
BOOST_AUTO_TEST_CASE(killed_peer_flushes_receives) {
  const NothingLeft nothing_left;
  Hosts hosts;
  Buffer buffer(hosts.server.ia, hosts.server.pz, kMessage);
  for (int life = 0; life < 3; ++life) {
    End end;
    end.create(hosts.server.ia, hosts.server.pz, nullptr);
    for (std::uint64_t number = 0; number < 8; ++number)
      REQUIRE_OK(end.post_recv(buffer, kMessage, number));
    const pid_t peer = start_peer(hosts.conn_qual);
    REQUIRE_OK(dat_cr_accept(hosts.take_request(), end.ep, 0, nullptr));
    expect_event(end.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    for (std::uint64_t number = 0; number < 20; ++number) {
      expect_dto(end.recv_evd, DAT_DTO_SUCCESS, number % 8);
      REQUIRE_OK(end.post_recv(buffer, kMessage, number % 8));
    }
    ::kill(peer, SIGKILL);
    const Stopwatch stopwatch;
    int status = 0;
    BOOST_REQUIRE_EQUAL(::waitpid(peer, &status, 0), peer);
    BOOST_REQUIRE(WIFSIGNALED(status));
    expect_connection_end(end.connect_evd);
    BOOST_CHECK_LT(stopwatch.seconds(), 5);  // the CM id of the process reports it immediately
    // Eight receives are posted: some may have received a message before the end, the others are
    // flushed.
    bool flushed = false;
    for (int i = 0; i < 8; ++i) {
      const auto event = next_event(end.recv_evd);
      BOOST_REQUIRE(event);
      const auto result = event->event_data.dto_completion_event_data.status;
      BOOST_CHECK(result == DAT_DTO_ERR_FLUSHED || (result == DAT_DTO_SUCCESS && !flushed));
      flushed = flushed || result == DAT_DTO_ERR_FLUSHED;
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(many)

// All requests are in flight to one listener at the same time; then each connection carries a
// message.
BOOST_AUTO_TEST_CASE(thousand_connections_to_one_listener) {
  constexpr std::size_t kCount = 1000;
  const NothingLeft nothing_left;
  Hosts hosts;
  const auto evds = [](const Host& host) {
    return std::array{make_evd(host.ia, DAT_EVD_DTO_FLAG, kCount),
                      make_evd(host.ia, DAT_EVD_DTO_FLAG, kCount),
                      make_evd(host.ia, DAT_EVD_CONNECTION_FLAG, 2 * kCount)};
  };
  const auto served = evds(hosts.server);
  const auto asked = evds(hosts.client);
  DAT_EP_ATTR attr = default_ep_attr(hosts.client.ia);
  attr.max_recv_dtos = attr.max_request_dtos = 1;
  attr.max_recv_iov = attr.max_request_iov = 1;
  const auto eps = [&attr](const Host& host, const std::array<Evd, 3>& own) {
    std::vector<Ep> made(kCount);
    for (Ep& ep : made)
      REQUIRE_OK(dat_ep_create(host.ia, host.pz, own[0], own[1], own[2], &attr, ep.out()));
    return made;
  };
  const std::vector<Ep> passive = eps(hosts.server, served);
  const std::vector<Ep> active = eps(hosts.client, asked);
  Buffer there(hosts.server.ia, hosts.server.pz, 64);
  Buffer here(hosts.client.ia, hosts.client.pz, 64);

  const Stopwatch stopwatch;
  for (const Ep& ep : active) hosts.connect(ep, DAT_TIMEOUT_INFINITE);
  for (const Ep& ep : passive) {
    DAT_LMR_TRIPLET segment = there.local(64);
    REQUIRE_OK(dat_ep_post_recv(ep, 1, &segment, cookie(0), DAT_COMPLETION_DEFAULT_FLAG));
    REQUIRE_OK(dat_cr_accept(hosts.take_request(), ep, 0, nullptr));
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    expect_event(served[2], DAT_CONNECTION_EVENT_ESTABLISHED);
    expect_event(asked[2], DAT_CONNECTION_EVENT_ESTABLISHED);
  }
  std::printf("%zu connections in %.1f s\n", kCount, stopwatch.seconds());
  for (const Ep& ep : active) {
    DAT_LMR_TRIPLET segment = here.local(64);
    REQUIRE_OK(dat_ep_post_send(ep, 1, &segment, cookie(1), DAT_COMPLETION_DEFAULT_FLAG));
    expect_dto(asked[1], DAT_DTO_SUCCESS, 1);
  }
  for (std::size_t i = 0; i < kCount; ++i) expect_dto(served[0], DAT_DTO_SUCCESS, 0);
  for (const Ep& ep : active) REQUIRE_OK(dat_ep_disconnect(ep, DAT_CLOSE_ABRUPT_FLAG));
  for (std::size_t i = 0; i < kCount; ++i) {
    expect_connection_end(asked[2]);
    expect_connection_end(served[2]);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace wire
