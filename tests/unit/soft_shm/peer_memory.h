// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/soft/shm/peer_memory.h"

#include "common/fd.h"
#include "providers/soft/shm/rings.h"

#include <boost/test/unit_test.hpp>

#include <csignal>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

namespace udapl::soft::shm::test {

inline constexpr std::uint32_t kStag = 0x1234;
inline constexpr std::uint32_t kWrite = 1;
inline constexpr std::uint32_t kRead = 2;

struct AsRoot {
  boost::test_tools::assertion_result operator()(boost::unit_test::test_unit_id) const {
    boost::test_tools::assertion_result root(::geteuid() == 0);
    root.message() << "needs root";
    return root;
  }
};

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
struct PeerFixture {
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

  PeerFixture() {
    BOOST_REQUIRE(region.valid());
    greet(ours);
  }
  ~PeerFixture() {
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
      PeerMemory peer(ours, theirs, slots, layout.offers[0], socket.get());
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

inline PeerMemory::Access access(bool write, std::size_t length, std::uint64_t to = 0) {
  return {write, kStag, to, static_cast<std::uint32_t>(length), write ? kWrite : kRead};
}

inline bool suits(PeerMemory& peer) { return peer.suits(access(false, 8), true); }

inline bool copy(PeerMemory& peer, const PeerMemory::Access& what, std::span<std::byte> local) {
  const iovec piece{local.data(), local.size()};
  return peer.copy(what, {&piece, 1});
}

}  // namespace udapl::soft::shm::test
