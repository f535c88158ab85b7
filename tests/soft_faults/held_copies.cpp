// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A peer that is stopped or killed in the middle of a large Send, of which both processes copy a
// part: the sender writes into the offered receive, the receiver reads what was lent to it
// (docs/adr/0080). The copies of this program can be held at half of their length.
#define BOOST_TEST_MODULE soft_held_copies
#include <dat/udat.h>

#include <boost/test/unit_test.hpp>

#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "every_fault.h"
#include "side.h"

namespace {

// ---- copies that are held -----------------------------------------------------------------------

constexpr std::size_t kLeastHeld = 1024;  // bytes; less is not payload
using Hold = void (*)();
std::atomic<Hold> holds_write{nullptr};
std::atomic<Hold> holds_read{nullptr};

ssize_t copy(long call, std::atomic<Hold>& holds, pid_t pid, const iovec* local,
             unsigned long locals, const iovec* remote, unsigned long remotes,
             unsigned long flags) {
  if (locals != 0 && local->iov_len >= kLeastHeld) {
    if (const Hold hold = holds.exchange(nullptr)) {
      const iovec half{local->iov_base, local->iov_len / 2};
      ::syscall(call, pid, &half, 1, remote, remotes, flags);
      hold();
    }
  }
  return ::syscall(call, pid, local, locals, remote, remotes, flags);
}

}  // namespace

// These take precedence over those of the C library.
#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED ssize_t process_vm_writev(pid_t pid, const iovec* local, unsigned long locals,
                                   const iovec* remote, unsigned long remotes,
                                   unsigned long flags) {
  return copy(SYS_process_vm_writev, holds_write, pid, local, locals, remote, remotes, flags);
}
EXPORTED ssize_t process_vm_readv(pid_t pid, const iovec* local, unsigned long locals,
                                  const iovec* remote, unsigned long remotes, unsigned long flags) {
  return copy(SYS_process_vm_readv, holds_read, pid, local, locals, remote, remotes, flags);
}

namespace {

using namespace std::chrono_literals;
using soft_faults::kPatience;
using soft_faults::Side;

constexpr unsigned kHangs = 300;  // seconds
constexpr std::size_t kLarge = 300'000;
constexpr unsigned kFirstRounds = 4;  // until each has reached the other and offers its receives
constexpr unsigned kLaterRounds = 20;
constexpr unsigned kMostRounds = 40;
constexpr int kMostAttempts = 1000;

// ---- one side -----------------------------------------------------------------------------------

// Registered memory.
struct Buffer {
  std::vector<std::byte> bytes = std::vector<std::byte>(kLarge);
  DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
  DAT_LMR_TRIPLET triplet{};

  [[nodiscard]] bool create(const Side& side) {
    DAT_REGION_DESCRIPTION region{};
    region.for_va = bytes.data();
    DAT_VLEN length = 0;
    triplet.segment_length = kLarge;
    constexpr auto kRights =
        DAT_MEM_PRIV_FLAGS(DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
    return dat_lmr_create(side.ia, DAT_MEM_TYPE_VIRTUAL, region, kLarge, side.pz, kRights,
                          DAT_VA_TYPE_VA, &lmr, &triplet.lmr_context, nullptr, &length,
                          &triplet.virtual_address) == DAT_SUCCESS;
  }
  // Quickly: a process that computes for long is not awake, and shares no Send.
  void fill(unsigned round) {
    constexpr std::size_t kValues = 256;
    static const auto ramp = [] {
      std::array<std::byte, 2 * kValues> values{};
      for (std::size_t i = 0; i != values.size(); ++i) values.at(i) = static_cast<std::byte>(i);
      return values;
    }();
    for (std::size_t i = 0; i < kLarge; i += kValues)
      std::memcpy(bytes.data() + i, ramp.data() + (i / kValues * 7 + round) % kValues,
                  std::min(kValues, kLarge - i));
  }
  [[nodiscard]] bool operator==(const Buffer& other) const {
    return std::memcmp(bytes.data(), other.bytes.data(), kLarge) == 0;
  }
};

// Exchanges large messages with its like in another process, polling.
struct Exchange {
  Side side;
  Buffer in, out, expected;
  int posted = 0;         // requests and receives
  int completed = 0;      // ... of them
  unsigned received = 0;  // messages
  bool ended = false;
  unsigned round = 0;

