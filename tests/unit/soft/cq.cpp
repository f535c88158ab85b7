// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "tests/unit/soft/support.h"

namespace udapl::soft::test {
namespace {

// Two QPs, never connected, that the completions refer to.
struct Fixture {
  Side side;
  CountingCqSink sink;
  RecordingSink other_sink;
  std::unique_ptr<Qp> other = side.make_qp(other_sink);
  std::unique_ptr<Cq> cq = std::make_unique<Cq>(*side.reactor, 8, sink);

  bool push(WorkId id, bool notify = true, const Qp* owner = nullptr) {
    Completion c{};
    c.id = id;
    return cq->push(c, owner == nullptr ? *side.qp : *owner, notify);
  }
  std::vector<WorkId> poll(int max = 16) {
    std::vector<Completion> got(16);
    const ScopedLock lock(cq->lock);
    const int n = cq->poll(got.data(), max);
    std::vector<WorkId> ids;
    for (int i = 0; i < n; ++i) ids.push_back(got[i].id);
    return ids;
  }
  // Polls until the service thread stays away, then arms the CQ for threads that wait and pushes a
  // completion. Returns whether the service thread still stays away: it has not been woken.
  bool push_for_waiters(WorkId id) {
    do {
      side.reactor->progress();
    } while (!side.reactor->polled());
    cq->arm_for_waiters();
    BOOST_TEST(push(id));
    return side.reactor->polled();
  }
  // Makes all pending sink calls.
  void drain() {
    for (int i = 0; i < 20; ++i) {
      side.reactor->progress();
      std::this_thread::sleep_for(1ms);
    }
  }
};
using Ids = std::vector<WorkId>;

// As a dequeue does: a single completion is taken alone.
Ids dequeue(Cq& cq) {
  const ScopedLock lock(cq.lock);
  BOOST_REQUIRE(cq.polls_batches());
  const int count = cq.poll_batch();
  std::vector<Completion> got(Cq::kBatch);
  int taken = count;
  if (count == 1)
    BOOST_REQUIRE(cq.take_only(got.front()));
  else if (count != 0)
    taken = cq.convert_batch(count, got.data());
  BOOST_TEST(taken == count);
  Ids ids;
  for (int i = 0; i < taken; ++i) ids.push_back(got[i].id);
  return ids;
}

BOOST_FIXTURE_TEST_SUITE(cq, Fixture)

BOOST_AUTO_TEST_CASE(oldest_first_in_pieces) {
  BOOST_TEST(poll().empty());
  for (WorkId id = 1; id <= 8; ++id) BOOST_TEST(push(id));
  BOOST_TEST(cq->size() == 8);
  BOOST_TEST((poll(3) == Ids{1, 2, 3}));
  BOOST_TEST(push(9));
  BOOST_TEST((poll(0) == Ids{}));
  BOOST_TEST((poll() == Ids{4, 5, 6, 7, 8, 9}));
  BOOST_TEST(cq->size() == 0);
  BOOST_TEST(poll().empty());
}

BOOST_AUTO_TEST_CASE(batches_hold_the_oldest) {
  BOOST_TEST(dequeue(*cq).empty());
  BOOST_REQUIRE(cq->resize(40).ok());
  for (WorkId id = 1; id <= 40; ++id) BOOST_REQUIRE(push(id));
  for (WorkId first = 1; first <= 33; first += Cq::kBatch) {
    const Ids ids = dequeue(*cq);
    BOOST_TEST(ids.size() == std::min<std::size_t>(Cq::kBatch, 41 - first));
    for (std::size_t i = 0; i != ids.size(); ++i) BOOST_TEST(ids[i] == first + i);
  }
  BOOST_TEST(dequeue(*cq).empty());
}

// A slot can be used again as soon as its completion was taken.
BOOST_AUTO_TEST_CASE(single_completions_make_room) {
  for (WorkId id = 1; id <= 100; ++id) {
    BOOST_REQUIRE(push(id));
    BOOST_TEST((dequeue(*cq) == Ids{id}));
    BOOST_TEST(cq->size() == 0);
  }
  for (WorkId id = 1; id <= 8; ++id) BOOST_TEST(push(id));
  BOOST_TEST((dequeue(*cq) == Ids{1, 2, 3, 4, 5, 6, 7, 8}));
}

// If Writes complete as soon as they are posted, no dequeue finds the queue empty. A turn of the
// reactor is still due every 16th time, so that gathered requests are sent and input is noticed.
BOOST_AUTO_TEST_CASE(successful_polls_drive_now_and_then) {
  int due = 0;
  for (int take = 0; take < 160; ++take)
    if (cq->turn_due()) ++due;
  BOOST_TEST(due == 10);
}

BOOST_AUTO_TEST_CASE(successful_polls_count_as_polling) {
  std::this_thread::sleep_for(10ms);  // the service thread goes to sleep in epoll
  const auto end = Clock::now() + kPatience;
  bool known = false;
  for (; !known && Clock::now() < end; known = side.reactor->polled()) (void)cq->turn_due();
  BOOST_TEST(known);
}

BOOST_AUTO_TEST_CASE(order_survives_the_end_of_the_ring) {
  for (WorkId id = 0; id < 1000; id += 5) {
    for (WorkId i = 0; i < 5; ++i) BOOST_REQUIRE(push(id + i));
    BOOST_REQUIRE((poll() == Ids{id, id + 1, id + 2, id + 3, id + 4}));
  }
}

BOOST_AUTO_TEST_CASE(notifies_once_for_each_arming) {
  BOOST_TEST(push(1));
  drain();
  BOOST_TEST(sink.notified == 0);  // not armed
  cq->arm();
  drain();
  BOOST_TEST(sink.notified == 0);  // an earlier completion does not trigger
  cq->arm();                       // no effect: already armed
  BOOST_TEST(push(2));
  BOOST_TEST(push(3));
  BOOST_TEST(eventually([&] { return sink.notified == 1; }, {&side}));
  drain();
  BOOST_TEST(sink.notified == 1);
  cq->arm();
  BOOST_TEST(push(4));
  BOOST_TEST(eventually([&] { return sink.notified == 2; }));  // by the service thread
}

// A consumer that waits for several events is not woken for each of them.
BOOST_AUTO_TEST_CASE(last_of_several_notifies) {
  cq->arm();
  cq->await_several(3);
  for (WorkId id = 1; id <= 2; ++id) BOOST_TEST(push(id));
  BOOST_TEST(push(3, false));
  drain();
  BOOST_TEST(sink.notified == 0);
  BOOST_TEST(push(4));
  BOOST_TEST(eventually([&] { return sink.notified == 1; }, {&side}));
}

BOOST_AUTO_TEST_CASE(one_that_came_before_several_are_awaited_has_notified) {
  cq->arm();
  BOOST_TEST(push(1));
  cq->await_several(3);
  BOOST_TEST(eventually([&] { return sink.notified == 1; }, {&side}));
}

BOOST_AUTO_TEST_CASE(arming_ends_the_wait_for_several) {
  cq->arm();
  cq->await_several(3);
  cq->arm();
  BOOST_TEST(push(1));
  BOOST_TEST(eventually([&] { return sink.notified == 1; }, {&side}));
}

BOOST_AUTO_TEST_CASE(quiet_completions_do_not_notify) {
  cq->arm();
  BOOST_TEST(push(1, false));
  drain();
  BOOST_TEST(sink.notified == 0);
  BOOST_TEST(push(2, true));
  BOOST_TEST(eventually([&] { return sink.notified == 1; }, {&side}));
  BOOST_TEST((poll() == Ids{1, 2}));
}

BOOST_AUTO_TEST_CASE(never_calls_the_sink_from_push) {
  const auto here = std::this_thread::get_id();
  struct ThreadSink final : transport::CqSink {
    void on_notify() noexcept override {
      thread = std::this_thread::get_id();
      called = true;
    }
    void on_overflow() noexcept override {}
    std::thread::id thread;
    std::atomic<bool> called{false};
  } thread_sink;
  Cq own(*side.reactor, 4, thread_sink);
  own.arm();
  BOOST_TEST(own.push(Completion{}, *side.qp, true));
  BOOST_TEST(eventually([&] { return thread_sink.called.load(); }));
  BOOST_TEST((thread_sink.thread != here));
}

// The lease of the polls may end at any moment, hence several rounds.
BOOST_AUTO_TEST_CASE(notification_for_waiters_wakes_no_thread_while_the_application_polls) {
  bool stayed_away = false;
  for (int round = 1; round <= 1000 && !stayed_away; ++round) {
    stayed_away = push_for_waiters(1);
    BOOST_REQUIRE(eventually([&] { return sink.notified == round; }, {&side}));
    BOOST_TEST((poll() == Ids{1}));
  }
  BOOST_TEST(stayed_away);
}

BOOST_AUTO_TEST_CASE(notification_for_waiters_comes_without_polls_as_well) {
  push_for_waiters(1);
  BOOST_TEST(eventually([&] { return sink.notified == 1; }));
}

BOOST_AUTO_TEST_CASE(arming_for_anyone_hurries_the_notification_for_waiters) {
  bool hurried = false;
  for (int round = 1; round <= 10 && !hurried; ++round) {
    const bool stayed_away = push_for_waiters(1);
    cq->arm();
    hurried = stayed_away && !side.reactor->polled();
    BOOST_REQUIRE(eventually([&] { return sink.notified == round; }, {&side}));
    BOOST_TEST((poll() == Ids{1}));
  }
  BOOST_TEST(hurried);
}

BOOST_AUTO_TEST_CASE(overflow_is_reported_once_and_loses_nothing) {
  for (WorkId id = 1; id <= 15; ++id) BOOST_TEST(push(id));  // 8, rounded up
  BOOST_TEST(!push(16));
  BOOST_TEST(!push(17));
  BOOST_TEST(eventually([&] { return sink.overflowed == 1; }, {&side}));
  BOOST_TEST((poll(8) == Ids{1, 2, 3, 4, 5, 6, 7, 8}));
  BOOST_TEST((poll() == Ids{9, 10, 11, 12, 13, 14, 15}));
  BOOST_TEST(!push(18));  // a queue that has lost a completion stays failed
  drain();
  BOOST_TEST(sink.overflowed == 1);
}

// Those of suppressed requests do not count.
BOOST_AUTO_TEST_CASE(attached_qps_have_room_for_unseen_completions) {
  cq->attach(*side.qp, 3);
  cq->attach(*other, 2);
  BOOST_TEST(cq->depth() == 8);
  BOOST_REQUIRE(cq->resize(4).ok());
  BOOST_TEST(cq->depth() == 4);
  for (WorkId id = 1; id <= 9; ++id) BOOST_TEST(push(id));
  BOOST_TEST((poll(2) == Ids{1, 2}));
  BOOST_TEST((poll() == Ids{3, 4, 5, 6, 7, 8, 9}));
  cq->detach(*other);
  cq->attach(*other, 1);
  for (WorkId id = 1; id <= 15; ++id) BOOST_TEST(push(id));
  BOOST_TEST(!push(16));
  cq->detach(*other);
  cq->detach(*side.qp);
}

// A QP is detached before its completions are purged, or is moved to another queue without them.
BOOST_AUTO_TEST_CASE(detached_qp_takes_no_room_of_others) {
  cq->attach(*other, 20);
  for (WorkId id = 1; id <= 20; ++id) BOOST_TEST(push(id, true, other.get()));
  cq->detach(*other);
  for (WorkId id = 21; id <= 28; ++id) BOOST_TEST(push(id));
  cq->attach(*side.qp, 3);
  cq->detach(*side.qp);
  for (WorkId id = 29; id <= 31; ++id) BOOST_TEST(push(id));
  BOOST_TEST(!push(32));
  BOOST_TEST(cq->depth() == 8);
}

BOOST_AUTO_TEST_CASE(purge_removes_one_qp_and_keeps_the_order) {
  for (WorkId id = 0; id < 8; ++id) BOOST_TEST(push(id, true, id % 3 == 1 ? other.get() : nullptr));
  BOOST_TEST((poll(1) == Ids{0}));
  BOOST_TEST(push(8, true, other.get()));
  cq->purge(*other);
  BOOST_TEST(cq->size() == 4);
  BOOST_TEST(push(9));
  BOOST_TEST((poll() == Ids{2, 3, 5, 6, 9}));
}

BOOST_AUTO_TEST_CASE(purge_of_everything_and_of_nothing) {
  for (WorkId id = 0; id < 4; ++id) BOOST_TEST(push(id));
  cq->purge(*other);
  BOOST_TEST(cq->size() == 4);
  cq->purge(*side.qp);
  BOOST_TEST(cq->size() == 0);
  BOOST_TEST(poll().empty());
}

BOOST_AUTO_TEST_CASE(destroyed_qp_leaves_no_completions) {
  auto init = side.init(other_sink);
  init.recv_cq = cq.get();
  auto qp = std::make_unique<Qp>(
      QpEnvironment{*side.reactor, side.memory, side.connector, side.staging, side.accepted}, init);
  qp->disconnect(transport::DisconnectMode::kAbrupt);  // puts the QP into kError
  BOOST_TEST(push(1));
  for (WorkId id = 2; id <= 5; ++id) CHECK_OK(qp->post_recv(id, nullptr, 0, kSignalled));
  BOOST_TEST(push(6));
  BOOST_TEST(cq->size() == 6);
  qp.reset();
  BOOST_TEST((poll() == Ids{1, 6}));
}

BOOST_AUTO_TEST_CASE(resize_keeps_contents) {
  for (WorkId id = 0; id < 6; ++id) BOOST_TEST(push(id));
  BOOST_TEST((poll(4) == Ids{0, 1, 2, 3}));
  for (WorkId id = 6; id < 12; ++id) BOOST_TEST(push(id));
  CHECK_OK(cq->resize(100).code());
  BOOST_TEST(cq->depth() == 100);
  for (WorkId id = 12; id < 104; ++id) BOOST_REQUIRE(push(id));
  BOOST_TEST(cq->size() == 100);
  BOOST_TEST(cq->resize(99).code() == dat_error(DAT_INVALID_STATE));
  for (WorkId id = 4; id < 100; id += 4)
    BOOST_REQUIRE((poll(4) == Ids{id, id + 1, id + 2, id + 3}));
  CHECK_OK(cq->resize(4).code());
  BOOST_TEST((poll() == Ids{100, 101, 102, 103}));
  BOOST_TEST(cq->resize(0).code() == dat_error(DAT_INVALID_PARAMETER));
}

// Several producers, one consumer, resizing and purging at the same time.
BOOST_AUTO_TEST_CASE(concurrent_use_loses_no_completion) {
  CHECK_OK(cq->resize(4096).code());
  constexpr WorkId kEach = 20000;
  std::atomic<bool> stop{false};
  auto producer = [&](WorkId tag) {
    for (WorkId i = 0; i < kEach;) {
      const int queued = [&] {
        const ScopedLock lock(cq->lock);
        return cq->size();
      }();
      if (queued < 2000 && push(tag << 32 | i)) ++i;
    }
  };
  std::thread one(producer, 1);
  std::thread two(producer, 2);
  std::thread disturber([&] {
    for (int depth = 4096; !stop; depth = depth == 4096 ? 8192 : 4096) {
      if (!cq->resize(depth).ok()) break;
      cq->purge(*other);
      std::this_thread::yield();
    }
  });
  std::array<WorkId, 3> expected{};
  const auto end = Clock::now() + kPatience;
  while (expected[1] + expected[2] < 2 * kEach && Clock::now() < end) {
    for (const WorkId id : poll()) {
      BOOST_REQUIRE_EQUAL(id & 0xFFFFFFFF, expected[id >> 32]);
      ++expected[id >> 32];
    }
  }
  stop = true;
  one.join();
  two.join();
  disturber.join();
  BOOST_TEST(expected[1] == kEach);
  BOOST_TEST(expected[2] == kEach);
  BOOST_TEST(sink.overflowed == 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
