// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Large Sends that are shared: a peer on the same host has offered its next receive, so that this
// side places a part of the message there itself (docs/adr/0080).
#include "tests/unit/soft/shared_sends.h"

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>

namespace udapl::soft::test {

std::atomic<int> writes{0};
std::atomic<bool> refuses_writes{false};
std::atomic<Read> next_read{Read::kLetGo};

}  // namespace udapl::soft::test

using udapl::soft::test::next_read;
using udapl::soft::test::Read;
using udapl::soft::test::refuses_writes;
using udapl::soft::test::writes;

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

// Receives of several large segments, of an SRQ, or that come late are not offered.
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
      pair.pass_driven(round, length);
    }
    pair.shared = writes != before;
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
