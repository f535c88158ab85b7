// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Processes that fork and are killed while their child lives on. The child has copies of their
// descriptors; others must not take them for the process.
#include <dat/udat.h>

#include <boost/test/unit_test.hpp>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <thread>

#include "every_fault.h"
#include "side.h"

namespace {

using soft_faults::arrives;
using soft_faults::Side;

constexpr unsigned kHangs = 60;  // seconds

// A process that runs `body`, forks a child that sleeps, and says whether all of that worked.
class Parent {
 public:
  template <class Body>
  explicit Parent(Body body) {
    std::array<int, 2> ends{};
    BOOST_REQUIRE_EQUAL(::pipe(ends.data()), 0);
    process_ = ::fork();
    BOOST_REQUIRE_GE(process_, 0);
    if (process_ == 0) {
      limit();
      ::close(ends[0]);
      pid_t child = body() ? ::fork() : -1;
      if (child == 0) {
        limit();
        ::pause();
        ::_exit(1);
      }
      if (::write(ends[1], &child, sizeof child) == sizeof child) ::pause();
      ::_exit(1);
    }
    ::close(ends[1]);
    said_ = ends[0];
  }
  ~Parent() {
    kill();
    if (child_ > 0) ::kill(child_, SIGKILL);
    ::close(said_);
  }
  Parent(const Parent&) = delete;
  Parent& operator=(const Parent&) = delete;

  // Waits until it has forked.
  [[nodiscard]] bool has_child() {
    return ::read(said_, &child_, sizeof child_) == sizeof child_ && child_ > 0;
  }
  void kill() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = 0;
  }

 private:
  static void limit() {
    ::signal(SIGALRM, SIG_DFL);
    ::alarm(kHangs);
  }

  pid_t process_ = 0;
  pid_t child_ = 0;
  int said_ = -1;
};

void the_peer_is_killed(const char* adapter, bool listens) {
  const DAT_CONN_QUAL qualifier = faults::conn_qual();
  std::array<int, 2> go{};
  BOOST_REQUIRE_EQUAL(::pipe(go.data()), 0);
  Parent peer([&] {
    Side side;
    char byte = 0;
    if (!side.open(adapter)) return false;
    if (!listens) return ::read(go[0], &byte, 1) == 1 && side.connect(qualifier);
    return side.listen(qualifier) && ::write(go[1], "", 1) == 1 && side.accept();
  });
  Side side;
  char byte = 0;
  BOOST_REQUIRE(side.open(adapter));
  if (listens) {
    BOOST_REQUIRE_EQUAL(::read(go[0], &byte, 1), 1);
    BOOST_REQUIRE(side.connect(qualifier));
  } else {
    BOOST_REQUIRE(side.listen(qualifier));
    BOOST_REQUIRE_EQUAL(::write(go[1], "", 1), 1);
    BOOST_REQUIRE(side.accept());
  }
  BOOST_REQUIRE(peer.has_child());
  peer.kill();
  DAT_EVENT event{};
  BOOST_TEST(arrives(side.evd, event));
  BOOST_TEST((event.event_number == DAT_CONNECTION_EVENT_BROKEN ||
              event.event_number == DAT_CONNECTION_EVENT_DISCONNECTED));
  // No process listens at the place of the dead, as soon as its child has run for a moment.
  bool vacant = !listens;
  for (int i = 0; i < 500 && !vacant;
       ++i, std::this_thread::sleep_for(std::chrono::milliseconds(10)))
    vacant = side.listen(qualifier);
  BOOST_TEST(vacant);
  BOOST_TEST(dat_ia_close(side.ia, DAT_CLOSE_ABRUPT_FLAG) == DAT_SUCCESS);
  for (const int end : go) ::close(end);
}

BOOST_AUTO_TEST_SUITE(killed_parents)

BOOST_AUTO_TEST_CASE(who_connected_is_missed_over_shared_memory) {
  the_peer_is_killed("mock", false);
}

BOOST_AUTO_TEST_CASE(who_connected_is_missed_over_tcp) { the_peer_is_killed("tcp", false); }

BOOST_AUTO_TEST_CASE(who_listened_is_missed_over_shared_memory) {
  the_peer_is_killed("mock", true);
}

BOOST_AUTO_TEST_CASE(who_listened_is_missed_over_tcp) { the_peer_is_killed("tcp", true); }

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
