// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The limits of the machine itself, without DAT: the lower bounds of bench/peers. Two processes,
// each on a processor of its own. Prints one number, the median of many: microseconds one way.
//
//   peers_floor probe                    a cache line, both spinning: shows whether the processors
//                                        share a cache
//   peers_floor ring BYTES               two copies through shared memory, both spinning
//   peers_floor socket BYTES [block]     a TCP connection over loopback, spinning or blocking
//   peers_floor eventfd                  both asleep
//   peers_floor read|write BYTES         process_vm_readv or _writev of a process that sleeps; time
//                                        of the whole call
//   peers_floor token PROCESSES          a counter in shared memory that the processes increase in
//                                        turn, on two processors; each yields while it waits
#include "two_processes.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <vector>

namespace {

using peers::fail;
using peers::kDuration;
using peers::measure;
using Clock = std::chrono::steady_clock;

constexpr auto kProbeDuration = std::chrono::milliseconds(20);
constexpr std::size_t kWindow = 64 * 1024;  // size of a ring; small, so that it stays in the cache
constexpr std::size_t kChunk = 16 * 1024;   // bytes published at a time

// Shared by both processes.
struct Shared {
  struct alignas(128) Line {
    std::atomic<std::uint64_t> value{0};
  };
  struct Direction {
    Line written;
    Line read;
    std::array<char, kWindow> bytes{};
  };
  std::array<Direction, 2> direction;
};

Shared& share() {
  void* const pages =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) fail("mmap");
  return *new (pages) Shared;
}

class Spinning {
 public:
  explicit Spinning(Shared& shared, int index) : shared_(shared), index_(index) {}

  void send(const std::vector<char>& from) {
    Shared::Direction& to = direction(index_);
    if (from.empty()) to.written.value.store(++sent_, std::memory_order_release);
    for (std::size_t at = 0; at < from.size();) {
      const std::size_t place = sent_ % kWindow;
      const std::size_t count = std::min({kChunk, from.size() - at, kWindow - place});
      while (sent_ + count - to.read.value.load(std::memory_order_acquire) > kWindow) {
      }
      std::memcpy(to.bytes.data() + place, from.data() + at, count);
      at += count;
      to.written.value.store(sent_ += count, std::memory_order_release);
    }
  }
  void receive(std::vector<char>& into) {
    Shared::Direction& from = direction(1 - index_);
    const auto there = [&] { return from.written.value.load(std::memory_order_acquire) - got_; };
    if (into.empty()) {
      while (there() == 0) {
      }
      ++got_;
    }
    for (std::size_t at = 0; at < into.size();) {
      std::size_t count = 0;
      while ((count = there()) == 0) {
      }
      const std::size_t place = got_ % kWindow;
      count = std::min({count, into.size() - at, kWindow - place});
      std::memcpy(into.data() + at, from.bytes.data() + place, count);
      at += count;
      from.read.value.store(got_ += count, std::memory_order_release);
    }
  }

 private:
  Shared::Direction& direction(int writer) {
    return shared_.direction.at(static_cast<std::size_t>(writer));
  }
  Shared& shared_;
  const int index_;
  std::uint64_t sent_ = 0;
  std::uint64_t got_ = 0;
};

class Socket {
 public:
  Socket(int fd, bool blocks) : fd_(fd), flags_(blocks ? 0 : MSG_DONTWAIT) {
    const int on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  void send(const std::vector<char>& from) {
    move(from.size(), [&](std::size_t at) {
      return ::send(fd_, from.data() + at, from.size() - at, flags_ | MSG_NOSIGNAL);
    });
  }
  void receive(std::vector<char>& into) {
    move(into.size(),
         [&](std::size_t at) { return ::recv(fd_, into.data() + at, into.size() - at, flags_); });
  }

 private:
  template <class Call>
  void move(std::size_t size, Call call) {
    for (std::size_t at = 0; at < size;) {
      const ssize_t count = call(at);
      if (count > 0) at += static_cast<std::size_t>(count);
      if (count == 0) std::exit(0);  // the other side has finished
      if (count < 0 && errno != EAGAIN && errno != EINTR) fail("socket");
    }
  }
  int fd_;
  int flags_;
};

std::array<int, 2> tcp_pair() {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener, any, size) != 0 || ::listen(listener, 1) != 0) fail("listen");
  ::getsockname(listener, any, &size);
  const int active = ::socket(AF_INET, SOCK_STREAM, 0);
  if (::connect(active, any, size) != 0) fail("connect");
  return {active, ::accept(listener, nullptr, nullptr)};
}

