// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// UnsharedFd (common/unshared_fd.h): what forked children have of connections.
#include "common/unshared_fd.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "tests/child/in_child.h"
#include "tests/unit/soft_io/raw_socket.h"

namespace udapl::soft::test {
namespace {

using udapl::test::status_in_child;

int make_socket() { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); }

bool is_socket(int fd) {
  struct stat file {};
  return ::fstat(fd, &file) == 0 && S_ISSOCK(file.st_mode);
}

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

int count_sockets() {
  constexpr int kMax = 1024;
  int count = 0;
  for (int fd = 0; fd < kMax; ++fd) count += is_socket(fd) ? 1 : 0;
  return count;
}

struct Ends {
  UnsharedFd ours;
  Fd theirs;

  Ends() {
    std::array<int, 2> ends{};
    BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    ours = UnsharedFd(Fd(ends[0]));
    theirs = Fd(ends[1]);
  }
  [[nodiscard]] bool ended(int timeout_ms = 5000) const {
    pollfd end{theirs.get(), POLLRDHUP, 0};
    return ::poll(&end, 1, timeout_ms) == 1;
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(unshared_fd)

BOOST_AUTO_TEST_CASE(a_child_keeps_no_connection_open) {
  Ends ends;
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    ::pause();
    ::_exit(1);
  }
  BOOST_TEST(!ends.ended(50));
  ends.ours.reset();
  BOOST_TEST(ends.ended());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

BOOST_AUTO_TEST_CASE(in_a_child_the_number_stays_taken) {
  Ends ends;
  Ends others;
  BOOST_TEST(status_in_child([&] {
               for (UnsharedFd* const fd : {&ends.ours, &others.ours}) {
                 const int number = fd->get();
                 if (is_socket(number)) return 1;
                 if (::fcntl(number, F_GETFD) != FD_CLOEXEC) return 2;
                 fd->reset();
                 if (is_open(number)) return 3;
               }
               return 0;
             }) == 0);
  BOOST_TEST(!ends.ended(0));
  BOOST_TEST(::send(ends.ours.get(), "x", 1, MSG_NOSIGNAL) == 1);
}

// Neither an end that was moved nor one that was closed leaves anything behind.
BOOST_AUTO_TEST_CASE(descriptors_that_move_are_followed) {
  std::vector<Ends> list;
  for (int i = 0; i != 5; ++i) list.emplace_back();
  list.erase(list.begin() + 1);
  list[2].ours = std::move(list[0].ours);
  UnsharedFd& itself = list[2].ours;
  list[2].ours = std::move(itself);
  list.pop_back();
  BOOST_TEST(status_in_child([&] {
               for (const Ends& ends : list)
                 if (ends.ours.valid() && is_socket(ends.ours.get())) return 1;
               return 0;
             }) == 0);
  BOOST_TEST(!list[0].ended(0));  // its other end is in list[2] now,
  BOOST_TEST(list[2].ended(0));   // and has replaced this one's
}

// A program may have closed all descriptors, also ours, and use the numbers for its own files.
BOOST_AUTO_TEST_CASE(a_number_that_the_program_reuses_is_left_alone) {
  UnsharedFd ours = UnsharedFd::made(&make_socket);
  const int number = ours.get();
  ::close(number);
  const Fd theirs(::eventfd(7, EFD_CLOEXEC));
  BOOST_REQUIRE(theirs.get() == number);
  BOOST_TEST(status_in_child([&] {
               std::uint64_t value = 0;
               return ::read(number, &value, sizeof value) == sizeof value && value == 7 ? 0 : 1;
             }) == 0);
}

BOOST_AUTO_TEST_CASE(so_is_one_that_a_child_reuses_before_it_forks) {
  const Ends ends;
  BOOST_TEST(status_in_child([&] {
               const int number = ends.ours.get();
               if (::close(number) != 0 || make_socket() != number) return 1;
               const pid_t grandchild = ::fork();
               if (grandchild == 0) ::_exit(is_socket(number) ? 0 : 1);
               int status = 0;
               ::waitpid(grandchild, &status, 0);
               return WEXITSTATUS(status) == 0 ? 0 : 2;
             }) == 0);
}

BOOST_AUTO_TEST_CASE(it_works_without_a_free_descriptor) {
  const Ends ends;
  const Ends others;
  const int last = ::dup(STDERR_FILENO);
  ::close(last);
  rlimit limit{};
  BOOST_REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  const rlimit full{static_cast<rlim_t>(last), limit.rlim_max};
  BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &full) == 0);
  const int result = status_in_child([&] {
    for (const Ends* const one : {&ends, &others})
      if (is_socket(one->ours.get()) || !is_open(one->ours.get())) return 1;
    return 0;
  });
  ::setrlimit(RLIMIT_NOFILE, &limit);
  BOOST_TEST(result == 0);
}

// No fork comes between the system call that makes a descriptor and its entry, or between its
// removal and its closing.
BOOST_AUTO_TEST_CASE(a_fork_beside_other_threads_shares_nothing) {
  const int before = count_sockets();
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) {
      UnsharedFd first = UnsharedFd::made(&make_socket);
      const UnsharedFd second = UnsharedFd::made(&make_socket);
      first = UnsharedFd::made(&make_socket);
    }
  });
  int most = 0;
  for (int i = 0; i != 200; ++i) most = std::max(most, status_in_child(&count_sockets));
  stop = true;
  other.join();
  BOOST_TEST(most == before);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::soft::test
