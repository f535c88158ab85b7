// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A QP and a peer that violates the protocol, or does not read.
#include <sys/ioctl.h>

#include "tests/unit/soft/raw_peer.h"

namespace udapl::soft::test {
namespace {

using transport::BreakReason;

BOOST_FIXTURE_TEST_SUITE(hostile, RawPeer)

BOOST_AUTO_TEST_CASE(bytes_that_come_one_at_a_time) {
  std::vector<std::byte> room(100);
  auto room_mr = side.reg(room);
  const auto receive = local(*room_mr, room);
  REQUIRE_OK(side.qp->post_recv(1, &receive, 1, kSignalled));
  const auto data = pattern(100);
  const iwarp::IoSpan span{data.data(), data.size()};
  sender.begin_send(iwarp::Opcode::kSend, 0, {&span, 1}, 100);
  build();
  for (const std::byte b : bytes()) {
    raw({&b, 1});
    side.reactor->progress();
  }
  Completion c{};
  BOOST_REQUIRE(wait([&] { return side.recv_cq->poll(&c, 1) == 1; }));
  BOOST_TEST(c.length == 100U);
  BOOST_TEST((room == data));
}

BOOST_AUTO_TEST_CASE(bad_crc_breaks_the_connection) {
  sender.begin_write(mr->rmr_context(), reinterpret_cast<std::uint64_t>(memory.data()), {}, 0);
  build();
  auto frame = bytes();
  frame.back() ^= std::byte{1};
  raw(frame);
  expect_broken(BreakReason::kProtocol);
  expect_terminate(iwarp::TerminateCode::kMpaCrc);
}

// A program may free memory while its peer is still using it: that is no attack.
BOOST_AUTO_TEST_CASE(late_access_does_not_count_as_a_guess) {
  const auto to = reinterpret_cast<std::uint64_t>(memory.data());
  const std::uint32_t freed = side.reg(memory)->rmr_context();
  write(freed, to, pattern(16));
  expect_terminate(iwarp::TerminateCode::kDdpTaggedInvalidStag);
  BOOST_TEST(side.connector.violations == 0);
  REQUIRE_OK(side.qp->reset().code());
  open();
  write(freed ^ 0x10, to, pattern(16));
  expect_terminate(iwarp::TerminateCode::kDdpTaggedInvalidStag);
  BOOST_TEST(side.connector.violations == 1);
}

BOOST_AUTO_TEST_CASE(writes_to_places_that_were_not_given) {
  const auto data = pattern(16);
  const auto at = [&](const std::vector<std::byte>& v, std::size_t n) {
    return reinterpret_cast<std::uint64_t>(v.data()) + n;
  };
  struct Case {
    std::uint32_t stag;
    std::uint64_t to;
    iwarp::TerminateCode code;
  };
  auto read_only = side.reg(memory, DAT_MEM_PRIV_REMOTE_READ_FLAG);
  auto foreign = side.reg(memory.data(), memory.size(), kAll, DAT_VA_TYPE_VA, 2);
  const Case cases[] = {
      {0, at(memory, 0), iwarp::TerminateCode::kDdpTaggedInvalidStag},
      {mr->rmr_context() ^ 0x10, at(memory, 0), iwarp::TerminateCode::kDdpTaggedInvalidStag},
      {secret_mr->lmr_context(), at(secret, 0), iwarp::TerminateCode::kDdpTaggedInvalidStag},
      {mr->lmr_context(), at(memory, 0), iwarp::TerminateCode::kDdpTaggedInvalidStag},
      {mr->rmr_context(), at(memory, 4081), iwarp::TerminateCode::kDdpTaggedBaseBounds},
      {mr->rmr_context(), at(secret, 0), iwarp::TerminateCode::kDdpTaggedBaseBounds},
      {mr->rmr_context(), UINT64_MAX - 8, iwarp::TerminateCode::kDdpTaggedToWrap},
      {read_only->rmr_context(), at(memory, 0), iwarp::TerminateCode::kDdpTaggedInvalidStag},
      {foreign->rmr_context(), at(memory, 0), iwarp::TerminateCode::kDdpTaggedNotThisStream},
  };
  bool first = true;
  for (const Case& c : cases) {
    if (!first) {
      REQUIRE_OK(side.qp->reset().code());
      open();
    }
    first = false;
    write(c.stag, c.to, data);
    BOOST_REQUIRE(wait([&] { return side.sink.calls().ends_with("broken"); }));
    expect_terminate(c.code);
    BOOST_TEST((memory == pattern(4096, 9)));
    check_intact();
  }
}

BOOST_AUTO_TEST_CASE(more_reads_than_agreed) {
  for (int i = 0; i < 100; ++i) {
    sender.begin_read_request(
        {77, 0, 4096, mr->rmr_context(), reinterpret_cast<std::uint64_t>(memory.data())});
    build();
  }
  raw(bytes());  // all of them in one send
  expect_broken(BreakReason::kProtocol);
}

BOOST_AUTO_TEST_CASE(answers_to_questions_never_asked) {
  sender.begin_read_response(5, 0, {}, 0);
  flush();
  expect_broken(BreakReason::kProtocol);
}

BOOST_AUTO_TEST_CASE(atomic_answer_never_asked_for) {
  sender.begin_atomic_response({1, 2});
  flush();
  expect_broken(BreakReason::kProtocol);
}

BOOST_AUTO_TEST_CASE(answer_that_names_another_sink) {
  std::vector<std::byte> sink(100);
  auto sink_mr = side.reg(sink);
  const auto segment = local(*sink_mr, sink);
  REQUIRE_OK(side.qp->post_rdma_read(1, &segment, 1, {0, 100, 5}, kSignalled));
  const auto data = pattern(100);
  const iwarp::IoSpan span{data.data(), data.size()};
  // The sink's real STag must not give access.
  sender.begin_read_response(sink_mr->rmr_context(), reinterpret_cast<std::uint64_t>(sink.data()),
                             {&span, 1}, 100);
  flush();
  expect_broken(BreakReason::kProtocol);
  BOOST_TEST((sink == std::vector<std::byte>(100)));
  Completion c{};
  BOOST_REQUIRE(side.request_cq->poll(&c, 1) == 1);
  BOOST_TEST(c.status == DAT_DTO_ERR_BAD_RESPONSE);
}

BOOST_AUTO_TEST_CASE(sink_of_a_read_cannot_be_written) {
  std::vector<std::byte> sink(100);
  auto sink_mr = side.reg(sink, kLocalOnly);
  const auto segment = local(*sink_mr, sink);
  REQUIRE_OK(side.qp->post_rdma_read(1, &segment, 1, {0, 100, 5}, kSignalled));
  std::byte request[52];
  BOOST_REQUIRE(::recv(peer.get(), request, sizeof request, MSG_WAITALL) == 52);
  const auto read = iwarp::decode_read_request(request + 20);
  BOOST_TEST(read.size == 100U);
  write(read.sink_stag, read.sink_to, pattern(100));
  expect_broken(BreakReason::kProtocol);
  BOOST_TEST((sink == std::vector<std::byte>(100)));
}

BOOST_AUTO_TEST_CASE(terminate_of_the_peer) {
  REQUIRE_OK(side.qp->post_rdma_read(1, nullptr, 0, {0, 0, 5}, kSignalled));
  sender.begin_terminate(iwarp::make_terminate(iwarp::TerminateCode::kRdmapBaseBounds));
  flush();
  expect_broken(BreakReason::kRemoteFault);
  Completion c{};
  BOOST_REQUIRE(side.request_cq->poll(&c, 1) == 1);
  BOOST_TEST(c.status == DAT_DTO_ERR_REMOTE_ACCESS);
}

BOOST_AUTO_TEST_CASE(fin_in_the_middle_of_an_fpdu) {
  sender.begin_write(mr->rmr_context(), reinterpret_cast<std::uint64_t>(memory.data()), {}, 0);
  build();
  raw(std::span<const std::byte>(bytes()).first(10));
  ::shutdown(peer.get(), SHUT_WR);
  expect_broken(BreakReason::kTransportLost);
}

BOOST_AUTO_TEST_CASE(fin_between_fpdus) {
  REQUIRE_OK(side.qp->post_recv(1, nullptr, 0, kSignalled));
  sender.begin_send(iwarp::Opcode::kSend, 0, {}, 0);
  flush();
  ::shutdown(peer.get(), SHUT_WR);
  BOOST_REQUIRE(wait([&] { return side.sink.ended(); }));
  BOOST_TEST(side.sink.calls() == "established disconnected");
  Completion c{};
  BOOST_REQUIRE(side.recv_cq->poll(&c, 1) == 1);  // messages before the FIN are delivered
  BOOST_TEST(c.status == DAT_DTO_SUCCESS);
}

// A peer that requests data and does not read it cannot block deregistration.
BOOST_AUTO_TEST_CASE(freeing_memory_does_not_wait_for_a_still_peer) {
  std::vector<std::byte> big(64 << 20);
  auto big_mr = side.reg(big, DAT_MEM_PRIV_REMOTE_READ_FLAG);
  sender.begin_read_request({77, 0, static_cast<std::uint32_t>(big.size()), big_mr->rmr_context(),
                             reinterpret_cast<std::uint64_t>(big.data())});
  flush();
  int waiting = 0;
  BOOST_REQUIRE(wait([&] {  // until TCP accepts no more data
    int now = 0;
    std::this_thread::sleep_for(20ms);
    ::ioctl(peer.get(), FIONREAD, &now);
    return now != 0 && std::exchange(waiting, now) == now;
  }));
  const auto begin = Clock::now();
  big_mr.reset();
  BOOST_TEST((Clock::now() - begin < kPatience));
  big = {};
  // When the peer resumes reading, the source has been freed: the connection breaks, and no freed
  // memory is read.
  std::vector<std::byte> sink(1 << 20);
  while (::recv(peer.get(), sink.data(), sink.size(), 0) > 0) {
  }
  expect_broken(BreakReason::kProtocol);
}

BOOST_AUTO_TEST_CASE(disconnect_while_the_peer_does_not_read) {
  const auto data = pattern(1 << 20);
  auto data_mr = side.reg(data);
  const auto segment = local(*data_mr, data);
  for (WorkId id = 0; id < 32; ++id)
    REQUIRE_OK(side.qp->post_rdma_write(id, &segment, 1, {0, 1 << 20, 5}, kSignalled));
  const auto begin = Clock::now();
  side.qp->disconnect(transport::DisconnectMode::kAbrupt);
  BOOST_TEST((Clock::now() - begin < kPatience));
  WorkId next = 0;
  Completion c{};
  while (side.request_cq->poll(&c, 1) == 1) BOOST_TEST(c.id == next++);
  BOOST_TEST(next == 32U);
}

// Our Terminate is queued behind data that the peer does not read: after a short wait the
// connection is reset.
BOOST_AUTO_TEST_CASE(terminate_while_the_peer_does_not_read) {
  const auto data = pattern(1 << 20);
  auto data_mr = side.reg(data);
  const auto segment = local(*data_mr, data);
  for (WorkId id = 0; id < 32; ++id)
    REQUIRE_OK(side.qp->post_rdma_write(id, &segment, 1, {0, 1 << 20, 5}, kSignalled));
  write(12345, 0, std::span(data).first(16));
  expect_broken(BreakReason::kProtocol);
  WorkId next = 0;
  Completion c{};
  while (side.request_cq->poll(&c, 1) == 1) BOOST_TEST(c.id == next++);
  BOOST_TEST(next == 32U);
}

// Reads memory that a peer may be writing, as programs that poll memory do.
__attribute__((no_sanitize("thread"))) bool holds(const volatile std::byte& place,
                                                  std::byte value) {
  return place == value;
}

// Without a CRC the segment is received in place, but not the part that arrives after the memory
// has been freed.
BOOST_AUTO_TEST_CASE(memory_freed_within_a_segment_is_not_written) {
  side.qp->disconnect(transport::DisconnectMode::kAbrupt);
  REQUIRE_OK(side.qp->reset().code());
  const std::string before = side.sink.calls();
  auto [active, passive] = tcp_pair();
  attach_responder(side, std::move(passive), negotiated(false, iwarp::kRtrWrite, 4, 4, false));
  peer = std::move(active);
  read_reply(peer.get());
  sender = iwarp::Sender(iwarp::SenderConfig{.crc = false, .emss = 65483});
  batch.clear();
  sender.begin_write(1, 0, {}, 0);
  flush();
  BOOST_REQUIRE(wait(
      [&] { return side.sink.calls() != before && side.sink.calls().ends_with("established"); }));

  constexpr std::size_t kSize = 60000;
  const auto data = pattern(kSize, 5);
  std::vector<std::byte> room(kSize);
  auto room_mr = side.reg(room);
  const iwarp::IoSpan span{data.data(), data.size()};
  sender.begin_write(room_mr->rmr_context(), reinterpret_cast<std::uint64_t>(room.data()),
                     {&span, 1}, kSize);
  build();
  const auto stream = bytes();
  raw(std::span<const std::byte>(stream).first(30000));
  BOOST_REQUIRE(wait([&] { return holds(room[29000], data[29000]); }));
  room_mr.reset();
  std::fill(room.begin(), room.end(), std::byte{0});
  raw(std::span<const std::byte>(stream).subspan(30000));
  BOOST_REQUIRE(wait([&] { return side.sink.ended(); }));
  BOOST_TEST(side.sink.calls().ends_with("broken"));
  BOOST_TEST((room == std::vector<std::byte>(kSize)));
  check_intact();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
