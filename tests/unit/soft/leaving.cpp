// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What one side sees when the other leaves in the middle of a transfer: an orderly end, behind
// everything that was reported as sent.
#include "tests/unit/soft/raw_peer.h"
#include "tests/unit/soft/standstill.h"
#include "tests/unit/soft/support.h"

#include <optional>

namespace udapl::soft::test {
namespace {

using transport::DisconnectMode;

constexpr std::size_t kLength = 1 << 18;
constexpr WorkId kCount = 64;  // more than a socket or a ring holds

struct Count {
  WorkId done = 0;
  WorkId flushed = 0;
};

struct Fixture : Pair {
  explicit Fixture(bool crc = true) : Pair({}, {}, iwarp::kRtrRead, crc) {}

  std::vector<std::byte> near = pattern(kLength, 3);
  std::vector<std::byte> far = pattern(kLength, 4);
  std::unique_ptr<Mr> near_mr = a.reg(near);
  std::unique_ptr<Mr> far_mr = b.reg(far);

  static void post_receives(Side& side, const Mr& mr, const std::vector<std::byte>& room) {
    const auto receive = local(mr, room);
    for (WorkId id = 0; id < kCount; ++id)
      REQUIRE_OK(side.qp->post_recv(id, &receive, 1, kSignalled));
  }
  static void post_sends(Side& side, const Mr& mr, const std::vector<std::byte>& bytes) {
    const auto send = local(mr, bytes);
    for (WorkId id = 0; id < kCount; ++id) REQUIRE_OK(side.qp->post_send(id, &send, 1, kSignalled));
  }
  // Takes `count` completions: some that succeeded, then flushed ones.
  Count take(Cq& cq, WorkId count) {
    Count counted;
    for (WorkId id = 0; id < count; ++id) {
      const Completion c = next(cq);
      BOOST_TEST(c.id == id);
      if (c.status == DAT_DTO_SUCCESS) {
        BOOST_TEST(counted.flushed == 0U);
        ++counted.done;
      } else {
        BOOST_TEST(c.status == DAT_DTO_ERR_FLUSHED);
        ++counted.flushed;
      }
    }
    return counted;
  }
  void expect_disconnected(Side& side) {
    BOOST_REQUIRE(wait([&] { return side.sink.ended(); }));
    BOOST_TEST(side.sink.calls() == "established disconnected");
  }
};

// Leaves as a program does: by a disconnect, or by freeing the EP.
void leave(Side& side, bool frees) {
  if (frees)
    side.qp.reset();
  else
    side.qp->disconnect(DisconnectMode::kAbrupt);
}

BOOST_AUTO_TEST_SUITE(leaving)

// The peer reads nothing before the sender leaves.
BOOST_AUTO_TEST_CASE(sender_leaves_a_peer_that_stands_still) {
  for (const bool crc : {true, false}) {
    for (const bool frees : {false, true}) {
      Fixture f(crc);
      Fixture::post_receives(f.b, *f.far_mr, f.far);
      std::optional<Standstill> stands(*f.b.reactor);
      Fixture::post_sends(f.a, *f.near_mr, f.near);
      leave(f.a, frees);
      stands.reset();
      f.expect_disconnected(f.b);
      const Count received = f.take(*f.b.recv_cq, kCount);
      BOOST_TEST(received.flushed != 0U);
      if (frees) continue;
      const Count sent = f.take(*f.a.request_cq, kCount);
      BOOST_TEST(received.done >= sent.done);
    }
  }
}

// The peer is reading, at different places.
BOOST_AUTO_TEST_CASE(sender_leaves_a_peer_that_reads) {
  for (int round = 0; round < 40; ++round) {
    Fixture f(round % 2 == 0);
    Fixture::post_receives(f.b, *f.far_mr, f.far);
    Fixture::post_sends(f.a, *f.near_mr, f.near);
    for (int turn = 0; turn < round; ++turn) f.a.reactor->progress();
    f.a.qp->disconnect(DisconnectMode::kAbrupt);
    f.expect_disconnected(f.b);
    const Count received = f.take(*f.b.recv_cq, kCount);
    const Count sent = f.take(*f.a.request_cq, kCount);
    BOOST_TEST(received.done >= sent.done);
  }
}

BOOST_AUTO_TEST_CASE(target_of_reads_leaves) {
  constexpr std::size_t kLarge = 4 * kLength;
  constexpr WorkId kReads = 16;
  for (int round = 0; round < 20; ++round) {
    Fixture f(round % 2 == 0);
    std::vector<std::byte> room(kLarge);
    const std::vector<std::byte> source(kLarge);
    const auto room_mr = f.a.reg(room);
    const auto source_mr = f.b.reg(source);
    const auto sink = local(*room_mr, room);
    for (WorkId id = 0; id < kReads; ++id)
      REQUIRE_OK(f.a.qp->post_rdma_read(id, &sink, 1, remote(*source_mr, source), kSignalled));
    for (int turn = 0; turn < round; ++turn) f.b.reactor->progress();
    f.b.qp->disconnect(DisconnectMode::kAbrupt);
    f.expect_disconnected(f.a);
    f.take(*f.a.request_cq, kReads);
  }
}

BOOST_AUTO_TEST_CASE(writer_leaves) {
  for (int round = 0; round < 20; ++round) {
    Fixture f(round % 2 == 0);
    const auto source = local(*f.near_mr, f.near);
    for (WorkId id = 0; id < kCount; ++id)
      REQUIRE_OK(f.a.qp->post_rdma_write(id, &source, 1, remote(*f.far_mr, f.far), kSignalled));
    for (int turn = 0; turn < round; ++turn) f.a.reactor->progress();
    f.a.qp->disconnect(DisconnectMode::kAbrupt);
    f.expect_disconnected(f.b);
  }
}

// Both disconnect gracefully, and one is still sending when it reads the other's end.
BOOST_AUTO_TEST_CASE(data_sent_before_the_peers_end_arrives) {
  for (const bool crc : {true, false}) {
    Fixture f(crc);
    Fixture::post_receives(f.a, *f.near_mr, f.near);
    std::optional<Standstill> stands(*f.a.reactor);
    Fixture::post_sends(f.b, *f.far_mr, f.far);
    f.a.qp->disconnect(DisconnectMode::kGraceful);  // has nothing to send but its end
    f.b.qp->disconnect(DisconnectMode::kGraceful);
    BOOST_REQUIRE(eventually([&] { return f.b.sink.ended(); }, {&f.b}));
    BOOST_TEST(f.b.sink.calls() == "established disconnected");
    stands.reset();
    f.expect_disconnected(f.a);
    const Count sent = f.take(*f.b.request_cq, kCount);
    const Count received = f.take(*f.a.recv_cq, kCount);
    BOOST_TEST(received.done >= sent.done);
  }
}

BOOST_AUTO_TEST_CASE(both_leave_while_both_send) {
  for (const DisconnectMode mode : {DisconnectMode::kGraceful, DisconnectMode::kAbrupt}) {
    for (int round = 0; round < 10; ++round) {
      Fixture f(round % 2 == 0);
      std::vector<std::byte> near_room(kLength);
      std::vector<std::byte> far_room(kLength);
      const auto near_room_mr = f.a.reg(near_room);
      const auto far_room_mr = f.b.reg(far_room);
      Fixture::post_receives(f.a, *near_room_mr, near_room);
      Fixture::post_receives(f.b, *far_room_mr, far_room);
      Fixture::post_sends(f.a, *f.near_mr, f.near);
      Fixture::post_sends(f.b, *f.far_mr, f.far);
      f.a.qp->disconnect(mode);
      f.b.qp->disconnect(DisconnectMode::kGraceful);
      f.expect_disconnected(f.b);
      if (mode == DisconnectMode::kGraceful) f.expect_disconnected(f.a);
      const Count from_a = f.take(*f.a.request_cq, kCount);
      BOOST_TEST(f.take(*f.b.recv_cq, kCount).done >= from_a.done);
      if (mode == DisconnectMode::kAbrupt) continue;
      const Count from_b = f.take(*f.b.request_cq, kCount);
      BOOST_TEST(f.take(*f.a.recv_cq, kCount).done >= from_b.done);
    }
  }
}

// Only an end within a frame is no end that a peer chooses.
BOOST_AUTO_TEST_CASE(stream_that_ends_within_a_message) {
  for (const bool within_frame : {false, true}) {
    RawPeer raw;
    std::vector<std::byte> room(8000);
    const auto room_mr = raw.side.reg(room);
    const auto receive = local(*room_mr, room);
    REQUIRE_OK(raw.side.qp->post_recv(1, &receive, 1, kSignalled));
    const auto message = pattern(8000, 5);
    const iwarp::IoSpan span{message.data(), message.size()};
    raw.sender.begin_send(iwarp::Opcode::kSend, 0, {&span, 1}, 8000);
    BOOST_REQUIRE((raw.sender.fill(raw.batch, 1) == iwarp::Sender::Fill::kBudget));
    std::vector<std::byte> frame = raw.bytes();
    if (within_frame) frame.pop_back();
    raw.raw(frame);
    raw.peer.reset();
    BOOST_REQUIRE(raw.wait([&] { return raw.side.sink.ended(); }));
    BOOST_TEST(raw.side.sink.calls() ==
               (within_frame ? "established broken" : "established disconnected"));
    Completion c{};
    BOOST_REQUIRE(raw.side.recv_cq->poll(&c, 1) == 1);
    BOOST_TEST(c.status == DAT_DTO_ERR_FLUSHED);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
