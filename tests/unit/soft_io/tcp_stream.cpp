// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// TcpStream: moving bytes, errors, the gentle close.
#include "providers/soft/io/lingering_close.h"

#include <netinet/tcp.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <string>
#include <thread>

#include "common/fork.h"
#include "tests/child/in_child.h"
#include "tests/unit/soft_io/raw_socket.h"

namespace udapl::soft::test {
namespace {

using udapl::test::in_child;

// Sends until nothing more is accepted, and returns the number of bytes.
std::size_t fill(TcpStream& stream) {
  const Bytes block = pattern(50'000);
  std::size_t sent = 0;
  IoResult result;
  while ((result = stream.send(block)).kind == IoResult::kDone) sent += result.bytes;
  return sent;
}

// A stream and the raw socket at its other end.
struct Pair {
  Pair() {
    RawSocket server;
    const auto place = server.listen();
    BOOST_REQUIRE(peer.connect(place));
    RawSocket accepted = server.accept();
    Fd fd(::dup(accepted.fd()));
    const int on = 1;
    BOOST_REQUIRE(::ioctl(fd.get(), FIONBIO, &on) == 0);
    stream = std::make_unique<TcpStream>(*reactor, std::move(fd), transport::Endpoints{});
  }
  std::size_t fill() { return test::fill(*stream); }
  // From now on the peer's kernel ignores what arrives, as if its host had gone.
  void vanish() const { lose_all(peer.fd()); }
  [[nodiscard]] bool is_given_up() {
    std::array<std::byte, 16> room;
    IoResult result;
    return eventually(
               [&] { return (result = stream->receive(room)).kind != IoResult::kBlocked; }) &&
           result.kind == IoResult::kBroken && result.error == ETIMEDOUT;
  }
  std::unique_ptr<Reactor> reactor = make_reactor();
  RawSocket peer;
  std::unique_ptr<TcpStream> stream;
};

int option(const TcpStream& stream, int level, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  BOOST_REQUIRE(::getsockopt(stream.fd(), level, name, &value, &size) == 0);
  return value;
}

std::string congestion_control(int socket) {
  std::array<char, 16> name{};
  socklen_t size = name.size();
  BOOST_REQUIRE(::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size) == 0);
  return name.data();
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(tcp_stream, Pair)

// Reno is always available, and its name differs from the default's on most systems.
BOOST_AUTO_TEST_CASE(within_a_host_segments_are_not_paced) {
  const std::string before = congestion_control(peer.fd());
  BOOST_TEST(congestion_control(stream->fd()) == before);
  stream->refresh_endpoints();
  BOOST_TEST(congestion_control(stream->fd()) == "reno");
  BOOST_TEST(congestion_control(peer.fd()) == before);
}

BOOST_AUTO_TEST_CASE(options_for_low_latency_and_dead_peers) {
  BOOST_TEST(option(*stream, IPPROTO_TCP, TCP_NODELAY) == 1);
  stream->set_peer_timeout(3s);
  BOOST_TEST(option(*stream, SOL_SOCKET, SO_KEEPALIVE) == 1);
  BOOST_TEST(option(*stream, IPPROTO_TCP, TCP_KEEPINTVL) == 5);
  stream->set_peer_timeout(100s);
  BOOST_TEST(option(*stream, IPPROTO_TCP, TCP_KEEPINTVL) == 20);
  BOOST_TEST(option(*stream, IPPROTO_TCP, TCP_USER_TIMEOUT) == 0);
  BOOST_TEST(stream->effective_mss() >= 536U);
}

BOOST_AUTO_TEST_CASE(spans_are_sent_until_the_socket_is_full) {
  const Bytes block = pattern(50'000);
  const std::array spans{iwarp::IoSpan{block.data(), 10}, iwarp::IoSpan{block.data() + 10, 0},
                         iwarp::IoSpan{block.data() + 10, block.size() - 10}};
  BOOST_TEST((stream->send(spans, 0).bytes == block.size()));
  BOOST_TEST((peer.receive(block.size()) == block));
  BOOST_TEST(eventually([&] { return stream->unacknowledged() == 0; }));
  IoResult result;
  std::size_t sent = 0;
  while ((result = stream->send(block)).kind == IoResult::kDone) sent += result.bytes;
  BOOST_TEST((result.kind == IoResult::kBlocked));
  BOOST_TEST(stream->unacknowledged() > 0U);
  BOOST_TEST(peer.receive(sent).size() == sent);
}

BOOST_AUTO_TEST_CASE(list_beyond_the_systems_limit_is_sent_in_part) {
  const Bytes byte = pattern(1);
  const std::vector<iwarp::IoSpan> spans(1500, iwarp::IoSpan{byte.data(), 1});
  BOOST_TEST((stream->send(spans, 0).bytes == 1024U));
}

BOOST_AUTO_TEST_CASE(receive_distinguishes_nothing_data_and_end) {
  std::array<std::byte, 16> room;
  BOOST_TEST((stream->receive(room).kind == IoResult::kBlocked));
  peer.send(pattern(3));
  BOOST_TEST(eventually([&] { return stream->peek(room).bytes == 3U; }));
  BOOST_TEST(stream->receive(room).bytes == 3U);
  peer.close();
  BOOST_TEST(eventually([&] { return stream->receive(room).kind == IoResult::kEnd; }));
  BOOST_TEST((stream->receive(std::span(room).first(0)).kind == IoResult::kDone));
}

BOOST_AUTO_TEST_CASE(reset_by_the_peer_breaks_both_directions) {
  peer.reset_on_close();
  peer.close();
  std::array<std::byte, 16> room;
  IoResult result;
  BOOST_TEST(
      eventually([&] { return (result = stream->receive(room)).kind != IoResult::kBlocked; }));
  BOOST_TEST((result.kind == IoResult::kBroken));
  BOOST_TEST(result.error == ECONNRESET);
  result = stream->send(pattern(1));  // without a SIGPIPE
  BOOST_TEST((result.kind == IoResult::kBroken));
  BOOST_TEST(result.error == EPIPE);
}

// Its program may not have posted a receive yet, or be stopped in a debugger (docs/adr/0042).
BOOST_AUTO_TEST_CASE(peer_that_does_not_read_is_waited_for) {
  stream->set_peer_timeout(1s);  // the least that dat.conf accepts
  const std::size_t sent = fill();
  std::this_thread::sleep_for(4s);
  std::array<std::byte, 16> room;
  BOOST_TEST((stream->receive(room).kind == IoResult::kBlocked));
  BOOST_TEST(peer.receive(sent).size() == sent);
  BOOST_TEST(eventually([&] { return stream->unacknowledged() == 0; }));
  BOOST_TEST((stream->send(pattern(1)).kind == IoResult::kDone));
}

BOOST_AUTO_TEST_CASE(host_that_does_not_answer_is_given_up) {
  stream->set_peer_timeout(200ms);
  vanish();
  BOOST_REQUIRE((stream->send(pattern(1000)).kind == IoResult::kDone));
  BOOST_TEST(is_given_up());
}

// Regression: the kernel's last question had been 1.4 s ago when the limit passed, and the host was
// there again.
BOOST_AUTO_TEST_CASE(host_that_returns_within_the_limit_is_kept) {
  stream->set_peer_timeout(4s);
  vanish();
  BOOST_REQUIRE((stream->send(pattern(1000)).kind == IoResult::kDone));
  std::this_thread::sleep_for(3600ms);
  lose_nothing(peer.fd());
  BOOST_TEST(eventually([&] { return stream->unacknowledged() == 0; }));
  std::array<std::byte, 16> room;
  BOOST_TEST((stream->receive(room).kind == IoResult::kBlocked));
}

BOOST_AUTO_TEST_CASE(silent_host_with_closed_window_is_given_up) {
  stream->set_peer_timeout(500ms);
  fill();
  std::this_thread::sleep_for(1s);  // the window is closed, and probed now and then
  vanish();
  BOOST_TEST(is_given_up());
}

// Regression: the peer found an end of the stream, as after a disconnect.
BOOST_AUTO_TEST_CASE(peer_that_is_given_up_finds_a_reset) {
  stream->set_peer_timeout(200ms);
  lose_all(stream->fd());  // the peer hears us
  BOOST_REQUIRE((stream->send(pattern(1000)).kind == IoResult::kDone));
  BOOST_TEST(is_given_up());
  BOOST_TEST(peer.receive(1000).size() == 1000U);
  BOOST_TEST(peer.reset());
}

BOOST_AUTO_TEST_CASE(host_that_never_gets_anything_is_not_missed) {
  stream->set_peer_timeout(50ms);
  BOOST_REQUIRE((stream->send(pattern(1000)).kind == IoResult::kDone));
  BOOST_TEST(eventually([&] { return stream->unacknowledged() == 0; }));
  vanish();
  std::this_thread::sleep_for(200ms);
  std::array<std::byte, 16> room;
  BOOST_TEST((stream->receive(room).kind == IoResult::kBlocked));
}

BOOST_AUTO_TEST_CASE(aborted_stream_resets_the_peer) {
  stream->abort_on_close();
  stream.reset();
  std::byte one;
  BOOST_TEST(::recv(peer.fd(), &one, 1, 0) == -1);
  BOOST_TEST(errno == ECONNRESET);
}

BOOST_AUTO_TEST_CASE(watching_ends_with_the_stream) {
  struct Count final : Handler {
    void on_ready(std::uint32_t) noexcept override { ++calls; }
    std::atomic<int> calls{0};
  } count;
  BOOST_REQUIRE(stream->watch(EPOLLIN, count).ok());
  std::this_thread::sleep_for(2ms);
  BOOST_TEST(count.calls == 0);
  stream->set_events(EPOLLIN | EPOLLOUT);
  BOOST_TEST(eventually([&] { return count.calls > 0; }));
  stream->set_events(EPOLLIN);
  stream.reset();
  reactor->quiesce(count);
  const int calls = count.calls;
  std::this_thread::sleep_for(2ms);
  BOOST_TEST(count.calls == calls);
}

BOOST_AUTO_TEST_CASE(gentle_close_delivers_to_a_peer_that_sends) {
  peer.send(pattern(5000));  // unread when the stream is closed: a plain close would send a reset
  const Bytes last = pattern(3000, 9);
  BOOST_REQUIRE(stream->send(last).bytes == last.size());
  close_gently(std::move(stream));
  peer.send(pattern(100));
  BOOST_TEST((peer.receive(last.size()) == last));
  BOOST_TEST(peer.closed());
}

BOOST_AUTO_TEST_CASE(gentle_close_ends_though_the_peer_does_not) {
  close_gently(std::move(stream), LingerKind::kConnection, 30ms);
  BOOST_TEST(peer.closed());   // FIN
  BOOST_TEST(eventually([&] {  // then the socket is closed, and answers data with a reset
    peer.send(pattern(1));
    std::this_thread::sleep_for(1ms);
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(peer.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
    return error == ECONNRESET || error == EPIPE;
  }));
}

BOOST_AUTO_TEST_CASE(gentle_close_delivers_to_a_late_reader) {
  const std::size_t sent = fill();
  const Bytes last = pattern(60'000, 9);
  KeptBytes rest{std::make_unique<std::byte[]>(last.size()), last.size()};
  std::ranges::copy(last, rest.bytes.get());
  close_gently(std::move(stream), LingerKind::kConnection, 200ms, std::move(rest));
  std::this_thread::sleep_for(400ms);  // longer than the limit, and much less than thirty times
  BOOST_TEST(peer.receive(sent).size() == sent);
  BOOST_TEST((peer.receive(last.size()) == last));
  BOOST_TEST(peer.ended());
}

// The peer has ended its direction, as in a graceful disconnect of both sides.
BOOST_AUTO_TEST_CASE(gentle_close_sends_the_rest_after_the_peers_end) {
  const std::size_t sent = fill();
  const Bytes last = pattern(60'000, 9);
  KeptBytes rest{std::make_unique<std::byte[]>(last.size()), last.size()};
  std::ranges::copy(last, rest.bytes.get());
  BOOST_REQUIRE(::shutdown(peer.fd(), SHUT_WR) == 0);
  close_gently(std::move(stream), LingerKind::kConnection, kLinger, std::move(rest));
  std::this_thread::sleep_for(20ms);
  BOOST_TEST(peer.receive(sent).size() == sent);
  BOOST_TEST((peer.receive(last.size()) == last));
  BOOST_TEST(peer.ended());
}

// A socket that is closed with unread input answers with a reset: the peer would lose what its host
// has not taken, and not find the end.
BOOST_AUTO_TEST_CASE(reactor_that_ends_resets_no_lingering_stream) {
  const Bytes last = pattern(3000, 9);
  for (int round = 0; round < 20; ++round) {
    Pair pair;
    pair.peer.send(pattern(5000));
    BOOST_REQUIRE(pair.stream->send(last).bytes == last.size());
    close_gently(std::move(pair.stream));
    pair.peer.send(pattern(100));
    pair.reactor.reset();
    BOOST_TEST((pair.peer.receive(last.size()) == last));
    BOOST_TEST(pair.peer.ended());
  }
}

BOOST_AUTO_TEST_CASE(lingering_is_awaited_before_the_reactor_ends) {
  const std::size_t sent = fill();
  close_gently(std::move(stream));
  Bytes got;
  std::thread reader([&] { got = peer.receive(sent); });
  await_lingering(*reactor, 20s);
  reactor.reset();
  peer.send(pattern(1));  // is answered with a reset
  reader.join();
  BOOST_TEST(got.size() == sent);
}

BOOST_AUTO_TEST_CASE(lingering_is_not_awaited_for_ever) {
  fill();
  close_gently(std::move(stream));
  await_lingering(*reactor, 30ms);
}

// A process exits without closing its adapters while its peer sends: a closed socket answers that
// with a reset, which loses what the peer's host has not taken.
BOOST_AUTO_TEST_CASE(lingering_is_awaited_at_exit) {
  RawSocket server;
  const auto place = server.listen();
  std::array<int, 2> filled{};
  BOOST_REQUIRE(::pipe(filled.data()) == 0);
  std::size_t sent = 0;
  Bytes got;
  std::thread reader([&] {
    RawSocket other = server.accept();
    other.send(pattern(5000));
    if (::read(filled[0], &sent, sizeof sent) != sizeof sent) return;
    while (got.size() < sent) {
      other.send(pattern(1));
      const Bytes more = other.receive(std::min<std::size_t>(sent - got.size(), 10'000));
      if (more.empty()) return;
      got.insert(got.end(), more.begin(), more.end());
    }
  });
  in_child([&]() -> int {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    auto created = Reactor::create("exits");
    if (!created.ok()) return 1;
    Reactor& own = *created->release();  // as at exit, nothing destroys it
    auto leaving = std::make_unique<TcpStream>(own, Fd(fd), transport::Endpoints{});
    if (::connect(fd, place.get(), place.size()) != 0 && errno != EINPROGRESS) return 2;
    std::array<std::byte, 16> room;
    if (!eventually([&] { return leaving->peek(room).kind == IoResult::kDone; })) return 3;
    const std::size_t filling = test::fill(*leaving);
    close_gently(std::move(leaving));
    if (::write(filled[1], &filling, sizeof filling) != sizeof filling) return 4;
    await_lingering_at_exit(20s);
    return 0;
  });
  reader.join();
  BOOST_TEST(sent > 0U);
  BOOST_TEST(got.size() == sent);
}

BOOST_AUTO_TEST_CASE(forked_child_awaits_no_stream_of_its_parent) {
  BOOST_REQUIRE(forks::watch([]() noexcept {}));
  fill();
  close_gently(std::move(stream), LingerKind::kConnection, 1h);
  in_child([] {
    await_lingering_at_exit(1h);
    return 0;
  });
}

BOOST_AUTO_TEST_CASE(gentle_close_does_not_outlive_the_reactor) {
  close_gently(std::move(stream), LingerKind::kConnection, 1h);
  reactor.reset();
  BOOST_TEST(peer.closed());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::soft::test
