// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Memory of another process: which processes may access it, what is copied, and what the owner
// finds out about a peer that was stopped or killed in the middle of a copy.
#include "providers/soft/shm/peer_memory.h"

#include "common/fd.h"
#include "common/thread_id.h"
#include "providers/soft/shm/rings.h"

#include <boost/test/unit_test.hpp>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

namespace udapl::soft::shm::test {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kStag = 0x1234;
constexpr std::uint32_t kWrite = 1;
constexpr std::uint32_t kRead = 2;

// A listening socket to which a child connects, so that each end knows the other's process.
struct Meeting {
  Fd listener{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_un name{};
  socklen_t size = sizeof(sa_family_t);

  Meeting() {
    name.sun_family = AF_UNIX;
    auto* const any = reinterpret_cast<sockaddr*>(&name);
    BOOST_REQUIRE(::bind(listener.get(), any, size) == 0);  // the kernel chooses a name
    BOOST_REQUIRE(::listen(listener.get(), 1) == 0);
    size = sizeof name;
    BOOST_REQUIRE(::getsockname(listener.get(), any, &size) == 0);
  }
  [[nodiscard]] Fd connect() const {
    Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name), size) != 0)
      socket.reset();
    return socket;
  }
  [[nodiscard]] Fd accept() const {
    return Fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }
};

// Two processes that share the pages of a connection. The test is the owner of the memory; the
// child reports its result as its exit status.
struct Fixture {
  Region region = Region::make(Layout::kSize);
  Layout& layout = *reinterpret_cast<Layout*>(region.bytes().data());
  Greeting& ours = layout.greeting[0];
  Greeting& theirs = layout.greeting[1];
  GrantSlots& slots = layout.granted[0];
  Meeting meeting;
  pid_t child = 0;
  Fd bell;
  int childs_bell = -1;  // in the child
  std::vector<std::byte> memory = std::vector<std::byte>(1024 * 1024 + 64, std::byte{0x11});

  Fixture() {
    BOOST_REQUIRE(region.valid());
    greet(ours);
  }
  ~Fixture() {
    if (child == 0) return;
    ::kill(child, SIGKILL);
    status();
  }

