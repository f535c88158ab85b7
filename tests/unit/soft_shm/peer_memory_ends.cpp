// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What the owner of memory finds out about a peer that was stopped or killed in the middle of a
// copy.
#include "tests/child/in_child.h"
#include "tests/unit/soft_shm/peer_memory.h"

#include <array>
#include <cstdint>
#include <string>
#include <thread>

#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>

namespace udapl::soft::shm::test {
namespace {

using namespace std::chrono_literals;

BOOST_FIXTURE_TEST_SUITE(peer_memory, PeerFixture)

BOOST_AUTO_TEST_CASE(a_peer_that_was_killed_copies_no_more) {
  start([](PeerMemory&) { return ::pause(); });
  const Process peer = Process::at_end_of(bell.get());
  BOOST_REQUIRE(peer.valid());
  BOOST_TEST(peer.pid() == child);
  const auto thread = static_cast<std::uint32_t>(child);
  BOOST_TEST(peer.may_still_copy(thread));
  BOOST_TEST(!peer.may_still_copy(thread + 1'000'000));
  ::kill(child, SIGKILL);
  siginfo_t info{};
  BOOST_REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) == 0);
  BOOST_TEST(!peer.may_still_copy(thread));  // even before its status has been collected
  BOOST_TEST(status() == 128 + SIGKILL);
  BOOST_TEST(!peer.may_still_copy(thread));
}

// A peer can write any number into a slot, and die.
BOOST_AUTO_TEST_CASE(numbers_of_no_thread_copy_nothing) {
  start([](PeerMemory&) { return ::pause(); });
  const Process peer = Process::at_end_of(bell.get());
  BOOST_REQUIRE(peer.valid());
  constexpr std::array<std::uint32_t, 4> kNumbers{1U << 30, 0x7fffffff, 0x80000000, 0xffffffff};
  for (const std::uint32_t number : kNumbers) BOOST_TEST(!peer.may_still_copy(number));
  ::kill(child, SIGKILL);
  BOOST_TEST(status() == 128 + SIGKILL);
  for (const std::uint32_t number : kNumbers) BOOST_TEST(!peer.may_still_copy(number));
}

BOOST_AUTO_TEST_CASE(a_peer_that_cannot_be_examined_may_still_copy) {
  start([](PeerMemory&) { return ::pause(); });
  const Process peer = Process::at_end_of(bell.get());
  BOOST_REQUIRE(peer.valid());
  rlimit limit{};
  BOOST_REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  const rlimit none{0, limit.rlim_max};
  BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const bool copies = peer.may_still_copy(static_cast<std::uint32_t>(child));
  BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  BOOST_TEST(copies);
  ::kill(child, SIGKILL);
  BOOST_TEST(status() == 128 + SIGKILL);
}

// As where /proc is mounted with hidepid=, and one side has changed its user since it began.
BOOST_AUTO_TEST_CASE(a_peer_that_proc_hides_may_still_copy,
                     *boost::unit_test::precondition(AsRoot())) {
  start([](PeerMemory&) { return ::pause(); });
  const Process peer = Process::at_end_of(bell.get());
  BOOST_REQUIRE(peer.valid());
  const auto thread = static_cast<std::uint32_t>(child);
  const int failed = udapl::test::status_in_child([&] {
    const std::string entry = "/proc/" + std::to_string(child);
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", entry.c_str(), "tmpfs", 0, nullptr) != 0)
      return 1;
    if (!peer.may_still_copy(thread)) return 2;
    return peer.may_still_copy(thread + 1'000'000) ? 3 : 0;
  });
  BOOST_TEST(failed == 0);
  ::kill(child, SIGKILL);
  BOOST_TEST(status() == 128 + SIGKILL);
}

void await_stop(pid_t child) {
  siginfo_t info{};
  BOOST_REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &info, WSTOPPED) == 0);
}

BOOST_AUTO_TEST_CASE(peer_stopped_elsewhere_may_still_copy) {
  start([](PeerMemory&) { return ::pause(); });
  const Process peer = Process::at_end_of(bell.get());
  ::kill(child, SIGSTOP);
  await_stop(child);
  BOOST_TEST(peer.may_still_copy(static_cast<std::uint32_t>(child)));
}

// The child spends nearly all its time in the copy, so the signal arrives there, and stops it
// directly after the copy.
BOOST_AUTO_TEST_CASE(peer_stopped_behind_a_copy_copies_no_more) {
  give(memory.size());
  start([&](PeerMemory& peer) {
    std::vector<std::byte> bytes(256 * 1024, std::byte{0x33});
    while (suits(peer) && copy(peer, access(true, bytes.size()), bytes)) {
    }
    return 1;
  });
  const Process peer = Process::at_end_of(bell.get());
  const auto thread = static_cast<std::uint32_t>(child);
  GrantSlot& slot = slots[grant_places(kStag)];
  bool seen = false;
  for (int i = 0; i < 500 && !seen; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(200 + 37 * i));
    ::kill(child, SIGSTOP);
    await_stop(child);
    seen = slot.user.load() == thread && !peer.may_still_copy(thread);
    if (seen) {
      memory.assign(memory.size(), std::byte{0x44});
      std::this_thread::sleep_for(5ms);
      BOOST_TEST((memory[0] == std::byte{0x44} && memory[256 * 1024 - 1] == std::byte{0x44}));
    }
    ::kill(child, SIGCONT);
  }
  BOOST_TEST(seen);
}

// The number of the current system call is the same as after the copy, but the copy is yet to be
// made.
BOOST_AUTO_TEST_CASE(peer_held_before_a_copy_may_still_copy) {
  give(memory.size());
  start([&](PeerMemory& peer) {
    std::vector<std::byte> bytes(4096, std::byte{0x33});
    while (suits(peer) && copy(peer, access(true, bytes.size()), bytes)) {
    }
    return 1;
  });
  const Process peer = Process::at_end_of(bell.get());
  BOOST_REQUIRE(::ptrace(PTRACE_SEIZE, child, nullptr, PTRACE_O_TRACESYSGOOD) == 0);
  BOOST_REQUIRE(::ptrace(PTRACE_INTERRUPT, child, nullptr, nullptr) == 0);
  bool before = false;
  for (int i = 0; i < 1000 && !before; ++i) {
    int stop = 0;
    BOOST_REQUIRE(::waitpid(child, &stop, 0) == child);
    BOOST_REQUIRE(WIFSTOPPED(stop));
    __ptrace_syscall_info info{};
    BOOST_REQUIRE(::ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof info, &info) > 0);
    before = info.op == PTRACE_SYSCALL_INFO_ENTRY && info.entry.nr == SYS_process_vm_writev;
    if (!before) BOOST_REQUIRE(::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr) == 0);
  }
  BOOST_REQUIRE(before);
  BOOST_TEST(slots[grant_places(kStag)].user == static_cast<std::uint32_t>(child));
  BOOST_TEST(peer.may_still_copy(static_cast<std::uint32_t>(child)));
  ::ptrace(PTRACE_DETACH, child, nullptr, nullptr);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::shm::test
