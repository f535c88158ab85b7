// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The reactor: which of several pollers a poll serves.
#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "tests/unit/reactor/bell.h"
#include "tests/unit/reactor/mailbox.h"
#include "tests/unit/reactor/support.h"

namespace udapl::test {

namespace {

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

}  // namespace

BOOST_AUTO_TEST_SUITE(pollers_in_turn)

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

// The service thread would put the pollers to rest. It takes over now and then if this thread gets
// no processor, but not in each of these periods.
BOOST_AUTO_TEST_CASE(successful_polls_keep_the_service_thread_away) {
  const auto reactor = make_reactor();
  Mailbox one(*reactor);
  Mailbox other(*reactor);
  one.show_sign();
  other.show_sign();
  bool undisturbed = false;
  const auto end = Clock::now() + kPatience;
  for (long sent = 0; !undisturbed && Clock::now() < end;) {
    const long bells = one.bells + other.bells;
    for (const auto period_end = Clock::now() + 10ms; Clock::now() < period_end; ++sent) {
      Mailbox& box = sent % 2 == 0 ? one : other;
      box.put();
      while (box.taken.load() != box.sent.load() && Clock::now() < end) reactor->poll();
    }
    undisturbed = one.bells + other.bells == bells;
  }
  BOOST_TEST(undisturbed);
}

// Bells are heard by looking at the descriptors, which takes a system call: often only as long as
// some are heard. A period counts if all that were awake still are.
BOOST_AUTO_TEST_CASE(resting_pollers_cost_few_looks_at_descriptors) {
  constexpr std::size_t kAwake = 10;
  constexpr std::uint32_t kPolls = 800;
  const auto reactor = make_reactor();
  std::vector<std::unique_ptr<Mailbox>> boxes;
  for (std::size_t i = 0; i != kAwake + 1; ++i) {
    boxes.push_back(std::make_unique<Mailbox>(*reactor));
    boxes.back()->show_sign();
  }
  const auto any_rests = [&] {
    return std::any_of(boxes.begin() + 1, boxes.end(),
                       [](const auto& box) { return box->resting.load(); });
  };
  std::uint32_t fewest = kPolls;
  for (const auto end = Clock::now() + kPatience; fewest > kPolls / 8 && Clock::now() < end;) {
    for (std::size_t i = 1; i != boxes.size(); ++i) {
      boxes[i]->put();
      while (boxes[i]->taken != boxes[i]->sent && Clock::now() < end) reactor->poll();
    }
    for (int i = 0; i != 100; ++i) reactor->poll();
    reactor->works_long();  // keeps the service thread away
    const std::uint32_t looks = reactor->looks();
    for (std::uint32_t i = 0; i != kPolls; ++i) reactor->poll();
    if (!any_rests()) fewest = std::min(fewest, reactor->looks() - looks);
  }
  BOOST_TEST(fewest <= kPolls / 8);
  BOOST_TEST(boxes[0]->resting.load());
  boxes[0]->put();
  BOOST_TEST(drive_until(*reactor, [&] { return boxes[0]->taken == 1; }));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
