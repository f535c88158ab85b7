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
#include <string>
#include <thread>

#include "every_fault.h"

namespace {

constexpr unsigned kHangs = 60;  // seconds
constexpr DAT_TIMEOUT kPatience = 20'000'000;

bool arrives(DAT_EVD_HANDLE evd, DAT_EVENT& event) {
  DAT_COUNT more = 0;
  return dat_evd_wait(evd, kPatience, 1, &event, &more) == DAT_SUCCESS;
}

// An IA with one EP, and a listener if need be.
struct Side {
  DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
  DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
  DAT_IA_ATTR attr{};
  DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE cr_evd = DAT_HANDLE_NULL;
  DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
  DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;

  [[nodiscard]] bool open(const char* name) {
    std::string copy = name;
    constexpr auto kStreams = DAT_EVD_FLAGS(DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG);
    return dat_ia_open(copy.data(), 8, &async_evd, &ia) == DAT_SUCCESS &&
           dat_ia_query(ia, nullptr, DAT_IA_FIELD_ALL, &attr, 0, nullptr) == DAT_SUCCESS &&
           dat_pz_create(ia, &pz) == DAT_SUCCESS &&
           dat_evd_create(ia, 16, DAT_HANDLE_NULL, kStreams, &evd) == DAT_SUCCESS &&
           dat_evd_create(ia, 8, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &cr_evd) == DAT_SUCCESS &&
           dat_ep_create(ia, pz, evd, evd, evd, nullptr, &ep) == DAT_SUCCESS;
  }
  [[nodiscard]] bool listen(DAT_CONN_QUAL qualifier) {
    return dat_psp_create(ia, qualifier, cr_evd, DAT_PSP_CONSUMER_FLAG, &psp) == DAT_SUCCESS;
  }
  [[nodiscard]] bool connect(DAT_CONN_QUAL qualifier) {
    DAT_EVENT event{};
    return dat_ep_connect(ep, attr.ia_address_ptr, qualifier, kPatience, 0, nullptr,
                          DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG) == DAT_SUCCESS &&
           arrives(evd, event) && event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED;
  }
  [[nodiscard]] bool accept() {
    DAT_EVENT event{};
    return arrives(cr_evd, event) &&
           dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, ep, 0, nullptr) ==
               DAT_SUCCESS &&
           arrives(evd, event) && event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED;
  }
};

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
