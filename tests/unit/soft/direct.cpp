// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// RDMA Reads and Writes that are executed without the peer's threads.
#include "providers/soft/io/sharing_habit.h"
#include "providers/soft/shm/kernel_copy.h"
#include "tests/unit/soft/driven.h"
#include "tests/unit/soft/standstill.h"
#include "tests/unit/soft/support.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace udapl::soft::test {
namespace {

struct Fixture : Pair {
  std::vector<std::byte> near = pattern(16 * 1024, 3);
  std::vector<std::byte> far = pattern(16 * 1024, 4);
  std::unique_ptr<Mr> near_mr = a.reg(near);
  std::unique_ptr<Mr> far_mr = b.reg(far);

  void write(WorkId id, std::size_t length, WorkFlags flags = kSignalled) {
    const auto segment = local(*near_mr, near.data(), length);
    REQUIRE_OK(a.qp->post_rdma_write(id, &segment, 1,
                                     remote(far_mr->rmr_context(), far.data(), length), flags));
  }
  void read(WorkId id, std::size_t length) {
    const auto segment = local(*near_mr, near.data(), length);
    REQUIRE_OK(a.qp->post_rdma_read(id, &segment, 1,
                                    remote(far_mr->rmr_context(), far.data(), length), kSignalled));
  }
  // Makes the first accesses, after which the peer has granted direct access and everything has
  // been delivered. (The very first may find the Read that opens the connection still in flight.)
  void acquaint() {
    for (int i = 0; i < 3; ++i) {
      read(1, 8);
      BOOST_REQUIRE(next(*a.request_cq).id == 1);
    }
    std::this_thread::sleep_for(20ms);  // for b's service thread to put its rings to sleep
  }
  // The next completion of a, driving a only.
  Completion only_a() {
    Completion c{};
    BOOST_REQUIRE(eventually([&] { return a.request_cq->poll(&c, 1) == 1; }, {&a}));
    return c;
  }
  [[nodiscard]] bool same(std::size_t length) const { return same_bytes(near, far, length); }
};

// Whatever the processor is like, large payload is copied directly, with detours. Where the kernel
// forbids it, as in some containers, the program is skipped.
struct QuickKernel {
  QuickKernel() {
    constexpr int kSkipped = 77;
    std::byte to{};
    std::byte from{};
    const iovec local{&to, 1};
    const iovec remote{&from, 1};
    if (::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0) != 1 ||
        ::process_vm_writev(::getpid(), &local, 1, &remote, 1, 0) != 1) {
      std::perror("skipped: process_vm_readv or process_vm_writev");
      std::exit(kSkipped);
    }
    shm::assume_copy_costs({1.2, 5.3, 2, 30});
  }
};
BOOST_TEST_GLOBAL_CONFIGURATION(QuickKernel);

BOOST_FIXTURE_TEST_SUITE(direct, Fixture)

BOOST_AUTO_TEST_CASE(after_the_first_the_peer_takes_no_part) {
  acquaint();
  const Standstill b_stands(*b.reactor);
  for (const std::size_t length :
       {std::size_t{1}, std::size_t{8}, std::size_t{4096}, near.size()}) {
    std::fill(near.begin(), near.end(), std::byte{0});
    read(2, length);
    const Completion done = only_a();
    BOOST_TEST(done.id == 2);
    BOOST_TEST(done.status == DAT_DTO_SUCCESS);
    BOOST_TEST(done.length == length);
    BOOST_TEST(same(length));
    std::ranges::copy(pattern(near.size(), static_cast<unsigned>(length)), near.begin());
    write(3, length);
    BOOST_TEST(only_a().status == DAT_DTO_SUCCESS);
    BOOST_TEST(same(length));
  }
}

// Six requests to a peer that is awake, but stands: none that is sent to it is done meanwhile.
constexpr WorkId kRequests = 6;

template <class Body>
void while_b_stands(Fixture& pair, Body body) {
  {
    const Driven b_is_driven(pair.b, pair.a);
    const Standstill b_stands(*pair.b.reactor);
    body();
  }
  for (WorkId id = 0; id != kRequests; ++id) {
    const Completion done = pair.next(*pair.a.request_cq);
    BOOST_TEST(done.id == id);
    BOOST_TEST(done.status == DAT_DTO_SUCCESS);
  }
  BOOST_TEST(pair.same(4096));
}

// Waits for the first two, whose completions are not taken: the posts of a program that polls may
// be gathered, and all of them would be one series. If the service thread of b has put its rings to
// sleep just before, none is sent. With a new pair for each try, because a peer that was late is
// left alone for a while.
BOOST_AUTO_TEST_CASE(writes_that_follow_two_others_are_sent) {
  constexpr int kTries = 200;
  bool sent = false;
  for (int i = 0; i != kTries && !sent; ++i) {
    Fixture pair;
    pair.acquaint();
    const auto have_completed = [&](WorkId count) {
      return static_cast<WorkId>(pair.a.request_cq->size()) == count;
    };
    while_b_stands(pair, [&] {
      for (WorkId id = 0; id != kRequests; ++id) {
        pair.write(id, 4096);
        if (id < 2) BOOST_REQUIRE(eventually([&] { return have_completed(id + 1); }, {&pair.a}));
      }
      for (int polls = 0; polls != 1000; ++polls) pair.a.reactor->progress();
      sent = have_completed(2);
      BOOST_TEST((sent || have_completed(kRequests)));
    });
  }
  BOOST_TEST(sent);
}

