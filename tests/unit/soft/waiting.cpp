// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Messages that arrive before a receive has been posted for them are held in order (docs/adr/0022).
#include "tests/unit/soft/waiting.h"

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
struct LimitFixture : WaitingPair {
  LimitFixture() : WaitingPair(with_limit(20ms)) {}
};

BOOST_AUTO_TEST_SUITE(waiting)

BOOST_FIXTURE_TEST_CASE(a_send_waits_for_its_receive, WaitingPair) {
  for (const std::size_t length : {0U, 1U, 64U, 4096U, 70000U, 400000U}) {
    REQUIRE_OK(send(1, length, 5));
    expect_sent(1);
    BOOST_TEST(quiet(*b.recv_cq));
    REQUIRE_OK(receive(2, far.size()));
    expect_received(2, length, 5);
  }
  BOOST_TEST(b.sink.calls() == "established");
}

BOOST_FIXTURE_TEST_CASE(many_sends_complete_in_order, WaitingPair) {
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
BOOST_FIXTURE_TEST_CASE(what_is_too_much_stays_at_the_sender, WaitingPair) {
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

BOOST_FIXTURE_TEST_CASE(a_write_stays_behind_the_send, WaitingPair) {
  REQUIRE_OK(send(1, 100));
  REQUIRE_OK(write(2, 4096));
  REQUIRE_OK(send(3, 200));
  expect_sent(1);
  BOOST_TEST(quiet(*b.recv_cq));
  BOOST_TEST(quiet(*a.request_cq));
  BOOST_TEST(std::all_of(area.begin(), area.end(), [](std::byte x) { return x == std::byte{0}; }));
  REQUIRE_OK(receive(1, 100));
  expect_received(1, 100);
  BOOST_TEST(std::memcmp(area.data(), near.data(), 4096) == 0);
  for (WorkId id = 2; id <= 3; ++id) expect_sent(id);
  REQUIRE_OK(receive(3, 200));
  expect_received(3, 200);
}

// As over InfiniBand, the peer's Read is executed after its Send.
BOOST_FIXTURE_TEST_CASE(the_peers_read_stays_behind_its_send, WaitingPair) {
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

BOOST_FIXTURE_TEST_CASE(answers_to_our_reads_pass, WaitingPair) {
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
BOOST_FIXTURE_TEST_CASE(a_late_receive_that_is_too_small, WaitingPair) {
  REQUIRE_OK(send(1, 100));
  expect_sent(1);
  REQUIRE_OK(receive(2, 99));
  const Completion c = next(*b.recv_cq);
  BOOST_TEST(c.status == DAT_DTO_ERR_LOCAL_LENGTH);
  expect_calls("established broken", "established broken");
}

BOOST_FIXTURE_TEST_CASE(a_held_write_whose_memory_is_freed, WaitingPair) {
  REQUIRE_OK(send(1, 100));
  REQUIRE_OK(write(2, 64));
  expect_sent(1);
  BOOST_TEST(quiet(*b.recv_cq));
  area_mr.reset();
  REQUIRE_OK(receive(1, 100));
  expect_received(1, 100);
  const Completion refused = next(*a.request_cq);
  BOOST_TEST(refused.id == 2U);
  BOOST_TEST(refused.status == DAT_DTO_ERR_REMOTE_ACCESS);
  expect_calls("established broken", "established broken");
  BOOST_TEST((b.sink.reason == BreakReason::kProtocol));
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
struct LongLimitFixture : WaitingPair {
  LongLimitFixture() : WaitingPair(with_limit(2s)) {}
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
  WaitingPair f(with_limit(Clock::duration::zero()));
  REQUIRE_OK(f.send(1, 100));
  f.expect_calls("established broken", "established broken");
  BOOST_TEST((f.b.sink.reason == BreakReason::kNoReceive));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
