// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "tests/unit/reactor/support.h"

namespace udapl::test {

// A watched eventfd; its handler empties it and counts the rings.
class Bell final : public Handler {
 public:
  explicit Bell(Reactor& reactor, std::uint32_t events = EPOLLIN)
      : reactor_(reactor), fd_(::eventfd(0, EFD_NONBLOCK)) {
    watch_slot.only_reads = events == EPOLLIN;
    BOOST_REQUIRE(reactor_.watch(fd_.get(), events, *this).ok());
  }
  ~Bell() {
    reactor_.unwatch(fd_.get(), *this);
    reactor_.quiesce(*this);
  }
  void ring() {
    const std::uint64_t one = 1;
    if (::write(fd_.get(), &one, sizeof one) != sizeof one) std::abort();  // any thread
  }
  void on_ready(std::uint32_t) noexcept override {
    std::uint64_t value = 0;
    [[maybe_unused]] const auto got = ::read(fd_.get(), &value, sizeof value);
    thread = std::this_thread::get_id();
    ++rung;
    if (WaitWord* const waited = word) waited->signal();
  }

  [[nodiscard]] bool can_be_left() const noexcept override { return leavable; }
  bool leave_input(WaitWord& waited) noexcept override {
    if (!leaves_input) return false;
    leaves_input = false;
    waited.signal();
    return true;
  }

  // Returns whether the descriptor is in an epoll set.
  [[nodiscard]] bool in_epoll() const {
    const std::string entry = "tfd:" + std::string(9 - std::to_string(fd_.get()).size(), ' ') +
                              std::to_string(fd_.get()) + ' ';
    for (const auto& info : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
      std::ifstream lines(info.path());
      for (std::string line; std::getline(lines, line);)
        if (line.starts_with(entry)) return true;
    }
    return false;
  }

  std::atomic<int> rung{0};
  std::atomic<std::thread::id> thread{};
  std::atomic<WaitWord*> word{nullptr};
  std::atomic<bool> leavable{false};
  std::atomic<bool> leaves_input{false};  // the next one

 private:
  Reactor& reactor_;
  Fd fd_;
};

// Makes short waits for one bell until the leader sleeps on its descriptor, outside the epoll set.
// Returns false if that does not happen within kPatience.
[[nodiscard]] inline bool enters_direct_mode(Reactor& reactor, Bell& bell) {
  WaitWord word;
  bell.word = &word;
  bool direct = false;
  for (const auto end = Clock::now() + kPatience; !direct && Clock::now() < end;) {
    for (int i = 0; i < 50; ++i) {
      const int before = bell.rung;
      bell.ring();
      while (bell.rung == before) reactor.block(word, word.value(), Clock::now() + kPatience);
    }
    direct = !bell.in_epoll();
  }
  bell.word = nullptr;
  reactor.quiesce(bell);  // its handler may be about to signal `word`
  return direct;
}

// Counts its calls, and blocks them while `held` is set.
class Counter {
 public:
  void call() noexcept {
    thread = std::this_thread::get_id();
    ++begun;
    while (held) std::this_thread::sleep_for(100us);
    ++ended;
  }
  std::atomic<bool> held{false};
  std::atomic<int> begun{0};
  std::atomic<int> ended{0};
  std::atomic<std::thread::id> thread{};
};

// How often the service thread of this process's only reactor has gone to sleep so far.
inline long service_sleeps() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name != "reactor-test") continue;
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("voluntary_ctxt_switches:"))
        return std::stol(line.substr(line.find(':') + 1));
  }
  BOOST_FAIL("no service thread");
  return -1;
}

inline Deadline within(Clock::duration time) { return Clock::now() + time; }

// Blocks on a word that no thread changes, again after each spurious return of block().
inline WaitResult block_out(Reactor& reactor, WaitWord& word, const Deadline& deadline) {
  WaitResult result = WaitResult::kChanged;
  while (result == WaitResult::kChanged) result = reactor.block(word, word.value(), deadline);
  return result;
}

}  // namespace udapl::test