// A Read takes two messages, so it takes more of them.
BOOST_AUTO_TEST_CASE(a_few_reads_are_not_sent) {
  acquaint();
  while_b_stands(*this, [&] {
    for (WorkId id = 0; id != kRequests; ++id) read(id, 4096);
    BOOST_TEST(eventually([&] { return a.request_cq->size() == kRequests; }, {&a}));
  });
}

BOOST_AUTO_TEST_CASE(a_series_that_the_peer_handles_late_pauses) {
  SeriesHabit habit;
  const auto never = [] { return std::uint64_t{0}; };
  BOOST_TEST(habit.tries(100, 2, never));
  std::this_thread::sleep_for(1ms);
  int sent = 0;
  while (sent != 100 && habit.tries(200, 2, never)) ++sent;
  BOOST_TEST(sent < 8);
  int paused = 1;
  while (paused != 100 && !habit.tries(300, 2, never)) ++paused;
  BOOST_TEST(paused > 8);
  BOOST_TEST(paused < 100);
}

BOOST_AUTO_TEST_CASE(nothing_overtakes_a_send_that_waits) {
  acquaint();
  const auto segment = local(*near_mr, near.data(), 100);
  REQUIRE_OK(a.qp->post_send(4, &segment, 1, kSignalled));  // b has posted no receive
  BOOST_TEST(next(*a.request_cq).id == 4);
  std::this_thread::sleep_for(20ms);
  write(5, 64);
  BOOST_TEST(quiet(*a.request_cq));
  BOOST_TEST(!same(64));
  std::vector<std::byte> in(100);
  const auto in_mr = b.reg(in);
  const auto receive = local(*in_mr, in);
  REQUIRE_OK(b.qp->post_recv(6, &receive, 1, kSignalled));
  BOOST_TEST(next(*b.recv_cq).id == 6);
  BOOST_TEST(next(*a.request_cq).id == 5);
  BOOST_TEST(same(64));
}

BOOST_AUTO_TEST_CASE(nothing_overtakes_what_the_peer_has_not_seen) {
  acquaint();
  std::vector<std::byte> in(100);
  const auto in_mr = b.reg(in);
  const auto receive = local(*in_mr, in);
  REQUIRE_OK(b.qp->post_recv(6, &receive, 1, kSignalled));
  {
    const Standstill b_stands(*b.reactor);
    const auto segment = local(*near_mr, near.data(), 100);
    REQUIRE_OK(a.qp->post_send(4, &segment, 1, kSignalled));
    write(5, 64);
    BOOST_TEST(only_a().id == 4);
    BOOST_TEST(!same(64));
  }
  BOOST_TEST(next(*b.recv_cq).id == 6);
  BOOST_TEST(next(*a.request_cq).id == 5);
  BOOST_TEST(same(64));
}

BOOST_AUTO_TEST_CASE(access_to_freed_memory_is_still_refused) {
  acquaint();
  const DAT_RMR_TRIPLET gone = remote(far_mr->rmr_context(), far.data(), 8);
  far_mr.reset();
  const auto segment = local(*near_mr, near.data(), 8);
  REQUIRE_OK(a.qp->post_rdma_read(7, &segment, 1, gone, kSignalled));
  BOOST_TEST(next(*a.request_cq).status == DAT_DTO_ERR_REMOTE_ACCESS);
  BOOST_TEST(wait([&] { return a.sink.ended() && b.sink.ended(); }));
}

BOOST_AUTO_TEST_CASE(access_outside_the_memory_is_still_refused) {
  acquaint();
  const auto segment = local(*near_mr, near.data(), 8);
  REQUIRE_OK(a.qp->post_rdma_read(
      7, &segment, 1, remote(far_mr->rmr_context(), far.data() + far.size() - 7, 8), kSignalled));
  BOOST_TEST(next(*a.request_cq).status == DAT_DTO_ERR_REMOTE_ACCESS);
}

// A Write without a grant travels as a message, and completes in order with the direct accesses.
BOOST_AUTO_TEST_CASE(completions_keep_their_order) {
  acquaint();
  for (WorkId id = 10; id < 40; id += 3) {
    write(id, 8);
    read(id + 1, 4096);
    const auto segment = local(*near_mr, near.data(), 0);
    REQUIRE_OK(a.qp->post_rdma_write(id + 2, &segment, 1, {}, kSignalled));  // sent as a message
  }
  for (WorkId id = 10; id < 40; ++id) BOOST_TEST(next(*a.request_cq).id == id);
}

BOOST_AUTO_TEST_CASE(a_disconnect_ends_it) {
  acquaint();
  b.qp->disconnect(transport::DisconnectMode::kAbrupt);
  BOOST_TEST(wait([&] { return a.sink.ended(); }));
  const std::vector<std::byte> before = far;
  const auto segment = local(*near_mr, near.data(), 8);
  static_cast<void>(a.qp->post_rdma_write(
      8, &segment, 1, remote(far_mr->rmr_context(), far.data(), 8), kSignalled));
  BOOST_TEST((far == before));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