template <class End>
double ping_pong(End here, End there, std::size_t size, Clock::duration duration = kDuration) {
  std::vector<char> mine(size, 1);
  std::vector<char> theirs(size, 2);
  return measure(
             [&] {
               there.receive(theirs);
               there.send(theirs);
             },
             [&] {
               here.send(mine);
               here.receive(mine);
             },
             duration) /
         2;
}

double sleepers() {
  const std::array<int, 2> bells{::eventfd(0, 0), ::eventfd(0, 0)};
  const auto ring = [](int fd) {
    if (::eventfd_write(fd, 1) != 0) fail("eventfd");
  };
  const auto await_bell = [](int fd) {
    eventfd_t value = 0;
    if (::eventfd_read(fd, &value) != 0) fail("eventfd");
  };
  return measure(
             [&] {
               await_bell(bells[0]);
               ring(bells[1]);
             },
             [&] {
               ring(bells[0]);
               await_bell(bells[1]);
             }) /
         2;
}

double foreign_access(std::size_t size, bool writes) {
  std::vector<char> source(size, 1);
  std::vector<char> sink(size, 2);
  const pid_t target = ::fork();
  if (target == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (true) ::pause();
  }
  const auto call = writes ? ::process_vm_writev : ::process_vm_readv;
  const double time = measure([] { ::pause(); },
                              [&] {
                                const iovec here{sink.data(), size};
                                const iovec there{source.data(), size};
                                if (call(target, &here, 1, &there, 1, 0) < 0) fail("process_vm");
                              });
  ::kill(target, SIGKILL);
  ::waitpid(target, nullptr, 0);
  return time;
}

// Waits for the turn of process `self` of `count`, and passes the token on. Longer or shorter
// spinning between two yields was not faster.
void pass(std::atomic<std::uint64_t>& token, std::size_t self, std::size_t count) {
  constexpr int kSpins = 4;
  for (int spins = 1; token.load(std::memory_order_acquire) % count != self; ++spins)
    if (spins % kSpins == 0) ::sched_yield();
  token.fetch_add(1, std::memory_order_release);
}

double token(std::size_t count) {
  cpu_set_t two;
  CPU_ZERO(&two);
  CPU_SET(0, &two);
  CPU_SET(1, &two);
  if (::sched_setaffinity(0, sizeof two, &two) != 0) fail("sched_setaffinity");
  std::atomic<std::uint64_t>& word = share().direction[0].written.value;
  std::vector<pid_t> others;
  for (std::size_t self = 1; self != count; ++self) {
    others.push_back(::fork());
    if (others.back() < 0) fail("fork");
    if (others.back() != 0) continue;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (true) pass(word, self, count);
  }
  const auto begin = Clock::now();
  std::vector<double> laps;
  while (Clock::now() < begin + 2 * kDuration) {
    const auto before = Clock::now();
    pass(word, 0, count);  // waits for the whole lap
    if (before > begin + kDuration)
      laps.push_back(std::chrono::duration<double, std::micro>(Clock::now() - before).count());
  }
  for (const pid_t other : others) {
    ::kill(other, SIGKILL);
    ::waitpid(other, nullptr, 0);
  }
  std::ranges::nth_element(laps, laps.begin() + static_cast<long>(laps.size() / 2));
  return laps[laps.size() / 2] / static_cast<double>(count);
}

double run(std::string_view what, std::size_t size, bool blocks) {
  if (what == "probe" || what == "ring") {
    Shared& shared = share();
    return ping_pong(Spinning(shared, 0), Spinning(shared, 1), size,
                     what == "probe" ? kProbeDuration : kDuration);
  }
  if (what == "socket") {
    const auto [active, passive] = tcp_pair();
    return ping_pong(Socket(active, blocks), Socket(passive, blocks), size);
  }
  if (what == "eventfd") return sleepers();
  if (what == "read" || what == "write") return foreign_access(size, what == "write");
  if (what == "token" && size > 1) return token(size);
  std::fprintf(stderr,
               "peers_floor probe | ring BYTES | socket BYTES [block] | eventfd | read BYTES | "
               "write BYTES | token PROCESSES\n");
  std::exit(2);
}

}  // namespace

int main(int count, char** arguments) {
  std::size_t size = 0;
  if (count > 2) {
    const std::string_view text = arguments[2];
    std::from_chars(text.data(), text.data() + text.size(), size);
  }
  const bool blocks = count > 3 && std::string_view(arguments[3]) == "block";
  std::printf("%.4f\n", run(count > 1 ? arguments[1] : "", size, blocks));
}
