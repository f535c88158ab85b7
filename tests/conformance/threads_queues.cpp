// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "threads.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

// Some threads post while others dequeue the completions. The threads share EVDs and SRQs but no
// EP, so this is allowed on every IA: dat_evd_dequeue and dat_evd_wait are Safe, and calls on
// different objects need no serialisation. The EPs have so few slots that most posts find them
// occupied by requests whose completions have not been dequeued yet.
namespace conformance {

namespace {

constexpr DAT_COUNT kSlots = 8;
constexpr std::uint64_t kEach = 8000;

// Requests whose completions are suppressed. The last request is not one of them.
constexpr bool is_silent(std::uint64_t number) { return number % 4 != 3; }
static_assert(!is_silent(kEach - 1));
constexpr DAT_COMPLETION_FLAGS flags_of(std::uint64_t number) {
  return is_silent(number) ? DAT_COMPLETION_SUPPRESS_FLAG : DAT_COMPLETION_DEFAULT_FLAG;
}

// A time limit for all threads, so that the test ends even if the provider loses a completion. It
// begins anew with each completion, because some devices are slow on a busy machine.
class Deadline {
 public:
  [[nodiscard]] bool over() const {
    return Clock::now() > Clock::time_point(Clock::duration(end_));
  }
  void begin_anew() const { end_ = next(); }

 private:
  using Clock = std::chrono::steady_clock;
  static Clock::rep next() {
    return (Clock::now() + std::chrono::seconds(60)).time_since_epoch().count();
  }
  mutable std::atomic<Clock::rep> end_ = next();
};

// Calls `post` until it finds a slot.
template <class Post>
bool post_until_deadline(const Deadline& deadline, Failures& failures, Post&& post) {
  DAT_RETURN rc = post();
  while (DAT_GET_TYPE(rc) == static_cast<DAT_RETURN>(DAT_INSUFFICIENT_RESOURCES) &&
         !deadline.over()) {
    std::this_thread::yield();
    rc = post();
  }
  return failures.ok(rc, "a post");
}

// Records which completions have arrived. A cookie holds the number of the EP and of the request.
class Seen {
 public:
  Seen(std::size_t eps, std::uint64_t each, bool all)
      : each_(each), times_(eps * each), left_(static_cast<long>(eps * (all ? each : each / 4))) {}

  [[nodiscard]] static std::uint64_t cookie_of(std::size_t ep, std::uint64_t number) {
    return (static_cast<std::uint64_t>(ep) << 32) | number;
  }
  void take(const DAT_EVENT& event, Failures& failures) {
    const auto& dto = event.event_data.dto_completion_event_data;
    if (!failures.expect(event.event_number == DAT_DTO_COMPLETION_EVENT, "a DTO completion") ||
        !failures.expect(dto.status == DAT_DTO_SUCCESS, "a DTO failed"))
      return;
    const std::uint64_t index =
        (dto.user_cookie.as_64 >> 32) * each_ + (dto.user_cookie.as_64 & 0xFFFFFFFFU);
    if (!failures.expect(index < times_.size(), "a cookie that was never posted")) return;
    failures.expect(times_[index].fetch_add(1) == 0, "a completion arrived twice");
    --left_;
  }
  [[nodiscard]] bool complete() const { return left_ <= 0; }
  // Dequeues completions from `evd` until all have arrived.
  void take_all(DAT_EVD_HANDLE evd, const Deadline& deadline, Failures& failures) {
    DAT_EVENT event;
    while (!complete() && !deadline.over()) {
      if (dat_evd_dequeue(evd, &event) == DAT_SUCCESS) {
        take(event, failures);
        deadline.begin_anew();
      } else {
        std::this_thread::yield();
      }
    }
  }
  void check() const { BOOST_CHECK_MESSAGE(left_ == 0, left_ << " completions are missing"); }

