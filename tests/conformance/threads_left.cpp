// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "harness.h"
#include "threads.h"

#include <chrono>
#include <csetjmp>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>

#include <pthread.h>
#include <unistd.h>

// A signal handler leaves a wait by longjmp, as some programs' handlers of SIGINT and SIGALRM do,
// or makes calls of its own.
namespace conformance {

namespace {

sigjmp_buf place;
void (*in_handler)() = nullptr;

void on_signal(int) { in_handler(); }
void leave() { siglongjmp(place, 1); }
void end_thread() { ::pthread_exit(nullptr); }

// Interrupts the calling thread once, when it sleeps.
class Interruption {
 public:
  explicit Interruption(void (*handler)()) {
    in_handler = handler;
    struct sigaction action {};
    action.sa_handler = &on_signal;
    ::sigaction(SIGUSR1, &action, &old_);
    thread_ = std::thread([target = ::pthread_self(), id = ::gettid()] {
      for (int asleep = 0; asleep < 5; asleep = sleeps(id) ? asleep + 1 : 0)
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      ::pthread_kill(target, SIGUSR1);
    });
  }
  ~Interruption() {
    thread_.join();
    ::sigaction(SIGUSR1, &old_, nullptr);
  }
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

 private:
  static bool sleeps(pid_t thread) {
    std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
    const std::string text{std::istreambuf_iterator<char>(stat), {}};
    const auto name_end = text.rfind(')');
    return name_end != std::string::npos && text.compare(name_end, 3, ") S") == 0;
  }

  struct sigaction old_ {};
  std::thread thread_;
};

// Waits for an event that does not come. Returns whether the handler has left the wait.
[[gnu::noinline]] bool leave_wait(DAT_EVD_HANDLE evd) {
  const Interruption interruption(&leave);
  if (sigsetjmp(place, 1) != 0) return true;
  DAT_EVENT event;
  DAT_COUNT more = 0;
  static_cast<void>(dat_evd_wait(evd, DAT_TIMEOUT_INFINITE, 1, &event, &more));
  return false;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(threads)

// The EVD keeps its waiter, but everything else goes on: other EVDs, other threads, the end of the
// connection and of the IA.
BOOST_AUTO_TEST_CASE(thr_wait_left_by_longjmp) {
  for (const bool other_thread_waits : {false, true}) {
    Ia ia;
    Pz pz = make_pz(ia);
    Link link(ia, pz);
    Evd quiet = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8);
    Evd also_quiet = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8);
    Failures failures;
    BOOST_REQUIRE(link.connect(failures));
    std::thread waiter;
    if (other_thread_waits) {
      waiter = std::thread([&] {
        DAT_EVENT event;
        failures.ok(Link::wait(also_quiet, &event), "the other thread's wait");
      });
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    BOOST_CHECK(leave_wait(quiet));
    DAT_EVENT event;
    DAT_COUNT more = 0;
    BOOST_CHECK_EQUAL(DAT_GET_TYPE(dat_evd_wait(quiet, 1000, 1, &event, &more)),
                      static_cast<DAT_RETURN>(DAT_INVALID_STATE));
    for (std::uint64_t i = 0; i < 20; ++i) BOOST_REQUIRE(link.message(i, failures));
    BOOST_CHECK(leave_wait(link.active.recv_evd));
    for (std::uint64_t i = 0; i < 20; ++i) BOOST_REQUIRE(link.message(i, failures));
    if (other_thread_waits) {
      REQUIRE_OK(post_software(also_quiet, 1));
      waiter.join();
    }
    REQUIRE_OK(dat_ep_disconnect(link.active.ep, DAT_CLOSE_ABRUPT_FLAG));
    BOOST_REQUIRE(Link::ended(link.active, failures));
    BOOST_REQUIRE(Link::ended(link.passive, failures));
    REQUIRE_OK(ia.close(DAT_CLOSE_ABRUPT_FLAG));
    link.release();
    quiet.release();
    also_quiet.release();
    pz.release();
  }
}

// A thread that has left a wait goes on to wait for completions. Meanwhile the connection ends.
BOOST_AUTO_TEST_CASE(thr_wait_after_one_left_by_longjmp) {
  Ia ia;
  Pz pz = make_pz(ia);
  Link link(ia, pz);
  Evd quiet = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8);
  Failures failures;
  BOOST_REQUIRE(link.connect(failures));
  REQUIRE_OK(link.passive.post_recv(link.in, kSize, 1));
  BOOST_CHECK(leave_wait(quiet));
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    failures.ok(dat_ep_disconnect(link.active.ep, DAT_CLOSE_ABRUPT_FLAG), "disconnect");
  });
  DAT_EVENT event;
  const DAT_RETURN code = Link::wait(link.passive.recv_evd, &event);
  other.join();
  REQUIRE_OK(code);
  BOOST_CHECK_EQUAL(event.event_data.dto_completion_event_data.status, DAT_DTO_ERR_FLUSHED);
  BOOST_REQUIRE(Link::ended(link.active, failures));
  BOOST_REQUIRE(Link::ended(link.passive, failures));
  REQUIRE_OK(ia.close(DAT_CLOSE_ABRUPT_FLAG));
  link.release();
  quiet.release();
  pz.release();
}

