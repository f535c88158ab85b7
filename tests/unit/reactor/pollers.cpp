// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The reactor: handlers whose input arrives through memory.
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "tests/unit/reactor/bell.h"
#include "tests/unit/reactor/support.h"

namespace udapl::test {

namespace {

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

template <class Condition>
bool drive_until(Reactor& reactor, Condition condition) {
  const auto end = Clock::now() + kPatience;
  while (!condition()) {
    if (Clock::now() > end) return false;
    reactor.progress();
  }
  return true;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(pollers)

// The thread that destroys a poller waits for the poll that is serving it.
BOOST_AUTO_TEST_CASE(one_is_destroyed_while_another_thread_polls) {
  const auto reactor = make_reactor();
  std::atomic<int> inside{0};
  std::atomic<bool> stop{false};
  std::thread consumer([&] {
    while (!stop) reactor->poll();
  });
  for (int round = 0; round < 1000; ++round) {
    auto box = std::make_unique<Mailbox>(*reactor, &inside);
    box->show_sign();
    const auto end = Clock::now() + kPatience;
    for (long sent = 1; sent <= 20; ++sent) {
      box->put();
      while (sent % 4 == 0 && box->taken < sent && Clock::now() < end) std::this_thread::yield();
    }
    const bool taken = box->taken == 20;
    box.reset();
    BOOST_TEST(taken);
    BOOST_TEST(inside == 0);
    if (!taken || inside != 0) break;
  }
  stop = true;
  consumer.join();
}

BOOST_AUTO_TEST_CASE(one_that_is_awake_needs_no_bell) {
  const auto reactor = make_reactor();
  Mailbox box(*reactor);
  box.restless = true;  // the service thread may take over on a slow machine
  box.put();
  BOOST_REQUIRE(drive_until(*reactor, [&] { return box.taken == 1; }));
  const long bells = box.bells;
  for (int i = 2; i <= 1000; ++i) {
    box.put();
    BOOST_REQUIRE(drive_until(*reactor, [&] { return box.taken == i; }));
  }
  BOOST_TEST(box.bells == bells);
  BOOST_TEST(box.looks >= 999);
}

BOOST_AUTO_TEST_CASE(of_many_pollers_the_idle_ones_rest) {
  const auto reactor = make_reactor();
  std::vector<std::unique_ptr<Mailbox>> boxes;
  for (int i = 0; i < 20; ++i) boxes.push_back(std::make_unique<Mailbox>(*reactor));
  const auto all = [&](auto condition) {
    return drive_until(*reactor, [&] { return std::ranges::all_of(boxes, condition); });
  };
  for (const auto& box : boxes) box->put();
  BOOST_REQUIRE(all([](const auto& box) { return box->taken == 1; }));
  BOOST_REQUIRE(all([](const auto& box) { return box->resting.load(); }));
  const long looks = boxes[3]->looks;
  for (int i = 0; i < 100; ++i) reactor->progress();
  BOOST_TEST(boxes[3]->looks == looks);
  boxes[3]->put();
  BOOST_TEST(drive_until(*reactor, [&] { return boxes[3]->taken == 2; }));
}

// The handlers stay awake, because otherwise their peers would not know that a thread polls and
// would write to the descriptor.
BOOST_AUTO_TEST_CASE(few_are_awake_as_long_as_a_thread_polls) {
  const auto reactor = make_reactor();
  Mailbox first(*reactor);
  Mailbox second(*reactor);
  first.put();  // `second` has never had input
  const long looks = second.looks;
  BOOST_REQUIRE(drive_until(*reactor, [&] { return second.looks > looks + 10'000; }));
  const long bells = second.bells;
  second.put();
  BOOST_TEST(drive_until(*reactor, [&] { return second.taken == 1; }));
  BOOST_TEST(second.bells <= bells + 1);  // the service thread may just have put it to rest
  // When no thread polls any more, the service thread puts both to rest.
  BOOST_TEST(eventually([&] { return first.resting && second.resting; }));
}

// epoll costs a system call, so it is called ever more rarely while it reports nothing.
BOOST_AUTO_TEST_CASE(idle_poller_does_not_delay_descriptors) {
  const auto reactor = make_reactor();
  Mailbox quiet(*reactor);
  Mailbox other(*reactor);
  other.put();
  BOOST_REQUIRE(drive_until(*reactor, [&] { return other.taken == 1 && quiet.looks > 1000; }));
  Bell bell(*reactor);
  for (int i = 1; i <= 5; ++i) {
    for (int poll = 0; poll < 10'000; ++poll) reactor->progress();
    bell.ring();
    BOOST_REQUIRE(drive_until(*reactor, [&] { return bell.rung == i; }));
  }
}

// Instead of making a turn, a poll calls a poller whose sign shows input. However much its peer
// sends, other pollers, descriptors and timers are served after a bounded number of calls of that
// poller.
void flood_one(int bystanders) {
  constexpr long kSoon = 2000;  // services of the flooded one
  const auto reactor = make_reactor();
  Mailbox flooded(*reactor);
  Mailbox other(*reactor);
  std::vector<std::unique_ptr<Mailbox>> others;
  for (int i = 0; i < bystanders; ++i) {
    others.push_back(std::make_unique<Mailbox>(*reactor));
    others.back()->show_sign();
    others.back()->put();
  }
  Bell bell(*reactor);
  struct Shot {
    void fire() noexcept { ++fired; }
    std::atomic<int> fired{0};
  } shot;
  Timer timer(*reactor, Call::to<&Shot::fire>(&shot));
  flooded.show_sign();
  other.show_sign();
  flooded.endless = true;
  flooded.put();
  BOOST_REQUIRE(drive_until(*reactor, [&] { return flooded.looks > 1000; }));
  // Not counted in polls: most do nothing while another thread that drives has no processor.
  const auto soon = [&](auto condition) {
    const Clock::time_point most = Clock::now() + std::chrono::minutes(1);
    const long served = flooded.looks;
    while (!condition() && flooded.looks - served < kSoon && Clock::now() < most) reactor->poll();
    return condition();
  };
  for (int i = 1; i <= 200; ++i) {
    other.put();
    BOOST_REQUIRE(soon([&] { return other.taken == i; }));
    bell.ring();
    BOOST_REQUIRE(soon([&] { return bell.rung == i; }));
    timer.start(Clock::now());
    BOOST_REQUIRE(soon([&] { return shot.fired == i; }));
  }
  flooded.endless = false;
}

BOOST_AUTO_TEST_CASE(one_that_always_has_input_delays_no_other) { flood_one(0); }
BOOST_AUTO_TEST_CASE(nor_if_the_poll_guesses_who_is_next) { flood_one(40); }

// More pollers than one glance covers, in an unpredictable order, in every state between awake and
// at rest.
BOOST_AUTO_TEST_CASE(each_of_many_is_found) {
  for (const int count : {65, 300, 1100}) {
    const auto reactor = make_reactor();
    std::vector<std::unique_ptr<Mailbox>> boxes;
    for (int i = 0; i < count; ++i) {
      boxes.push_back(std::make_unique<Mailbox>(*reactor));
      boxes.back()->show_sign();
    }
    std::vector<long> sent(boxes.size());
    for (int i = 0; i < 4 * count; ++i) {
      const auto place = static_cast<std::size_t>(i) * 7919 % boxes.size();
      boxes[place]->put();
      ++sent[place];
      const auto end = Clock::now() + kPatience;
      while (boxes[place]->taken != sent[place] && Clock::now() < end) reactor->poll();
      BOOST_REQUIRE_EQUAL(boxes[place]->taken.load(), sent[place]);
    }
  }
}

BOOST_AUTO_TEST_CASE(nothing_is_lost_without_a_driver) {
  const auto reactor = make_reactor();
  Mailbox box(*reactor);
  for (int i = 1; i <= 500; ++i) {
    box.put();
    BOOST_REQUIRE(eventually([&] { return box.taken == i; }));
    if (i % 50 == 0) BOOST_REQUIRE(eventually([&] { return box.resting.load(); }));
  }
}

// After any number of turns the handler may be awake, without a bell. No thread drives from then
// on, so the service thread has to find the input.
BOOST_AUTO_TEST_CASE(polls_that_stop_leave_nothing_behind) {
  for (int turns = 1; turns <= 40; turns += 3) {
    const auto reactor = make_reactor();
    Mailbox box(*reactor);
    const auto end = Clock::now() + kPatience;
    for (long i = 1; i <= 50; ++i) {
      box.put();
      for (int turn = 0; turn < turns; ++turn) {
        if (i % 2 == 0)
          reactor->poll();
        else
          reactor->progress();
      }
      box.put();
      BOOST_REQUIRE(eventually([&] { return box.taken == 2 * i; }));
      BOOST_REQUIRE(Clock::now() < end);
    }
  }
}

// A polling thread is recognised as such even if nothing ever wakes the service thread.
BOOST_AUTO_TEST_CASE(habit_is_known_without_any_event) {
  const auto reactor = make_reactor();
  std::this_thread::sleep_for(10ms);  // the service thread goes to sleep in epoll
  BOOST_TEST(drive_until(*reactor, [&] { return reactor->polled(); }));
}

BOOST_AUTO_TEST_CASE(poller_is_called_on_request) {
  const auto reactor = make_reactor();
  Mailbox box(*reactor);
  for (int i = 1; i <= 200; ++i) {
    box.sent.fetch_add(1);  // without a bell
    reactor->request_call(box);
    BOOST_REQUIRE(eventually([&] { return box.taken == i; }));
    if (i % 2 == 0) BOOST_REQUIRE(drive_until(*reactor, [&] { return box.resting.load(); }));
  }
}

// No thread is woken, but the next polls call it, however many pollers there are.
BOOST_AUTO_TEST_CASE(poller_is_called_when_polled) {
  const auto reactor = make_reactor();
  Mailbox box(*reactor);
  std::vector<std::unique_ptr<Mailbox>> others;
  for (int i = 0; i < 20; ++i) others.push_back(std::make_unique<Mailbox>(*reactor));
  const auto all_rest = [&] {
    return box.resting &&
           std::ranges::all_of(others, [](auto& other) { return other->resting.load(); });
  };
  for (int i = 1; i <= 20; ++i) {
    BOOST_REQUIRE(eventually(all_rest));
    box.sent.fetch_add(1);  // without a bell
    reactor->call_when_polled(box);
    reactor->call_when_polled(box);
    if (i % 4 == 0) std::this_thread::sleep_for(2ms);
    BOOST_TEST(box.taken == i - 1);
    BOOST_REQUIRE(drive_until(*reactor, [&] { return box.taken == i; }));
  }
  // It may be gone by then, and another one have its slot.
  auto gone = std::make_unique<Mailbox>(*reactor);
  reactor->call_when_polled(*gone);
  gone.reset();
  const Mailbox next(*reactor);
  for (int i = 0; i < 100; ++i) reactor->poll();
}

// A program that uses many connections in a fixed order gets its input where it came the last time.
// A poll that only searched would check the signs of a part of them.
BOOST_AUTO_TEST_CASE(the_first_poll_finds_input_that_comes_in_a_known_order) {
  constexpr std::size_t kBoxes = 300;
  const auto reactor = make_reactor();
  std::vector<std::unique_ptr<Mailbox>> boxes;
  for (std::size_t i = 0; i != kBoxes; ++i) {
    boxes.push_back(std::make_unique<Mailbox>(*reactor));
    boxes.back()->show_sign();
  }
  // Returns how many the first poll found.
  const auto lap = [&] {
    const auto end = Clock::now() + kPatience;
    std::size_t at_once = 0;
    for (const auto& box : boxes) {
      const long before = box->taken;
      box->put();
      reactor->poll();
      if (box->taken != before) ++at_once;
      while (box->taken == before && Clock::now() < end) reactor->poll();
    }
    return at_once;
  };
  // If the service thread takes over during a lap, the pollers are awake in another order.
  std::minstd_rand random;
  std::size_t best = 0;
  for (int attempt = 0; attempt != 10 && best < kBoxes * 3 / 4; ++attempt) {
    lap();
    std::ranges::shuffle(boxes, random);
    lap();
    best = std::max(best, lap());
  }
  BOOST_TEST(best >= kBoxes * 3 / 4);
}

// A poller that takes the place of an earlier one does not take over its sign, whose words are
// gone.
BOOST_AUTO_TEST_CASE(a_sign_is_not_inherited) {
  const auto reactor = make_reactor();
  const Sign* before = nullptr;
  {
    Mailbox box(*reactor);
    box.show_sign();
    before = box.sign;
  }
  Mailbox box(*reactor);
  BOOST_TEST(box.sign == before);
  BOOST_TEST(!box.sign->shows_input());
  box.put();
  BOOST_TEST(drive_until(*reactor, [&] { return box.taken == 1; }));
}

BOOST_AUTO_TEST_CASE(a_second_word_changes_the_sign) {
  std::atomic<std::uint64_t> first{7};
  std::atomic<std::uint64_t> second{4};
  Sign sign;
  sign.watch(&first);
  sign.seen(7);
  BOOST_TEST(sign.quiet());
  sign.also(&second, 5);
  BOOST_TEST(sign.quiet());
  second = 6;
  BOOST_TEST(!sign.quiet());
  sign.also(nullptr, 0);
  BOOST_TEST(sign.quiet());
  first = 8;
  BOOST_TEST(!sign.quiet());
}

// One thread waits and another one puts: the wait ends, whatever state both are in.
BOOST_AUTO_TEST_CASE(waits_end) {
  const auto reactor = make_reactor();
  Mailbox box(*reactor);
  WaitWord word;
  box.word = &word;
  constexpr long kRounds = 20'000;
  std::atomic<long> seen{0};
  std::thread sender([&] {
    for (long i = 0; i < kRounds; ++i) {
      while (seen.load() < i) std::this_thread::yield();
      box.put();
    }
  });
  const auto end = Clock::now() + kPatience;
  while (seen.load() < kRounds && Clock::now() < end) {
    const std::uint32_t value = word.value();
    if (box.taken > seen.load()) {
      seen.store(box.taken);
      continue;
    }
    reactor->block(word, value, Clock::now() + 5s);
  }
  BOOST_TEST(seen.load() == kRounds);
  seen.store(kRounds);
  sender.join();
}

// The leader yields to a thread that polls, and leads again when the polling stops.
BOOST_AUTO_TEST_CASE(waiter_makes_way_for_a_polling_thread) {
  const auto reactor = make_reactor();
  Mailbox box(*reactor);
  WaitWord word;
  std::atomic<bool> returned{false};
  std::atomic<bool> over{false};
  std::thread waiter([&] {
    while (!over) {
      const std::uint32_t value = word.value();
      if (over) break;
      reactor->block(word, value, std::nullopt);
    }
    returned = true;
  });
  for (int round = 0; round < 3; ++round) {
    const long before = box.taken;
    // Until the polls drive the reactor, when a message needs no bell.
    const auto end = Clock::now() + kPatience;
    long without_bell = 0;
    for (long i = before + 1; without_bell < 500; ++i) {
      BOOST_REQUIRE(Clock::now() < end);
      const long bells = box.bells;
      box.put();
      while (box.taken < i && Clock::now() < end) reactor->poll();
      if (box.bells == bells) ++without_bell;
    }
    // No thread polls now: a sleeping driver is woken.
    const long last = box.taken;
    BOOST_REQUIRE(eventually([&] { return box.resting.load(); }));
    box.put();
    BOOST_REQUIRE(eventually([&] { return box.taken == last + 1; }));
  }
  over = true;
  word.signal();
  BOOST_TEST(eventually([&] { return returned.load(); }));
  waiter.join();
}

BOOST_AUTO_TEST_CASE(pollers_come_and_go_while_others_are_served) {
  const auto reactor = make_reactor();
  Mailbox steady(*reactor);
  std::atomic<bool> over{false};
  std::thread driver([&] {
    while (!over) reactor->progress();
  });
  for (int i = 1; i <= 300; ++i) {
    Mailbox passing(*reactor);
    steady.put();
    passing.put();
    BOOST_REQUIRE(eventually([&] { return steady.taken == i && passing.taken == 1; }));
  }
  over = true;
  driver.join();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
