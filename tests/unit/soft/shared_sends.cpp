// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Large Sends that are shared: a peer on the same host has offered its next receive, so that this
// side places a part of the message there itself (docs/adr/0080).
#include "tests/unit/soft/driven.h"
#include "tests/unit/soft/standstill.h"
#include "tests/unit/soft/support.h"

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>

namespace {

std::atomic<int> writes{0};  // into the memory of a peer that were tried
std::atomic<bool> refuses_writes{false};
// The next time that a side copies what it was lent.
enum class Read { kLetGo, kHold, kHeld };
std::atomic<Read> next_read{Read::kLetGo};

}  // namespace

extern "C" ssize_t process_vm_readv(pid_t pid, const iovec* local, unsigned long locals,
                                    const iovec* remote, unsigned long remotes,
                                    unsigned long flags) {
  Read hold = Read::kHold;
  if (next_read.compare_exchange_strong(hold, Read::kHeld))
    while (next_read == Read::kHeld) std::this_thread::yield();
  return ::syscall(SYS_process_vm_readv, pid, local, locals, remote, remotes, flags);
}

extern "C" ssize_t process_vm_writev(pid_t pid, const iovec* local, unsigned long locals,
                                     const iovec* remote, unsigned long remotes,
                                     unsigned long flags) {
  ++writes;
  if (refuses_writes) {
    errno = EFAULT;
    return -1;
  }
  return ::syscall(SYS_process_vm_writev, pid, local, locals, remote, remotes, flags);
}

namespace udapl::soft::test {
namespace {

constexpr std::size_t kLarge = 600'000;
constexpr std::size_t kLast = 8;  // placed by the receiving side
constexpr int kSeries = 40;       // messages; few enough to be posted all at once

// While it exists, no thread drives b, whose rings are awake.
struct StandingB {
  explicit StandingB(Pair& pair) : driven(pair.b, pair.a), stands(*pair.b.reactor) {
    for (int i = 0; i < 2000; ++i) pair.a.reactor->progress();
  }

  const Driven driven;
  const Standstill stands;
};

struct Fixture : Pair {
  explicit Fixture(const Side::Options& b_options = {}) : Pair({}, b_options) {}

  std::vector<std::byte> near = pattern(kLarge, 3);
  std::vector<std::byte> far = std::vector<std::byte>(kLarge);
  std::unique_ptr<Mr> near_mr = a.reg(near);
  std::unique_ptr<Mr> far_mr = b.reg(far);
  // Whether a has written what it sent to a peer that stood. It does not if one of the service
  // threads put a side to sleep just before.
  bool shared = false;