// A thread that is told to stop by a signal leaves its wait and ends; another one closes the IA.
BOOST_AUTO_TEST_CASE(thr_thread_ends_that_has_left_its_wait) {
  for (const unsigned flag : {DAT_EVD_SOFTWARE_FLAG, DAT_EVD_DTO_FLAG}) {
    Ia ia;
    Evd evd = make_evd(ia, static_cast<DAT_EVD_FLAGS>(flag), 8);
    bool left = false;
    std::thread([&] { left = leave_wait(evd); }).join();
    BOOST_REQUIRE(left);
    // Unless the thread has given up its claim, no other thread can drive the IA.
    Evd other = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8);
    DAT_EVENT event;
    DAT_COUNT more = 0;
    BOOST_CHECK_EQUAL(DAT_GET_TYPE(dat_evd_wait(other, 1000, 1, &event, &more)),
                      static_cast<DAT_RETURN>(DAT_TIMEOUT_EXPIRED));
    REQUIRE_OK(ia.close(DAT_CLOSE_ABRUPT_FLAG));
    evd.release();
    other.release();
  }
}

// A thread is told to stop by a signal whose handler ends it. It leads or follows the thread that
// waits for the same IA. Its destructors run, and everything else goes on.
BOOST_AUTO_TEST_CASE(thr_handler_ends_the_thread_of_its_wait) {
  if (skip_unless(!kThreadSanitizer, "the sanitizer delays signals")) return;
  struct Marker {
    ~Marker() { done = true; }
    bool& done;
  };
  for (const bool other_thread_waits : {false, true}) {
    Ia ia;
    const Pz pz = make_pz(ia);
    Link link(ia, pz);
    Cno cno;
    REQUIRE_OK(dat_cno_create(ia, DAT_OS_WAIT_PROXY_AGENT_NULL, cno.out()));
    const Evd software = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8);
    const Evd quiet = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8);
    Failures failures;
    BOOST_REQUIRE(link.connect(failures));
    std::thread waiter;
    if (other_thread_waits) {
      waiter = std::thread([&] {
        DAT_EVENT event;
        failures.ok(Link::wait(quiet, &event), "the other thread's wait");
      });
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    for (const DAT_EVD_HANDLE evd :
         {DAT_EVD_HANDLE{software}, DAT_EVD_HANDLE{link.active.recv_evd}, DAT_EVD_HANDLE{}}) {
      bool unwound = false;
      bool returned = false;
      std::thread([&] {
        const Marker marker{unwound};
        const Interruption interruption(&end_thread);
        DAT_EVENT event;
        DAT_COUNT more = 0;
        DAT_EVD_HANDLE triggered = DAT_HANDLE_NULL;
        if (evd != DAT_HANDLE_NULL)
          static_cast<void>(dat_evd_wait(evd, DAT_TIMEOUT_INFINITE, 1, &event, &more));
        else
          static_cast<void>(dat_cno_wait(cno, DAT_TIMEOUT_INFINITE, &triggered));
        returned = true;
      }).join();
      BOOST_CHECK(unwound && !returned);
      for (std::uint64_t i = 0; i < 20; ++i) BOOST_REQUIRE(link.message(i, failures));
    }
    if (other_thread_waits) {
      REQUIRE_OK(post_software(quiet, 1));
      waiter.join();
    }
  }
}

namespace handler {
DAT_IA_HANDLE ia;
DAT_EVD_HANDLE evd;
DAT_RETURN result;

void close() { result = dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG); }
void wait() {
  DAT_EVENT event;
  DAT_COUNT more = 0;
  result = dat_evd_wait(evd, kPatience, 1, &event, &more);
}
}  // namespace handler

// The wait returns after its IA has gone.
BOOST_AUTO_TEST_CASE(thr_handler_closes_the_ia_of_its_threads_wait) {
  if (skip_unless(!kThreadSanitizer,
                  "frees memory in a signal handler, which the sanitizer reports"))
    return;
  for (const unsigned flag : {DAT_EVD_SOFTWARE_FLAG, DAT_EVD_DTO_FLAG}) {
    Ia ia;
    Evd evd = make_evd(ia, static_cast<DAT_EVD_FLAGS>(flag), 8);
    handler::ia = ia;
    DAT_EVENT event;
    DAT_COUNT more = 0;
    DAT_RETURN result = DAT_SUCCESS;
    {
      const Interruption interruption(&handler::close);
      result = dat_evd_wait(evd, kPatience, 1, &event, &more);
    }
    BOOST_CHECK_EQUAL(handler::result, static_cast<DAT_RETURN>(DAT_SUCCESS));
    BOOST_CHECK_EQUAL(DAT_GET_TYPE(result), static_cast<DAT_RETURN>(DAT_ABORT));
    evd.release();
    ia.handle = DAT_HANDLE_NULL;
  }
}

// A handler waits for a message, which its thread would have to receive.
BOOST_AUTO_TEST_CASE(thr_handler_waits_within_a_wait) {
  Ia ia;
  const Pz pz = make_pz(ia);
  Link link(ia, pz);
  Failures failures;
  BOOST_REQUIRE(link.connect(failures));
  const Evd evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8);
  REQUIRE_OK(link.passive.post_recv(link.in, kSize, 1));
  handler::evd = link.passive.recv_evd;
  DAT_EVENT event;
  {
    std::thread sender([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      failures.ok(link.active.post_send(link.out, kSize, 1), "send");
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      failures.ok(post_software(evd, 1), "post");
    });
    const Interruption interruption(&handler::wait);
    BOOST_CHECK_EQUAL(Link::wait(evd, &event), static_cast<DAT_RETURN>(DAT_SUCCESS));
    sender.join();
  }
  BOOST_CHECK_EQUAL(handler::result, static_cast<DAT_RETURN>(DAT_SUCCESS));
  REQUIRE_OK(Link::wait(link.active.request_evd, &event));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
