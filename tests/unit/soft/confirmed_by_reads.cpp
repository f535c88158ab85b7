// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// RDMA Writes over TCP, whose placement is confirmed by the answers to Reads of no bytes
// (docs/adr/0084). The peer is a bare socket.
#include "providers/soft/iwarp/sender.h"
#include "providers/soft/iwarp/tx_batch.h"
#include "providers/soft/iwarp/wire.h"
#include "tests/unit/soft/support.h"

#include <array>

namespace udapl::soft::test {
namespace {

Side::Options with_reads(int reads, bool delayed_ack = false) {
  Side::Options options;
  options.read_out = reads;
  options.delayed_ack = delayed_ack;
  return options;
}

// Answers only when the test says so.
struct Fixture {
  static constexpr std::size_t kLength = 64;
  static constexpr std::size_t kWrite = iwarp::fpdu_size(iwarp::kTaggedHeaderSize + kLength);
  static constexpr std::size_t kSend = iwarp::fpdu_size(iwarp::kUntaggedHeaderSize + kLength);
  static constexpr std::size_t kRead =
      iwarp::fpdu_size(iwarp::kUntaggedHeaderSize + iwarp::kReadRequestSize);

  explicit Fixture(const Side::Options& options = {}, std::uint16_t peer_reads = 4)
      : side(options) {
    auto [active, passive] = tcp_pair();
    BOOST_REQUIRE(::send(passive.get(), kReply.data(), kReply.size(), 0) ==
                  static_cast<ssize_t>(kReply.size()));
    BOOST_REQUIRE(side.qp->connect({}).ok());
    attach_initiator(side, std::move(active), negotiated(true, iwarp::kRtrNone, 4, peer_reads));
    peer = std::move(passive);
    BOOST_REQUIRE(eventually([&] { return side.sink.calls() == "established"; }, {&side}));
  }
  DAT_RETURN write(WorkId id, WorkFlags flags = kSignalled) {
    const auto segment = local(*mr, bytes);
    return side.qp->post_rdma_write(id, &segment, 1, remote(1, bytes.data(), kLength), flags);
  }
  DAT_RETURN send(WorkId id, WorkFlags flags = kSignalled) {
    const auto segment = local(*mr, bytes);
    return side.qp->post_send(id, &segment, 1, flags);
  }
  DAT_RETURN read(WorkId id) {
    const auto segment = local(*mr, bytes);
    return side.qp->post_rdma_read(id, &segment, 1, remote(1, bytes.data(), 0), kSignalled);
  }
  void put() {
    for (const iwarp::IoSpan& span : batch.spans())
      BOOST_REQUIRE(::send(peer.get(), span.data, span.size, MSG_NOSIGNAL) ==
                    static_cast<ssize_t>(span.size));
    batch.consume(batch.pending_bytes());
  }
  void answer() {
    sender.begin_read_response(1, 0, {}, 0);
    BOOST_REQUIRE(sender.fill(batch) == iwarp::Sender::Fill::kDone);
    put();
  }
  // The bytes that have come since the last call.
  [[nodiscard]] std::size_t arrived() {
    drive();
    std::array<std::byte, 65536> room;
    const ssize_t n = ::recv(peer.get(), room.data(), room.size(), MSG_DONTWAIT);
    return n > 0 ? static_cast<std::size_t>(n) : 0;
  }
  struct Frames {
    std::size_t writes = 0;
    std::size_t reads = 0;
  };
  // The whole frames that have come since the last call, if no other bytes were taken.
  [[nodiscard]] Frames arrived_frames() {
    drive();
    std::array<std::byte, 4096> room;
    for (ssize_t n = 0; (n = ::recv(peer.get(), room.data(), room.size(), MSG_DONTWAIT)) > 0;)
      stream.insert(stream.end(), room.begin(), room.begin() + n);
    Frames frames;
    while (stream.size() >= kRead) {
      const bool write = iwarp::load16(stream.data()) == iwarp::kTaggedHeaderSize + kLength;
      const std::size_t size = write ? kWrite : kRead;
      if (stream.size() < size) break;
      ++(write ? frames.writes : frames.reads);
      stream.erase(stream.begin(), stream.begin() + static_cast<std::ptrdiff_t>(size));
    }
    return frames;
  }
  void drive() {
    for (int i = 0; i < 50; ++i) {
      side.reactor->progress();
      std::this_thread::sleep_for(100us);
    }
  }
  void expect(WorkId id, DAT_DTO_COMPLETION_STATUS status = DAT_DTO_SUCCESS) {
    Completion c{};
    BOOST_REQUIRE(eventually([&] { return side.request_cq->poll(&c, 1) == 1; }, {&side}));
    BOOST_TEST(c.id == id);
    BOOST_TEST(c.status == status);
  }
  void expect_none() {
    drive();
    BOOST_TEST(side.request_cq->size() == 0U);
  }
  void end_in_order() { BOOST_REQUIRE(::shutdown(peer.get(), SHUT_WR) == 0); }

