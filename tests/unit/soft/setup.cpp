// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// From the socket to the connected QP: both sides of the connection setup, and its failures.
#include "providers/soft/iwarp/sender.h"
#include "tests/unit/soft/raw_peer.h"

#include <netinet/tcp.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <mutex>

namespace udapl::soft::test {
namespace {

BOOST_AUTO_TEST_SUITE(setup)

BOOST_AUTO_TEST_CASE(responder_is_silent_until_the_first_fpdu) {
  Side side;
  auto [active, passive] = tcp_pair();
  attach_responder(side, std::move(passive), negotiated(false, iwarp::kRtrWrite));
  read_reply(active.get());
  std::this_thread::sleep_for(150ms);  // longer than the grace for peers without an RTR message
  BOOST_TEST(side.sink.calls().empty());
  int waiting = 0;
  ::ioctl(active.get(), FIONREAD, &waiting);
  BOOST_TEST(waiting == 0);
  active.reset();
  BOOST_REQUIRE(eventually([&] { return !side.sink.calls().empty(); }, {&side}));
  BOOST_TEST(side.sink.calls() == "accept_failed");
  // The QP is in the error state, as after every end.
  REQUIRE_OK(side.qp->post_send(1, nullptr, 0, kSignalled));
  BOOST_TEST(side.request_cq->size() == 1);
}

BOOST_AUTO_TEST_CASE(responder_whose_peer_is_gone_already) {
  Side side;
  REQUIRE_OK(side.qp->post_recv(1, nullptr, 0, kSignalled));
  auto [active, passive] = tcp_pair();
  const linger now{1, 0};
  ::setsockopt(active.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  active.reset();
  attach_responder(side, std::move(passive), negotiated(false));
  BOOST_REQUIRE(eventually([&] { return !side.sink.calls().empty(); }, {&side}));
  BOOST_TEST(side.sink.calls() == "accept_failed");
  Completion c{};
  BOOST_REQUIRE(side.recv_cq->poll(&c, 1) == 1);
  BOOST_TEST(c.status == DAT_DTO_ERR_FLUSHED);
}

void send_empty_write(int peer) {
  iwarp::Sender sender{iwarp::SenderConfig{}};
  iwarp::TxBatch batch{256, 65536};
  sender.begin_write(1, 0, {}, 0);
  BOOST_REQUIRE(sender.fill(batch) == iwarp::Sender::Fill::kDone);
  for (const iwarp::IoSpan& s : batch.spans())
    BOOST_REQUIRE(::send(peer, s.data, s.size, 0) == static_cast<ssize_t>(s.size));
}

BOOST_AUTO_TEST_CASE(responder_whose_peer_never_begins) {
  Side side({.first_message_limit = 200ms});
  auto [active, passive] = tcp_pair();
  attach_responder(side, std::move(passive), negotiated(false, iwarp::kRtrWrite));
  read_reply(active.get());
  BOOST_REQUIRE(eventually([&] { return !side.sink.calls().empty(); }, {&side}));
  BOOST_TEST(side.sink.calls() == "accept_failed");
}

// Regression: the limit was 5 s. TCP sends a message that was lost for 3 s again after 6 s, and the
// peer has long been told that it is connected.
BOOST_AUTO_TEST_CASE(responder_whose_peer_begins_late) {
  Side side;
  auto [active, passive] = tcp_pair();
  attach_responder(side, std::move(passive), negotiated(false, iwarp::kRtrWrite));
  read_reply(active.get());
  std::this_thread::sleep_for(6s);
  send_empty_write(active.get());
  BOOST_REQUIRE(eventually([&] { return !side.sink.calls().empty(); }, {&side}));
  BOOST_TEST(side.sink.calls() == "established");
}

BOOST_AUTO_TEST_CASE(outcomes_of_an_active_setup) {
  const auto attempt = [](SetupFailure why, const char* expected) {
    Side side;
    REQUIRE_OK(side.qp->post_recv(1, nullptr, 0, kSignalled));
    REQUIRE_OK(side.qp->connect({}).code());
    BOOST_TEST(side.qp->connect({}).code() == dat_error(DAT_INVALID_STATE));
    BOOST_TEST(side.connector.alive == 1);
    const auto data = pattern(100);
    side.qp->on_failed(why, data);
    BOOST_TEST(side.connector.alive == 0);
    BOOST_REQUIRE(eventually([&] { return !side.sink.calls().empty(); }, {&side}));
    BOOST_TEST(side.sink.calls() == expected);
    if (why == SetupFailure::kRejected) BOOST_TEST((side.sink.private_data == data));
    BOOST_TEST(side.recv_cq->size() == 1);  // flushed
    REQUIRE_OK(side.qp->reset().code());
    REQUIRE_OK(side.qp->connect({}).code());
  };
  attempt(SetupFailure::kRejected, "rejected");
  attempt(SetupFailure::kRefused, "refused");
  attempt(SetupFailure::kUnreachable, "unreachable");
  attempt(SetupFailure::kTimedOut, "timed_out");
}

BOOST_AUTO_TEST_CASE(connect_that_cannot_start_leaves_the_qp_idle) {
  Side side;
  side.connector.result = failure(DAT_INVALID_ADDRESS);
  BOOST_TEST(side.qp->connect({}).code() == dat_error(DAT_INVALID_ADDRESS));
  side.connector.result = Status();
  CHECK_OK(side.qp->connect({}).code());
}

BOOST_AUTO_TEST_CASE(disconnect_aborts_a_running_setup) {
  Side side;
  REQUIRE_OK(side.qp->connect({}).code());
  side.qp->disconnect(transport::DisconnectMode::kAbrupt);
  BOOST_TEST(side.connector.alive == 0);
  // The setup succeeds at the same moment: the stream is refused, and no sink call is made.
  auto [active, passive] = tcp_pair();
  std::unique_ptr<ByteStream> stream =
      std::make_unique<TcpStream>(*side.reactor, std::move(active), transport::Endpoints{});
  BOOST_TEST(!side.qp->attach(stream, negotiated(true)).ok());
  BOOST_TEST(stream != nullptr);
  side.qp->on_failed(SetupFailure::kRefused, {});
  for (int i = 0; i < 10; ++i) side.reactor->progress();
  BOOST_TEST(side.sink.calls().empty());
}

BOOST_AUTO_TEST_CASE(private_data_and_addresses_reach_the_sink) {
  Side side;
  REQUIRE_OK(side.qp->connect({}).code());
  auto [active, passive] = tcp_pair();
  const auto data = pattern(200);
  auto n = negotiated(true);
  n.private_data = data;
  auto tcp = std::make_unique<TcpStream>(*side.reactor, std::move(active), transport::Endpoints{});
  tcp->refresh_endpoints();
  std::unique_ptr<ByteStream> stream = std::move(tcp);
  REQUIRE_OK(side.qp->attach(stream, n).code());
  BOOST_TEST(side.connector.alive == 0);
  BOOST_REQUIRE(eventually([&] { return !side.sink.calls().empty(); }, {&side}));
  BOOST_TEST(side.sink.calls() == "established");
  BOOST_TEST((side.sink.private_data == data));
  const auto endpoints = side.qp->endpoints();
  BOOST_TEST(endpoints.local.family() == AF_INET);
  BOOST_TEST(endpoints.remote.port() != 0);
}

// Regression: a short message that was posted before the connection was established was not copied,
// so what was overwritten after the post arrived.
BOOST_AUTO_TEST_CASE(short_message_is_copied_before_establishment) {
  Side a;
  Side b;
  std::vector<std::byte> near = pattern(64);
  std::vector<std::byte> far(64);
  const auto near_mr = b.reg(near);
  const auto far_mr = a.reg(far);
  const auto source = local(*near_mr, near);
  const auto sink = local(*far_mr, far);
  auto [active, passive] = tcp_pair();
  attach_responder(b, std::move(passive), negotiated(false));
  REQUIRE_OK(b.qp->post_send(1, &source, 1, kSignalled));
  std::ranges::fill(near, std::byte{0xEE});
  REQUIRE_OK(a.qp->post_recv(1, &sink, 1, kSignalled));
  attach_initiator(a, std::move(active), negotiated(true));
  BOOST_REQUIRE(eventually([&] { return a.recv_cq->size() == 1; }, {&a, &b}));
  BOOST_TEST((far == pattern(64)));
}

// Records the calls of several QPs in order, and holds up the driving thread in its first call.
class OrderSink final : public transport::ConnectionSink {
 public:
  struct Log {
    std::mutex mutex;
    std::string calls;
    std::atomic<bool> held{false};
    std::atomic<bool> released{false};
    void add(char who, const char* what) {
      const std::scoped_lock lock(mutex);
      calls += (calls.empty() ? "" : " ") + std::string(1, who) + ":" + what;
    }
    std::string text() {
      const std::scoped_lock lock(mutex);
      return calls;
    }
  };
  OrderSink(Log& log, char who) : log_(log), who_(who) {}
  void on_established(transport::PrivateData) noexcept override {
    log_.add(who_, "established");
    if (log_.held.exchange(true)) return;
    while (!log_.released) std::this_thread::yield();
  }
  void on_disconnected() noexcept override { log_.add(who_, "disconnected"); }
  void on_broken(transport::BreakCause) noexcept override { log_.add(who_, "broken"); }
  void on_accept_failed() noexcept override { log_.add(who_, "accept_failed"); }
  void on_rejected(transport::PrivateData) noexcept override {}
  void on_refused() noexcept override {}
  void on_unreachable() noexcept override {}
  void on_timed_out() noexcept override {}
  void on_soft_watermark() noexcept override {}
  void on_async_error() noexcept override {}

 private:
  Log& log_;
  const char who_;
};

// A client establishes two connections, then ends one. The server has handled the first message of
// that one only, so epoll reports its end before the first message of the other one.
BOOST_AUTO_TEST_CASE(connections_are_established_before_later_ends) {
  Side side;
  OrderSink::Log log;
  OrderSink sinks[] = {{log, 'a'}, {log, 'b'}};
  std::unique_ptr<Qp> qps[2];
  Fd peers[2];
  for (int i = 0; i < 2; ++i) {
    auto init = side.init(side.sink);
    init.sink = &sinks[i];
    qps[i] = std::make_unique<Qp>(
        QpEnvironment{*side.reactor, side.memory, side.connector, side.staging, side.accepted},
        init);
    auto [active, passive] = tcp_pair();
    auto n = negotiated(false, iwarp::kRtrWrite);
    n.reply = kReply;
    std::unique_ptr<ByteStream> stream =
        std::make_unique<TcpStream>(*side.reactor, std::move(passive), transport::Endpoints{});
    REQUIRE_OK(qps[i]->attach(stream, n).code());
    read_reply(active.get());
    peers[i] = std::move(active);
  }
  send_empty_write(peers[0].get());
  BOOST_REQUIRE(eventually([&] { return log.held.load(); }));
  send_empty_write(peers[1].get());
  peers[0].reset();
  std::this_thread::sleep_for(20ms);  // until both sockets are ready
  log.released = true;
  BOOST_REQUIRE(eventually([&] { return log.text().ends_with("a:disconnected"); }));
  BOOST_TEST(log.text() == "a:established b:established a:disconnected");
}

// Fewer frames, and fewer CRCs and headers. On the loopback interface a frame has some 64 KB.
BOOST_AUTO_TEST_CASE(frames_are_as_large_as_tcp_segments) {
  RawPeer raw;
  const auto data = pattern(200'000);
  const auto mr = raw.side.reg(data, kLocalOnly);
  const auto segment = local(*mr, data);
  REQUIRE_OK(raw.side.qp->post_send(1, &segment, 1, kSignalled));
  BOOST_REQUIRE(raw.wait([&] {
    int waiting = 0;
    ::ioctl(raw.peer.get(), FIONREAD, &waiting);
    return waiting != 0;
  }));
  std::array<std::byte, 2> length;
  BOOST_REQUIRE(::recv(raw.peer.get(), length.data(), length.size(), MSG_WAITALL) == 2);
  int largest = 0;
  socklen_t size = sizeof largest;
  BOOST_REQUIRE(::getsockopt(raw.peer.get(), IPPROTO_TCP, TCP_MAXSEG, &largest, &size) == 0);
  const auto frame = static_cast<int>(iwarp::fpdu_size(iwarp::load16(length.data())));
  BOOST_TEST(frame > largest / 10 * 9);
  BOOST_TEST(frame <= 64 * 1024);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
