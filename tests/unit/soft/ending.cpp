// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Disconnects of both kinds, destruction. In the middle of a transfer: leaving.cpp.
#include "tests/parked/parked.h"
#include "tests/unit/soft/raw_peer.h"
#include "tests/unit/soft/standstill.h"
#include "tests/unit/soft/support.h"

#include <optional>

namespace udapl::soft::test {
namespace {

using transport::DisconnectMode;
using udapl::test::Parked;

struct Fixture : Pair {
  std::vector<std::byte> near = pattern(4000000, 3);
  std::vector<std::byte> far = pattern(4000000, 4);
  std::unique_ptr<Mr> near_mr = a.reg(near);
  std::unique_ptr<Mr> far_mr = b.reg(far);

  void both_end() {
    BOOST_REQUIRE(wait([&] { return a.sink.ended() && b.sink.ended(); }));
  }
};

BOOST_AUTO_TEST_SUITE(ending)

BOOST_FIXTURE_TEST_CASE(abrupt_disconnect_of_an_idle_connection, Fixture) {
  REQUIRE_OK(a.qp->post_recv(1, nullptr, 0, kSignalled));
  REQUIRE_OK(b.qp->post_recv(2, nullptr, 0, kSignalled));
  a.qp->disconnect(DisconnectMode::kAbrupt);
  Completion c{};
  BOOST_REQUIRE(a.recv_cq->poll(&c, 1) == 1);  // flushed before disconnect() returned
  BOOST_TEST(c.status == DAT_DTO_ERR_FLUSHED);
  BOOST_REQUIRE(wait([&] { return b.sink.ended(); }));
  BOOST_TEST(b.sink.calls() == "established disconnected");
  BOOST_TEST(next(*b.recv_cq).status == DAT_DTO_ERR_FLUSHED);
  BOOST_TEST(quiet(*a.request_cq));
  BOOST_TEST(a.sink.calls() == "established");  // no further call after kAbrupt
  a.qp->disconnect(DisconnectMode::kAbrupt);    // a second one has no effect
}

BOOST_FIXTURE_TEST_CASE(abrupt_disconnect_in_the_middle_of_a_send, Fixture) {
  const auto receive = local(*far_mr, far);
  const auto send = local(*near_mr, near);
  for (WorkId id = 0; id < 10; ++id) REQUIRE_OK(b.qp->post_recv(id, &receive, 1, kSignalled));
  for (WorkId id = 0; id < 10; ++id) REQUIRE_OK(a.qp->post_send(id, &send, 1, kSignalled));
  a.qp->disconnect(DisconnectMode::kAbrupt);
  Completion c{};
  WorkId expected = 0;
  bool failed = false;
  while (a.request_cq->poll(&c, 1) == 1) {
    BOOST_TEST(c.id == expected++);
    failed = failed || c.status != DAT_DTO_SUCCESS;
    if (failed) BOOST_TEST(c.status == DAT_DTO_ERR_FLUSHED);
  }
  BOOST_TEST(expected == 10U);
  BOOST_REQUIRE(wait([&] { return b.sink.ended(); }));
}

// Regression: a peer on this host that was sending when it saw the other side leave dropped what it
// had not read, and reported the connection broken.
BOOST_FIXTURE_TEST_CASE(data_before_an_abrupt_end_reaches_a_sender, Fixture) {
  constexpr WorkId kCount = 9;
  const auto small = local(*near_mr, near.data(), 64);
  const auto large = local(*far_mr, far);
  for (WorkId id = 0; id < kCount; ++id) {
    const auto receive = local(*far_mr, far.data() + id * 64, 64);
    REQUIRE_OK(b.qp->post_recv(id, &receive, 1, kSignalled));
  }
  b.recv_cq->arm();
  {
    Parked notice(Decided::kSinkCall);  // of the first Send: the driving thread of b reads no more
    REQUIRE_OK(a.qp->post_send(0, &small, 1, kSignalled));
    BOOST_REQUIRE(notice.reached());
    REQUIRE_OK(b.qp->post_send(100, &large, 1, kSignalled));
    for (WorkId id = 1; id < kCount; ++id) REQUIRE_OK(a.qp->post_send(id, &small, 1, kSignalled));
    for (WorkId id = 0; id < kCount; ++id) {
      Completion c{};
      BOOST_REQUIRE(eventually([&] { return a.request_cq->poll(&c, 1) == 1; }, {&a}));
      BOOST_TEST(c.status == DAT_DTO_SUCCESS);
    }
    a.qp->disconnect(DisconnectMode::kAbrupt);
  }
  BOOST_REQUIRE(wait([&] { return b.sink.ended(); }));
  BOOST_TEST(b.sink.calls() == "established disconnected");
  for (WorkId id = 0; id < kCount; ++id) BOOST_TEST(next(*b.recv_cq).status == DAT_DTO_SUCCESS);
  // Over TCP, all of it may have gone to the peer's host, which drops it.
  const DAT_DTO_COMPLETION_STATUS status = next(*b.request_cq).status;
  BOOST_TEST((status == DAT_DTO_ERR_FLUSHED || status == DAT_DTO_SUCCESS), status);
}

BOOST_FIXTURE_TEST_CASE(graceful_disconnect_finishes_what_is_posted, Fixture) {
  constexpr WorkId kCount = 5;
  const auto receive = local(*far_mr, far);
  const auto send = local(*near_mr, near);
  for (WorkId id = 0; id < kCount + 2; ++id)
    REQUIRE_OK(b.qp->post_recv(id, &receive, 1, kSignalled));
  for (WorkId id = 0; id < kCount; ++id) REQUIRE_OK(a.qp->post_send(id, &send, 1, kSignalled));
  std::vector<std::byte> back(100000);
  auto back_mr = a.reg(back);
  const auto sink = local(*back_mr, back);
  REQUIRE_OK(a.qp->post_rdma_read(kCount, &sink, 1,
                                  remote(far_mr->rmr_context(), far.data(), 100000), kSignalled));
  a.qp->disconnect(DisconnectMode::kGraceful);
  BOOST_TEST(a.qp->post_send(99, &send, 1, kSignalled) == dat_error(DAT_INVALID_STATE));
  both_end();
  BOOST_TEST(a.sink.calls() == "established disconnected");
  BOOST_TEST(b.sink.calls() == "established disconnected");
  for (WorkId id = 0; id <= kCount; ++id) {
    const Completion c = next(*a.request_cq);
    BOOST_TEST(c.id == id);
    BOOST_TEST(c.status == DAT_DTO_SUCCESS);
  }
  for (WorkId id = 0; id < kCount + 2; ++id) {
    const Completion c = next(*b.recv_cq);
    BOOST_TEST(c.id == id);
    BOOST_TEST(c.status == (id < kCount ? DAT_DTO_SUCCESS : DAT_DTO_ERR_FLUSHED));
  }
  BOOST_TEST((near == far));
}

BOOST_FIXTURE_TEST_CASE(graceful_disconnect_from_both_sides_at_once, Fixture) {
  a.qp->disconnect(DisconnectMode::kGraceful);
  b.qp->disconnect(DisconnectMode::kGraceful);
  both_end();
  BOOST_TEST(a.sink.calls() == "established disconnected");
  BOOST_TEST(b.sink.calls() == "established disconnected");
}

// The peer stands still for longer than we wait for its end of the stream: in the first case, its
// host takes all messages meanwhile, in the second it does not.
BOOST_AUTO_TEST_CASE(graceful_end_towards_a_still_peer) {
  for (const std::size_t length : {100U, 16384U}) {
    constexpr WorkId kCount = 20;
    Fixture f;
    for (WorkId id = 0; id < kCount; ++id) {
      const auto receive = local(*f.far_mr, &f.far[id * length], length);
      REQUIRE_OK(f.b.qp->post_recv(id, &receive, 1, kSignalled));
    }
    std::optional<Standstill> stands(*f.b.reactor);
    for (WorkId id = 0; id < kCount; ++id) {
      const auto send = local(*f.near_mr, &f.near[id * length], length);
      REQUIRE_OK(f.a.qp->post_send(id, &send, 1, kSignalled));
    }
    f.a.qp->disconnect(DisconnectMode::kGraceful);
    for (const auto end = Clock::now() + 2500ms; Clock::now() < end;) {
      f.a.reactor->progress();
      std::this_thread::sleep_for(1ms);
    }
    stands.reset();
    for (WorkId id = 0; id < kCount; ++id) {
      BOOST_TEST(f.next(*f.a.request_cq).status == DAT_DTO_SUCCESS);
      BOOST_TEST(f.next(*f.b.recv_cq).status == DAT_DTO_SUCCESS);
    }
    f.both_end();
    BOOST_TEST(f.a.sink.calls() == "established disconnected");
    BOOST_TEST(f.b.sink.calls() == "established disconnected");
    BOOST_TEST(same_bytes(f.near, f.far, kCount * length));
  }
}

// What a Send reported as done may be lost, so this is no orderly end.
BOOST_AUTO_TEST_CASE(graceful_end_towards_a_peer_that_never_reads) {
  Side side({.drain_limit = 100ms});
  auto [active, passive] = tcp_pair();
  attach_responder(side, std::move(passive), negotiated(false, iwarp::kRtrNone));
  read_reply(active.get());
  BOOST_REQUIRE(eventually([&] { return side.sink.calls() == "established"; }, {&side}));
  const auto bytes = pattern(320 * 1024);
  const auto mr = side.reg(bytes);
  const auto send = local(*mr, bytes);
  REQUIRE_OK(side.qp->post_send(1, &send, 1, kSignalled));
  side.qp->disconnect(DisconnectMode::kGraceful);
  Completion c{};
  BOOST_REQUIRE(eventually([&] { return side.request_cq->poll(&c, 1) == 1; }, {&side}));
  BOOST_TEST(c.status == DAT_DTO_SUCCESS);
  BOOST_REQUIRE(eventually([&] { return side.sink.ended(); }, {&side}));
  BOOST_TEST(side.sink.calls() == "established broken");
  BOOST_TEST((side.sink.reason == transport::BreakReason::kTransportLost));
}

// As above, but with more data than the peer's host takes. Regression: the Send that was handed
// over in part was flushed like those behind it.
BOOST_AUTO_TEST_CASE(lost_in_the_middle_of_a_send) {
  Side side({.drain_limit = 100ms});
  auto [active, passive] = tcp_pair();
  attach_responder(side, std::move(passive), negotiated(false, iwarp::kRtrNone));
  read_reply(active.get());
  BOOST_REQUIRE(eventually([&] { return side.sink.calls() == "established"; }, {&side}));
  const auto bytes = pattern(32 * 1024 * 1024);
  const auto mr = side.reg(bytes);
  const auto send = local(*mr, bytes);
  REQUIRE_OK(side.qp->post_send(1, &send, 1, kSignalled));
  REQUIRE_OK(side.qp->post_send(2, nullptr, 0, kSignalled));
  side.qp->disconnect(DisconnectMode::kGraceful);
  BOOST_REQUIRE(eventually([&] { return side.sink.ended(); }, {&side}));
  BOOST_TEST(side.sink.calls() == "established broken");
  Completion c{};
  BOOST_REQUIRE(side.request_cq->poll(&c, 1) == 1);
  BOOST_TEST(c.status == DAT_DTO_ERR_TRANSPORT);
  BOOST_REQUIRE(side.request_cq->poll(&c, 1) == 1);
  BOOST_TEST(c.status == DAT_DTO_ERR_FLUSHED);
}

BOOST_AUTO_TEST_CASE(graceful_end_though_the_peer_never_closes) {
  Side side;
  auto [active, passive] = tcp_pair();
  attach_responder(side, std::move(passive), negotiated(false, iwarp::kRtrNone));
  read_reply(active.get());
  BOOST_REQUIRE(eventually([&] { return side.sink.calls() == "established"; }, {&side}));
  side.qp->disconnect(DisconnectMode::kGraceful);
  const auto begin = Clock::now();
  BOOST_REQUIRE(eventually([&] { return side.sink.ended(); }, {&side}));
  BOOST_TEST(side.sink.calls() == "established disconnected");
  BOOST_TEST((Clock::now() - begin > 1500ms));
}

// The peer receives and acknowledges our Read but never answers it, as after a frame with a damaged
// length.
BOOST_AUTO_TEST_CASE(graceful_end_towards_a_silent_peer) {
  Side side({.drain_limit = 100ms});
  auto [active, passive] = tcp_pair();
  attach_responder(side, std::move(passive), negotiated(false, iwarp::kRtrNone));
  read_reply(active.get());
  BOOST_REQUIRE(eventually([&] { return side.sink.calls() == "established"; }, {&side}));
  REQUIRE_OK(side.qp->post_recv(9, nullptr, 0, kSignalled));
  REQUIRE_OK(side.qp->post_send(1, nullptr, 0, kSignalled));
  REQUIRE_OK(side.qp->post_rdma_read(2, nullptr, 0, {0, 0, 5}, kSignalled));
  REQUIRE_OK(side.qp->post_send(3, nullptr, 0, kSignalled));
  side.qp->disconnect(DisconnectMode::kGraceful);
  BOOST_REQUIRE(eventually([&] { return side.sink.ended(); }, {&side}));
  BOOST_TEST(side.sink.calls() == "established broken");
  BOOST_TEST((side.sink.reason == transport::BreakReason::kTransportLost));
  constexpr DAT_DTO_COMPLETION_STATUS kExpected[] = {DAT_DTO_SUCCESS, DAT_DTO_ERR_TRANSPORT,
                                                     DAT_DTO_ERR_FLUSHED};
  Completion c{};
  for (WorkId id = 1; id <= 3; ++id) {
    BOOST_REQUIRE(side.request_cq->poll(&c, 1) == 1);
    BOOST_TEST(c.id == id);
    BOOST_TEST(c.status == kExpected[id - 1]);
  }
  BOOST_REQUIRE(side.recv_cq->poll(&c, 1) == 1);
  BOOST_TEST(c.status == DAT_DTO_ERR_FLUSHED);
  REQUIRE_OK(side.qp->reset().code());
}

BOOST_AUTO_TEST_CASE(graceful_disconnect_without_a_limit_waits) {
  Side side({.drain_limit = 0ms});
  auto [active, passive] = tcp_pair();
  attach_responder(side, std::move(passive), negotiated(false, iwarp::kRtrNone));
  read_reply(active.get());
  BOOST_REQUIRE(eventually([&] { return side.sink.calls() == "established"; }, {&side}));
  REQUIRE_OK(side.qp->post_rdma_read(1, nullptr, 0, {0, 0, 5}, kSignalled));
  side.qp->disconnect(DisconnectMode::kGraceful);
  for (int i = 0; i < 100; ++i) {
    side.reactor->progress();
    std::this_thread::sleep_for(2ms);
  }
  BOOST_TEST(side.sink.calls() == "established");
  side.qp->disconnect(DisconnectMode::kAbrupt);  // ends the waiting
  Completion c{};
  BOOST_REQUIRE(side.request_cq->poll(&c, 1) == 1);
  BOOST_TEST(c.status == DAT_DTO_ERR_FLUSHED);
}

BOOST_FIXTURE_TEST_CASE(destroying_a_qp_ends_the_peers_connection, Fixture) {
  REQUIRE_OK(b.qp->post_recv(1, nullptr, 0, kSignalled));
  REQUIRE_OK(a.qp->post_recv(1, nullptr, 0, kSignalled));
  a.qp.reset();
  BOOST_TEST(a.recv_cq->size() == 0);
  BOOST_REQUIRE(wait([&] { return b.sink.ended(); }));
  BOOST_TEST(next(*b.recv_cq).status == DAT_DTO_ERR_FLUSHED);
}

BOOST_AUTO_TEST_CASE(peer_that_is_killed) {
  Pair pair;
  auto bytes = pattern(100);
  auto mr = pair.a.reg(bytes);
  auto [active, passive] = tcp_pair();
  Side lonely;
  attach_responder(lonely, std::move(passive), negotiated(false, iwarp::kRtrNone));
  read_reply(active.get());
  BOOST_REQUIRE(eventually([&] { return lonely.sink.calls() == "established"; }, {&lonely}));
  const linger now{1, 0};
  ::setsockopt(active.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  REQUIRE_OK(lonely.qp->post_rdma_read(1, nullptr, 0, {0, 0, 1}, kSignalled));
  REQUIRE_OK(lonely.qp->post_send(2, nullptr, 0, kSignalled));
  active.reset();  // RST
  BOOST_REQUIRE(eventually([&] { return lonely.sink.ended(); }, {&lonely}));
  BOOST_TEST(lonely.sink.calls() == "established broken");
  BOOST_TEST((lonely.sink.reason == transport::BreakReason::kTransportLost));
  Completion c{};
  BOOST_REQUIRE(lonely.request_cq->poll(&c, 1) == 1);
  BOOST_TEST(c.status == DAT_DTO_ERR_TRANSPORT);
  BOOST_REQUIRE(lonely.request_cq->poll(&c, 1) == 1);
  BOOST_TEST(c.status == DAT_DTO_ERR_FLUSHED);
}

// The peer sends, closes, and refuses our request, all before we look.
BOOST_AUTO_TEST_CASE(last_message_of_a_peer_that_has_gone) {
  RawPeer raw;
  std::vector<std::byte> room(100);
  const auto room_mr = raw.side.reg(room);
  const auto receive = local(*room_mr, room);
  REQUIRE_OK(raw.side.qp->post_recv(1, &receive, 1, kSignalled));
  std::optional<Standstill> stands(*raw.side.reactor);
  const auto message = pattern(100, 5);
  const iwarp::IoSpan span{message.data(), message.size()};
  raw.sender.begin_send(iwarp::Opcode::kSend, 0, {&span, 1}, 100);
  raw.flush();
  raw.peer.reset();
  for (WorkId id = 2; id < 10; ++id) {  // the first one causes a RST, the next one finds it
    REQUIRE_OK(raw.side.qp->post_send(id, nullptr, 0, kSignalled));
    std::this_thread::sleep_for(5ms);
  }
  stands.reset();
  Completion c{};
  BOOST_REQUIRE(raw.wait([&] { return raw.side.recv_cq->poll(&c, 1) == 1; }));
  BOOST_TEST(c.status == DAT_DTO_SUCCESS);
  BOOST_TEST((room == message));
  BOOST_REQUIRE(raw.wait([&] { return raw.side.sink.ended(); }));
  BOOST_TEST(raw.side.sink.calls() == "established disconnected");
}

// ---- sinks that call back ----------------------------------------------------------------------

// A consumer's upcall may free the EP whose event it handles.
BOOST_AUTO_TEST_CASE(sink_may_destroy_its_qp) {
  struct SuicidalSink final : transport::ConnectionSink {
    void on_established(transport::PrivateData) noexcept override { act(); }
    void on_rejected(transport::PrivateData) noexcept override {}
    void on_refused() noexcept override {}
    void on_unreachable() noexcept override {}
    void on_timed_out() noexcept override {}
    void on_accept_failed() noexcept override {}
    void on_disconnected() noexcept override { act(); }
    void on_broken(transport::BreakCause) noexcept override { act(); }
    void on_soft_watermark() noexcept override {}
    void on_async_error() noexcept override {}
    void act() {
      if (++calls == when) {
        qp.reset();
        done = true;
      }
    }
    int when = 1;
    std::atomic<int> calls{0};
    std::unique_ptr<Qp> qp;
    std::atomic<bool> done{false};
  };
  for (const int when : {1, 2}) {
    for (const bool by_service_thread : {false, true}) {
      Side side;
      SuicidalSink sink;
      sink.when = when;
      auto init = side.init(side.sink);
      init.sink = &sink;
      sink.qp = std::make_unique<Qp>(
          QpEnvironment{*side.reactor, side.memory, side.connector, side.staging, side.accepted},
          init);
      REQUIRE_OK(sink.qp->post_recv(1, nullptr, 0, kSignalled));
      auto [active, passive] = tcp_pair();
      auto n = negotiated(false, iwarp::kRtrNone);
      n.reply = kReply;
      std::unique_ptr<ByteStream> stream =
          std::make_unique<TcpStream>(*side.reactor, std::move(passive), transport::Endpoints{});
      REQUIRE_OK(sink.qp->attach(stream, n).code());
      read_reply(active.get());
      if (when == 2) {
        BOOST_REQUIRE(eventually([&] { return sink.calls == 1; }));
        ::shutdown(active.get(), SHUT_WR);
      }
      if (by_service_thread)
        BOOST_REQUIRE(eventually([&] { return sink.done.load(); }));
      else
        BOOST_REQUIRE(eventually([&] { return sink.done.load(); }, {&side}));
      BOOST_TEST(side.recv_cq->size() == 0);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