  void receive(WorkId id, std::size_t length = kLarge) {
    const auto segment = local(*far_mr, far.data(), length);
    REQUIRE_OK(b.srq != nullptr ? b.srq->post_recv(id, &segment, 1)
                                : b.qp->post_recv(id, &segment, 1, kSignalled));
  }
  void send(WorkId id, std::size_t length = kLarge) {
    const auto segment = local(*near_mr, near.data(), length);
    REQUIRE_OK(a.qp->post_send(id, &segment, 1, kSignalled));
  }
  // One message of each side.
  void pass(WorkId id, std::size_t length = kLarge) {
    std::ranges::fill(far, std::byte{0});
    receive(id, length);
    send(id, length);
    const Completion c = next(*b.recv_cq);
    BOOST_TEST(c.id == id);
    BOOST_TEST(c.status == DAT_DTO_SUCCESS);
    BOOST_TEST(c.length == length);
    BOOST_TEST((next(*a.request_cq).status == DAT_DTO_SUCCESS));
    BOOST_TEST(std::memcmp(near.data(), far.data(), length) == 0);
  }
  // Exchanges messages until both borrow, so that each has reached the other, and b offers its next
  // receive. That must not be left to the Sends of a: those reach b only while both are awake.
  void acquaint() {
    pass(1);
    pass_back();
    for (WorkId id = 2; id < 5; ++id) pass(id);
    std::ranges::fill(far, std::byte{0});
  }
  // Posts a Send of `length` bytes, and calls `then`, while no thread drives b, whose rings are
  // awake.
  template <class Then>
  void send_to_standing_b(Then then, std::size_t length = kLarge) {
    const StandingB b_stands(*this);
    const int before = writes;
    send(5, length);
    shared = writes != before;
    if (shared && !refuses_writes) {
      BOOST_TEST(std::memcmp(near.data(), far.data(), length - kLast) == 0);
      BOOST_TEST((far[length - 1] == std::byte{0}));
    }
    then();
  }
  void expect(DAT_DTO_COMPLETION_STATUS received) {
    BOOST_TEST(next(*b.recv_cq).status == received);
  }
  // For an end of the connection, before which the message may have arrived if it was not shared.
  void expect_if_shared(DAT_DTO_COMPLETION_STATUS received) {
    const DAT_DTO_COMPLETION_STATUS status = next(*b.recv_cq).status;
    BOOST_TEST((status == received || (!shared && status == DAT_DTO_SUCCESS)));
  }
  // Drives a until its next `count` Sends are complete.
  void await_sent(int count) {
    const auto is_sent = [&] {
      Completion c{};
      if (a.request_cq->poll(&c, 1) == 0) return false;
      BOOST_TEST(c.status == DAT_DTO_SUCCESS);
      return --count == 0;
    };
    BOOST_REQUIRE(eventually(is_sent, {&a}));
  }
  void answer() { pass_back(8); }
  void pass_back(std::size_t length = kLarge) {
    std::vector<std::byte> out(length);
    std::vector<std::byte> in(length);
    const auto out_mr = b.reg(out);
    const auto in_mr = a.reg(in);
    const auto into = local(*in_mr, in);
    const auto from = local(*out_mr, out);
    REQUIRE_OK(a.qp->post_recv(9, &into, 1, kSignalled));
    REQUIRE_OK(b.qp->post_send(9, &from, 1, kSignalled));
    BOOST_TEST(next(*a.recv_cq).id == 9U);
    BOOST_TEST(next(*b.request_cq).id == 9U);
  }
};

// Receives of b with the ids from 5 on, each for memory of its own.
struct Receives {
  Receives(Fixture& pair, std::size_t count) : into(count, std::vector<std::byte>(kLarge)) {
    for (std::vector<std::byte>& memory : into) {
      registered.push_back(pair.b.reg(memory));
      const auto segment = local(*registered.back(), memory);
      REQUIRE_OK(pair.b.qp->post_recv(4 + registered.size(), &segment, 1, kSignalled));
    }
  }

