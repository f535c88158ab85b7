// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Large messages whose memory is lent to a peer on the same host.
#include "tests/unit/soft/driven.h"
#include "tests/unit/soft/standstill.h"
#include "tests/unit/soft/support.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace udapl::soft::test {
namespace {

constexpr std::size_t kLarge = 200'000;

struct Fixture : Pair {
  explicit Fixture(const Side::Options& b_options = {}) : Pair({}, b_options) {}

  std::vector<std::byte> near = pattern(kLarge, 3);
  std::vector<std::byte> far = std::vector<std::byte>(kLarge);
  std::unique_ptr<Mr> near_mr = a.reg(near);
  std::unique_ptr<Mr> far_mr = b.reg(far);

  void receive(WorkId id, std::size_t from = 0, std::size_t length = kLarge) {
    const auto segment = local(*far_mr, far.data() + from, length);
    REQUIRE_OK(b.srq != nullptr ? b.srq->post_recv(id, &segment, 1)
                                : b.qp->post_recv(id, &segment, 1, kSignalled));
  }
  void send(WorkId id, std::size_t from = 0, std::size_t length = kLarge) {
    const auto segment = local(*near_mr, near.data() + from, length);
    REQUIRE_OK(a.qp->post_send(id, &segment, 1, kSignalled));
  }
  void expect(Cq& cq, WorkId id, std::size_t length) {
    const Completion c = next(cq);
    BOOST_TEST(c.id == id);
    BOOST_TEST(c.status == DAT_DTO_SUCCESS);
    BOOST_TEST(c.length == length);
  }
  void pass(WorkId id) {
    std::ranges::fill(far, std::byte{0});
    receive(id);
    send(id);
    expect(*b.recv_cq, id, kLarge);
    expect(*a.request_cq, id, kLarge);
    BOOST_TEST((near == far));
  }
  // Exchanges large messages until b asks to borrow, all rings are awake, and loans that were made
  // in vain meanwhile no longer count.
  void acquaint() {
    for (WorkId id = 1; id < 4; ++id) pass(id);
    for (int i = 0; i < 10'000; ++i) {
      a.reactor->progress();
      b.reactor->progress();
    }
    for (WorkId id = 1; id < 40; ++id) pass(id);
  }
  // Runs `body` while no thread drives b. The rings of both sides are awake, so a lends.
  template <class Body>
  void while_b_stands(Body body) {
    const Driven b_is_driven(b, a);
    const Standstill b_stands(*b.reactor);
    for (int i = 0; i < 10'000; ++i) a.reactor->progress();
    body();
  }
  // While b is not driven, a sends and does `end`, and overwrites the memory when the Send has
  // completed. Returns the status of the Send. Whether the memory was lent depends on timing;
  // checks that either both sides report success or neither does.
  template <class End>
  DAT_DTO_COMPLETION_STATUS end_while_lent(End end) {
    acquaint();
    std::ranges::fill(far, std::byte{0});
    receive(5);
    DAT_DTO_COMPLETION_STATUS status = DAT_DTO_SUCCESS;
    while_b_stands([&] {
      send(5);
      end();
      status = only_a().status;
      std::ranges::fill(near, std::byte{7});
    });
    const bool received = next(*b.recv_cq).status == DAT_DTO_SUCCESS;
    BOOST_TEST(received == (status == DAT_DTO_SUCCESS));
    if (received) BOOST_TEST((far == pattern(kLarge, 3)));
    return status;
  }
  // Sends, and does not drive a until b, which polls in its own thread, has received the message
  // and has done `then`. (The service thread of a may drive it if that takes long.)
  template <class Then>
  void send_and_look_away(WorkId id, Then then) {
    std::atomic<bool> polls{false};
    std::atomic<bool> done{false};
    std::jthread other([&] {
      Completion c{};
      for (int i = 0; b.recv_cq->poll(&c, 1) == 0; ++i) {
        b.reactor->progress();
        polls = i > 2000;
      }
      then();
      done = true;
    });
    for (int i = 0; i < 2000 || !polls; ++i) a.reactor->progress();
    send(id);
    while (!done) {
    }
  }
  Completion only_a() {
    Completion c{};
    BOOST_REQUIRE(eventually([&] { return a.request_cq->poll(&c, 1) == 1; }, {&a}));
    return c;
  }
};

struct SrqFixture : Fixture {
  SrqFixture() : Fixture({.srq = true}) {}
};

BOOST_AUTO_TEST_SUITE(lent)

BOOST_FIXTURE_TEST_CASE(messages_arrive_in_order_and_whole, Fixture) {
  acquaint();
  constexpr WorkId kMessages = 40;
  std::size_t from = 0;
  for (WorkId id = 0; id < kMessages; ++id) {
    const std::size_t length = id % 3 == 0 ? 8 : id % 3 == 1 ? 3000 : 9000;
    receive(id, from, length);
    send(id, from, length);
    from += length;
  }
  for (WorkId id = 0; id < kMessages; ++id) {
    const std::size_t length = id % 3 == 0 ? 8 : id % 3 == 1 ? 3000 : 9000;
    expect(*b.recv_cq, id, length);
    expect(*a.request_cq, id, length);
  }
  BOOST_TEST(
      std::equal(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(from), far.begin()));
}

// Only the first segment is lent; the rest of the payload is written into the ring. The receive has
// one segment or several.
BOOST_FIXTURE_TEST_CASE(a_list_of_which_a_part_is_lent, Fixture) {
  acquaint();
  for (const std::size_t first : {std::size_t{0}, std::size_t{3}, std::size_t{5000}}) {
    for (const std::size_t last : {1, 8, 17, 3000}) {
      std::ranges::fill(far, std::byte{0});
      const std::array list{local(*near_mr, near.data(), 20'000),
                            local(*near_mr, near.data() + 20'000, last)};
      const std::array receives{local(*far_mr, far.data(), first),
                                local(*far_mr, far.data() + first, 30'000)};
      REQUIRE_OK(b.qp->post_recv(7, receives.data(), 2, kSignalled));
      REQUIRE_OK(a.qp->post_send(7, list.data(), 2, kSignalled));
      expect(*b.recv_cq, 7, 20'000 + last);
      expect(*a.request_cq, 7, 20'000 + last);
      BOOST_TEST(std::memcmp(near.data(), far.data(), 20'000 + last) == 0);
    }
  }
}

BOOST_FIXTURE_TEST_CASE(with_a_shared_receive_queue, SrqFixture) {
  acquaint();
  pass(9);
}

BOOST_FIXTURE_TEST_CASE(a_message_that_waits_for_its_receive, Fixture) {
  acquaint();
  std::ranges::fill(far, std::byte{0});
  send(5);
  BOOST_TEST(next(*a.request_cq).id == 5);
  std::ranges::fill(near, std::byte{7});
  receive(5);
  expect(*b.recv_cq, 5, kLarge);
  BOOST_TEST((far == pattern(kLarge, 3)));
}

// A completed Send has been delivered or copied, so its memory may be overwritten.
BOOST_FIXTURE_TEST_CASE(a_peer_that_stands_still_does_not_hold_up_sends, Fixture) {
  BOOST_TEST(end_while_lent([] {}) == DAT_DTO_SUCCESS);
}

BOOST_FIXTURE_TEST_CASE(an_abrupt_end_revokes_loans, Fixture) {
  end_while_lent([&] { a.qp->disconnect(transport::DisconnectMode::kAbrupt); });
  BOOST_TEST(wait([&] { return b.sink.ended(); }));
}

BOOST_FIXTURE_TEST_CASE(memory_freed_while_lent_breaks_the_connection, Fixture) {
  const DAT_DTO_COMPLETION_STATUS status = end_while_lent([&] { near_mr.reset(); });
  if (status == DAT_DTO_SUCCESS) return;
  BOOST_TEST(status == DAT_DTO_ERR_LOCAL_PROTECTION);
  BOOST_TEST(wait([&] { return a.sink.ended() && b.sink.ended(); }));
}

BOOST_FIXTURE_TEST_CASE(answer_overtakes_the_check_for_returned_loans, Fixture) {
  acquaint();
  std::vector<std::byte> back(64);
  const auto back_mr = a.reg(back);
  for (WorkId id = 10; id < 60; id += 2) {
    receive(id);
    send(id);
    const auto sink = local(*back_mr, back);
    REQUIRE_OK(a.qp->post_rdma_read(
        id + 1, &sink, 1, remote(far_mr->rmr_context(), far.data(), back.size()), kSignalled));
    expect(*b.recv_cq, id, kLarge);
    expect(*a.request_cq, id, kLarge);
    expect(*a.request_cq, id + 1, back.size());
  }
}

// As with hardware and through the ring, the peer's answer (or the end of the connection) is
// reported after the completion of the Send that it answers.
BOOST_FIXTURE_TEST_CASE(an_answer_comes_behind_the_completion, Fixture) {
  acquaint();
  const auto answer = local(*near_mr, near.data(), 8);
  const auto back = local(*far_mr, far.data(), 8);
  for (WorkId id = 10; id < 60; ++id) {
    REQUIRE_OK(a.qp->post_recv(id, &answer, 1, kSignalled));
    receive(id);
    send_and_look_away(id, [&] { b.qp->post_send(id, &back, 1, kSignalled); });
    expect(*a.recv_cq, id, 8);
    Completion c{};
    BOOST_TEST(a.request_cq->poll(&c, 1) == 1);
    BOOST_TEST(c.id == id);
    BOOST_TEST(next(*b.request_cq).id == id);
  }
}

BOOST_FIXTURE_TEST_CASE(a_peer_that_closes_has_read_its_loans, Fixture) {
  acquaint();
  receive(5);
  send_and_look_away(5, [&] { b.qp->disconnect(transport::DisconnectMode::kGraceful); });
  BOOST_TEST(wait([&] { return a.sink.ended(); }));
  expect(*a.request_cq, 5, kLarge);
}

// ---- a process that is forbidden to borrow ------------------------------------------------------

void forbid() {
  std::array program{sock_filter{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
                     sock_filter{BPF_JMP | BPF_JEQ | BPF_K, 0, 1,
                                 static_cast<std::uint32_t>(SYS_process_vm_readv)},
                     sock_filter{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM},
                     sock_filter{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
  const sock_fprog filter{program.size(), program.data()};
  BOOST_REQUIRE(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  BOOST_REQUIRE(
      ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) == 0);
}

BOOST_AUTO_TEST_CASE(process_forbidden_to_borrow_later_goes_on) {
  const pid_t child = ::fork();
  BOOST_REQUIRE(child >= 0);
  if (child == 0) {
    int status = 1;
    try {
      Fixture pair;
      pair.acquaint();
      forbid();
      for (WorkId id = 5; id < 9; ++id) pair.pass(id);
      status = pair.near == pair.far ? 0 : 2;
    } catch (...) {
    }
    ::_exit(status);
  }
  int status = 0;
  BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
  BOOST_TEST(status == 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