 private:
  const std::uint64_t each_;
  std::vector<std::atomic<std::uint8_t>> times_;
  std::atomic<long> left_;
};

bool requests_idle(DAT_EP_HANDLE ep) {
  DAT_BOOLEAN idle = DAT_FALSE;
  REQUIRE_OK(dat_ep_get_status(ep, nullptr, nullptr, &idle));
  return idle == DAT_TRUE;
}

// EPs with a common EVD for their requests, each connected to a passive EP.
struct Writers {
  explicit Writers(std::size_t count, DAT_COUNT qlen = 64)
      : evd(make_evd(pair.ia, DAT_EVD_DTO_FLAG, qlen)),
        out(pair.ia, pair.pz, kSize),
        in(pair.ia, pair.pz, kSize),
        seen(count, kEach, false),
        all(count) {
    DAT_EP_ATTR attr = default_ep_attr(pair.ia);
    attr.max_request_dtos = kSlots;
    for (One& one : all) {
      one.connect_evd = make_evd(pair.ia, DAT_EVD_CONNECTION_FLAG, 8);
      REQUIRE_OK(
          dat_ep_create(pair.ia, pair.pz, evd, evd, one.connect_evd, &attr, one.active.out()));
      one.passive.create(pair.ia, pair.pz, nullptr);
      REQUIRE_OK(dat_ep_connect(one.active, pair.ia.attr.ia_address_ptr, pair.conn_qual, kPatience,
                                0, nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
      const DAT_EVENT request = expect_event(pair.cr_evd, DAT_CONNECTION_REQUEST_EVENT);
      REQUIRE_OK(dat_cr_accept(request.event_data.cr_arrival_event_data.cr_handle, one.passive.ep,
                               0, nullptr));
      expect_event(one.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
      expect_event(one.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    }
  }

  // Posts the requests of one EP.
  void post_all(std::size_t which) {
    DAT_LMR_TRIPLET from = out.local();
    const DAT_RMR_TRIPLET to = in.remote(kSize);
    const DAT_EP_HANDLE ep = all[which].active;
    for (std::uint64_t i = 0; i < kEach; ++i)
      if (!post_until_deadline(deadline, failures, [&] {
            return dat_ep_post_rdma_write(ep, 1, &from, cookie(Seen::cookie_of(which, i)), &to,
                                          flags_of(i));
          }))
        return;
  }
  void take_all() { seen.take_all(evd, deadline, failures); }
  // Checks that all completions have arrived, that no more arrive, and that no request is
  // outstanding.
  void check() {
    seen.check();
    BOOST_CHECK_EQUAL(drain(evd), 0);
    for (const One& one : all) BOOST_CHECK(requests_idle(one.active));
  }

  struct One {
    Evd connect_evd;
    Ep active;
    End passive;
  };
  Pair pair;
  Evd evd;
  Buffer out;
  Buffer in;
  Deadline deadline;
  Failures failures;
  Seen seen;
  std::vector<One> all;
};

// Runs `posters` EPs, each with a posting thread, and `dequeuers` threads that dequeue.
void post_beside_dequeues(int posters, int dequeuers) {
  Writers writers(static_cast<std::size_t>(posters));
  in_threads(posters + dequeuers, [&](int number) {
    if (number < posters)
      writers.post_all(static_cast<std::size_t>(number));
    else
      writers.take_all();
  });
  writers.check();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(threads)

BOOST_AUTO_TEST_CASE(thr_poster_and_dequeuer) { post_beside_dequeues(1, 1); }
BOOST_AUTO_TEST_CASE(thr_poster_and_dequeuers) { post_beside_dequeues(1, 3); }
BOOST_AUTO_TEST_CASE(thr_posters_of_one_evd) { post_beside_dequeues(4, 1); }
BOOST_AUTO_TEST_CASE(thr_posters_and_dequeuers_of_one_evd) { post_beside_dequeues(4, 2); }

// No thread posts while the others dequeue.
BOOST_AUTO_TEST_CASE(thr_dequeuers_alone) {
  constexpr std::uint64_t kBatch = 400;
  constexpr std::uint64_t kRounds = 20;
  DAT_EP_ATTR attr{};
  Failures failures;
  const Deadline deadline;
  Pair pair;
  attr = default_ep_attr(pair.ia);
  attr.max_request_dtos = static_cast<DAT_COUNT>(kBatch);
  const Evd evd = make_evd(pair.ia, DAT_EVD_DTO_FLAG, static_cast<DAT_COUNT>(kBatch));
  Ep ep;
  REQUIRE_OK(dat_ep_create(pair.ia, pair.pz, evd, evd, pair.active.connect_evd, &attr, ep.out()));
  REQUIRE_OK(dat_ep_connect(ep, pair.ia.attr.ia_address_ptr, pair.conn_qual, kPatience, 0, nullptr,
                            DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
  const DAT_EVENT request = expect_event(pair.cr_evd, DAT_CONNECTION_REQUEST_EVENT);
  REQUIRE_OK(dat_cr_accept(request.event_data.cr_arrival_event_data.cr_handle, pair.passive.ep, 0,
                           nullptr));
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  expect_event(pair.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  Buffer out(pair.ia, pair.pz, kSize);
  Buffer in(pair.ia, pair.pz, kSize);
  DAT_LMR_TRIPLET from = out.local();
  const DAT_RMR_TRIPLET to = in.remote(kSize);
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    Seen seen(1, kBatch, true);
    for (std::uint64_t i = 0; i < kBatch; ++i)
      REQUIRE_OK(dat_ep_post_rdma_write(ep, 1, &from, cookie(i), &to, DAT_COMPLETION_DEFAULT_FLAG));
    in_threads(4, [&](int) { seen.take_all(evd, deadline, failures); });
    seen.check();
    BOOST_CHECK(requests_idle(ep));
  }
}

// A thread waits for each completion. Posts that look for a free slot take completions off the
// queue at the same time; the waiter must be woken for them nevertheless.
BOOST_AUTO_TEST_CASE(thr_poster_and_waiter) {
  Writers writers(1);
  in_threads(2, [&](int number) {
    if (number == 0) return writers.post_all(0);
    while (!writers.seen.complete()) {
      DAT_EVENT event;
      DAT_COUNT more = 0;
      if (!writers.failures.ok(dat_evd_wait(writers.evd, kPatience, 1, &event, &more), "a wait"))
        return;
      writers.seen.take(event, writers.failures);
      writers.deadline.begin_anew();
    }
  });
  writers.check();
}

// A proxy agent dequeues in a thread of the provider, while the main thread posts.
BOOST_AUTO_TEST_CASE(thr_agent_dequeues_while_main_posts) {
  struct Agent {
    static void run(DAT_PVOID self, DAT_EVD_HANDLE evd) {
      if (evd != DAT_HANDLE_NULL) static_cast<Agent*>(self)->serve();
    }
    void serve() {
      // Rearm before dequeuing, so that no event is missed.
      writers.failures.ok(dat_cno_modify_agent(cno, {this, &Agent::run}), "modify_agent");
      DAT_EVENT event;
      while (dat_evd_dequeue(writers.evd, &event) == DAT_SUCCESS) {
        writers.seen.take(event, writers.failures);
        writers.deadline.begin_anew();
      }
    }
    Writers& writers;
    DAT_CNO_HANDLE cno;
  };
  Writers writers(1);
  Cno cno;
  REQUIRE_OK(dat_cno_create(writers.pair.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, cno.out()));
  Agent agent{writers, cno};
  REQUIRE_OK(dat_cno_modify_agent(cno, {&agent, &Agent::run}));
  REQUIRE_OK(dat_evd_modify_cno(writers.evd, cno));
  writers.post_all(0);
  while (!writers.seen.complete() && !writers.deadline.over())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  REQUIRE_OK(dat_evd_modify_cno(writers.evd, DAT_HANDLE_NULL));
  REQUIRE_OK(dat_cno_modify_agent(cno, DAT_OS_WAIT_PROXY_AGENT_NULL));
  writers.check();
}

// One thread posts receives, another one sends, and others dequeue the completions.
BOOST_AUTO_TEST_CASE(thr_receives_posted_apart) {
  Pair pair;
  Failures failures;
  const Deadline deadline;
  DAT_EP_ATTR attr = default_ep_attr(pair.ia);
  attr.max_request_dtos = attr.max_recv_dtos = kSlots;
  End active;
  End passive;
  active.create(pair.ia, pair.pz, &attr);
  passive.create(pair.ia, pair.pz, &attr);
  pair.connect(active, passive);
  Buffer out(pair.ia, pair.pz, kSize);
  Buffer in(pair.ia, pair.pz, kSize);
  Seen received(1, kEach, true);
  Seen sent(1, kEach, false);
  std::atomic<std::uint64_t> posted{0};
  in_threads(5, [&](int number) {
    if (number == 0) {
      for (std::uint64_t i = 0; i < kEach; ++i, ++posted)
        if (!post_until_deadline(deadline, failures,
                                 [&] { return passive.post_recv(in, kSize, i); }))
          return;
    } else if (number == 1) {
      for (std::uint64_t i = 0; i < kEach; ++i) {
        while (posted <= i && !deadline.over()) std::this_thread::yield();
        if (!post_until_deadline(deadline, failures,
                                 [&] { return active.post_send(out, kSize, i, flags_of(i)); }))
          return;
      }
    } else if (number == 2) {
      sent.take_all(active.request_evd, deadline, failures);
    } else {
      received.take_all(passive.recv_evd, deadline, failures);
    }
  });
  received.check();
  sent.check();
  BOOST_CHECK(requests_idle(active.ep));
}

// The same with an SRQ that provides the buffers of two connections.
BOOST_AUTO_TEST_CASE(thr_srq_buffers_posted_apart) {
  constexpr std::uint64_t kEps = 2;
  constexpr std::uint64_t kAll = kEps * kEach;
  Pair pair;
  if (skip_unless(pair.ia.attr.max_srqs > 0, "no SRQs")) return;
  Failures failures;
  const Deadline deadline;
  DAT_SRQ_ATTR srq_attr{};
  srq_attr.max_recv_dtos = kSlots;
  srq_attr.max_recv_iov = 1;
  srq_attr.low_watermark = DAT_SRQ_LW_DEFAULT;
  Srq srq;
  REQUIRE_OK(dat_srq_create(pair.ia, pair.pz, &srq_attr, srq.out()));
  const Evd shared = make_evd(pair.ia, DAT_EVD_DTO_FLAG, 64);
  DAT_EP_ATTR attr = default_ep_attr(pair.ia);
  attr.max_request_dtos = kSlots;
  End active[kEps];
  End passive[kEps];
  for (std::size_t i = 0; i < kEps; ++i) {
    active[i].create(pair.ia, pair.pz, &attr);
    passive[i].connect_evd = make_evd(pair.ia, DAT_EVD_CONNECTION_FLAG, 8);
    REQUIRE_OK(dat_ep_create_with_srq(pair.ia, pair.pz, shared, shared, passive[i].connect_evd, srq,
                                      &attr, passive[i].ep.out()));
    pair.connect(active[i], passive[i]);
  }
  Buffer out(pair.ia, pair.pz, kSize);
  Buffer in(pair.ia, pair.pz, kSize);
  Seen received(1, kAll, true);
  Seen sent[] = {Seen(1, kEach, false), Seen(1, kEach, false)};
  std::atomic<std::uint64_t> posted{0};
  std::atomic<std::uint64_t> claimed{0};  // buffers reserved for sends
  in_threads(7, [&](int number) {
    if (number == 0) {
      DAT_LMR_TRIPLET segment = in.local();
      for (std::uint64_t i = 0; i < kAll; ++i, ++posted)
        if (!post_until_deadline(deadline, failures,
                                 [&] { return dat_srq_post_recv(srq, 1, &segment, cookie(i)); }))
          return;
    } else if (number <= 2) {
      for (std::uint64_t i = 0; i < kEach; ++i) {
        const std::uint64_t mine = claimed++;
        while (posted <= mine && !deadline.over()) std::this_thread::yield();
        if (!post_until_deadline(deadline, failures, [&] {
              return active[number - 1].post_send(out, kSize, i, flags_of(i));
            }))
          return;
      }
    } else if (number <= 4) {
      sent[number - 3].take_all(active[number - 3].request_evd, deadline, failures);
    } else {
      received.take_all(shared, deadline, failures);
    }
  });
  received.check();
  for (std::size_t i = 0; i < kEps; ++i) {
    sent[i].check();
    BOOST_CHECK(requests_idle(active[i].ep));
  }
  for (std::size_t i = 0; i < kEps; ++i) {
    REQUIRE_OK(dat_ep_free(passive[i].ep.release()));
    DAT_EVENT event;
    while (dat_evd_dequeue(shared, &event) == DAT_SUCCESS) {
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
