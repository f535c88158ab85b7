// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "harness.h"

#include <poll.h>

#include <future>
#include <optional>

// The descriptor of a CNO whose EVDs receive completions: it is readable exactly while the CNO is
// triggered, whoever else uses the EVDs.
namespace conformance {

namespace {

constexpr int kLongMs = 10000;
constexpr int kBrieflyMs = 20;

bool readable(int fd, int timeout_ms) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, timeout_ms) == 1;
}

// A connected EP whose completions trigger a CNO with a descriptor, and its peer.
struct Described {
  Described() {
    rc = dat_cno_fd_create(pair.ia, &fd, cno.out());
    if (rc != DAT_SUCCESS) return;
    end.recv_evd = make_evd(pair.ia, DAT_EVD_DTO_FLAG, 64, cno);
    end.request_evd = make_evd(pair.ia, DAT_EVD_DTO_FLAG, 64, cno);
    end.connect_evd = make_evd(pair.ia, DAT_EVD_CONNECTION_FLAG, 8);
    REQUIRE_OK(dat_ep_create(pair.ia, pair.pz, end.recv_evd, end.request_evd, end.connect_evd,
                             nullptr, end.ep.out()));
    for (std::uint64_t i = 0; i < kReceives; ++i) REQUIRE_OK(end.post_recv(buffer, 64, i));
    for (std::uint64_t i = 0; i < kReceives; ++i) REQUIRE_OK(pair.passive.post_recv(buffer, 64, i));
    pair.connect(end, pair.passive);
  }
  [[nodiscard]] bool missing() const {
    if (skip_unless(DAT_GET_TYPE(rc) != DAT_MODEL_NOT_SUPPORTED,
                    "the provider has no CNO with a descriptor"))
      return true;
    REQUIRE_OK(rc);
    return false;
  }
  // A message arrives at `end`.
  void deliver() {
    REQUIRE_OK(pair.passive.post_send(message, 8, 0));
    expect_dto(pair.passive.request_evd, DAT_DTO_SUCCESS, 0);
  }
  // The EVD that the CNO names, and no second time.
  [[nodiscard]] DAT_EVD_HANDLE triggered() const {
    DAT_EVD_HANDLE evd = nullptr;
    REQUIRE_OK(dat_cno_trigger(cno, &evd));
    return evd;
  }
  // A message arrives and shows in the descriptor.
  void expect_shown() {
    deliver();
    BOOST_REQUIRE(readable(fd, kLongMs));
    BOOST_CHECK(triggered() == end.recv_evd);
    BOOST_CHECK(!readable(fd, 0));
    take();
  }
  void take() {
    DAT_EVENT event;
    REQUIRE_OK(dat_evd_dequeue(end.recv_evd, &event));
    REQUIRE_OK(end.post_recv(buffer, 64, 0));
  }
  ~Described() {
    if (rc != DAT_SUCCESS) return;
    dat_ep_disconnect(end.ep, DAT_CLOSE_ABRUPT_FLAG);
    expect_connection_end(end.connect_evd);
    expect_connection_end(pair.passive.connect_evd);
  }

  static constexpr std::uint64_t kReceives = 8;