  [[nodiscard]] bool open() { return side.open("mock") && in.create(side) && out.create(side); }
  [[nodiscard]] bool receive() {
    ++posted;
    return dat_ep_post_recv(side.ep, 1, &in.triplet, faults::cookie(1),
                            DAT_COMPLETION_DEFAULT_FLAG) == DAT_SUCCESS;
  }
  [[nodiscard]] bool send() {
    ++posted;
    return dat_ep_post_send(side.ep, 1, &out.triplet, faults::cookie(2),
                            DAT_COMPLETION_DEFAULT_FLAG) == DAT_SUCCESS;
  }
  // Both processes have to be awake, so a busy machine needs the processor in between.
  void poll() {
    DAT_EVENT event{};
    if (dat_evd_dequeue(side.evd, &event) != DAT_SUCCESS) {
      ::sched_yield();
      return;
    }
    if (event.event_number != DAT_DTO_COMPLETION_EVENT) {
      ended = true;
      return;
    }
    ++completed;
    const auto& dto = event.event_data.dto_completion_event_data;
    if (dto.status == DAT_DTO_SUCCESS && dto.user_cookie.as_64 == 1) ++received;
  }
  // Whether the message of this round is there, and everything that was posted is complete.
  [[nodiscard]] bool complete() const { return received > round && completed == posted; }
  // Whether `in` has the message of this round.
  [[nodiscard]] bool right() {
    expected.fill(round);
    return in == expected;
  }
};

// ---- the peer -----------------------------------------------------------------------------------

void stop_self() { ::raise(SIGSTOP); }
void kill_self() { ::raise(SIGKILL); }

// Sends a message in each round, and expects the same one back, until the connection ends. Returns
// 0, or the number of the check that failed.
int be_the_peer(DAT_CONN_QUAL qualifier, Hold in_write, Hold in_read) {
  Exchange exchange;
  if (!exchange.open()) return 1;
  if (!exchange.receive() || !exchange.side.connect(qualifier)) return 2;
  for (;; ++exchange.round) {
    if (exchange.round == kFirstRounds) {
      holds_write = in_write;
      holds_read = in_read;
    }
    exchange.out.fill(exchange.round);
    if (!exchange.send()) return 3;
    while (!exchange.ended && !exchange.complete()) exchange.poll();
    if (exchange.ended) return 0;
    if (!exchange.right()) return 4;
    if (!exchange.receive()) return 5;
  }
}

// How a test tells its peer what to do: the qualifier, and two of these by number.
constexpr char kTask[] = "UDAPL_HELD_COPIES_TASK";
constexpr std::array<Hold, 3> kHolds{nullptr, stop_self, kill_self};

std::size_t number_of(Hold hold) {
  return static_cast<std::size_t>(std::ranges::find(kHolds, hold) - kHolds.begin());
}

pid_t peer = 0;
std::atomic<bool> holding{false};  // this process is or was in the middle of a copy

// May be called by a thread of the library.
void await(int what) {
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(peer), &info, what | WNOWAIT) != 0) std::abort();
}
void stop_peer() {
  ::kill(peer, SIGSTOP);
  await(WSTOPPED);
  holding = true;
}
void kill_peer() {
  ::kill(peer, SIGKILL);
  await(WEXITED);
  holding = true;
}

// When the peer is stopped or killed.
enum class Moment { kItWrites, kItReads, kWeWrite, kWeRead };

// ---- the test -----------------------------------------------------------------------------------

class Fixture : public Exchange {
 public:
  Fixture() = default;
  ~Fixture() {
    holds_write = nullptr;
    holds_read = nullptr;
    if (peer > 0) {
      ::kill(peer, SIGKILL);
      status();
    }
    if (side.ia != DAT_HANDLE_NULL) dat_ia_close(side.ia, DAT_CLOSE_ABRUPT_FLAG);
  }
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;

  // Exchanges messages until the peer is stopped or killed at this moment of one that is shared.
  // Where the two processes do not always run at the same time, messages are soon passed in another
  // way, so that another connection is more likely to have such a moment.
  void hold(Moment moment, bool kill) {
    BOOST_REQUIRE(open());
    BOOST_REQUIRE(side.listen(qualifier_));
    for (int attempt = 0; attempt != kMostAttempts; ++attempt) {
      if (attempt != 0) leave();
      if (hold_soon(moment, kill)) return;
    }
    BOOST_FAIL("no Send was shared");
  }
  void let_go() { BOOST_REQUIRE(::kill(peer, SIGCONT) == 0); }

