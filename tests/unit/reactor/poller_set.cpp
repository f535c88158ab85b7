// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Which pollers are awake, and in which order they are asked and served.
#include "providers/reactor/poller_set.h"

#include "providers/reactor/ask_order.h"

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <cstdint>
#include <deque>
#include <random>
#include <set>
#include <vector>

namespace udapl::test {

namespace {

constexpr std::size_t kMany = tuning::kGlanced + 10;

// Pollers in the slots from 0 on, each with a word of its own as sign; all awake.
struct Pollers {
  explicit Pollers(std::size_t count) {
    for (std::size_t i = 0; i != count; ++i) add();
  }
  void add() {
    const auto slot = static_cast<std::uint32_t>(words.size());
    signs.push_back(&set.add(slot));
    signs.back()->watch(&words.emplace_back(0));
    set.wake(slot);
  }
  void put(std::size_t slot) { ++words[slot]; }
  // Serves the first glance that finds one; the number of glances until then.
  int serve(std::uint32_t& slot) {
    for (int glances = 1; glances <= 100; ++glances) {
      PollerSet::Member* soon = nullptr;
      PollerSet::Member* const awake = set.next_with_input(soon);
      if (soon != nullptr) prepared.push_back(soon->slot);
      if (awake == nullptr) continue;
      slot = awake->slot;
      set.serve(*awake);
      signs[slot]->seen(words[slot]);
      return glances;
    }
    return 0;
  }

  // A turn, which asks those whose signs have changed. Returns the slot of the last one.
  std::uint32_t turn() {
    std::uint32_t slot = UINT32_MAX;
    std::size_t place = 0;
    for (; const auto* awake = set.next_to_ask(place, PollerSet::kAll, PollerSet::kNone); ++place) {
      slot = awake->slot;
      signs[slot]->seen(words[slot]);
      BOOST_TEST(!set.asked(place, slot, true));
    }
    return slot;
  }