  // `before` is called in the child, before it connects.
  void start(const std::function<int(PeerMemory&)>& child_does,
             const std::function<void()>& before = {}) {
    child = ::fork();
    BOOST_REQUIRE(child >= 0);
    if (child == 0) {
      if (before) before();
      const Fd socket = meeting.connect();
      childs_bell = socket.get();
      PeerMemory peer(ours, theirs, slots, socket.get());
      ::_exit(socket.valid() ? child_does(peer) : 99);
    }
    bell = meeting.accept();
    BOOST_REQUIRE(bell.valid());
  }
  // Waits for the child. Returns its exit status, or 128 plus the signal that killed it.
  int status() {
    int status = 0;
    BOOST_REQUIRE(::waitpid(std::exchange(child, 0), &status, 0) > 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  void give(std::size_t length, std::uint64_t to = 0, std::uint32_t rights = kWrite | kRead) {
    GrantSlot& slot = slots[grant_places(kStag)];
    slot.to = to;
    slot.length = length;
    slot.address = reinterpret_cast<std::uintptr_t>(memory.data());
    slot.rights = rights;
    slot.stag = kStag;
  }
};

// The mark of this process, at a place of its own.
struct Mark {
  explicit Mark(Greeting& greeting) noexcept {
    const auto value = std::array{greeting.nonce[0].load(), greeting.nonce[1].load()};
    std::memcpy(page, &value, sizeof value);
    greeting.nonce_at = reinterpret_cast<std::uintptr_t>(page);
    greeting.fixed = 1;  // as the buffers of the tests are not below 4 GiB
  }
  void remove(bool keep_mapped) const noexcept {
    std::memset(page, 0, kSize);
    if (!keep_mapped) ::munmap(page, kSize);
  }
  static constexpr std::size_t kSize = 4096;
  void* page = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
};

PeerMemory::Access access(bool write, std::size_t length, std::uint64_t to = 0) {
  return {write, kStag, to, static_cast<std::uint32_t>(length), write ? kWrite : kRead};
}

bool suits(PeerMemory& peer) { return peer.suits(access(false, 8), true); }

bool copy(PeerMemory& peer, const PeerMemory::Access& what, std::span<std::byte> local) {
  const iovec piece{local.data(), local.size()};
  return peer.copy(what, {&piece, 1});
}

// Forbids the copies as a container may do.
void forbid_with_seccomp() {
  const auto jump = [](unsigned number, unsigned char hit) {
    return sock_filter{BPF_JMP | BPF_JEQ | BPF_K, hit, 0, number};
  };
  std::array program{sock_filter{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
                     jump(SYS_process_vm_readv, 2), jump(SYS_process_vm_writev, 1),
                     sock_filter{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
                     sock_filter{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM}};
  const sock_fprog filter{program.size(), program.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
    ::_exit(98);
}

struct AsRoot {
  boost::test_tools::assertion_result operator()(boost::unit_test::test_unit_id) const {
    boost::test_tools::assertion_result root(::geteuid() == 0);
    root.message() << "needs root";
    return root;
  }
};

BOOST_FIXTURE_TEST_SUITE(peer_memory, Fixture)

// ---- access control -----------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(process_of_the_same_user_is_reached) {
  start([](PeerMemory& peer) { return suits(peer) ? 0 : 1; });
  BOOST_TEST(status() == 0);
  BOOST_TEST(theirs.reaches == 1U);
}

BOOST_AUTO_TEST_CASE(peer_without_a_nonce_is_not_accessed) {
  ours.nonce_at = 0;
  start([](PeerMemory& peer) { return suits(peer) ? 1 : 0; });
  BOOST_TEST(status() == 0);
  BOOST_TEST(theirs.reaches == 0U);
}

BOOST_AUTO_TEST_CASE(peer_with_a_wrong_nonce_is_not_accessed) {
  ours.nonce[1] = ours.nonce[1] + 1;
  start([](PeerMemory& peer) { return suits(peer) ? 1 : 0; });
  BOOST_TEST(status() == 0);
}

BOOST_AUTO_TEST_CASE(unmapped_nonce_address_does_no_harm) {
  ours.nonce_at = 4096;
  start([](PeerMemory& peer) { return suits(peer) ? 1 : 0; });
  BOOST_TEST(status() == 0);
}

BOOST_AUTO_TEST_CASE(no_direct_access_where_seccomp_forbids_it) {
  start([](PeerMemory& peer) { return suits(peer) ? 1 : 0; }, forbid_with_seccomp);
  BOOST_TEST(status() == 0);
  BOOST_TEST(theirs.reaches == 0U);
}

BOOST_AUTO_TEST_CASE(another_user_is_out_of_reach, *boost::unit_test::precondition(AsRoot())) {
  start([](PeerMemory& peer) { return suits(peer) ? 1 : 0; },
        [] {
          constexpr uid_t kNobody = 65534;
          if (::setresuid(kNobody, kNobody, kNobody) != 0) ::_exit(98);
        });
  BOOST_TEST(!Process::at_end_of(bell.get()).valid());
  BOOST_TEST(!is_of_our_user(bell.get()));  // so it gets no greeting
  BOOST_TEST(status() == 0);
}

BOOST_AUTO_TEST_CASE(another_pid_namespace_is_out_of_reach,
                     *boost::unit_test::precondition(AsRoot())) {
  // Needs a grandchild: only processes created after unshare() are in the new namespace.
  start([this](PeerMemory&) {
    if (::unshare(CLONE_NEWPID) != 0) return 98;
    const pid_t inner = ::fork();
    if (inner == 0) {
      const Fd socket = meeting.connect();
      PeerMemory peer(ours, theirs, slots, socket.get());
      ::_exit(suits(peer) ? 1 : 0);
    }
    int inner_status = 0;
    ::waitpid(inner, &inner_status, 0);
    return WEXITSTATUS(inner_status);
  });
  const Fd second = meeting.accept();
  BOOST_TEST(status() == 0);
}

// ---- copies -------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(all_sizes_arrive_and_nothing_beside_them) {
  give(memory.size());
  const std::array<std::size_t, 10> sizes{
      1, 7, 8, 9, 64, 4096, 65537, 256 * 1024, 256 * 1024 + 9, 1024 * 1024};
  start([&](PeerMemory& peer) {
    if (!suits(peer)) return 1;
    std::vector<std::byte> bytes(sizes.back());
    for (const std::size_t size : sizes) {
      for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + size);
      if (!copy(peer, access(true, size, 3), {bytes.data(), size})) return 2;
      std::vector<std::byte> back(size + 1, std::byte{0x22});
      if (!copy(peer, access(false, size, 3), {back.data(), size})) return 3;
      if (std::memcmp(back.data(), bytes.data(), size) != 0 || back[size] != std::byte{0x22})
        return 4;
    }
    return 0;
  });
  BOOST_TEST(status() == 0);
  const std::size_t last = sizes.back();
  for (std::size_t i = 0; i < last; ++i) {
    if (memory[3 + i] != static_cast<std::byte>(i * 7 + last))
      BOOST_FAIL("byte " << i << " is wrong");
  }
  BOOST_TEST((memory[2] == std::byte{0x11} && memory[3 + last] == std::byte{0x11}));
}

BOOST_AUTO_TEST_CASE(local_memory_may_be_in_pieces_of_any_size) {
  give(memory.size());
  start([&](PeerMemory& peer) {
    if (!suits(peer)) return 1;
    // Pieces of 1, 2, ... 20 bytes. The last eight bytes are in one piece or, when read back in
    // pieces of three, in several.
    std::array<std::byte, 210> bytes;
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
    std::vector<iovec> pieces;
    std::size_t at = 0;
    for (std::size_t size = 1; size <= 20; at += size++) pieces.push_back({&bytes[at], size});
    if (!peer.copy(access(true, bytes.size(), 100), pieces)) return 2;
    std::array<std::byte, 210> back{};
    std::vector<iovec> threes;
    for (at = 0; at < back.size(); at += 3) threes.push_back({&back[at], 3});
    if (threes.size() != 70 || peer.copy(access(false, 209, 100), {})) return 3;
    if (!peer.copy(access(false, back.size(), 100), threes)) return 4;
    return back == bytes ? 0 : 5;
  });
  BOOST_TEST(status() == 0);
  BOOST_TEST((memory[99] == std::byte{0x11} && memory[310] == std::byte{0x11}));
}

BOOST_AUTO_TEST_CASE(what_was_not_granted_is_not_touched) {
  give(100, 1000, kRead);
  start([&](PeerMemory& peer) {
    if (!suits(peer)) return 1;
    std::array<std::byte, 200> bytes{};
    const auto reads = [&](std::uint64_t to, std::size_t size) {
      return copy(peer, access(false, size, to), {bytes.data(), size});
    };
    if (!reads(1000, 100) || !reads(1099, 1)) return 2;
    if (reads(999, 1) || reads(1000, 101) || reads(1100, 1) || reads(0, 8)) return 3;
    if (reads(~std::uint64_t{0}, 8) || reads(~std::uint64_t{0} - 7, 8)) return 4;
    if (copy(peer, access(true, 8, 1000), {bytes.data(), 8})) return 5;
    PeerMemory::Access other = access(false, 8, 1000);
    other.stag = kStag + 1;
    if (copy(peer, other, {bytes.data(), 8})) return 6;
    return 0;
  });
  BOOST_TEST(status() == 0);
  for (const GrantSlot& slot : slots) BOOST_TEST(slot.user == 0U);
}

// Of a process that calls exec, the number remains, and stands for the memory of another program.
// It has no mark at the address of the old one.
BOOST_AUTO_TEST_CASE(memory_of_another_program_is_not_accessed) {
  for (const bool mapped : {false, true}) {
    const Mark mark(ours);
    give(memory.size());
    start([&](PeerMemory& peer) {
      std::array<std::byte, 16> bytes{};
      const iovec piece{bytes.data(), bytes.size()};
      const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
      if (!suits(peer) || !peer.fetch(at, {&piece, 1}) || !copy(peer, access(true, 16), bytes))
        return 1;
      char byte = 0;
      if (::send(childs_bell, "", 1, 0) != 1 || ::recv(childs_bell, &byte, 1, 0) != 1) return 2;
      if (peer.fetch(at, {&piece, 1})) return 3;
      bytes.fill(std::byte{0x33});
      if (!mapped && copy(peer, access(true, 16), bytes)) return 4;
      return copy(peer, access(false, 16), bytes) ? 5 : 0;
    });
    char byte = 0;
    BOOST_REQUIRE(::recv(bell.get(), &byte, 1, 0) == 1);
    mark.remove(mapped);
    BOOST_REQUIRE(::send(bell.get(), "", 1, MSG_NOSIGNAL) == 1);
    BOOST_TEST(status() == 0);
    BOOST_TEST((memory[0] != std::byte{0x33}));
  }
}

// The owner uses the id to find out whether the copying thread still exists.
BOOST_AUTO_TEST_CASE(a_forked_child_copies_under_its_own_id) {
  BOOST_TEST(thread_id() == ::gettid());  // fills the cache, which the child must not inherit
  BOOST_TEST(thread_id() == ::gettid());
  give(memory.size());
  start([this](PeerMemory& peer) {
    if (!suits(peer)) return 1;
    std::vector<std::byte> bytes(memory.size());
    while (copy(peer, access(false, bytes.size()), bytes)) continue;
    return 2;
  });
  const GrantSlot& slot = slots[grant_places(kStag)];
  std::uint32_t user = 0;
  siginfo_t ended{};
  while (user == 0 && ended.si_pid == 0) {
    user = slot.user;
    ::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT);
  }
  BOOST_TEST(user == static_cast<std::uint32_t>(child));
  std::thread([] { BOOST_TEST(thread_id() == ::gettid()); }).join();
}

// The owner's values are not trusted. All it can achieve is an access to an invalid address in its
// own process.
BOOST_AUTO_TEST_CASE(inconsistent_owner_gets_no_copy) {
  give(~std::size_t{0});
  slots[grant_places(kStag)].address = 4096;
  start([&](PeerMemory& peer) {
    std::array<std::byte, 64> bytes{};
    if (!suits(peer)) return 1;
    return copy(peer, access(true, 64), bytes) || copy(peer, access(false, 64, 1 << 20), bytes) ? 2
                                                                                                : 0;
  });
  BOOST_TEST(status() == 0);
}

// ---- what the owner finds out about the peer ----------------------------------------------------

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

// ---- when a direct copy pays off ----------------------------------------------------------------

BOOST_AUTO_TEST_CASE(thresholds_follow_from_the_costs) {
  // The kernel copies nearly as fast as memcpy: everything but small Writes, which use the ring.
  const Thresholds near = thresholds({0.4, 2.5, 1.5});
  BOOST_TEST(near.read_from == 0U);
  BOOST_TEST((near.write_from > 8 && near.write_from <= 4096));
  BOOST_TEST(near.asleep_most > 1U << 30);
  // The kernel is much slower: only while the peer sleeps, up to the cost of a wake-up.
  const Thresholds far = thresholds({1.5, 6.4, 0.6});
  BOOST_TEST((far.read_from > 1U << 30 && far.write_from > 1U << 30));
  BOOST_TEST((far.asleep_most >= 64U * 1024 && far.asleep_most < 1U << 20));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::shm::test