  // The peer goes on after a while, and nothing is lost. Nothing is received before it has written.
  void go_on(Moment moment) {
    for (int i = 0; i < 2'000; ++i) poll();
    BOOST_TEST(!ended);
    if (moment == Moment::kItWrites) BOOST_TEST(received == round);
    let_go();
    for (unsigned i = 0; i < kLaterRounds; ++i) {
      BOOST_REQUIRE(echo([&] { return ended; }));
      ++round;
    }
  }
  void disconnect() {
    BOOST_TEST(dat_ep_disconnect(side.ep, DAT_CLOSE_ABRUPT_FLAG) == DAT_SUCCESS);
  }
  // Every post completes once, and the connection has one end.
  void expect_end() {
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(kPatience);
    while ((!ended || completed != posted) && std::chrono::steady_clock::now() < until) poll();
    BOOST_TEST(ended);
    BOOST_TEST(completed == posted);
    DAT_EP_STATE state{};
    BOOST_TEST(dat_ep_get_status(side.ep, &state, nullptr, nullptr) == DAT_SUCCESS);
    BOOST_TEST(state == DAT_EP_STATE_DISCONNECTED);
    DAT_EVENT event{};
    BOOST_TEST(DAT_GET_TYPE(dat_evd_dequeue(side.evd, &event)) == DAT_QUEUE_EMPTY);
  }
  // Makes a call after which the peer must not write to our memory, while the peer is stopped, and
  // then lets it go.
  void make_call_and_let_go(const std::function<DAT_RETURN()>& call) {
    DAT_RETURN code = DAT_INTERNAL_ERROR;
    std::vector<std::byte> then;
    std::thread caller([&] {
      code = call();
      then = in.bytes;
      reuse_memory();
    });
    std::this_thread::sleep_for(50ms);
    let_go();
    caller.join();
    BOOST_TEST(code == DAT_SUCCESS);
    std::this_thread::sleep_for(20ms);
    BOOST_TEST((in.bytes == then));
  }
  // The peer never takes these bytes for a message.
  void reuse_memory() { std::ranges::fill(out.bytes, std::byte{0xEE}); }
  DAT_RETURN free_memory() {
    for (Buffer* const buffer : {&in, &out}) {
      const DAT_RETURN code = dat_lmr_free(std::exchange(buffer->lmr, DAT_HANDLE_NULL));
      if (code != DAT_SUCCESS) return code;
    }
    return DAT_SUCCESS;
  }
  // The peer sees the end of the connection, and no wrong byte.
  void expect_peer_ends() {
    const int found = status();
    BOOST_TEST((WIFEXITED(found) && WEXITSTATUS(found) == 0), "the peer ended with " << found);
  }
  // The EP can be connected to another peer.
  void expect_another_connection() {
    if (peer > 0) status();
    reset();
    connect(nullptr, nullptr);
    for (; round < kLaterRounds; ++round) BOOST_REQUIRE(echo([&] { return ended; }));
    disconnect();
    expect_peer_ends();
  }

 private:
  // A program of its own: a forked child would begin with the threads of this process half there.
  void connect(Hold in_write, Hold in_read) {
    const std::string task = std::to_string(qualifier_) + ' ' +
                             std::to_string(number_of(in_write)) + ' ' +
                             std::to_string(number_of(in_read));
    BOOST_REQUIRE(::setenv(kTask, task.c_str(), 1) == 0);
    std::string program = "/proc/self/exe";
    std::string which = "--run_test=peer_of_a_test";
    std::string unlogged = "--log_level=nothing";
    std::string unreported = "--report_level=no";
    std::string signals = "--catch_system_errors=no";
    const std::array<char*, 6> arguments{program.data(),    which.data(),   unlogged.data(),
                                         unreported.data(), signals.data(), nullptr};
    BOOST_REQUIRE(
        ::posix_spawn(&peer, program.c_str(), nullptr, nullptr, arguments.data(), environ) == 0);
    BOOST_REQUIRE(receive());
    BOOST_REQUIRE(side.accept());
  }
  bool hold_soon(Moment moment, bool kill) {
    const bool ours = moment == Moment::kWeWrite || moment == Moment::kWeRead;
    const Hold itself = kill ? kill_self : stop_self;
    killed_ = kill;
    holding = false;
    connect(moment == Moment::kItWrites ? itself : nullptr,
            moment == Moment::kItReads ? itself : nullptr);
    for (; !held(ours) && round < kMostRounds; ++round) {
      if (round == kFirstRounds && ours)
        (moment == Moment::kWeWrite ? holds_write : holds_read) = kill ? kill_peer : stop_peer;
      if (!echo([&] { return held(ours); })) break;
    }
    holds_write = nullptr;
    holds_read = nullptr;
    return held(ours);
  }
  void leave() {
    ::kill(peer, SIGKILL);
    status();
    expect_end();
    reset();
  }
  void reset() {
    BOOST_REQUIRE(dat_ep_reset(side.ep) == DAT_SUCCESS);
    ended = false;
    posted = completed = 0;
    received = round = 0;
  }
  int status() {
    int found = 0;
    BOOST_REQUIRE(::waitpid(std::exchange(peer, 0), &found, 0) > 0);
    return found;
  }
  [[nodiscard]] bool held(bool by_us) const {
    if (by_us) return holding;
    siginfo_t info{};
    BOOST_REQUIRE(::waitid(P_PID, static_cast<id_t>(peer), &info,
                           (killed_ ? WEXITED : WSTOPPED) | WNOHANG | WNOWAIT) == 0);
    return info.si_pid == peer;
  }
  // Receives the message of this round and sends it back, unless `over` before. Returns false if it
  // was over.
  template <class Over>
  bool echo(Over over) {
    for (unsigned polls = 1; !complete(); ++polls) {
      if (polls % 1024 == 0 && over()) return false;
      poll();
    }
    BOOST_REQUIRE(right());
    std::ranges::copy(in.bytes, out.bytes.begin());
    BOOST_REQUIRE(receive());
    BOOST_REQUIRE(send());
    return true;
  }

  const DAT_CONN_QUAL qualifier_ = faults::conn_qual();
  bool killed_ = false;
};

constexpr std::array kMoments{Moment::kItWrites, Moment::kItReads, Moment::kWeWrite,
                              Moment::kWeRead};

// What the others start.
BOOST_AUTO_TEST_CASE(peer_of_a_test, *boost::unit_test::disabled()) {
  const char* const task = std::getenv(kTask);
  BOOST_REQUIRE(task != nullptr);
  std::istringstream numbers(task);
  DAT_CONN_QUAL qualifier = 0;
  std::size_t in_write = 0;
  std::size_t in_read = 0;
  numbers >> qualifier >> in_write >> in_read;
  ::alarm(kHangs);
  const int failed = be_the_peer(qualifier, kHolds.at(in_write), kHolds.at(in_read));
  if (failed != 0) std::fprintf(stderr, "the peer: check %d failed\n", failed);
  BOOST_TEST(failed == 0);
}

BOOST_AUTO_TEST_SUITE(held_copies)

BOOST_AUTO_TEST_CASE(a_peer_that_was_stopped_goes_on) {
  for (const Moment moment : kMoments) {
    Fixture test;
    test.hold(moment, false);
    test.go_on(moment);
    test.disconnect();
    test.expect_end();
    test.expect_peer_ends();
  }
}

BOOST_AUTO_TEST_CASE(a_connection_ends_beside_a_stopped_peer) {
  for (const Moment moment : kMoments) {
    Fixture test;
    test.hold(moment, false);
    test.disconnect();
    test.expect_end();
    test.reuse_memory();
    test.let_go();
    test.expect_peer_ends();
    test.expect_another_connection();
  }
}

BOOST_AUTO_TEST_CASE(memory_that_was_freed_beside_a_stopped_peer_is_not_written) {
  for (const Moment moment : kMoments) {
    Fixture test;
    test.hold(moment, false);
    test.make_call_and_let_go([&] { return test.free_memory(); });
    test.expect_end();
    test.expect_peer_ends();
  }
}

BOOST_AUTO_TEST_CASE(receives_of_an_ep_that_was_reset_beside_a_stopped_peer_are_not_written) {
  for (const Moment moment : kMoments) {
    Fixture test;
    test.hold(moment, false);
    test.disconnect();
    test.expect_end();
    test.make_call_and_let_go([&] { return dat_ep_reset(test.side.ep); });
    test.expect_peer_ends();
  }
}

BOOST_AUTO_TEST_CASE(receives_of_an_ep_that_was_freed_beside_a_stopped_peer_are_not_written) {
  for (const Moment moment : kMoments) {
    Fixture test;
    test.hold(moment, false);
    test.make_call_and_let_go([&] { return dat_ep_free(test.side.ep); });
    test.expect_peer_ends();
  }
}

BOOST_AUTO_TEST_CASE(a_peer_was_killed) {
  for (const Moment moment : kMoments) {
    Fixture test;
    test.hold(moment, true);
    test.expect_end();
    test.expect_another_connection();
  }
}

BOOST_AUTO_TEST_CASE(memory_is_freed_behind_a_peer_that_was_killed) {
  for (const Moment moment : kMoments) {
    Fixture test;
    test.hold(moment, true);
    BOOST_TEST(test.free_memory() == DAT_SUCCESS);
    test.expect_end();
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