  Side side;
  Fd peer;
  iwarp::Sender sender{iwarp::SenderConfig{}};
  iwarp::TxBatch batch{256, 65536};
  std::vector<std::byte> stream;  // the beginning of a frame
  std::vector<std::byte> bytes = pattern(kLength);
  std::unique_ptr<Mr> mr = side.reg(bytes);
};

struct OneRead : Fixture {
  OneRead() : Fixture(with_reads(1), 1) {}
};
struct NoReadsOfItsOwn : Fixture {
  NoReadsOfItsOwn() : Fixture(with_reads(0), 1) {}
};
struct PeerWithoutReads : Fixture {
  PeerWithoutReads() : Fixture({}, 0) {}
};
struct DelayedAck : Fixture {
  DelayedAck() : Fixture(with_reads(4, true)) {}
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(confirmed_by_reads, Fixture)

// No poll comes in between.
BOOST_AUTO_TEST_CASE(a_full_queue_finds_the_answer_that_has_arrived) {
  REQUIRE_OK(write(1));
  BOOST_TEST(arrived() == kWrite + kRead);
  answer();
  side.qp->complete_requests();
  BOOST_TEST(side.request_cq->size() == 1U);
  expect(1);
}

BOOST_AUTO_TEST_CASE(a_full_queue_waits_for_the_answer) {
  REQUIRE_OK(write(1));
  BOOST_TEST(arrived() == kWrite + kRead);
  Backoff backoff;
  for (int i = 0; i < 200; ++i) BOOST_TEST(side.qp->await_answer(backoff));
  answer();
  static_cast<void>(side.qp->await_answer(backoff));  // false: the service thread has read it
  BOOST_TEST(side.request_cq->size() == 1U);
  expect(1);
  BOOST_TEST(!side.qp->await_answer(backoff));  // nothing is outstanding
}

// A peer whose host stands still is not waited for with each post.
BOOST_AUTO_TEST_CASE(a_full_queue_waits_in_vain_once) {
  REQUIRE_OK(write(1));
  REQUIRE_OK(write(2));
  BOOST_TEST(arrived() == 2 * (kWrite + kRead));
  Backoff first;
  while (side.qp->await_answer(first)) {
  }
  BOOST_TEST(first.waited_long());
  Backoff second;
  BOOST_TEST(!side.qp->await_answer(second));
  answer();
  expect(1);
  BOOST_TEST(side.qp->await_answer(second));
}

BOOST_AUTO_TEST_CASE(a_write_and_its_question_leave_together) {
  REQUIRE_OK(write(1));
  BOOST_TEST(arrived() == kWrite + kRead);
  expect_none();
  answer();
  expect(1);
  BOOST_TEST(arrived() == 0U);
}

// The first ones leave at once, each with a question; the others share one.
BOOST_AUTO_TEST_CASE(many_writes_share_a_question) {
  constexpr std::size_t kCount = 60;
  for (WorkId id = 1; id <= kCount; ++id) REQUIRE_OK(write(id));
  std::size_t questions = 0;
  std::size_t writes = 0;
  const auto all_arrived = [&] {
    return eventually(
        [&] {
          const Frames now = arrived_frames();
          for (std::size_t i = 0; i < now.reads; ++i) answer();
          questions += now.reads;
          writes += now.writes;
          return writes == kCount && side.request_cq->size() == kCount;
        },
        {&side});
  };
  BOOST_TEST(all_arrived());
  BOOST_TEST(questions <= PlacementReads::kMax + 1);
  for (WorkId id = 1; id <= kCount; ++id) expect(id);
}

BOOST_AUTO_TEST_CASE(sends_cause_no_question) {
  REQUIRE_OK(send(1));
  expect(1);
  BOOST_TEST(arrived() == kSend);
}

BOOST_AUTO_TEST_CASE(a_write_whose_completion_is_not_seen_causes_none) {
  std::size_t total = 0;
  for (WorkId id = 1; id <= 200; ++id) {
    REQUIRE_OK(write(id, id % 10 == 0 ? kSignalled | kUnseen : 0U));
    if (id % 20 == 0) total += arrived();
  }
  while (const std::size_t n = arrived()) total += n;
  BOOST_TEST(total == 200 * kWrite);
}

// The answer confirms the Write; the Send is on the wire before.
BOOST_AUTO_TEST_CASE(a_send_behind_it_asks) {
  REQUIRE_OK(write(1, 0));
  BOOST_TEST(arrived() == kWrite);
  REQUIRE_OK(send(2));
  BOOST_TEST(arrived() == kSend + kRead);
  expect_none();
  answer();
  expect(2);
}

BOOST_AUTO_TEST_CASE(a_bind_behind_it_asks) {
  auto index = side.memory.create_window(side.pd.id(), transport::WindowScope::kPd);
  BOOST_REQUIRE(index.ok());
  Window window(side.memory, *index);
  DAT_RMR_CONTEXT context = 0;
  const transport::BindRequest bind{&window, mr.get(), local(*mr, bytes),
                                    DAT_MEM_PRIV_REMOTE_READ_FLAG, DAT_VA_TYPE_VA};
  REQUIRE_OK(write(1, 0));
  REQUIRE_OK(side.qp->post_bind(2, bind, kSignalled, &context));
  BOOST_TEST(arrived() == kWrite + kRead);
  expect_none();
  answer();
  expect(2);
}

BOOST_FIXTURE_TEST_CASE(the_answer_to_a_read_of_the_consumer_is_as_good, OneRead) {
  REQUIRE_OK(write(1, 0));
  REQUIRE_OK(read(2));
  expect_none();
  answer();
  expect(2);
  BOOST_TEST(arrived() == kWrite + kRead);
}

BOOST_FIXTURE_TEST_CASE(it_may_have_no_reads_of_its_own, NoReadsOfItsOwn) {
  REQUIRE_OK(write(1));
  expect_none();
  answer();
  expect(1);
  REQUIRE_OK(read(2));
  expect(2, DAT_DTO_ERR_REMOTE_RESPONDER);
}

// Nothing was promised, so the connection is as good as it can be.
BOOST_FIXTURE_TEST_CASE(a_peer_that_serves_no_reads, PeerWithoutReads) {
  REQUIRE_OK(write(1));
  expect(1);
  BOOST_TEST(arrived() == kWrite);
}

// It may have seen the data, and therefore end the connection.
BOOST_AUTO_TEST_CASE(a_peer_that_ends_in_order_has_what_its_host_has) {
  REQUIRE_OK(write(1));
  REQUIRE_OK(write(2));
  expect_none();
  end_in_order();
  expect(1);
  expect(2);
  BOOST_REQUIRE(eventually([&] { return side.sink.ended(); }, {&side}));
  BOOST_TEST(side.sink.calls() == "established disconnected");
}

BOOST_FIXTURE_TEST_CASE(unless_the_consumer_has_asked_for_more, DelayedAck) {
  REQUIRE_OK(write(1));
  expect_none();
  end_in_order();
  expect(1, DAT_DTO_ERR_FLUSHED);
}

BOOST_AUTO_TEST_CASE(a_peer_that_is_lost_has_nothing) {
  REQUIRE_OK(write(1));
  expect_none();
  const linger now{1, 0};
  ::setsockopt(peer.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  peer.reset();
  expect(1, DAT_DTO_ERR_TRANSPORT);
}

BOOST_AUTO_TEST_CASE(a_graceful_disconnect_waits_for_no_answer) {
  REQUIRE_OK(write(1));
  side.qp->disconnect(transport::DisconnectMode::kGraceful);
  BOOST_TEST(arrived() == kWrite + kRead);
  BOOST_TEST(arrived() == 0U);  // the end
  end_in_order();
  expect(1);
  BOOST_REQUIRE(eventually([&] { return side.sink.ended(); }, {&side}));
  BOOST_TEST(side.sink.calls() == "established disconnected");
}

// The answer cannot be read behind messages for which there are no receives, and the program may
// post these only when its Writes are done.
BOOST_AUTO_TEST_CASE(messages_without_receives_do_not_block_writes) {
  const std::vector<std::byte> message(60'000);
  const iwarp::IoSpan span{message.data(), message.size()};
  for (int i = 0; i < 20; ++i) {
    sender.begin_send(iwarp::Opcode::kSend, 0, {&span, 1}, 60'000);
    while (sender.busy()) {
      static_cast<void>(sender.fill(batch));
      put();
    }
    drive();
  }
  for (WorkId id = 1; id <= 3; ++id) {
    REQUIRE_OK(write(id));
    expect(id);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::soft::test