  std::vector<std::vector<std::byte>> into;
  std::vector<std::unique_ptr<Mr>> registered;
};

struct SrqFixture : Fixture {
  SrqFixture() : Fixture({.srq = true}) {}
};

// Repeats `body`, with a new pair each time, until a Send was shared.
template <class Body>
void until_shared(Body body) {
  constexpr int kMost = 500;
  bool any = false;
  for (int i = 0; i < kMost && !any; ++i) {
    Fixture pair;
    pair.acquaint();
    pair.near.back() = std::byte{1};
    body(pair);
    any = pair.shared;
    if (any) BOOST_TEST_MESSAGE("shared at try " << i + 1);
  }
  BOOST_TEST(any);
}

BOOST_AUTO_TEST_SUITE(shared_sends)

BOOST_AUTO_TEST_CASE(what_the_peer_does_not_place_is_written) {
  until_shared([](Fixture& pair) {
    pair.receive(5);
    pair.send_to_standing_b([] {});
    pair.expect(DAT_DTO_SUCCESS);
    BOOST_TEST((pair.next(*pair.a.request_cq).status == DAT_DTO_SUCCESS));
    BOOST_TEST((pair.near == pair.far));
  });
}

// The smallest ones that are shared, which must have been answered.
BOOST_AUTO_TEST_CASE(two_frames) {
  until_shared([](Fixture& pair) {
    pair.pass(4, kMinSharedSend);
    pair.answer();
    pair.near[kMinSharedSend - 1] = std::byte{2};
    std::ranges::fill(pair.far, std::byte{0});
    pair.receive(5);
    pair.send_to_standing_b([] {}, kMinSharedSend);
    pair.expect(DAT_DTO_SUCCESS);
    BOOST_TEST(std::memcmp(pair.near.data(), pair.far.data(), kMinSharedSend) == 0);
  });
}

BOOST_AUTO_TEST_CASE(memory_that_the_peer_frees_meanwhile) {
  until_shared([](Fixture& pair) {
    pair.receive(5);
    pair.send_to_standing_b([&] { pair.far_mr.reset(); });
    pair.expect_if_shared(DAT_DTO_ERR_LOCAL_PROTECTION);
    BOOST_TEST(
        pair.wait([&] { return !pair.shared || (pair.a.sink.ended() && pair.b.sink.ended()); }));
  });
}

// What has been written may still be received, but only as a whole. The Send may be complete, too,
// if the service thread of a has called the loans in just before.
BOOST_AUTO_TEST_CASE(an_abrupt_end_meanwhile) {
  until_shared([](Fixture& pair) {
    pair.receive(5);
    pair.send_to_standing_b([&] { pair.a.qp->disconnect(transport::DisconnectMode::kAbrupt); });
    const DAT_DTO_COMPLETION_STATUS sent = pair.next(*pair.a.request_cq).status;
    BOOST_TEST((sent == DAT_DTO_SUCCESS || sent == DAT_DTO_ERR_FLUSHED));
    const DAT_DTO_COMPLETION_STATUS received = pair.next(*pair.b.recv_cq).status;
    BOOST_TEST((received == DAT_DTO_SUCCESS || received == DAT_DTO_ERR_FLUSHED));
    if (received == DAT_DTO_SUCCESS) BOOST_TEST((pair.near == pair.far));
    BOOST_TEST(pair.wait([&] { return pair.b.sink.ended(); }));
  });
}

BOOST_AUTO_TEST_CASE(an_end_by_the_receiver_meanwhile) {
  until_shared([](Fixture& pair) {
    pair.receive(5);
    pair.send_to_standing_b([&] { pair.b.qp->disconnect(transport::DisconnectMode::kAbrupt); });
    pair.expect_if_shared(DAT_DTO_ERR_FLUSHED);
    BOOST_TEST(pair.wait([&] { return pair.a.sink.ended(); }));
  });
}

// The receive of a connection that has ended is offered to nobody; those of the next one are.
BOOST_FIXTURE_TEST_CASE(a_new_connection_of_the_same_endpoints, Fixture) {
  acquaint();
  receive(5);
  a.qp->disconnect(transport::DisconnectMode::kAbrupt);
  expect(DAT_DTO_ERR_FLUSHED);
  BOOST_TEST(wait([&] { return b.sink.ended(); }));
  BOOST_REQUIRE(a.qp->reset().ok());
  BOOST_REQUIRE(b.qp->reset().ok());
  connect();
  acquaint();
}

// Their memory is not written beyond the receive either.
BOOST_FIXTURE_TEST_CASE(receives_that_are_too_short, Fixture) {
  acquaint();
  receive(5, kLarge - 1);
  send_to_standing_b([] {});
  BOOST_TEST(!shared);
  expect(DAT_DTO_ERR_LOCAL_LENGTH);
  BOOST_TEST((far.back() == std::byte{0}));
  BOOST_TEST(wait([&] { return a.sink.ended() && b.sink.ended(); }));
}

// Receives of several segments, of an SRQ, or that come late are not offered.
BOOST_FIXTURE_TEST_CASE(receives_in_pieces, Fixture) {
  acquaint();
  for (WorkId id = 1; id < 5; ++id) {
    std::ranges::fill(far, std::byte{0});
    const std::array pieces{local(*far_mr, far.data(), 300'000),
                            local(*far_mr, far.data() + 300'000, kLarge - 300'000)};
    REQUIRE_OK(b.qp->post_recv(id, pieces.data(), 2, kSignalled));
    send_to_standing_b([] {});
    BOOST_TEST(!shared);
    expect(DAT_DTO_SUCCESS);
    BOOST_TEST((next(*a.request_cq).status == DAT_DTO_SUCCESS));
    BOOST_TEST((near == far));
  }
}

BOOST_FIXTURE_TEST_CASE(receives_of_an_srq, SrqFixture) {
  acquaint();
  receive(5);
  send_to_standing_b([] {});
  BOOST_TEST(!shared);
  expect(DAT_DTO_SUCCESS);
  BOOST_TEST((near == far));
}

BOOST_FIXTURE_TEST_CASE(receives_that_come_late, Fixture) {
  acquaint();
  send_to_standing_b([] {});
  BOOST_TEST(!shared);
  receive(5);
  expect(DAT_DTO_SUCCESS);
  BOOST_TEST((near == far));
}

// An offer is for one message: what follows goes into receives of its own.
BOOST_AUTO_TEST_CASE(order_with_what_follows) {
  until_shared([](Fixture& pair) {
    std::vector<std::byte> second(kLarge);
    const auto second_mr = pair.b.reg(second);
    pair.receive(5);
    const auto segment = local(*second_mr, second);
    REQUIRE_OK(pair.b.qp->post_recv(6, &segment, 1, kSignalled));
    pair.send_to_standing_b([&] { pair.send(6); });
    for (const WorkId id : {5, 6}) {
      BOOST_TEST(pair.next(*pair.b.recv_cq).id == id);
      BOOST_TEST(pair.next(*pair.a.request_cq).id == id);
    }
    BOOST_TEST((pair.near == pair.far));
    BOOST_TEST((pair.near == second));
  });
}

// The peer copies it, then, and nothing more is tried on this connection.
BOOST_AUTO_TEST_CASE(what_the_kernel_refuses_is_received) {
  until_shared([](Fixture& pair) {
    pair.receive(5);
    refuses_writes = true;
    pair.send_to_standing_b([] {});
    pair.expect(DAT_DTO_SUCCESS);
    BOOST_TEST((pair.next(*pair.a.request_cq).status == DAT_DTO_SUCCESS));
    BOOST_TEST((pair.near == pair.far));
    const int before = writes;
    for (WorkId id = 6; id < 16; ++id) pair.pass(id);
    refuses_writes = false;
    BOOST_TEST((!pair.shared || writes == before));
  });
}

// The receives of small messages are not offered, and what they leave is not used for a later one.
BOOST_AUTO_TEST_CASE(small_messages_before_it) {
  until_shared([](Fixture& pair) {
    for (WorkId id = 5; id < 25; ++id) pair.pass(id, 8);
    pair.receive(5);
    pair.send_to_standing_b([] {});
    BOOST_TEST(!pair.shared);
    pair.expect(DAT_DTO_SUCCESS);
    BOOST_TEST((pair.next(*pair.a.request_cq).status == DAT_DTO_SUCCESS));
    BOOST_TEST((pair.near == pair.far));
    std::ranges::fill(pair.far, std::byte{0});
    pair.receive(5);  // behind a large message it is offered again
    pair.send_to_standing_b([] {});
    pair.expect(DAT_DTO_SUCCESS);
    BOOST_TEST((pair.near == pair.far));
  });
}

BOOST_AUTO_TEST_CASE(both_sides_place_it) {
  until_shared([](Fixture& pair) {
    const int before = writes;
    for (unsigned round = 0; round < 16; ++round) {
      const std::size_t length = round % 2 == 0 ? kLarge : kMinSharedInSeries + 4 * round + 1;
      std::ranges::copy(pattern(kLarge, round), pair.near.begin());
      std::ranges::fill(pair.far, std::byte{0});
      pair.receive(5);
      {
        const Driven b_is_driven(pair.b, pair.a);
        pair.send(5, length);
        pair.await_sent(1);
      }
      BOOST_TEST(pair.next(*pair.b.recv_cq).length == length);
      BOOST_TEST(std::memcmp(pair.near.data(), pair.far.data(), length) == 0);
    }
    pair.shared = writes != before;
  });
}

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
