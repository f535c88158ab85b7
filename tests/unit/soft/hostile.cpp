// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A QP against a peer that speaks through a raw socket: broken, malicious, slow, or suddenly gone.
#include <sys/ioctl.h>

#include <random>

#include "providers/soft/iwarp/crc32c.h"
#include "providers/soft/iwarp/receiver.h"
#include "providers/soft/iwarp/sender.h"
#include "tests/unit/soft/support.h"

namespace udapl::soft::test {
namespace {

using transport::BreakReason;

// A QP as responder, and the peer's end of its socket.
struct Fixture {
  Side side;
  Fd peer;
  iwarp::Sender sender{iwarp::SenderConfig{}};
  iwarp::TxBatch batch{256, 65536};
  std::vector<std::byte> memory = pattern(4096, 9);
  std::unique_ptr<Mr> mr = side.reg(memory);
  std::vector<std::byte> secret = pattern(4096, 10);
  std::unique_ptr<Mr> secret_mr = side.reg(secret, kLocalOnly);

  Fixture() { open(); }
  void open(iwarp::RtrSet rtr = iwarp::kRtrWrite) {
    const std::string before = side.sink.calls();
    auto [active, passive] = tcp_pair();
    attach_responder(side, std::move(passive), negotiated(false, rtr));
    peer = std::move(active);
    read_reply(peer.get());
    sender = iwarp::Sender(iwarp::SenderConfig{});
    batch.clear();
    sender.begin_write(1, 0, {}, 0);
    flush();
    BOOST_REQUIRE(wait(
        [&] { return side.sink.calls() != before && side.sink.calls().ends_with("established"); }));
  }
  template <class Condition>
  [[nodiscard]] bool wait(Condition condition) {
    return eventually(condition, {&side});
  }
  // Builds and sends what was begun.
  void flush() {
    build();
    raw(bytes());
    batch.consume(batch.pending_bytes());
  }
  void build() {
    if (sender.busy()) BOOST_REQUIRE(sender.fill(batch) == iwarp::Sender::Fill::kDone);
  }
  [[nodiscard]] std::vector<std::byte> bytes() const {
    std::vector<std::byte> all;
    for (const iwarp::IoSpan& s : batch.spans()) {
      const auto* const p = static_cast<const std::byte*>(s.data);
      all.insert(all.end(), p, p + s.size);
    }
    return all;
  }
  // False: the QP has closed.
  bool raw(std::span<const std::byte> data) {
    while (!data.empty()) {
      const ssize_t n = ::send(peer.get(), data.data(), data.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      data = data.subspan(static_cast<std::size_t>(n));
    }
    return true;
  }
  void reset_peer() {
    const linger now{1, 0};
    ::setsockopt(peer.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
    peer.reset();
  }
  void write(std::uint32_t stag, std::uint64_t to, std::span<const std::byte> data) {
    const iwarp::IoSpan span{data.data(), data.size()};
    sender.begin_write(stag, to, {&span, 1}, static_cast<std::uint32_t>(data.size()));
    flush();
  }
  void expect_broken(BreakReason why) {
    BOOST_REQUIRE(wait([this] { return side.sink.ended(); }));
    BOOST_TEST(side.sink.calls() == "established broken");
    BOOST_TEST((side.sink.reason.load() == why));
  }
  // What the QP says before it closes; fails unless that is a Terminate with `code`.
  void expect_terminate(iwarp::TerminateCode code) {
    struct Listener final : iwarp::Inbound {
      using V = iwarp::Verdict;
      V place_write(std::uint32_t, std::uint64_t, std::span<const std::byte>) override {
        return V::kOk;
      }
      V place_send(const iwarp::SendSegment&) override { return V::kOk; }
      V invalidate(std::uint32_t) override { return V::kOk; }
      void send_done(const iwarp::SendDone&) override {}
      V immediate(const iwarp::ImmediateBytes&, bool) override { return V::kOk; }
      V read_request(const iwarp::ReadRequest&, std::uint32_t) override { return V::kOk; }
      bool oldest_read(iwarp::ReadSink& sink) override {
        sink = expected;
        return true;
      }
      V place_read(std::uint32_t, std::span<const std::byte>) override { return V::kOk; }
      void read_done() override {}
      V atomic_request(const iwarp::AtomicRequest&) override { return V::kOk; }
      V atomic_response(const iwarp::AtomicResponse&) override { return V::kOk; }
      void terminated(const iwarp::Terminate& reason) override {
        code = reason.code;
        seen = true;
      }
      iwarp::ReadSink expected{};
      iwarp::TerminateCode code{};
      bool seen = false;
    } listener;
    iwarp::Receiver receiver(true);
    std::vector<std::byte> staged(1 << 20);
    std::size_t size = 0;
    BOOST_REQUIRE(wait([this] { return side.sink.ended(); }));
    for (;;) {
      const ssize_t n = ::recv(peer.get(), staged.data() + size, staged.size() - size, 0);
      if (n <= 0) break;
      size += static_cast<std::size_t>(n);
    }
    receiver.feed(std::span(staged).first(size), listener);
    BOOST_REQUIRE(listener.seen);
    BOOST_TEST(static_cast<int>(listener.code) == static_cast<int>(code));
  }
  // The memory that the peer must not reach, and the QP, are as they should be.
  void check_intact() const { BOOST_TEST((secret == pattern(4096, 10))); }
};

BOOST_FIXTURE_TEST_SUITE(hostile, Fixture)

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

BOOST_AUTO_TEST_CASE(bad_crc) {
  sender.begin_write(mr->rmr_context(), reinterpret_cast<std::uint64_t>(memory.data()), {}, 0);
  build();
  auto frame = bytes();
  frame.back() ^= std::byte{1};
  raw(frame);
  expect_broken(BreakReason::kProtocol);
  expect_terminate(iwarp::TerminateCode::kMpaCrc);
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
  raw(bytes());  // all of them in one go
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
  // The real STag of the sink: it must not be a way in.
  sender.begin_read_response(sink_mr->rmr_context(), reinterpret_cast<std::uint64_t>(sink.data()),
                             {&span, 1}, 100);
  flush();
  expect_broken(BreakReason::kProtocol);
  BOOST_TEST((sink == std::vector<std::byte>(100)));
  Completion c{};
  BOOST_REQUIRE(side.request_cq->poll(&c, 1) == 1);
  BOOST_TEST(c.status != DAT_DTO_SUCCESS);
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
  BOOST_REQUIRE(side.recv_cq->poll(&c, 1) == 1);  // what came before the FIN is delivered
  BOOST_TEST(c.status == DAT_DTO_SUCCESS);
}

// The peer stops in every place of a stream of all kinds of messages, by FIN or by RST.
BOOST_AUTO_TEST_CASE(peer_that_is_gone_at_any_byte) {
  std::vector<std::byte> stream;
  const auto data = pattern(200);
  const iwarp::IoSpan span{data.data(), data.size()};
  for (int i = 0; i < 2; ++i) {
    sender.begin_send(iwarp::Opcode::kSendSolicited, 0, {&span, 1}, 200);
    build();
    sender.begin_write(mr->rmr_context(), reinterpret_cast<std::uint64_t>(memory.data()),
                       {&span, 1}, 200);
    build();
    sender.begin_read_request(
        {77, 0, 4096, mr->rmr_context(), reinterpret_cast<std::uint64_t>(memory.data())});
    build();
    sender.begin_immediate({}, false);
    build();
  }
  stream = bytes();
  std::mt19937 random(1);
  for (std::size_t end = 0; end < stream.size(); end += 1 + random() % 23) {
    side.qp->disconnect(transport::DisconnectMode::kAbrupt);
    REQUIRE_OK(side.qp->reset().code());
    Completion c{};
    while (side.recv_cq->poll(&c, 1) == 1) {
    }
    std::vector<std::byte> room(200);
    auto room_mr = side.reg(room);
    const auto receive = local(*room_mr, room);
    for (WorkId id = 0; id < 5; ++id) REQUIRE_OK(side.qp->post_recv(id, &receive, 1, kSignalled));
    open();
    const std::string before = side.sink.calls();
    raw(std::span<const std::byte>(stream).first(end));
    if (random() % 2 == 0)
      reset_peer();
    else
      ::shutdown(peer.get(), SHUT_WR);
    BOOST_REQUIRE_MESSAGE(wait([&] { return side.sink.calls() != before; }), "cut at " << end);
    // Every receive has completed exactly once, in order.
    WorkId next = 0;
    while (side.recv_cq->poll(&c, 1) == 1) BOOST_REQUIRE_EQUAL(c.id, next++);
    BOOST_REQUIRE_EQUAL(next, 5U);
  }
  check_intact();
}

BOOST_AUTO_TEST_CASE(random_streams) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    side.qp->disconnect(transport::DisconnectMode::kAbrupt);
    REQUIRE_OK(side.qp->reset().code());
    std::vector<std::byte> room(200);
    auto room_mr = side.reg(room);
    const auto receive = local(*room_mr, room);
    REQUIRE_OK(side.qp->post_recv(1, &receive, 1, kSignalled));
    open();
    const std::string before = side.sink.calls();
    std::vector<std::byte> noise(1 + random() % 4000);
    for (std::byte& b : noise) b = static_cast<std::byte>(random());
    raw(noise);
    ::shutdown(peer.get(), SHUT_WR);
    BOOST_REQUIRE(wait([&] { return side.sink.calls() != before; }));
    BOOST_REQUIRE(side.sink.calls().ends_with("broken"));
    Completion c{};
    while (side.recv_cq->poll(&c, 1) == 1) {
    }
  }
  check_intact();
}

// Valid frames with one field changed and the CRC made good again.
BOOST_AUTO_TEST_CASE(mutated_frames_with_good_crc) {
  std::mt19937 random(11);
  const auto data = pattern(64);
  const iwarp::IoSpan span{data.data(), data.size()};
  for (int round = 0; round < 600; ++round) {
    side.qp->disconnect(transport::DisconnectMode::kAbrupt);
    REQUIRE_OK(side.qp->reset().code());
    std::vector<std::byte> room(64);
    auto room_mr = side.reg(room);
    const auto receive = local(*room_mr, room);
    for (WorkId id = 0; id < 4; ++id) REQUIRE_OK(side.qp->post_recv(id, &receive, 1, kSignalled));
    open();
    switch (random() % 6) {
      case 0:
        sender.begin_send(iwarp::Opcode::kSend, 0, {&span, 1}, 64);
        break;
      case 1:
        sender.begin_write(mr->rmr_context(), reinterpret_cast<std::uint64_t>(memory.data()),
                           {&span, 1}, 64);
        break;
      case 2:
        sender.begin_read_request(
            {77, 0, 64, mr->rmr_context(), reinterpret_cast<std::uint64_t>(memory.data())});
        break;
      case 3:
        sender.begin_atomic_request(iwarp::AtomicRequest::fetch_add(
            1, mr->rmr_context(), reinterpret_cast<std::uint64_t>(memory.data()) & ~7ULL, 1));
        break;
      case 4:
        sender.begin_immediate({}, true);
        break;
      default:
        sender.begin_send(iwarp::Opcode::kSendInvalidate, mr->rmr_context(), {&span, 1}, 64);
        break;
    }
    build();
    auto frame = bytes();
    const std::size_t covered = frame.size() - 4;
    const std::size_t at = 2 + random() % std::min<std::size_t>(covered - 2, 60);
    frame[at] ^= static_cast<std::byte>(1U << random() % 8);
    iwarp::store_crc(frame.data() + covered, iwarp::crc32c(frame.data(), covered));
    raw(frame);
    ::shutdown(peer.get(), SHUT_WR);
    BOOST_REQUIRE(wait([&] {
      return side.sink.calls().ends_with("broken") || side.sink.calls().ends_with("disconnected");
    }));
    Completion c{};
    while (side.recv_cq->poll(&c, 1) == 1) {
    }
  }
  check_intact();
}

// A peer that asks for data and does not take it: nothing of ours waits for it.
BOOST_AUTO_TEST_CASE(freeing_memory_does_not_wait_for_a_peer_that_does_not_read) {
  std::vector<std::byte> big(64 << 20);
  auto big_mr = side.reg(big, DAT_MEM_PRIV_REMOTE_READ_FLAG);
  sender.begin_read_request({77, 0, static_cast<std::uint32_t>(big.size()), big_mr->rmr_context(),
                             reinterpret_cast<std::uint64_t>(big.data())});
  flush();
  int waiting = 0;
  BOOST_REQUIRE(wait([&] {  // until TCP takes no more
    int now = 0;
    std::this_thread::sleep_for(20ms);
    ::ioctl(peer.get(), FIONREAD, &now);
    return now != 0 && std::exchange(waiting, now) == now;
  }));
  const auto begin = Clock::now();
  big_mr.reset();
  BOOST_TEST((Clock::now() - begin < 2s));
  big = {};
  // When the peer reads on, the source is gone: the connection breaks, no stray byte is read.
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
  BOOST_TEST((Clock::now() - begin < 2s));
  WorkId next = 0;
  Completion c{};
  while (side.request_cq->poll(&c, 1) == 1) BOOST_TEST(c.id == next++);
  BOOST_TEST(next == 32U);
}

// Our Terminate is stuck behind data: it waits a little, then the connection is reset.
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

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
