// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "harness.h"

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// What tests with several threads need.
namespace conformance {

inline constexpr const char* kNotSafe = "the IA is not thread-safe";
constexpr std::size_t kSize = 64;

#if defined(__SANITIZE_THREAD__)
constexpr bool kThreadSanitizer = true;
#elif defined(__has_feature)
constexpr bool kThreadSanitizer = __has_feature(thread_sanitizer);
#else
constexpr bool kThreadSanitizer = false;
#endif
// Nothing orders the use of a handle and the end of its object. An application must not do that.
// How a thread-safe IA copes with it is tested, but it is a race by definition.
constexpr const char* kRaceByDefinition = "a race by definition, which the sanitizer reports";

inline bool thread_safe() { return options().thread_safe == DAT_TRUE; }

// Wraps calls on one object that are not marked Safe. On an IA that is not thread-safe, the
// application must serialise them.
class OneAtATime {
 public:
  template <class Call>
  DAT_RETURN operator()(Call&& call) {
    if (thread_safe()) return call();
    const std::scoped_lock lock(mutex_);
    return call();
  }

 private:
  std::mutex mutex_;
};

// Collects failures in threads, where Boost.Test may not be used, and reports them at the end.
class Failures {
 public:
  // Returns whether the call succeeded; records a failure if not.
  bool ok(DAT_RETURN rc, const char* what) {
    if (rc != DAT_SUCCESS) note(std::string(what) + " -> " + describe(rc));
    return rc == DAT_SUCCESS;
  }
  bool expect(bool condition, const char* what) {
    if (!condition) note(what);
    return condition;
  }
  ~Failures() {
    for (const std::string& text : texts_) BOOST_ERROR(text);
    BOOST_CHECK(texts_.empty());
  }
  Failures() = default;
  Failures(const Failures&) = delete;
  Failures& operator=(const Failures&) = delete;

 private:
  void note(const std::string& text) {
    const std::scoped_lock lock(mutex_);
    if (texts_.size() < 10) texts_.push_back(text);
  }
  std::mutex mutex_;
  std::vector<std::string> texts_;
};

// Runs `work(number)` in `count` threads, which start together.
inline void in_threads(int count, const std::function<void(int)>& work) {
  std::atomic<int> waiting{count};
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      --waiting;
      while (waiting > 0) std::this_thread::yield();
      work(i);
    });
  for (std::thread& thread : threads) thread.join();
}

// Two EPs that can be connected, with a service point, on an IA that is used by others, too. Its
// functions may run in any thread; they record failures and return whether they succeeded.
struct Link {
  Link(const Ia& on, DAT_PZ_HANDLE pz)
      : ia(on),
        out(on, pz, kSize),
        in(on, pz, kSize),
        cr_evd(make_evd(on, DAT_EVD_CR_FLAG, 8)),
        conn_qual(fresh_conn_qual()) {
    REQUIRE_OK(dat_psp_create(ia, conn_qual, cr_evd, DAT_PSP_CONSUMER_FLAG, psp.out()));
    active.create(ia, pz, nullptr);
    passive.create(ia, pz, nullptr);
  }

  static DAT_RETURN wait(DAT_EVD_HANDLE evd, DAT_EVENT* event, DAT_TIMEOUT timeout = kPatience) {
    DAT_COUNT more = 0;
    return dat_evd_wait(evd, timeout, 1, event, &more);
  }
  DAT_RETURN start() const {
    return dat_ep_connect(active.ep, ia.attr.ia_address_ptr, conn_qual, kPatience, 0, nullptr,
                          DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
  }
  bool connect(Failures& failures) const {
    DAT_EVENT event;
    if (!failures.ok(start(), "connect") || !failures.ok(wait(cr_evd, &event), "wait for CR"))
      return false;
    const DAT_CR_HANDLE cr = event.event_data.cr_arrival_event_data.cr_handle;
    return failures.ok(dat_cr_accept(cr, passive.ep, 0, nullptr), "accept") &&
           established(active, failures) && established(passive, failures);
  }
  static bool established(const End& end, Failures& failures) {
    DAT_EVENT event;
    return failures.ok(wait(end.connect_evd, &event), "wait for ESTABLISHED") &&
           failures.expect(event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED, "ESTABLISHED");
  }
  static bool ended(const End& end, Failures& failures) {
    DAT_EVENT event;
    return failures.ok(wait(end.connect_evd, &event), "wait for the end") &&
           failures.expect(event.event_number == DAT_CONNECTION_EVENT_DISCONNECTED ||
                               event.event_number == DAT_CONNECTION_EVENT_BROKEN,
                           "DISCONNECTED or BROKEN");
  }
  bool reset(Failures& failures) const {
    return failures.ok(dat_ep_reset(active.ep), "reset of the active EP") &&
           failures.ok(dat_ep_reset(passive.ep), "reset of the passive EP");
  }
  // After an abrupt close of the IA, which has freed all objects.
  void release() {
    for (End* const end : {&active, &passive}) {
      end->ep.release();
      end->recv_evd.release();
      end->request_evd.release();
      end->connect_evd.release();
    }
    psp.release();
    cr_evd.release();
    out.lmr.release();
    in.lmr.release();
  }
  // One message from active to passive.
  bool message(std::uint64_t value, Failures& failures) {
    DAT_EVENT event;
    return failures.ok(passive.post_recv(in, kSize, value), "post_recv") &&
           failures.ok(active.post_send(out, kSize, value), "post_send") &&
           failures.ok(wait(passive.recv_evd, &event), "wait for the receive") &&
           failures.expect(is_success(event, value), "receive") &&
           failures.ok(wait(active.request_evd, &event), "wait for the send") &&
           failures.expect(is_success(event, value), "send");
  }
  static bool is_success(const DAT_EVENT& event, std::uint64_t value) {
    const auto& dto = event.event_data.dto_completion_event_data;
    return event.event_number == DAT_DTO_COMPLETION_EVENT && dto.status == DAT_DTO_SUCCESS &&
           dto.user_cookie.as_64 == value;
  }

  const Ia& ia;
  Buffer out;
  Buffer in;
  Evd cr_evd;
  DAT_CONN_QUAL conn_qual;
  Psp psp;
  End active;
  End passive;
};

// A thread that repeats a step until join() stops it.
class Background {
 public:
  explicit Background(std::function<bool()> step)
      : thread_([this, step = std::move(step)] {
          while (!stop_ && step()) ++steps_;
        }) {}
  ~Background() { join(); }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  void join() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  [[nodiscard]] long steps() const { return steps_; }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<long> steps_{0};
  std::thread thread_;
};

}  // namespace conformance