  PollerCounts counts;
  PollerSet set{counts};
  std::deque<std::atomic<std::uint64_t>> words;
  std::deque<Sign*> signs;
  std::vector<std::uint32_t> prepared;  // the slots that serve() was told to prepare for
};

const PollerSet::Member& at(PollerSet& set, std::size_t place) {
  return *set.next_to_ask(place, PollerSet::kAll, PollerSet::kAll);
}

// Asks all once, in vain. Returns whether one of them is due to rest.
bool ask_all(PollerSet& set) {
  bool any = false;
  std::size_t place = 0;
  for (; const auto* awake = set.next_to_ask(place, PollerSet::kAll, PollerSet::kAll); ++place)
    any |= set.asked(place, awake->slot, false);
  return any;
}

// The same, and those that are due go to rest.
void let_due_rest(PollerSet& set) {
  std::vector<std::uint32_t> due;
  std::size_t place = 0;
  for (; const auto* awake = set.next_to_ask(place, PollerSet::kAll, PollerSet::kAll); ++place)
    if (const std::uint32_t slot = awake->slot; set.asked(place, slot, false)) due.push_back(slot);
  for (const std::uint32_t slot : due) set.let_rest(slot);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(poller_set)

BOOST_AUTO_TEST_CASE(new_poller_rests_until_woken) {
  PollerCounts counts;
  PollerSet set(counts);
  set.add(3);
  BOOST_TEST(counts.awake == 0U);
  BOOST_TEST(counts.some_rest);
  set.wake(3);
  BOOST_TEST(counts.awake == 1U);
  BOOST_TEST(!counts.some_rest);
  set.let_rest(3);
  BOOST_TEST(counts.some_rest);
  set.remove(3);
  BOOST_TEST(!counts.some_rest);
  set.remove(3);
  set.remove(99);  // a handler that is no poller
}

BOOST_AUTO_TEST_CASE(sign_of_a_reused_slot_is_clear) {
  Pollers pollers(1);
  BOOST_TEST(pollers.signs[0]->shows_input());
  pollers.set.remove(0);
  BOOST_TEST(&pollers.set.add(0) == pollers.signs[0]);
  BOOST_TEST(!pollers.signs[0]->shows_input());
}

BOOST_AUTO_TEST_CASE(named_poller_wakes_at_the_next_poll) {
  Pollers pollers(2);
  pollers.set.let_rest(0);
  pollers.set.let_rest(1);
  pollers.set.wake_when_polled(1);
  pollers.set.wake_when_polled(1);
  BOOST_TEST(pollers.counts.some_when_polled);
  BOOST_TEST(pollers.counts.awake == 0U);
  pollers.set.wake_for_poll();
  BOOST_TEST(!pollers.counts.some_when_polled);
  BOOST_REQUIRE(pollers.counts.awake == 1U);
  BOOST_TEST(at(pollers.set, 0).slot == 1U);
}

BOOST_AUTO_TEST_CASE(named_poller_that_is_gone_does_not_wake) {
  Pollers pollers(1);
  pollers.set.wake_when_polled(0);
  pollers.set.remove(0);
  pollers.set.wake_for_poll();
  BOOST_TEST(pollers.counts.awake == 0U);
}

BOOST_AUTO_TEST_CASE(few_pollers_are_never_due_to_rest) {
  Pollers pollers(tuning::kFewPollers);
  for (std::uint32_t i = 0; i != 2 * tuning::kRestAfter; ++i) BOOST_REQUIRE(!ask_all(pollers.set));
}

BOOST_AUTO_TEST_CASE(idle_poller_of_several_is_due_to_rest) {
  Pollers pollers(tuning::kFewPollers + 1);
  for (std::uint32_t i = 1; i != tuning::kRestAfter; ++i) BOOST_REQUIRE(!ask_all(pollers.set));
  pollers.set.wake(0);  // it starts anew
  BOOST_TEST(ask_all(pollers.set));
  BOOST_TEST(at(pollers.set, 0).misses == 1U);
  BOOST_TEST(at(pollers.set, 1).misses == tuning::kRestAfter);
}

BOOST_AUTO_TEST_CASE(idle_poller_of_very_many_rests_at_once) {
  Pollers pollers(tuning::kManyPollers + 1);
  BOOST_TEST(ask_all(pollers.set));
  for (std::uint32_t slot = tuning::kManyPollers; slot != tuning::kGlanced; --slot) {
    BOOST_REQUIRE(ask_all(pollers.set));
    pollers.set.let_rest(slot);
  }
  pollers.set.let_rest(tuning::kGlanced);
  BOOST_TEST(!ask_all(pollers.set));
}

// A program may come to use only some of very many.
BOOST_AUTO_TEST_CASE(more_stay_awake_some_time_later) {
  Pollers pollers(tuning::kManyPollers + 1);
  pollers.set.let_rest(0);
  std::minstd_rand random;
  for (std::uint32_t left = tuning::kCrowdedFor; left != 0; --left) {
    BOOST_REQUIRE((left != 1 || ask_all(pollers.set)));
    pollers.set.wake_for_input(1 + static_cast<std::uint32_t>(random() % tuning::kManyPollers));
  }
  BOOST_TEST(!ask_all(pollers.set));
}

// The order is learned although they rest, from the descriptors that wake them. Once it is known,
// they stay awake, however many there are; until it changes.
BOOST_AUTO_TEST_CASE(very_many_in_a_known_order_stay_awake) {
  constexpr std::uint32_t kCount = 4 * tuning::kManyPollers;
  Pollers pollers(kCount);
  const auto all_rest = [&] {
    for (std::uint32_t slot = 0; slot != kCount; ++slot) pollers.set.let_rest(slot);
  };
  all_rest();
  for (const bool known : {false, true}) {
    for (std::uint32_t slot = 0; slot != kCount; ++slot) pollers.set.wake_for_input(slot);
    BOOST_TEST(ask_all(pollers.set) != known);
    if (!known) all_rest();
  }
  std::uint32_t slot = 0;
  for (std::uint32_t i = 0; i != 2 * kCount; ++i) {
    pollers.put(i % kCount);
    BOOST_REQUIRE(pollers.serve(slot) == 1);
    BOOST_REQUIRE(slot == i % kCount);
  }
  BOOST_TEST(!ask_all(pollers.set));
  std::minstd_rand random;
  for (std::uint32_t i = 0; i != 2 * tuning::kMostOrder; ++i)
    pollers.set.wake_for_input(static_cast<std::uint32_t>(random() % kCount));
  BOOST_TEST(ask_all(pollers.set));
}

// The order outlives that the service thread puts all to rest.
BOOST_AUTO_TEST_CASE(order_is_still_known_after_a_rest) {
  Pollers pollers(kMany);
  std::uint32_t slot = 0;
  for (std::uint32_t i = 0; i != 3 * kMany; ++i) {
    pollers.put(i % kMany);
    BOOST_REQUIRE(pollers.serve(slot) != 0);
  }
  for (std::uint32_t i = 0; i != kMany; ++i) pollers.set.let_rest(i);
  for (std::uint32_t i = 0; i != kMany; ++i) pollers.set.wake(kMany - 1 - i);  // another place
  for (std::uint32_t i = 0; i != 3 * kMany; ++i) {
    pollers.put(i % kMany);
    BOOST_REQUIRE(pollers.serve(slot) == 1);
  }
}

BOOST_AUTO_TEST_CASE(few_are_woken_but_not_more) {
  Pollers pollers(tuning::kFewPollers);
  for (std::uint32_t i = 0; i != 3; ++i) pollers.set.let_rest(i);
  pollers.set.wake_few();
  BOOST_TEST(!pollers.counts.some_rest);
  pollers.add();
  pollers.set.let_rest(0);
  pollers.set.wake_few();
  BOOST_TEST(pollers.counts.some_rest);
}

BOOST_AUTO_TEST_CASE(quiet_pollers_are_passed_over) {
  Pollers pollers(5);
  pollers.put(3);
  const auto asked = [&](std::size_t quiet) {
    std::set<std::uint32_t> slots;
    std::size_t place = 0;
    for (; const auto* awake = pollers.set.next_to_ask(place, 5, quiet); ++place)
      slots.insert(awake->slot);
    return slots;
  };
  BOOST_TEST((asked(PollerSet::kNone) == std::set<std::uint32_t>{3}));
  BOOST_TEST((asked(1) == std::set<std::uint32_t>{1, 3}));
  BOOST_TEST(asked(PollerSet::kAll).size() == 5U);
}

BOOST_AUTO_TEST_CASE(outcome_of_a_moved_poller_is_dropped) {
  constexpr std::uint32_t kLast = tuning::kManyPollers + 1;
  Pollers pollers(kLast + 1);
  pollers.set.let_rest(5);  // the last one gets its place
  BOOST_TEST(!pollers.set.asked(5, 5, false));
  BOOST_TEST(!pollers.set.asked(kLast, kLast, false));
  BOOST_TEST(pollers.set.asked(5, kLast, false));
}

BOOST_AUTO_TEST_CASE(busy_poller_does_not_starve_the_next) {
  for (const std::size_t count : {std::size_t{2}, std::size_t{20}, kMany}) {
    Pollers pollers(count);
    std::uint32_t slot = 0;
    pollers.put(0);
    BOOST_REQUIRE(pollers.serve(slot) != 0);
    pollers.put(0);
    pollers.put(1);
    std::set<std::uint32_t> served;
    for (int i = 0; i != 2; ++i) {
      BOOST_REQUIRE(pollers.serve(slot) != 0);
      served.insert(slot);
    }
    BOOST_TEST(served.size() == 2U);
  }
}

BOOST_AUTO_TEST_CASE(nothing_is_found_while_all_are_quiet) {
  Pollers pollers(kMany);
  std::uint32_t slot = 0;
  BOOST_TEST(pollers.serve(slot) == 0);
  PollerCounts counts;
  PollerSet::Member* soon = nullptr;
  BOOST_TEST(PollerSet(counts).next_with_input(soon) == nullptr);
  BOOST_TEST(soon == nullptr);
}

// While such a program waits for the next connection, the one behind it is prepared, once.
BOOST_AUTO_TEST_CASE(next_but_one_is_prepared_in_a_known_order) {
  for (const std::size_t count : {tuning::kFewPollers, kMany}) {
    Pollers pollers(count);
    std::uint32_t slot = 0;
    for (std::size_t i = 0; i != 3 * count; ++i) {
      pollers.put(i % count);
      BOOST_REQUIRE(pollers.serve(slot) != 0);
    }
    pollers.prepared.clear();
    BOOST_TEST(pollers.serve(slot) == 0);  // waits in vain
    const std::vector<std::uint32_t> expected(count == kMany ? 1 : 0, 1);
    BOOST_TEST(pollers.prepared == expected, boost::test_tools::per_element());
  }
}

// A flood of input in a known order is no reason to ask the others seldom.
BOOST_AUTO_TEST_CASE(order_counts_if_polls_wait_for_input) {
  Pollers pollers(kMany);
  std::uint32_t slot = 0;
  for (const bool waits : {false, true, false}) {
    for (std::size_t i = 0; i != 3 * kMany; ++i) {
      PollerSet::Member* soon = nullptr;
      if (waits) static_cast<void>(pollers.set.next_with_input(soon));
      pollers.put(i % kMany);
      BOOST_REQUIRE(pollers.serve(slot) != 0);
    }
    BOOST_TEST(pollers.counts.in_order == waits);
  }
  PollerSet::Member* soon = nullptr;
  static_cast<void>(pollers.set.next_with_input(soon));
  pollers.put(kMany / 2);  // out of order
  BOOST_REQUIRE(pollers.serve(slot) != 0);
  BOOST_TEST(!pollers.counts.in_order);
}

BOOST_AUTO_TEST_CASE(nothing_is_prepared_in_an_unknown_order) {
  Pollers pollers(kMany);
  std::minstd_rand random;
  std::uint32_t slot = 0;
  for (std::size_t i = 0; i != 10 * kMany; ++i) {
    pollers.put(random() % kMany);
    BOOST_REQUIRE(pollers.serve(slot) != 0);
  }
  pollers.prepared.clear();
  pollers.put(0);
  BOOST_REQUIRE(pollers.serve(slot) != 0);
  pollers.put(kMany / 2);
  BOOST_REQUIRE(pollers.serve(slot) != 0);  // a new order
  BOOST_TEST(pollers.serve(slot) == 0);
  BOOST_TEST(pollers.prepared.empty());
}

// A program that uses many connections in a fixed order gets its input where it came the last time.
// The second lap finds each at the first glance, as only the guess can do among so many.
BOOST_AUTO_TEST_CASE(first_poll_finds_input_in_a_known_order) {
  Pollers pollers(10 * tuning::kGlanced);
  const auto lap = [&] {
    std::size_t at_once = 0;
    for (std::size_t i = 0; i != pollers.words.size(); ++i) {
      const std::size_t place = i * 7 % pollers.words.size();
      pollers.put(place);
      std::uint32_t slot = 0;
      if (pollers.serve(slot) == 1 && slot == place) ++at_once;
    }
    return at_once;
  };
  lap();
  BOOST_TEST(lap() >= pollers.words.size() - 1);
}

// Once the guesses have proved right, the next glances check nothing else.
BOOST_AUTO_TEST_CASE(wrong_guess_costs_some_glances) {
  Pollers pollers(20);
  std::uint32_t slot = 0;
  for (std::size_t i = 0; i != 100; ++i) {
    pollers.put(i % 2);
    BOOST_REQUIRE(pollers.serve(slot) != 0);
  }
  pollers.put(10);
  BOOST_TEST(pollers.serve(slot) == static_cast<int>(tuning::kTrusted) + 1);
  BOOST_TEST(slot == 10U);
}

BOOST_AUTO_TEST_CASE(pieces_cover_all_in_turn) {
  AskOrder order;
  constexpr std::size_t kAwake = 3 * tuning::kAskedPerTurn / 2;
  const AskOrder::Piece first = order.next(kAwake, false);
  const AskOrder::Piece second = order.next(kAwake, false);
  const AskOrder::Piece third = order.next(kAwake, false);
  BOOST_TEST(first.begin == 0U);
  BOOST_TEST(second.begin == first.end);
  BOOST_TEST(second.end == kAwake);
  BOOST_TEST(third.begin == 0U);
  BOOST_TEST(order.next(kAwake, true).end == kAwake);
  const AskOrder::Piece small = order.next(kAwake, false, AskOrder::Order::kKnown);
  BOOST_TEST(small.end == small.begin + tuning::kAskedInOrder);
  const AskOrder::Piece smaller = order.next(kAwake, false, AskOrder::Order::kWaiting);
  BOOST_TEST(smaller.begin == small.end);
  BOOST_TEST(smaller.end == smaller.begin + tuning::kAskedWaiting);
}

BOOST_AUTO_TEST_CASE(each_quiet_poller_is_called_at_times) {
  AskOrder order;
  std::set<std::size_t> called;
  for (std::uint32_t i = 0; i != 5 * tuning::kTurnsPerQuietCall; ++i)
    called.insert(order.next(5, false).quiet);
  called.erase(PollerSet::kNone);
  BOOST_TEST((called == std::set<std::size_t>{0, 1, 2, 3, 4}));
}

// The cost of a message does not depend on the number of connections: each is found by the first
// glance, which reads one sign. The order is not that of the list.
BOOST_AUTO_TEST_CASE(message_of_many_in_turn_costs_one_glance) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{64}, std::size_t{1000}}) {
    Pollers pollers(count);
    std::uint32_t slot = 0;
    for (std::size_t i = 0; i != 4 * count; ++i) {
      constexpr std::size_t kPrime = 37;
      const std::size_t next = i * kPrime % count;
      pollers.put(next);
      const int glances = pollers.serve(slot);
      BOOST_REQUIRE(slot == next);
      if (i > count) BOOST_REQUIRE(glances == 1);  // the order is known
    }
  }
}