  Pair pair;
  Buffer buffer{pair.ia, pair.pz, 64};  // of all receives
  Buffer message{pair.ia, pair.pz, 64};
  DAT_FD fd = -1;
  Cno cno;
  DAT_RETURN rc = DAT_SUCCESS;
  End end;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(cno)

BOOST_AUTO_TEST_CASE(cno_fd_completions) {
  Described described;
  if (described.missing()) return;
  BOOST_CHECK(!readable(described.fd, kBrieflyMs));
  BOOST_CHECK(described.triggered() == DAT_HANDLE_NULL);
  for (int i = 0; i < 100; ++i) described.expect_shown();
}

BOOST_AUTO_TEST_CASE(cno_fd_two_evds) {
  Described described;
  if (described.missing()) return;
  described.deliver();
  REQUIRE_OK(described.end.post_send(described.message, 8, 1));
  std::optional<DAT_EVENT> sent;
  std::optional<DAT_EVENT> received;
  while (!sent || !received) {
    BOOST_REQUIRE(readable(described.fd, kLongMs));
    BOOST_CHECK(described.triggered() != DAT_HANDLE_NULL);
    DAT_EVENT event;
    if (dat_evd_dequeue(described.end.request_evd, &event) == DAT_SUCCESS) sent = event;
    if (dat_evd_dequeue(described.end.recv_evd, &event) == DAT_SUCCESS) received = event;
  }
  // The second may have been dequeued before its notification was consumed.
  if (readable(described.fd, kBrieflyMs)) BOOST_CHECK(described.triggered() != DAT_HANDLE_NULL);
  BOOST_CHECK(!readable(described.fd, kBrieflyMs));
}

BOOST_AUTO_TEST_CASE(cno_fd_beside_a_waiter) {
  Described described;
  if (described.missing()) return;
  for (int i = 0; i < 3; ++i) {
    Sleeper sleeper;
    auto waiter = std::async(std::launch::async, [&] {
      sleeper.announce();
      DAT_EVENT event;
      DAT_COUNT more = 0;
      return dat_evd_wait(described.end.recv_evd, kPatience, 1, &event, &more);
    });
    sleeper.until_asleep();
    described.deliver();
    BOOST_CHECK_EQUAL(DAT_SUCCESS, waiter.get());
    BOOST_CHECK(!readable(described.fd, kBrieflyMs));
    REQUIRE_OK(described.end.post_recv(described.buffer, 64, 0));
    described.expect_shown();
  }
}

BOOST_AUTO_TEST_CASE(cno_fd_beside_a_waiter_of_the_cno) {
  Described described;
  if (described.missing()) return;
  for (int i = 0; i < 3; ++i) {
    Sleeper sleeper;
    DAT_EVD_HANDLE named = nullptr;
    auto waiter = std::async(std::launch::async, [&] {
      sleeper.announce();
      return dat_cno_wait(described.cno, kPatience, &named);
    });
    sleeper.until_asleep();
    described.deliver();
    BOOST_CHECK_EQUAL(DAT_SUCCESS, waiter.get());
    BOOST_CHECK(named == described.end.recv_evd);
    BOOST_CHECK(!readable(described.fd, kBrieflyMs));
    described.take();
    described.expect_shown();
  }
}

BOOST_AUTO_TEST_CASE(cno_fd_disabled_evd) {
  Described described;
  if (described.missing()) return;
  REQUIRE_OK(dat_evd_disable(described.end.recv_evd));
  described.deliver();
  BOOST_CHECK(!readable(described.fd, kBrieflyMs));
  BOOST_CHECK(described.triggered() == DAT_HANDLE_NULL);
  REQUIRE_OK(dat_evd_enable(described.end.recv_evd));
  described.take();
  described.expect_shown();
}

BOOST_AUTO_TEST_CASE(cno_fd_moved_evd) {
  Described described;
  if (described.missing()) return;
  DAT_FD other_fd = -1;
  Cno other;
  REQUIRE_OK(dat_cno_fd_create(described.pair.ia, &other_fd, other.out()));
  REQUIRE_OK(dat_evd_modify_cno(described.end.recv_evd, other));
  described.deliver();
  BOOST_CHECK(readable(other_fd, kLongMs));
  BOOST_CHECK(!readable(described.fd, kBrieflyMs));
  DAT_EVD_HANDLE named = nullptr;
  REQUIRE_OK(dat_cno_trigger(other, &named));
  BOOST_CHECK(named == described.end.recv_evd);
  BOOST_CHECK(!readable(other_fd, 0));
  described.take();
  REQUIRE_OK(dat_evd_modify_cno(described.end.recv_evd, described.cno));
  described.expect_shown();
  REQUIRE_OK(dat_evd_modify_cno(described.end.recv_evd, DAT_HANDLE_NULL));
  described.deliver();
  BOOST_CHECK(!readable(described.fd, kBrieflyMs));
}

BOOST_AUTO_TEST_CASE(cno_fd_suppressed) {
  Described described;
  if (described.missing()) return;
  for (std::uint64_t i = 0; i < Described::kReceives; ++i)
    REQUIRE_OK(described.end.post_send(described.message, 8, i, DAT_COMPLETION_SUPPRESS_FLAG));
  for (std::uint64_t i = 0; i < Described::kReceives; ++i)
    expect_dto(described.pair.passive.recv_evd, DAT_DTO_SUCCESS, i);
  BOOST_CHECK(!readable(described.fd, kBrieflyMs));
  described.expect_shown();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
