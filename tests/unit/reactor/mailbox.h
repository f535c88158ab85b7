// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "tests/unit/reactor/support.h"

namespace udapl::test {

// The input is a counter in memory. The descriptor is written only while the handler rests, once.
class Mailbox final : public Handler {
 public:
  // `inside`: if not null, counts the threads that are in look().
  explicit Mailbox(Reactor& reactor, std::atomic<int>* inside = nullptr)
      : reactor_(reactor), inside_(inside), fd_(::eventfd(0, EFD_NONBLOCK)) {
    BOOST_REQUIRE(reactor_.watch(fd_.get(), EPOLLIN, *this, Reactor::Kind::kPoller).ok());
  }
  ~Mailbox() {
    reactor_.unwatch(fd_.get(), *this);
    reactor_.quiesce(*this);
  }
  // From now on the reactor can see whether there is input without calling look().
  void show_sign() { sign->watch(&written_); }
  // Any thread.
  void put() {
    sent.fetch_add(1);
    written_.fetch_add(1);
    if (!resting.exchange(false)) return;
    ++bells;
    const std::uint64_t one = 1;
    if (::write(fd_.get(), &one, sizeof one) != sizeof one) std::abort();
  }

  void on_ready(std::uint32_t) noexcept override {
    std::uint64_t value = 0;
    [[maybe_unused]] const auto got = ::read(fd_.get(), &value, sizeof value);
    take();
  }
  Look look() noexcept override {
    ++looks;
    if (inside_ != nullptr) ++*inside_;
    resting.store(false);
    const bool found = take();
    if (inside_ != nullptr) --*inside_;
    return found ? Look::kFound : Look::kNothing;
  }
  bool rest() noexcept override {
    if (restless) return false;
    resting.store(true);
    if (sent.load() == taken.load()) return true;
    resting.store(false);
    return false;
  }

  std::atomic<long> sent{0};
  std::atomic<long> taken{0};
  std::atomic<long> looks{0};
  std::atomic<long> bells{0};
  std::atomic<bool> resting{true};
  std::atomic<bool> restless{false};
  std::atomic<bool> endless{false};  // each look finds input, and leaves input
  WaitWord* word = nullptr;

 private:
  bool take() noexcept {
    sign->seen(written_.load());
    if (endless) written_.fetch_add(1);
    const long now = sent.load();
    if (endless) return true;
    if (taken.exchange(now) == now) return false;
    if (word != nullptr) word->signal();
    return true;
  }

  Reactor& reactor_;
  std::atomic<int>* const inside_;
  Fd fd_;
  std::atomic<std::uint64_t> written_{0};
};

}  // namespace udapl::test
