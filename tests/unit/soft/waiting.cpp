// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Messages that arrive before a receive has been posted for them are held in order (docs/adr/0022).
#include "providers/soft/staging.h"
#include "tests/unit/soft/raw_peer.h"

#include <malloc.h>

#include <algorithm>

namespace udapl::soft::test {
namespace {

using transport::BreakReason;
using transport::DisconnectMode;

constexpr Side::Options with_limit(Clock::duration limit) {
  Side::Options options;
  options.no_receive_limit = limit;
  return options;
}
constexpr Side::Options with_srq() {
  Side::Options options;
  options.srq = true;
  return options;
}

struct Fixture : Pair {
  explicit Fixture(const Side::Options& b_options = {}) : Pair({}, b_options) {}

  std::vector<std::byte> near = pattern(3 << 20, 3);
  std::vector<std::byte> far = std::vector<std::byte>(3 << 20);
  std::vector<std::byte> area = std::vector<std::byte>(4096);  // for a's Writes and Reads
  std::unique_ptr<Mr> near_mr = a.reg(near);
  std::unique_ptr<Mr> far_mr = b.reg(far);
  std::unique_ptr<Mr> area_mr = b.reg(area);

  DAT_RETURN send(WorkId id, std::size_t length, std::size_t from = 0) {
    const auto segment = local(*near_mr, near.data() + from, length);
    return a.qp->post_send(id, &segment, 1, kSignalled);
  }
  DAT_RETURN receive(WorkId id, std::size_t length) {
    const auto segment = local(*far_mr, far.data(), length);
    if (b.srq != nullptr) return b.srq->post_recv(id, &segment, 1);
    return b.qp->post_recv(id, &segment, 1, kSignalled);
  }
  DAT_RETURN write(WorkId id, std::size_t length) {
    const auto segment = local(*near_mr, near.data(), length);
    return a.qp->post_rdma_write(id, &segment, 1, remote(*area_mr, area), kSignalled);
  }
  // b reads from a.
  DAT_RETURN read_back(WorkId id, std::size_t length) {
    const auto segment = local(*far_mr, far.data() + (2 << 20), length);
    return b.qp->post_rdma_read(id, &segment, 1,
                                remote(near_mr->rmr_context(), near.data(), length), kSignalled);
  }
  void expect_sent(WorkId id) {
    const Completion c = next(*a.request_cq);
    BOOST_TEST(c.id == id);
    BOOST_TEST(c.status == DAT_DTO_SUCCESS);
  }
  void expect_received(WorkId id, std::size_t length, std::size_t from = 0) {
    const Completion c = next(*b.recv_cq);
    BOOST_TEST(c.id == id);
    BOOST_TEST(c.status == DAT_DTO_SUCCESS);
    BOOST_TEST(c.length == length);
    BOOST_TEST(std::memcmp(far.data(), near.data() + from, length) == 0);
  }
  void expect_calls(const char* of_a, const char* of_b) {
    BOOST_REQUIRE(wait([&] { return a.sink.ended() && b.sink.ended(); }));
    BOOST_TEST(a.sink.calls() == of_a);
    BOOST_TEST(b.sink.calls() == of_b);
  }
};
struct SrqFixture : Fixture {
  SrqFixture() : Fixture(with_srq()) {}
};
struct LimitFixture : Fixture {
  LimitFixture() : Fixture(with_limit(20ms)) {}
};

BOOST_AUTO_TEST_SUITE(waiting)

BOOST_FIXTURE_TEST_CASE(a_send_waits_for_its_receive, Fixture) {
  for (const std::size_t length : {0U, 1U, 64U, 4096U, 70000U, 400000U}) {
    REQUIRE_OK(send(1, length, 5));
    expect_sent(1);
    BOOST_TEST(quiet(*b.recv_cq));
    REQUIRE_OK(receive(2, far.size()));
    expect_received(2, length, 5);
  }
  BOOST_TEST(b.sink.calls() == "established");
}

BOOST_FIXTURE_TEST_CASE(many_sends_complete_in_order, Fixture) {
  constexpr WorkId kCount = 200;
  WorkId posted = 0;
  const auto post = [&] {
    while (posted != kCount && send(posted, 100 + 37 * posted, posted) == DAT_SUCCESS) ++posted;
  };
  post();
  BOOST_TEST(quiet(*b.recv_cq));
  for (WorkId id = 0; id < kCount; ++id) {
    REQUIRE_OK(receive(id, 100 + 37 * id));
    expect_received(id, 100 + 37 * id, id);
    Completion c{};
    while (a.request_cq->poll(&c, 1) == 1) BOOST_TEST(c.status == DAT_DTO_SUCCESS);
    post();
  }
  BOOST_TEST(posted == kCount);
}

// More messages than b can hold: the rest stays in the sender's queue.
BOOST_FIXTURE_TEST_CASE(what_is_too_much_stays_at_the_sender, Fixture) {
  constexpr WorkId kCount = 12;
  constexpr std::size_t kLength = 1 << 20;
  for (WorkId id = 0; id < kCount; ++id) REQUIRE_OK(send(id, kLength, id));
  BOOST_TEST(quiet(*b.recv_cq));
  for (WorkId id = 0; id < kCount; ++id) {
    REQUIRE_OK(receive(id, kLength));
    expect_received(id, kLength, id);
    expect_sent(id);
  }
  a.qp->disconnect(DisconnectMode::kGraceful);
  expect_calls("established disconnected", "established disconnected");
}

BOOST_FIXTURE_TEST_CASE(a_write_stays_behind_the_send, Fixture) {
  REQUIRE_OK(send(1, 100));
  REQUIRE_OK(write(2, 4096));
  REQUIRE_OK(send(3, 200));
  const WorkId sent = confirms_writes() ? 1 : 3;
  for (WorkId id = 1; id <= sent; ++id) expect_sent(id);
  BOOST_TEST(quiet(*b.recv_cq));
  BOOST_TEST(quiet(*a.request_cq));
  BOOST_TEST(std::all_of(area.begin(), area.end(), [](std::byte x) { return x == std::byte{0}; }));
  REQUIRE_OK(receive(1, 100));
  expect_received(1, 100);
  BOOST_TEST(std::memcmp(area.data(), near.data(), 4096) == 0);
  for (WorkId id = sent + 1; id <= 3; ++id) expect_sent(id);
  REQUIRE_OK(receive(3, 200));
  expect_received(3, 200);
}

// As over InfiniBand, the peer's Read is executed after its Send.
BOOST_FIXTURE_TEST_CASE(the_peers_read_stays_behind_its_send, Fixture) {
  std::vector<std::byte> sink(64);
  const auto sink_mr = a.reg(sink);
  const auto segment = local(*sink_mr, sink);
  REQUIRE_OK(send(1, 100));
  REQUIRE_OK(a.qp->post_rdma_read(2, &segment, 1, remote(area_mr->rmr_context(), area.data(), 64),
                                  kSignalled));
  expect_sent(1);
  BOOST_TEST(quiet(*a.request_cq));
  area[63] = std::byte{77};
  REQUIRE_OK(receive(1, 100));
  expect_sent(2);
  BOOST_TEST((sink[63] == std::byte{77}));
}

BOOST_FIXTURE_TEST_CASE(answers_to_our_reads_pass, Fixture) {
  REQUIRE_OK(send(1, 500000));
  BOOST_TEST(quiet(*b.recv_cq));
  REQUIRE_OK(read_back(7, 100000));
  const Completion c = next(*b.request_cq);
  BOOST_TEST(c.id == 7U);
  BOOST_TEST(c.status == DAT_DTO_SUCCESS);
  BOOST_TEST(std::memcmp(far.data() + (2 << 20), near.data(), 100000) == 0);
  REQUIRE_OK(receive(1, 500000));
  expect_received(1, 500000);
}

BOOST_FIXTURE_TEST_CASE(answer_passes_within_a_held_message, RawPeer) {
  std::vector<std::byte> sink(64);
  const auto sink_mr = side.reg(sink);
  const auto segment = local(*sink_mr, sink);
  REQUIRE_OK(side.qp->post_rdma_read(1, &segment, 1, remote(7, nullptr, 64), kSignalled));
  std::array<std::byte, 52> request{};
  BOOST_REQUIRE(::recv(peer.get(), request.data(), request.size(), MSG_WAITALL) == 52);
  const auto load32 = [&](std::size_t at) { return iwarp::load32(request.data() + at); };
  const std::uint32_t sink_stag = load32(2 + 18);
  const std::uint64_t sink_to = iwarp::load64(request.data() + 2 + 22);

  const auto message = pattern(100000, 5);
  const iwarp::IoSpan span{message.data(), message.size()};
  sender.begin_send(iwarp::Opcode::kSend, 0, {&span, 1}, 100000);
  BOOST_REQUIRE(sender.fill(batch, 1) == iwarp::Sender::Fill::kBudget);
  const auto first = bytes();
  batch.consume(batch.pending_bytes());
  raw(first);
  // The kernel's siw may put a Read Response between the segments of a Send.
  iwarp::Sender other{iwarp::SenderConfig{}};
  const auto answer = pattern(64, 6);
  const iwarp::IoSpan answer_span{answer.data(), answer.size()};
  other.begin_read_response(sink_stag, sink_to, {&answer_span, 1}, 64);
  iwarp::TxBatch other_batch;
  BOOST_REQUIRE(other.fill(other_batch) == iwarp::Sender::Fill::kDone);
  for (const iwarp::IoSpan& s : other_batch.spans())
    raw({static_cast<const std::byte*>(s.data), s.size});
  Completion c{};
  BOOST_REQUIRE(wait([&] { return side.request_cq->poll(&c, 1) == 1; }));
  BOOST_TEST(c.status == DAT_DTO_SUCCESS);
  BOOST_TEST((sink == answer));
  while (sender.busy()) {
    sender.fill(batch);
    raw(bytes());
    batch.consume(batch.pending_bytes());
  }
  std::vector<std::byte> into(100000);
  const auto into_mr = side.reg(into);
  const auto into_segment = local(*into_mr, into);
  REQUIRE_OK(side.qp->post_recv(2, &into_segment, 1, kSignalled));
  BOOST_REQUIRE(wait([&] { return side.recv_cq->poll(&c, 1) == 1; }));
  BOOST_TEST(c.status == DAT_DTO_SUCCESS);
  BOOST_TEST((into == message));
}

// A receive that is too small fails when it is posted for the held message.
BOOST_FIXTURE_TEST_CASE(a_late_receive_that_is_too_small, Fixture) {
  REQUIRE_OK(send(1, 100));
  expect_sent(1);
  REQUIRE_OK(receive(2, 99));
  const Completion c = next(*b.recv_cq);
  BOOST_TEST(c.status == DAT_DTO_ERR_LOCAL_LENGTH);
  expect_calls("established broken", "established broken");
}

BOOST_FIXTURE_TEST_CASE(a_held_write_whose_memory_is_freed, Fixture) {
  REQUIRE_OK(send(1, 100));
  REQUIRE_OK(write(2, 64));
  expect_sent(1);
  if (!confirms_writes()) expect_sent(2);
  BOOST_TEST(quiet(*b.recv_cq));
  area_mr.reset();
  REQUIRE_OK(receive(1, 100));
  expect_received(1, 100);
  if (confirms_writes()) {
    const Completion refused = next(*a.request_cq);
    BOOST_TEST(refused.id == 2U);
    BOOST_TEST(refused.status == DAT_DTO_ERR_REMOTE_ACCESS);
  }
  expect_calls("established broken", "established broken");
  BOOST_TEST((b.sink.reason == BreakReason::kProtocol));
}

// ---- the end -----------------------------------------------------------------------------------

// The receives are posted a little later than the peer's FIN arrives.
BOOST_FIXTURE_TEST_CASE(messages_before_a_graceful_disconnect_arrive, Fixture) {
  for (WorkId id = 0; id < 10; ++id) REQUIRE_OK(send(id, 1000, id));
  a.qp->disconnect(DisconnectMode::kGraceful);
  BOOST_TEST(quiet(*b.recv_cq));
  BOOST_TEST(b.sink.calls() == "established");
  for (WorkId id = 0; id < 10; ++id) {
    REQUIRE_OK(receive(id, 1000));
    expect_received(id, 1000, id);
  }
  expect_calls("established disconnected", "established disconnected");
}

BOOST_FIXTURE_TEST_CASE(graceful_end_without_receives_is_delivered, Fixture) {
  REQUIRE_OK(send(1, 1000));
  a.qp->disconnect(DisconnectMode::kGraceful);
  expect_calls("established disconnected", "established disconnected");
  BOOST_TEST(b.recv_cq->size() == 0);
}

// The FIN is behind more data than b can hold, which is therefore not read.
BOOST_FIXTURE_TEST_CASE(a_disconnect_behind_more_than_is_held, Fixture) {
  REQUIRE_OK(send(1, 1400000));
  a.qp->disconnect(DisconnectMode::kGraceful);
  expect_calls("established disconnected", "established disconnected");
}

BOOST_FIXTURE_TEST_CASE(our_graceful_disconnect_while_messages_wait, Fixture) {
  for (WorkId id = 0; id < 3; ++id) REQUIRE_OK(send(id, 900000, id));
  // Long enough for b to read as much as it can hold, also on a slow machine.
  for (int i = 0; i < 5; ++i) BOOST_TEST(quiet(*b.recv_cq));
  b.qp->disconnect(DisconnectMode::kGraceful);
  BOOST_REQUIRE(wait([&] { return a.sink.ended() && b.sink.ended(); }));
  BOOST_TEST(b.sink.calls() == "established disconnected");
}

BOOST_FIXTURE_TEST_CASE(our_abrupt_disconnect_while_messages_wait, Fixture) {
  REQUIRE_OK(send(1, 1000));
  expect_sent(1);
  BOOST_TEST(quiet(*b.recv_cq));
  b.qp->disconnect(DisconnectMode::kAbrupt);
  BOOST_REQUIRE(wait([&] { return a.sink.ended(); }));
  REQUIRE_OK(receive(1, 1000));
  BOOST_TEST(next(*b.recv_cq).status == DAT_DTO_ERR_FLUSHED);
  REQUIRE_OK(b.qp->reset().code());
  REQUIRE_OK(a.qp->reset().code());
  connect();  // without any remains of the old connection
  REQUIRE_OK(receive(2, 10));
  REQUIRE_OK(send(2, 10, 9));
  expect_received(2, 10, 9);
}

BOOST_FIXTURE_TEST_CASE(a_reset_of_the_peer_ends_the_waiting, RawPeer) {
  const auto message = pattern(100, 5);
  const iwarp::IoSpan span{message.data(), message.size()};
  sender.begin_send(iwarp::Opcode::kSend, 0, {&span, 1}, 100);
  flush();
  for (int i = 0; i < 20; ++i) side.reactor->progress();
  reset_peer();
  expect_broken(BreakReason::kTransportLost);
}

// The reset is noticed even if so much is held that the QP has stopped reading.
BOOST_FIXTURE_TEST_CASE(a_reset_of_the_peer_while_nothing_is_read, RawPeer) {
  const auto message = pattern(1500000, 5);
  const iwarp::IoSpan span{message.data(), message.size()};
  sender.begin_send(iwarp::Opcode::kSend, 0, {&span, 1}, 1500000);
  while (sender.busy()) {
    sender.fill(batch, 1);
    raw(bytes());
    batch.consume(batch.pending_bytes());
    for (int i = 0; i < 5; ++i) side.reactor->progress();
  }
  reset_peer();
  expect_broken(BreakReason::kTransportLost);
}

BOOST_FIXTURE_TEST_CASE(a_terminate_of_the_peer_ends_the_waiting, RawPeer) {
  sender.begin_send(iwarp::Opcode::kSend, 0, {}, 0);
  flush();
  sender.begin_terminate(iwarp::make_terminate(iwarp::TerminateCode::kRdmapLocalCatastrophic));
  flush();
  expect_broken(BreakReason::kRemoteFault);
}

// ---- limits ------------------------------------------------------------------------------------

// A peer that sends continuously without finding a receive uses no more of our memory than the
// bound.
BOOST_FIXTURE_TEST_CASE(a_peer_cannot_fill_our_memory, RawPeer) {
  const int send_buffer = 65536;
  ::setsockopt(peer.get(), SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof send_buffer);
  const auto message = pattern(1000, 5);
  const iwarp::IoSpan span{message.data(), message.size()};
  const auto fill = [&] {
    for (int i = 0; i < 50; ++i) {
      sender.begin_send(iwarp::Opcode::kSend, 0, {&span, 1}, 1000);
      build();
    }
  };
  fill();
  const std::size_t before = ::mallinfo2().uordblks + ::mallinfo2().hblkhd;
  std::size_t sent = 0;
  int idle = 0;
  while (idle < 50 && sent < (64U << 20)) {
    const std::vector<std::byte> data = bytes();
    const ssize_t n = ::send(peer.get(), data.data(), data.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    idle = n > 0 ? 0 : idle + 1;
    if (n > 0) {
      sent += static_cast<std::size_t>(n);
      batch.consume(static_cast<std::size_t>(n));
      if (batch.empty()) fill();
    }
    for (int i = 0; i < 3; ++i) side.reactor->progress();
    if (n <= 0) std::this_thread::sleep_for(1ms);
  }
  BOOST_TEST(idle == 50);  // stopped by TCP backpressure
  BOOST_TEST(sent > (1U << 20));
  const std::size_t grown = ::mallinfo2().uordblks + ::mallinfo2().hblkhd - before;
  BOOST_TEST(grown < (1U << 20) + 2 * Staging::kMax);
  BOOST_TEST(side.sink.calls() == "established");
  side.qp->disconnect(DisconnectMode::kAbrupt);
}

BOOST_FIXTURE_TEST_CASE(limit_of_the_environment_breaks_a_wait, LimitFixture) {
  REQUIRE_OK(send(1, 100));
  REQUIRE_OK(write(2, 64));
  expect_calls("established broken", "established broken");
  BOOST_TEST((b.sink.reason == BreakReason::kNoReceive));
  BOOST_TEST((a.sink.reason == BreakReason::kRemoteFault));
  BOOST_TEST((area[0] == std::byte{0}));
}

// A long limit, for busy machines.
struct LongLimitFixture : Fixture {
  LongLimitFixture() : Fixture(with_limit(2s)) {}
};

BOOST_FIXTURE_TEST_CASE(a_receive_within_the_limit, LongLimitFixture) {
  for (WorkId id = 0; id < 5; ++id) REQUIRE_OK(send(id, 100, id));
  for (WorkId id = 0; id < 5; ++id) {
    REQUIRE_OK(receive(id, 100));
    expect_received(id, 100, id);
  }
  std::this_thread::sleep_for(2100ms);
  BOOST_TEST(quiet(*b.recv_cq));
  BOOST_TEST(b.sink.calls() == "established");
}

BOOST_AUTO_TEST_CASE(a_peer_that_asks_for_strict_iwarp) {
  Fixture f(with_limit(Clock::duration::zero()));
  REQUIRE_OK(f.send(1, 100));
  f.expect_calls("established broken", "established broken");
  BOOST_TEST((f.b.sink.reason == BreakReason::kNoReceive));
}

// ---- SRQs --------------------------------------------------------------------------------------

BOOST_FIXTURE_TEST_CASE(a_send_waits_for_the_srq, SrqFixture) {
  for (WorkId id = 0; id < 20; ++id) REQUIRE_OK(send(id, 3000, id));
  BOOST_TEST(quiet(*b.recv_cq));
  for (WorkId id = 0; id < 20; ++id) {
    REQUIRE_OK(receive(id, 3000));
    expect_received(id, 3000, id);
  }
}

BOOST_FIXTURE_TEST_CASE(a_hard_watermark_counts_what_is_taken, SrqFixture) {
  b.qp->set_watermarks(-1, 0);
  REQUIRE_OK(send(1, 10));
  BOOST_TEST(quiet(*b.recv_cq));
  BOOST_TEST(b.sink.calls() == "established");  // a held message occupies no buffer
  REQUIRE_OK(receive(1, 10));
  expect_calls("established broken", "established broken");
  BOOST_TEST((b.sink.reason == BreakReason::kWatermark));
}

// Two connections on one SRQ get every other buffer each, although one has many more messages.
BOOST_FIXTURE_TEST_CASE(connections_of_an_srq_take_turns, SrqFixture) {
  Side c;  // a second peer of b
  RecordingSink sink;
  const std::unique_ptr<Qp> second = b.make_qp(sink);
  auto [active, passive] = tcp_pair();
  std::unique_ptr<ByteStream> stream =
      std::make_unique<TcpStream>(*b.reactor, std::move(passive), transport::Endpoints{});
  auto responder = negotiated(false);
  responder.reply = kReply;
  BOOST_REQUIRE(second->attach(stream, responder).ok());
  attach_initiator(c, std::move(active), negotiated(true));
  BOOST_REQUIRE(eventually([&] { return sink.calls() == "established"; }, {&a, &b, &c}));
  const auto c_mr = c.reg(near);
  const auto short_message = local(*c_mr, near.data(), 1);
  for (WorkId id = 0; id < 40; ++id) REQUIRE_OK(send(id, 2));
  for (WorkId id = 0; id < 10; ++id) REQUIRE_OK(c.qp->post_send(id, &short_message, 1, kSignalled));
  for (int i = 0; i < 20; ++i) {
    for (Side* const s : {&a, &b, &c}) s->reactor->progress();
    std::this_thread::sleep_for(1ms);
  }
  int of_c = 0;
  for (WorkId id = 0; id < 20; ++id) {
    REQUIRE_OK(receive(id, 10));
    Completion got{};
    BOOST_REQUIRE(eventually([&] { return b.recv_cq->poll(&got, 1) == 1; }, {&a, &b, &c}));
    BOOST_TEST(got.id == id);
    if (got.length == 1) ++of_c;
  }
  BOOST_TEST(of_c == 10);
}

// A buffer promised to an EP that ends goes to the next waiter.
BOOST_FIXTURE_TEST_CASE(a_buffer_promised_to_a_dead_connection, SrqFixture) {
  RecordingSink sink;
  std::unique_ptr<Qp> second = b.make_qp(sink);
  auto [active, passive] = tcp_pair();
  std::unique_ptr<ByteStream> stream =
      std::make_unique<TcpStream>(*b.reactor, std::move(passive), transport::Endpoints{});
  auto responder = negotiated(false);
  responder.reply = kReply;
  BOOST_REQUIRE(second->attach(stream, responder).ok());
  Side c;
  attach_initiator(c, std::move(active), negotiated(true));
  BOOST_REQUIRE(eventually([&] { return sink.calls() == "established"; }, {&a, &b, &c}));
  REQUIRE_OK(c.qp->post_send(1, nullptr, 0, kSignalled));
  for (int i = 0; i < 20; ++i) {
    for (Side* const s : {&b, &c}) s->reactor->progress();
    std::this_thread::sleep_for(1ms);
  }
  REQUIRE_OK(send(1, 50));
  BOOST_TEST(quiet(*b.recv_cq));
  REQUIRE_OK(receive(1, 50));  // promised to the second connection
  second.reset();
  Completion got{};
  // The second connection may have taken the buffer before it ended.
  BOOST_REQUIRE(eventually([&] { return b.recv_cq->poll(&got, 1) == 1 || b.srq->available() == 0; },
                           {&a, &b}));
  REQUIRE_OK(receive(2, 50));
  BOOST_REQUIRE(got.length == 50 ||
                wait([&] { return b.recv_cq->poll(&got, 1) == 1 && got.length == 50; }));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
