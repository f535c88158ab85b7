// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Several large Sends in flight, each of which is shared (docs/adr/0093, 0098).
#include "tests/unit/soft/shared_sends.h"

namespace udapl::soft::test {
namespace {

constexpr int kSeries = 40;  // messages; few enough to be posted all at once

BOOST_AUTO_TEST_SUITE(shared_sends)

// While the peer stands, with messages before it that it has not received: all of them are written,
// as far as there are places for loans, and the others follow once it goes on.
BOOST_AUTO_TEST_CASE(several_in_flight) {
  constexpr std::size_t kMessages = 12;
  until_shared([](Fixture& pair) {
    const Receives receives(pair, kMessages);
    {
      const StandingB b_stands(pair);
      int shared = 0;
      for (std::size_t i = 0; i != kMessages; ++i) {
        const int before = writes;
        pair.send(5 + i);
        if (writes != before) ++shared;
      }
      pair.shared = shared > 1;
    }
    for (std::size_t i = 0; i != kMessages; ++i) {
      BOOST_TEST(pair.next(*pair.b.recv_cq).id == 5 + i);
      BOOST_TEST(pair.next(*pair.a.request_cq).id == 5 + i);
      BOOST_TEST((pair.near == receives.into[i]));
    }
  });
}

// An end while some are written, and others wait for room: none of those is lost without a word.
BOOST_AUTO_TEST_CASE(an_end_with_several_in_flight) {
  constexpr std::size_t kMessages = 12;
  until_shared([](Fixture& pair) {
    const Receives receives(pair, kMessages);
    {
      const StandingB b_stands(pair);
      const int before = writes;
      for (std::size_t i = 0; i != kMessages; ++i) pair.send(5 + i);
      pair.shared = writes != before;
      pair.b.qp->disconnect(transport::DisconnectMode::kAbrupt);
    }
    for (std::size_t i = 0; i != kMessages; ++i) {
      BOOST_TEST(pair.next(*pair.b.recv_cq).id == 5 + i);
      BOOST_TEST(pair.next(*pair.a.request_cq).id == 5 + i);
    }
    BOOST_TEST(pair.wait([&] { return pair.a.sink.ended(); }));
  });
}

// Sent before it, but not placed yet: it could be to the same memory.
BOOST_AUTO_TEST_CASE(an_unplaced_write_before_it) {
  bool any = false;  // the Write was sent while b stood
  for (int i = 0; i < 100 && !any; ++i) {
    Fixture pair;
    pair.acquaint();
    pair.receive(5);
    {
      const StandingB b_stands(pair);
      const std::array<std::byte, 8> old{};
      pair.near[0] = std::byte{1};
      const auto from = local(*pair.near_mr, pair.near.data(), old.size());
      REQUIRE_OK(pair.a.qp->post_rdma_write(
          4, &from, 1, remote(pair.far_mr->rmr_context(), pair.far.data(), old.size()),
          kSignalled));
      any = std::equal(old.begin(), old.end(), pair.far.begin());
      const int before = writes;
      pair.send(5);
      if (any) BOOST_TEST(writes == before);
    }
    BOOST_TEST(pair.next(*pair.a.request_cq).id == 4U);
    BOOST_TEST(pair.next(*pair.a.request_cq).id == 5U);
    pair.expect(DAT_DTO_SUCCESS);
    BOOST_TEST((pair.near == pair.far));
  }
  BOOST_TEST(any);
}

// While the peer copies a part of the first message, the second one is not written: it is for the
// same memory, and what comes last has to remain. Both sides write it when its turn has come.
BOOST_AUTO_TEST_CASE(receives_for_the_same_memory) {
  until_shared([](Fixture& pair) {
    std::vector<std::byte> last = pattern(kLarge, 4);
    const auto last_mr = pair.a.reg(last);
    const auto segment = local(*last_mr, last);
    for (WorkId id = 5; id < 7; ++id) pair.receive(id);
    {
      const Driven b_is_driven(pair.b, pair.a);
      for (int i = 0; i < 2000; ++i) pair.a.reactor->progress();
      next_read = Read::kHold;
      int before = writes;
      pair.send(5);
      // It reads nothing if this side has copied everything before.
      BOOST_TEST(eventually([&] { return next_read == Read::kHeld || pair.b.recv_cq->size() != 0; },
                            {&pair.a}));
      const bool held = writes != before && next_read == Read::kHeld;
      before = writes;
      REQUIRE_OK(pair.a.qp->post_send(6, &segment, 1, kSignalled));
      if (held) BOOST_TEST(writes == before);
      before = writes;
      next_read = Read::kHold;  // lets it go, until it begins with the second one
      for (int i = 0; i < 20'000 && writes == before; ++i) pair.a.reactor->progress();
      next_read = Read::kLetGo;
      pair.await_sent(2);
      pair.shared = held && writes != before;
    }
    for (WorkId id = 5; id < 7; ++id) BOOST_TEST(pair.next(*pair.b.recv_cq).id == id);
    BOOST_TEST((last == pair.far));
  });
}

// Sends into the receives that are posted, while the peer receives. There are more than the batch
// of the sender holds, and some memory is lent at any time. The last one is from `last`.
void pass_series(Fixture& pair, std::vector<std::byte>& last) {
  const auto last_mr = pair.a.reg(last);
  const auto segment = local(*last_mr, last);
  {
    const Driven b_is_driven(pair.b, pair.a);
    for (WorkId id = 1; id < kSeries; ++id) pair.send(id);
    REQUIRE_OK(pair.a.qp->post_send(kSeries, &segment, 1, kSignalled));
    pair.await_sent(kSeries);
  }
  for (int i = 0; i < kSeries; ++i)
    BOOST_TEST((pair.next(*pair.b.recv_cq).status == DAT_DTO_SUCCESS));
}

BOOST_FIXTURE_TEST_CASE(a_series_to_the_same_memory, Fixture) {
  acquaint();
  for (unsigned round = 0; round < 20; ++round) {
    std::vector<std::byte> last = pattern(kLarge, round);
    for (WorkId id = 0; id < kSeries; ++id) receive(id);
    pass_series(*this, last);
    BOOST_TEST((last == far));
  }
}

BOOST_FIXTURE_TEST_CASE(a_series_to_memory_of_their_own, Fixture) {
  acquaint();
  for (unsigned round = 0; round < 20; ++round) {
    std::vector<std::byte> last = pattern(kLarge, round);
    const Receives receives(*this, kSeries);
    pass_series(*this, last);
    BOOST_TEST((near == receives.into.front()));
    BOOST_TEST((last == receives.into.back()));
  }
}

// The third Send waits for room. If the peer does not make any, the loans are copied, and the Send
// goes through the ring.
BOOST_AUTO_TEST_CASE(those_that_wait_for_room_go_on_without_the_peer) {
  constexpr std::size_t kMessages = 12;
  until_shared([](Fixture& pair) {
    const Receives receives(pair, kMessages);
    std::size_t sent = 0;
    const auto have_sent = [&](std::size_t count) {
      Completion c{};
      sent += static_cast<std::size_t>(pair.a.request_cq->poll(&c, 1));
      return sent == count;
    };
    {
      const StandingB b_stands(pair);
      int shared = 0;
      for (std::size_t i = 0; i != kMessages; ++i) {
        const int before = writes;
        pair.send(5 + i);
        if (writes != before) ++shared;
      }
      pair.shared = shared > 1;
      if (pair.shared) BOOST_TEST(eventually([&] { return have_sent(3); }, {&pair.a}));
    }
    for (std::size_t i = 0; i != kMessages; ++i) BOOST_TEST(pair.next(*pair.b.recv_cq).id == 5 + i);
    BOOST_TEST(pair.wait([&] { return have_sent(kMessages); }));
    for (const auto& memory : receives.into) BOOST_TEST((pair.near == memory));
  });
}

BOOST_AUTO_TEST_CASE(messages_larger_than_what_is_shared_at_once) {
  constexpr std::size_t kHuge = 5'000'001;
  const std::vector<std::byte> out = pattern(kHuge, 5);
  std::vector<std::byte> in(kHuge);
  until_shared([&](Fixture& pair) {
    const auto out_mr = pair.a.reg(out);
    const auto in_mr = pair.b.reg(in);
    const auto from = local(*out_mr, out);
    const auto into = local(*in_mr, in);
    const int before = writes;
    for (int round = 0; round < 10; ++round) {
      std::ranges::fill(in, std::byte{0});
      REQUIRE_OK(pair.b.qp->post_recv(1, &into, 1, kSignalled));
      {
        const Driven b_is_driven(pair.b, pair.a);
        REQUIRE_OK(pair.a.qp->post_send(2, &from, 1, kSignalled));
        pair.await_sent(1);
      }
      BOOST_TEST((pair.next(*pair.b.recv_cq).status == DAT_DTO_SUCCESS));
      BOOST_TEST((out == in));
    }
    pair.shared = writes != before;
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
