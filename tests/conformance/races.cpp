// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "threads.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

// Calls of several threads on the same objects, while others wait on them, connect them or change
// them. Calls that are not marked Safe need a thread-safe IA (--threadsafe) or are serialised. The
// suite "threads" tests data transfer.
namespace conformance {

namespace {

// Collects failures in threads, where Boost.Test may not be used, and reports them at the end.
class Complaints {
 public:
  ~Complaints() {
    for (const std::string& text : texts_) BOOST_ERROR(text);
    BOOST_CHECK(texts_.empty());
  }
  Complaints() = default;
  Complaints(const Complaints&) = delete;
  Complaints& operator=(const Complaints&) = delete;

  // Returns whether the call returned one of these types; records a failure if not.
  bool is(DAT_RETURN rc, std::initializer_list<int> types, const char* what) {
    for (const int type : types)
      if (DAT_GET_TYPE(rc) == static_cast<DAT_RETURN>(type)) return true;
    const std::scoped_lock lock(mutex_);
    if (texts_.size() < 10) texts_.push_back(std::string(what) + " -> " + describe(rc));
    return false;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> texts_;
};

// Threads, each of which repeats a step until the end of the scope or until the step returns false.
class Crowd {
 public:
  explicit Crowd(std::vector<std::function<bool()>> steps) {
    for (auto& step : steps)
      threads_.emplace_back([this, step = std::move(step)] {
        while (!stop_ && step()) std::this_thread::yield();
      });
  }
  ~Crowd() { join(); }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;
  void join() {
    stop_ = true;
    for (std::thread& thread : threads_)
      if (thread.joinable()) thread.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(races)

// One thread waits on an EVD while others enable, disable, resize and query it, change its CNO, and
// try to free it. Every event arrives once and in order.
BOOST_AUTO_TEST_CASE(race_controls_against_waits) {
  constexpr std::uintptr_t kEvents = 2000;
  const Ia ia;
  Complaints complaints;
  Cno cno;
  REQUIRE_OK(dat_cno_create(ia, DAT_OS_WAIT_PROXY_AGENT_NULL, cno.out()));
  const Evd evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 64);
  const DAT_EVD_HANDLE shared = evd;
  std::atomic<DAT_COUNT> size{64};
  OneAtATime change;
  Crowd crowd({
      [&] {
        return complaints.is(dat_evd_disable(shared), {DAT_SUCCESS}, "disable") &&
               complaints.is(dat_evd_enable(shared), {DAT_SUCCESS}, "enable");
      },
      [&] {
        size = size == 64 ? 80 : 64;
        return complaints.is(change([&] { return dat_evd_resize(shared, size); }),
                             {DAT_SUCCESS, DAT_INVALID_STATE}, "resize");
      },
      [&] {
        return complaints.is(change([&] { return dat_evd_modify_cno(shared, cno); }), {DAT_SUCCESS},
                             "modify_cno") &&
               complaints.is(change([&] { return dat_evd_modify_cno(shared, DAT_HANDLE_NULL); }),
                             {DAT_SUCCESS}, "modify_cno to none");
      },
      [&] {
        DAT_EVD_PARAM param{};
        return complaints.is(
            change([&] { return dat_evd_query(shared, DAT_EVD_FIELD_ALL, &param); }), {DAT_SUCCESS},
            "query");
      },
      [&] {
        DAT_EVD_HANDLE woken = DAT_HANDLE_NULL;
        return complaints.is(dat_cno_wait(cno, 500, &woken), {DAT_SUCCESS, DAT_QUEUE_EMPTY},
                             "cno_wait");
      },
  });
  std::thread poster([&] {
    for (std::uintptr_t i = 0; i < kEvents;) {
      const DAT_RETURN rc = change([&] { return post_software(shared, i); });
      if (!complaints.is(rc, {DAT_SUCCESS, DAT_QUEUE_FULL}, "post_se")) return;
      if (rc == DAT_SUCCESS)
        ++i;
      else
        std::this_thread::yield();
    }
  });
  for (std::uintptr_t i = 0; i < kEvents; ++i) {
    const auto event = next_event(shared);
    BOOST_CHECK_MESSAGE(event, "event " << i << " is lost");
    if (!event) break;
    BOOST_CHECK_EQUAL(number_of(*event), i);
  }
  poster.join();
  crowd.join();
}

// An object with waiters cannot be freed, and the attempt does not disturb the waiters.
BOOST_AUTO_TEST_CASE(race_free_against_waits) {
  const Ia ia;
  Complaints complaints;
  for (const DAT_EVD_FLAGS flags : {DAT_EVD_SOFTWARE_FLAG, DAT_EVD_DTO_FLAG}) {
    Cno cno;
    REQUIRE_OK(dat_cno_create(ia, DAT_OS_WAIT_PROXY_AGENT_NULL, cno.out()));
    Evd evd = make_evd(ia, flags, 8, cno);
    std::atomic<bool> in_wait[2] = {};
    std::thread evd_waiter([&] {
      DAT_EVENT event;
      DAT_COUNT more = 0;
      in_wait[0] = true;
      complaints.is(dat_evd_wait(evd, kPatience, 1, &event, &more), {DAT_INVALID_STATE},
                    "the wait that set_unwaitable ends");
    });
    std::thread cno_waiter([&] {
      DAT_EVD_HANDLE woken = DAT_HANDLE_NULL;
      in_wait[1] = true;
      complaints.is(dat_cno_wait(cno, 200 * kMillisecond, &woken), {DAT_QUEUE_EMPTY}, "cno_wait");
    });
    while (!in_wait[0] || !in_wait[1]) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (int i = 0; i < 200; ++i) {
      CHECK_TYPE(dat_evd_free(evd), DAT_INVALID_STATE);
      CHECK_TYPE(dat_cno_free(cno), DAT_INVALID_STATE);
    }
    cno_waiter.join();
    REQUIRE_OK(dat_evd_set_unwaitable(evd));
    evd_waiter.join();
    REQUIRE_OK(dat_evd_free(evd.release()));
    REQUIRE_OK(dat_cno_free(cno.release()));
  }
}

// One thread connects an EP, another disconnects it at the same time, and a third one accepts or
// rejects the requests. Both ends must reach a state from which they can be used again.
BOOST_AUTO_TEST_CASE(race_disconnect_against_connect) {
  if (skip_unless(thread_safe(), kNotSafe)) return;
  Pair pair;
  Complaints complaints;
  for (int round = 0; round < 150; ++round) {
    std::atomic<bool> go{false};
    std::atomic<bool> over{false};
    DAT_RETURN connected = DAT_INTERNAL_ERROR;
    std::thread connecter([&] {
      while (!go) std::this_thread::yield();
      connected =
          dat_ep_connect(pair.active.ep, pair.ia.attr.ia_address_ptr, pair.conn_qual, kPatience, 0,
                         nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
    });
    std::thread acceptor([&] {
      while (!over) {
        DAT_EVENT event;
        DAT_COUNT more = 0;
        if (dat_evd_wait(pair.cr_evd, kMillisecond, 1, &event, &more) != DAT_SUCCESS) continue;
        const DAT_CR_HANDLE cr = event.event_data.cr_arrival_event_data.cr_handle;
        if (dat_cr_accept(cr, pair.passive.ep, 0, nullptr) != DAT_SUCCESS)
          complaints.is(dat_cr_reject(cr, 0, nullptr), {DAT_SUCCESS}, "reject");
      }
    });
    go = true;
    for (int i = 0; i < round % 25; ++i) std::this_thread::yield();
    const DAT_RETURN ended = dat_ep_disconnect(pair.active.ep, DAT_CLOSE_ABRUPT_FLAG);
    complaints.is(ended, {DAT_SUCCESS, DAT_INVALID_STATE}, "disconnect");
    connecter.join();
    complaints.is(connected, {DAT_SUCCESS}, "connect");
    if (ended != DAT_SUCCESS)  // it preceded the connect
      REQUIRE_OK(dat_ep_disconnect(pair.active.ep, DAT_CLOSE_ABRUPT_FLAG));
    // The last event of the active side is the end of the connection.
    DAT_EVENT event = *next_event(pair.active.connect_evd);
    if (event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED)
      event = *next_event(pair.active.connect_evd);
    BOOST_CHECK_EQUAL(event.event_number, DAT_CONNECTION_EVENT_DISCONNECTED);
    // A request that was already on its way may still be accepted; its connection ends immediately.
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    over = true;
    acceptor.join();
    while (const auto late = next_event(pair.cr_evd, kMillisecond))
      dat_cr_reject(late->event_data.cr_arrival_event_data.cr_handle, 0, nullptr);
    while (ep_state(pair.passive.ep) != DAT_EP_STATE_UNCONNECTED &&
           ep_state(pair.passive.ep) != DAT_EP_STATE_DISCONNECTED)
      BOOST_REQUIRE(next_event(pair.passive.connect_evd));
    drain(pair.passive.connect_evd);
    REQUIRE_OK(dat_ep_reset(pair.active.ep));
    REQUIRE_OK(dat_ep_reset(pair.passive.ep));
  }
  pair.connect();
}

// Threads query and modify an EP while it goes through one connection after another.
BOOST_AUTO_TEST_CASE(race_queries_against_connections) {
  if (skip_unless(thread_safe(), kNotSafe)) return;
  Pair pair;
  Complaints complaints;
  const DAT_EP_HANDLE eps[] = {pair.active.ep, pair.passive.ep};
  Crowd crowd({
      [&] {
        for (const DAT_EP_HANDLE ep : eps) {
          DAT_EP_PARAM param{};
          if (!complaints.is(dat_ep_query(ep, DAT_EP_FIELD_ALL, &param), {DAT_SUCCESS}, "query"))
            return false;
        }
        return true;
      },
      [&] {
        for (const DAT_EP_HANDLE ep : eps)
          if (!complaints.is(dat_ep_get_status(ep, nullptr, nullptr, nullptr), {DAT_SUCCESS},
                             "get_status"))
            return false;
        return true;
      },
      [&] {
        DAT_EP_PARAM param{};
        param.ep_attr.max_recv_iov = 2;
        for (const DAT_EP_HANDLE ep : eps)
          if (!complaints.is(dat_ep_modify(ep, DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV, &param),
                             {DAT_SUCCESS, DAT_INVALID_STATE}, "modify"))
            return false;
        return true;
      },
      [&] {
        return complaints.is(dat_ep_free(DAT_HANDLE_NULL), {DAT_INVALID_HANDLE}, "free of none") &&
               complaints.is(dat_pz_free(pair.pz), {DAT_INVALID_STATE}, "free of a PZ in use") &&
               complaints.is(dat_evd_free(pair.active.recv_evd), {DAT_INVALID_STATE},
                             "free of an EVD in use");
      },
  });
  Buffer buffer(pair.ia, pair.pz, 64);
  for (int round = 0; round < 60; ++round) {
    REQUIRE_OK(pair.passive.post_recv(buffer, 64, 1));
    pair.connect();
    REQUIRE_OK(pair.active.post_send(buffer, 64, 2));
    expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, 1);
    expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 2);
    pair.disconnect();
    REQUIRE_OK(dat_ep_reset(pair.active.ep));
    REQUIRE_OK(dat_ep_reset(pair.passive.ep));
  }
  crowd.join();
}

// The peer's IA is closed abruptly, with all its objects, while this side posts to it.
BOOST_AUTO_TEST_CASE(race_close_against_the_peers_posts) {
  for (int round = 0; round < 20; ++round) {
    Pair here;
    Complaints complaints;
    Ia there;
    Pz pz = make_pz(there);
    Buffer target(there, pz, 4096);
    Buffer source(here.ia, here.pz, 4096);
    End end;
    end.create(there, pz, nullptr);
    here.connect(end, here.passive);
    const DAT_RMR_TRIPLET remote = target.remote(4096);
    std::atomic<int> completed{0};
    Crowd crowd({[&] {
      DAT_EVENT event;
      while (dat_evd_dequeue(here.passive.request_evd, &event) == DAT_SUCCESS) ++completed;
      return complaints.is(here.passive.post_write(source, remote, 1),
                           {DAT_SUCCESS, DAT_INSUFFICIENT_RESOURCES, DAT_INVALID_STATE}, "write");
    }});
    while (completed < 5 + round) std::this_thread::yield();
    REQUIRE_OK(there.close(DAT_CLOSE_ABRUPT_FLAG));
    expect_connection_end(here.passive.connect_evd);
    crowd.join();
    drain(here.passive.request_evd);
    for (Evd* const evd : {&end.recv_evd, &end.request_evd, &end.connect_evd}) evd->release();
    end.ep.release();
    target.lmr.release();
    pz.release();
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
