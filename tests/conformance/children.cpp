// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "handle_calls.h"
#include "harness.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

namespace {
bool is_child = false;
}  // namespace

// The sanitizer for leaks asks this when the process ends. A child has none of its parent's other
// threads, so what only they knew would count as a leak.
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off() {
  return is_child ? 1 : 0;
}

// Children that a program forks while it is connected. Whatever a child does, and whether it ends
// or keeps running, nothing changes for the parent. Calls of a child with its parent's handles are
// refused.
namespace conformance {

namespace {

constexpr unsigned kHangLimit = 60;  // seconds after which a child counts as hung

// A process that runs `body` and then calls exit(), unless `body` ends it. `body` returns what went
// wrong, or an empty string.
class Child {
 public:
  explicit Child(const std::function<std::string()>& body) {
    int ends[2];
    BOOST_REQUIRE_EQUAL(::pipe(ends), 0);
    std::fflush(nullptr);
    pid_ = ::fork();
    BOOST_REQUIRE_GE(pid_, 0);
    if (pid_ == 0) {
      is_child = true;
      ::alarm(kHangLimit);
      ::close(ends[0]);
      const std::string wrong = body();
      const ssize_t written = ::write(ends[1], wrong.data(), wrong.size());
      std::exit(written < 0 ? 1 : 0);  // with all handlers and static destructors
    }
    ::close(ends[1]);
    output_fd_ = ends[0];
  }
  ~Child() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
    wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void expect_good_end() {
    std::string wrong;
    char buffer[1024];
    for (ssize_t n; (n = ::read(output_fd_, buffer, sizeof buffer)) > 0;)
      wrong.append(buffer, static_cast<std::size_t>(n));
    BOOST_TEST(wrong.empty(), wrong);
    const int status = wait();
    BOOST_TEST(WIFEXITED(status), "killed by signal " << WTERMSIG(status));
    BOOST_TEST(WEXITSTATUS(status) == 0);
  }

 private:
  int wait() {
    if (pid_ <= 0) return 0;
    int status = 0;
    BOOST_TEST(::waitpid(pid_, &status, 0) == pid_);
    pid_ = 0;
    ::close(output_fd_);
    return status;
  }

  pid_t pid_ = 0;
  int output_fd_ = -1;
};

void transfer(Pair& pair) {
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  REQUIRE_OK(pair.passive.post_recv(in, 64, 1));
  out.bytes[7] = 'x';
  REQUIRE_OK(pair.active.post_send(out, 64, 2));
  expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, 1);
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 2);
  BOOST_TEST(in.bytes[7] == 'x');
}

std::string unless(DAT_RETURN rc, DAT_RETURN wanted, const std::string& what) {
  return DAT_GET_TYPE(rc) == DAT_GET_TYPE(wanted) ? "" : what + " -> " + describe(rc) + "\n";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(children)

BOOST_AUTO_TEST_CASE(child_calls_are_refused) {
  World world;
  Pair connected;
  connected.connect();
  Child child([&] {
    std::string wrong;
    for (const Call& call : all_calls()) {
      for (const Type type : call.takes) {
        if (world.live[type] == DAT_HANDLE_NULL) continue;
        wrong += unless(call.run(world, world.live[type]), DAT_INVALID_STATE,
                        std::string(call.name) + " of a parent's " + kTypeNames[type]);
      }
    }
    return wrong;
  });
  child.expect_good_end();
  transfer(connected);
  connected.disconnect();
}

BOOST_AUTO_TEST_CASE(child_ends_no_connection) {
  Pair pair;
  pair.connect();
  Child child([&] {
    const DAT_RETURN refused = DAT_INVALID_STATE;
    return unless(dat_ep_disconnect(pair.active.ep, DAT_CLOSE_ABRUPT_FLAG), refused, "disconnect") +
           unless(dat_ep_disconnect(pair.passive.ep, DAT_CLOSE_GRACEFUL_FLAG), refused,
                  "graceful disconnect") +
           unless(dat_ep_free(pair.active.ep), refused, "ep_free") +
           unless(dat_psp_free(pair.psp), refused, "psp_free") +
           unless(dat_ia_close(pair.ia, DAT_CLOSE_ABRUPT_FLAG), refused, "ia_close");
  });
  child.expect_good_end();
  transfer(pair);
  BOOST_TEST(ep_state(pair.active.ep) == DAT_EP_STATE_CONNECTED);
  pair.disconnect();
}

BOOST_AUTO_TEST_CASE(child_opens_an_ia_of_its_own) {
  Pair pair;
  pair.connect();
  Child child([&]() -> std::string {
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
    DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
    std::string name = options().ia;
    std::string wrong = unless(dat_ia_openv(name.data(), 8, &async_evd, &ia, DAT_VERSION_MAJOR,
                                            DAT_VERSION_MINOR, options().thread_safe),
                               DAT_SUCCESS, "ia_open");
    if (!wrong.empty()) return wrong;
    wrong = unless(dat_pz_create(ia, &pz), DAT_SUCCESS, "pz_create");
    wrong += unless(dat_pz_free(pz), DAT_SUCCESS, "pz_free");
    wrong += unless(dat_pz_free(pair.pz), DAT_INVALID_STATE, "pz_free of a parent's");
    return wrong + unless(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS, "ia_close");
  });
  child.expect_good_end();
  transfer(pair);
  pair.disconnect();
}

// A child keeps copies of the parent's descriptors as long as it runs.
BOOST_AUTO_TEST_CASE(child_keeps_no_connection_alive) {
  Pair pair;
  pair.connect();
  const Child child([]() -> std::string {
    ::pause();
    return "";
  });
  pair.disconnect(DAT_CLOSE_ABRUPT_FLAG);
  REQUIRE_OK(dat_psp_free(pair.psp.release()));
  End late;
  late.create(pair.ia, pair.pz, nullptr);
  REQUIRE_OK(dat_ep_connect(late.ep, pair.ia.attr.ia_address_ptr, pair.conn_qual, kPatience, 0,
                            nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
  expect_event(late.connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
