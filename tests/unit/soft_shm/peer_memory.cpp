// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Memory of another process: which processes may access it, and what is copied.
#include "tests/unit/soft_shm/peer_memory.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/thread_id.h"
#include "common/tracing/trace.h"

namespace udapl::soft::shm::test {
namespace {

using namespace std::chrono_literals;

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

void become_nobody() {
  constexpr uid_t kNobody = 65534;
  if (::setresuid(kNobody, kNobody, kNobody) != 0) ::_exit(98);
}

BOOST_FIXTURE_TEST_SUITE(peer_memory, PeerFixture)

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
  start([](PeerMemory& peer) { return suits(peer) ? 1 : 0; }, become_nobody);
  BOOST_TEST(!Process::at_end_of(bell.get()).valid());
  BOOST_TEST(!is_of_our_user(bell.get()));  // so it gets no greeting
  BOOST_TEST(status() == 0);
}

BOOST_AUTO_TEST_CASE(the_trace_says_that_it_is_another_user,
                     *boost::unit_test::precondition(AsRoot())) {
  ours.nonce_at = 0;
  start(
      [](PeerMemory& peer) {
        const Fd text(::memfd_create("stderr", MFD_CLOEXEC));
        if (::dup2(text.get(), STDERR_FILENO) < 0) return 97;
        trace::set_level(trace::kNormal);
        if (suits(peer)) return 1;
        std::array<char, 1024> record{};
        if (::pread(text.get(), record.data(), record.size() - 1, 0) < 0) return 96;
        return std::strstr(record.data(), "the peer to take part: it belongs to another user") !=
                       nullptr
                   ? 0
                   : 2;
      },
      become_nobody);
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
      PeerMemory peer(ours, theirs, slots, layout.offers[0], socket.get());
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

// The receive of one message is not used for another, nor beyond its end.
BOOST_AUTO_TEST_CASE(an_offered_receive_is_for_one_message) {
  constexpr std::uint32_t kNumber = 5;
  GrantSlot& receive = layout.offers[0][kNumber % kOffers];
  receive.length = 1000;
  receive.address = reinterpret_cast<std::uintptr_t>(memory.data());
  receive.rights = kWrite;
  receive.stag = kNumber;
  start([](PeerMemory& peer) {
    std::vector<std::byte> bytes(1000, std::byte{0x22});
    PeerMemory::Access what = access(true, bytes.size());
    what.receive = true;
    if (!suits(peer)) return 1;
    for (const std::uint32_t number : {0U, kNumber - 1, kNumber + 1, kStag}) {
      what.stag = number;
      if (peer.granted(what) || copy(peer, what, bytes)) return 2;
    }
    what.stag = kNumber;
    for (const std::uint64_t to : {std::uint64_t{1}, ~std::uint64_t{0}}) {
      what.to = to;
      if (peer.granted(what) || copy(peer, what, bytes)) return 3;
    }
    what.to = 0;
    return peer.granted(what) && copy(peer, what, bytes) ? 0 : 4;
  });
  BOOST_TEST(status() == 0);
  BOOST_TEST((memory[999] == std::byte{0x22}));
  BOOST_TEST((memory[1000] == std::byte{0x11}));
  BOOST_TEST(receive.user == 0U);
}

// A process that calls exec keeps its number, which then stands for the memory of another program.
// That has no mark at the address of the old one.
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

// ---- when a direct copy pays off ----------------------------------------------------------------

BOOST_AUTO_TEST_CASE(thresholds_follow_from_the_costs) {
  // The kernel copies nearly as fast as memcpy: everything but small Writes, which use the ring.
  const Thresholds near = thresholds({0.4, 2.5, 1.5});
  BOOST_TEST(near.read_from == 0U);
  BOOST_TEST((near.write_from > 8 && near.write_from <= 4096));
  BOOST_TEST(near.asleep_most > 1U << 30);
  // The kernel is much slower: only while the peer sleeps, up to the cost of a wake-up on a machine
  // that is not idle.
  const Thresholds far = thresholds({1.5, 6.4, 0.6});
  BOOST_TEST((far.read_from > 1U << 30 && far.write_from > 1U << 30));
  BOOST_TEST((far.asleep_most >= 1U << 20 && far.asleep_most < 4U << 20));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::shm::test
