// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Ordering: posted order, fences, read depths, notification classes, queue limits.
#include "tests/unit/soft/support.h"

namespace udapl::soft::test {
namespace {

// A connected pair with registered memory on both sides.
struct Fixture : Pair {
  explicit Fixture(const Side::Options& a_options = {}, const Side::Options& b_options = {})
      : Pair(a_options, b_options) {}
  std::vector<std::byte> near = pattern(65536, 3);
  std::vector<std::byte> far = pattern(65536, 4);
  std::unique_ptr<Mr> near_mr = a.reg(near);
  std::unique_ptr<Mr> far_mr = b.reg(far);

  DAT_RETURN send(WorkId id, std::size_t length = 8, WorkFlags flags = kSignalled) {
    const auto segment = local(*near_mr, near.data(), length);
    return a.qp->post_send(id, &segment, 1, flags);
  }
  DAT_RETURN write(WorkId id, std::size_t length = 8, WorkFlags flags = kSignalled) {
    const auto segment = local(*near_mr, near.data(), length);
    return a.qp->post_rdma_write(id, &segment, 1, remote(far_mr->rmr_context(), far.data(), length),
                                 flags);
  }
  DAT_RETURN read(WorkId id, std::size_t length = 8, WorkFlags flags = kSignalled) {
    const auto segment = local(*near_mr, near.data() + 32768, length);
    return a.qp->post_rdma_read(id, &segment, 1, remote(far_mr->rmr_context(), far.data(), length),
                                flags);
  }
  DAT_RETURN receive(WorkId id, std::size_t length = 1024) {
    const auto segment = local(*far_mr, far.data(), length);
    return b.qp->post_recv(id, &segment, 1, kSignalled);
  }
};

Side::Options depth_one() {
  Side::Options o;
  o.read_in = o.read_out = 1;
  return o;
}
struct DepthOne : Fixture {
  DepthOne() : Fixture(depth_one(), depth_one()) {}
};
Side::Options solicited() {
  Side::Options o;
  o.solicited_only = true;
  return o;
}
struct Solicited : Fixture {
  Solicited() : Fixture({}, solicited()) {}
};

BOOST_AUTO_TEST_SUITE(ordering)

BOOST_FIXTURE_TEST_CASE(mixed_requests_complete_in_posted_order, Fixture) {
  for (WorkId id = 0; id < 10; ++id) REQUIRE_OK(receive(id));
  for (WorkId id = 0; id < 30; id += 3) {
    REQUIRE_OK(read(id, 5000));
    REQUIRE_OK(send(id + 1, 100));
    REQUIRE_OK(write(id + 2, 3000));
  }
  for (WorkId id = 0; id < 30; ++id) {
    const Completion c = next(*a.request_cq);
    BOOST_TEST(c.id == id);
    BOOST_TEST(c.status == DAT_DTO_SUCCESS);
  }
}

BOOST_FIXTURE_TEST_CASE(what_is_behind_a_read_is_reported_behind_it, Fixture) {
  REQUIRE_OK(receive(1));
  REQUIRE_OK(read(10, 20000));
  REQUIRE_OK(send(11));
  BOOST_TEST(next(*a.request_cq).id == 10U);
  BOOST_TEST(next(*a.request_cq).id == 11U);
  BOOST_TEST(next(*b.recv_cq).id == 1U);
}

BOOST_FIXTURE_TEST_CASE(more_reads_than_the_depth_queue_up_and_complete, DepthOne) {
  for (WorkId id = 0; id < 50; ++id) REQUIRE_OK(read(id, 1000));
  for (WorkId id = 0; id < 50; ++id) BOOST_TEST(next(*a.request_cq).id == id);
  BOOST_TEST((std::memcmp(near.data() + 32768, far.data(), 1000) == 0));
  BOOST_TEST(a.sink.calls() == "established");
}

BOOST_FIXTURE_TEST_CASE(fence_holds_later_requests_back, Fixture) {
  REQUIRE_OK(receive(1));
  REQUIRE_OK(read(10, 30000));
  REQUIRE_OK(send(11, 8, kSignalled | kFence));
  REQUIRE_OK(write(12, 8));
  bool read_was_done_first = false;
  Completion c{};
  BOOST_REQUIRE(wait([&] {
    if (b.recv_cq->size() == 0) return false;
    // The Send has arrived, so the Read must be complete and its completion queued.
    read_was_done_first = a.request_cq->size() >= 1;
    return true;
  }));
  BOOST_TEST(read_was_done_first);
  for (const WorkId id : {10U, 11U, 12U}) {
    c = next(*a.request_cq);
    BOOST_TEST(c.id == id);
  }
}

BOOST_FIXTURE_TEST_CASE(unsignalled_success_gives_no_completion, Fixture) {
  REQUIRE_OK(receive(1));
  REQUIRE_OK(receive(2));
  REQUIRE_OK(send(10, 8, 0));
  REQUIRE_OK(write(11, 8, 0));
  REQUIRE_OK(read(12, 8, 0));
  REQUIRE_OK(send(13, 8, kSignalled));
  BOOST_TEST(next(*a.request_cq).id == 13U);
  BOOST_TEST(next(*b.recv_cq).id == 1U);
  BOOST_TEST(next(*b.recv_cq).id == 2U);
  BOOST_TEST(quiet(*a.request_cq));
}

BOOST_FIXTURE_TEST_CASE(unsignalled_requests_free_their_places, Fixture) {
  for (WorkId id = 0; id < 1000; ++id) REQUIRE_OK(write(id, 8, 0));
  REQUIRE_OK(write(1000));
  BOOST_TEST(next(*a.request_cq).id == 1000U);
}

// While the application polls, requests are gathered. If it stops polling, they are sent all the
// same.
BOOST_FIXTURE_TEST_CASE(gathered_requests_go_without_another_poll, Fixture) {
  for (int round = 0; round < 20; ++round) {
    for (WorkId id = 0; id < 10; ++id) REQUIRE_OK(receive(id));
    a.reactor->progress();
    for (WorkId id = 0; id < 10; ++id) REQUIRE_OK(send(id));
    if (round % 2 == 0)
      BOOST_REQUIRE(eventually([&] { return b.recv_cq->size() == 10; }));
    else
      BOOST_REQUIRE(wait([&] { return b.recv_cq->size() == 10; }));
    for (WorkId id = 0; id < 10; ++id) {
      BOOST_TEST(next(*a.request_cq).id == id);
      BOOST_TEST(next(*b.recv_cq).id == id);
    }
  }
}

// Programs reuse the memory of short messages right after the post.
BOOST_FIXTURE_TEST_CASE(gathered_short_messages_keep_what_was_posted, Fixture) {
  const std::vector<std::byte> sent(near.begin(), near.begin() + 64);
  for (int round = 0; round < 20; ++round) {
    for (WorkId id = 0; id < 10; ++id) REQUIRE_OK(receive(id));
    std::copy(sent.begin(), sent.end(), near.begin());
    // If the application polls, all but the first posts wait.
    BOOST_REQUIRE(wait([&] { return a.reactor->polled(); }));
    for (WorkId id = 0; id < 10; ++id) REQUIRE_OK(send(id, 64));
    std::fill_n(near.begin(), 64, std::byte{0xee});
    BOOST_REQUIRE(wait([&] { return b.recv_cq->size() == 10; }));
    BOOST_TEST((std::equal(sent.begin(), sent.end(), far.begin())));
    for (WorkId id = 0; id < 10; ++id) {
      BOOST_TEST(next(*a.request_cq).id == id);
      BOOST_TEST(next(*b.recv_cq).id == id);
    }
  }
}

// A program that has posted many requests between two polls is expected to do so again. In a round
// in which the service thread takes over, all posts are sent at once.
BOOST_FIXTURE_TEST_CASE(first_posts_after_a_burst_are_gathered_too, Fixture) {
  // Returns how many of the requests were sent by the posts themselves.
  const auto sent_by_posts = [&](WorkId posts) {
    for (WorkId id = 0; id < posts; ++id) REQUIRE_OK(receive(id));
    BOOST_REQUIRE(wait([&] { return a.reactor->polled(); }));
    a.reactor->works_long();  // keeps the service thread away
    for (WorkId id = 0; id < posts; ++id) REQUIRE_OK(send(id));
    const int sent = a.request_cq->size();
    BOOST_REQUIRE(wait([&] { return b.recv_cq->size() == static_cast<int>(posts); }));
    for (WorkId id = 0; id < posts; ++id) {
      BOOST_TEST(next(*a.request_cq).id == id);
      BOOST_TEST(next(*b.recv_cq).id == id);
    }
    return sent;
  };
  bool gathered = false;
  for (const auto end = Clock::now() + kPatience; !gathered && Clock::now() < end;) {
    if (sent_by_posts(6) == 6 || sent_by_posts(2) != 0) continue;
    gathered = true;
    BOOST_TEST(sent_by_posts(1) == 1);
  }
  BOOST_TEST(gathered);
}

// Regression: the third of the posts that a program makes one at a time, each after a poll, was
// gathered, because the connection itself had no input in between.
BOOST_FIXTURE_TEST_CASE(a_post_after_each_poll_is_no_burst, Fixture) {
  for (WorkId id = 0; id < 10; ++id) {
    REQUIRE_OK(receive(id));
    BOOST_REQUIRE(wait([&] { return a.reactor->polled(); }));
    a.reactor->progress();
    a.reactor->works_long();  // keeps the service thread away
    REQUIRE_OK(send(id));
    BOOST_TEST(a.request_cq->size() == 1);
    BOOST_TEST(next(*a.request_cq).id == id);
    BOOST_TEST(next(*b.recv_cq).id == id);
  }
}

// Regression: if the service thread drove between any two posts, and the program polled as often
// after each, the third post was gathered: it waited for a poll that a working program makes later.
BOOST_FIXTURE_TEST_CASE(a_post_after_each_absence_is_no_burst, Fixture) {
  for (WorkId id = 0; id < 10; ++id) {
    REQUIRE_OK(receive(id));
    const auto end = Clock::now() + kPatience;
    // The service thread may stay away again right afterwards: what was seen once counts.
    bool service_thread_drove = false;
    while (!service_thread_drove && Clock::now() < end) {
      service_thread_drove = !a.reactor->polled();
      if (!service_thread_drove) std::this_thread::sleep_for(100us);
    }
    BOOST_REQUIRE(service_thread_drove);
    while (!a.reactor->polled() && Clock::now() < end) a.reactor->found_without_poll();
    a.reactor->works_long();  // keeps the service thread away
    REQUIRE_OK(send(id));
    BOOST_TEST(a.request_cq->size() == 1);
    BOOST_TEST(next(*a.request_cq).id == id);
    BOOST_TEST(next(*b.recv_cq).id == id);
  }
}

// A graceful disconnect sends the gathered requests.
BOOST_FIXTURE_TEST_CASE(gathered_requests_at_a_disconnect, Fixture) {
  for (WorkId id = 0; id < 10; ++id) REQUIRE_OK(receive(id));
  a.reactor->progress();
  for (WorkId id = 0; id < 10; ++id) REQUIRE_OK(send(id));
  a.qp->disconnect(transport::DisconnectMode::kGraceful);
  BOOST_REQUIRE(wait([&] { return a.sink.ended() && b.sink.ended(); }));
  for (WorkId id = 0; id < 10; ++id) {
    BOOST_TEST(next(*a.request_cq).status == DAT_DTO_SUCCESS);
    BOOST_TEST(next(*b.recv_cq).status == DAT_DTO_SUCCESS);
  }
}

BOOST_FIXTURE_TEST_CASE(full_queues_refuse_and_recover, DepthOne) {
  // Reads queue up behind the first one faster than the peer answers them, unless they are executed
  // without the peer.
  int posted = 0;
  DAT_RETURN refused = DAT_SUCCESS;
  for (int i = 0; i < 1000 && refused == DAT_SUCCESS; ++i) {
    refused = read(static_cast<WorkId>(i), 30000);
    if (refused == DAT_SUCCESS) ++posted;
  }
  if (!is_direct())
    BOOST_TEST((refused & DAT_TYPE_MASK) == static_cast<DAT_RETURN>(DAT_INSUFFICIENT_RESOURCES));
  BOOST_TEST(posted >= a.options.max_request);
  for (int i = 0; i < posted; ++i) BOOST_TEST(next(*a.request_cq).id == static_cast<WorkId>(i));
  REQUIRE_OK(read(5000));
  BOOST_TEST(next(*a.request_cq).id == 5000U);

  for (int i = 0; i < b.options.max_recv; ++i) REQUIRE_OK(receive(static_cast<WorkId>(i)));
  BOOST_TEST((receive(99) & DAT_TYPE_MASK) == static_cast<DAT_RETURN>(DAT_INSUFFICIENT_RESOURCES));
  REQUIRE_OK(send(1));
  BOOST_TEST(next(*b.recv_cq).id == 0U);
  REQUIRE_OK(receive(99));
}

BOOST_FIXTURE_TEST_CASE(only_solicited_receives_notify, Solicited) {
  for (WorkId id = 0; id < 3; ++id) REQUIRE_OK(receive(id));
  b.recv_cq->arm();
  REQUIRE_OK(send(1));
  BOOST_REQUIRE(wait([&] { return b.recv_cq->size() == 1; }));
  BOOST_TEST(quiet(*a.recv_cq));  // gives time for a notification that must not be made
  BOOST_TEST(b.recv_sink.notified == 0);
  REQUIRE_OK(send(2, 8, kSignalled | kSolicited));
  BOOST_REQUIRE(wait([&] { return b.recv_sink.notified == 1; }));
  BOOST_TEST(next(*b.recv_cq).id == 0U);
  BOOST_TEST(next(*b.recv_cq).id == 1U);
  // A flush is a failure, which always notifies.
  b.recv_cq->arm();
  a.qp->disconnect(transport::DisconnectMode::kAbrupt);
  BOOST_REQUIRE(wait([&] { return b.recv_sink.notified == 2; }));
  BOOST_TEST(next(*b.recv_cq).status == DAT_DTO_ERR_FLUSHED);
}

BOOST_FIXTURE_TEST_CASE(quiet_requests_do_not_notify_but_complete, Fixture) {
  a.request_cq->arm();
  REQUIRE_OK(write(1, 8, kSignalled | kQuiet));
  BOOST_TEST(next(*a.request_cq).id == 1U);
  BOOST_TEST(quiet(*a.request_cq));
  BOOST_TEST(a.request_sink.notified == 0);
  REQUIRE_OK(write(2));
  BOOST_REQUIRE(wait([&] { return a.request_sink.notified == 1; }));
}

BOOST_FIXTURE_TEST_CASE(quiet_receives_do_not_notify_but_complete, Fixture) {
  const auto segment = local(*far_mr, far.data(), 100);
  REQUIRE_OK(b.qp->post_recv(1, &segment, 1, kSignalled | kQuiet));
  REQUIRE_OK(b.qp->post_recv(2, &segment, 1, kSignalled));
  b.recv_cq->arm();
  REQUIRE_OK(send(1));
  BOOST_TEST(next(*b.recv_cq).id == 1U);
  BOOST_TEST(b.recv_sink.notified == 0);
  REQUIRE_OK(send(2));
  BOOST_REQUIRE(wait([&] { return b.recv_sink.notified == 1; }));
}

BOOST_FIXTURE_TEST_CASE(nothing_is_received_before_establishment, Fixture) {
  a.qp->disconnect(transport::DisconnectMode::kAbrupt);
  BOOST_REQUIRE(wait([&] { return b.sink.ended(); }));
  REQUIRE_OK(a.qp->reset().code());
  REQUIRE_OK(b.qp->reset().code());
  while (b.recv_cq->size() != 0) static_cast<void>(next(*b.recv_cq));
  REQUIRE_OK(receive(1));
  auto [active, passive] = tcp_pair();
  attach_responder(b, std::move(passive), negotiated(false));
  attach_initiator(a, std::move(active), negotiated(true));
  REQUIRE_OK(send(9));
  BOOST_REQUIRE(wait([&] { return b.recv_cq->size() == 1; }));
  BOOST_TEST(b.sink.calls().ends_with("established"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