// A turn that comes between two glances may serve a message as well. The guess goes on from there.
BOOST_AUTO_TEST_CASE(message_that_a_turn_has_served_does_not_spoil_the_guess) {
  constexpr std::size_t kTurnEvery = 9;
  for (const std::size_t count : {std::size_t{64}, tuning::kManyPollers}) {
    Pollers pollers(count);
    std::uint32_t slot = 0;
    for (std::size_t i = 0; i != 4 * count; ++i) {
      const std::size_t next = i % count;
      pollers.put(next);
      if (i % kTurnEvery == 0) {
        BOOST_REQUIRE(pollers.turn() == next);
        continue;
      }
      const int glances = pollers.serve(slot);
      BOOST_REQUIRE(slot == next);
      if (i > 2 * count) BOOST_REQUIRE(glances == 1);
    }
  }
}

// Once the others rest, the glances are those of a program that has only the connections in use.
BOOST_AUTO_TEST_CASE(message_of_few_among_many_costs_as_that_of_few) {
  constexpr std::size_t kUsed = 16;
  constexpr int kMessages = 10'000;
  for (const std::size_t count : {kUsed, std::size_t{64}, tuning::kManyPollers}) {
    Pollers pollers(count);
    std::uint32_t slot = 0;
    for (std::uint32_t turn = 0; turn != tuning::kRestAfter; ++turn) {
      if (turn % 100 == 0)
        for (std::size_t i = 0; i != kUsed; ++i) {
          pollers.put(i);
          BOOST_REQUIRE(pollers.serve(slot) != 0);
        }
      let_due_rest(pollers.set);
    }
    BOOST_REQUIRE(pollers.counts.awake == kUsed);
    std::minstd_rand random;
    int glances = 0;
    for (int i = 0; i != kMessages; ++i) {
      pollers.put(random() % kUsed);
      glances += pollers.serve(slot);
    }
    BOOST_TEST(glances >= kMessages);
    BOOST_TEST(glances <= kMessages + kMessages / 10);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
