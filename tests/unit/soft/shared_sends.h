// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "tests/unit/soft/driven.h"
#include "tests/unit/soft/standstill.h"
#include "tests/unit/soft/support.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

// For the tests of large Sends that are shared: a peer on the same host has offered its next
// receive, so that the sender places a part of the message there itself (docs/adr/0080).
namespace udapl::soft::test {

// ---- process_vm_readv and process_vm_writev of this program ---------------------------------
extern std::atomic<int> writes;  // into the memory of a peer that were tried
extern std::atomic<bool> refuses_writes;
// The next time that a side copies what it was lent.
enum class Read { kLetGo, kHold, kHeld };
extern std::atomic<Read> next_read;

inline constexpr std::size_t kLarge = 600'000;
inline constexpr std::size_t kLast = 8;  // placed by the receiving side

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

  // The segments before the last one, by their lengths: of the Sends of a, and the receives of b.
  std::vector<std::size_t> send_before;
  std::vector<std::size_t> receive_before;

  static std::vector<DAT_LMR_TRIPLET> pieces(const Mr& mr, std::byte* memory, std::size_t length,
                                             const std::vector<std::size_t>& before) {
    std::vector<DAT_LMR_TRIPLET> segments;
    for (const std::size_t piece : before) {
      segments.push_back(local(mr, memory, piece));
      memory += piece;
      length -= piece;
    }
    segments.push_back(local(mr, memory, length));
    return segments;
  }
  void receive(WorkId id, std::size_t length = kLarge) {
    const auto segments = pieces(*far_mr, far.data(), length, receive_before);
    const int count = static_cast<int>(segments.size());
    REQUIRE_OK(b.srq != nullptr ? b.srq->post_recv(id, segments.data(), count)
                                : b.qp->post_recv(id, segments.data(), count, kSignalled));
  }
  void send(WorkId id, std::size_t length = kLarge) {
    const auto segments = pieces(*near_mr, near.data(), length, send_before);
    REQUIRE_OK(a.qp->post_send(id, segments.data(), static_cast<int>(segments.size()), kSignalled));
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
      const std::size_t header = std::accumulate(send_before.begin(), send_before.end(), 0UL);
      BOOST_TEST(
          std::equal(near.begin() + header, near.begin() + (length - kLast), far.begin() + header));
      BOOST_TEST((far[length - 1] == std::byte{0}));
    }
    then();
  }
  // A message with other bytes in each round, while both sides poll.
  void pass_driven(unsigned round, std::size_t length) {
    std::ranges::copy(pattern(kLarge, round), near.begin());
    std::ranges::fill(far, std::byte{0});
    receive(5);
    {
      const Driven b_is_driven(b, a);
      send(5, length);
      await_sent(1);
    }
    BOOST_TEST(next(*b.recv_cq).length == length);
    BOOST_TEST(std::memcmp(near.data(), far.data(), length) == 0);
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

}  // namespace udapl::soft::test
