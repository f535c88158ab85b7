// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Which polls make a turn, and what a turn does.
#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <deque>
#include <random>
#include <vector>

#include "providers/reactor/hot_handler.h"
#include "providers/reactor/poll_policy.h"
#include "providers/reactor/turn_policy.h"
#include "providers/reactor/write_ahead.h"

namespace udapl::test {

namespace {

// A poll that finds nothing in its turn, if it makes one. Returns whether it did.
bool poll_in_vain(PollPolicy& policy) {
  const std::uint32_t poll = policy.count();
  const bool due = policy.due(poll);
  if (due) policy.found_nothing(poll, false);
  return due;
}

using Others = PollPolicy::Others;

// How many polls in vain precede the next yield.
std::uint32_t polls_to_yield(PollPolicy& policy, Others ran) {
  for (std::uint32_t polls = 0; polls != 10'000; ++polls) {
    const std::uint32_t poll = policy.count();
    if (!policy.due(poll)) continue;
    policy.found_nothing(poll, false);
    if (!policy.yield_due(poll)) continue;
    policy.yielded(poll, ran);
    return polls;
  }
  return 0;
}

struct Silent final : Handler {
  void on_ready(std::uint32_t) noexcept override {}
};

// Handlers in a table.
struct Watched {
  explicit Watched(std::size_t count) : handlers(count) {
    for (Silent& handler : handlers) {
      table.reserve();
      table.add(handler, 0, false);
      names.push_back(table.name_of(WatchTable::index_of(handler)));
    }
  }
  void ready(HotHandler& hot, std::size_t which) { hot.ready(names[which], table); }
  void look(HotHandler& hot, bool finds) {
    hot.look_ahead(table);
    hot.looked(finds, !finds);
  }

  WatchTable table;
  std::deque<Silent> handlers;
  std::vector<WatchTable::Name> names;
};

void make_habit(TurnPolicy& policy) {
  while (!policy.habitual()) (void)policy.end_turn(false);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(poll_policy)

BOOST_AUTO_TEST_CASE(first_polls_make_turns_later_ones_some) {
  PollPolicy policy;
  for (std::uint32_t i = 0; i != tuning::kEagerPolls; ++i) BOOST_TEST(poll_in_vain(policy));
  int turns = 0;
  for (std::uint32_t i = 0; i != 10 * tuning::kStride; ++i) turns += poll_in_vain(policy) ? 1 : 0;
  BOOST_TEST(turns == 10);
}

BOOST_AUTO_TEST_CASE(find_makes_polls_eager_again) {
  PollPolicy policy;
  for (int i = 0; i != 30; ++i) poll_in_vain(policy);
  policy.found();
  for (std::uint32_t i = 0; i != tuning::kEagerPolls; ++i) BOOST_TEST(poll_in_vain(policy));
}

BOOST_AUTO_TEST_CASE(cheap_poll_does_not_delay_the_next) {
  PollPolicy policy;
  for (int i = 0; i != 100; ++i) {
    const std::uint32_t poll = policy.count();
    BOOST_REQUIRE(policy.due(poll));
    policy.found_nothing(poll, true);
  }
}

// Two threads poll: one resets the count while the other one is inside a poll.
BOOST_AUTO_TEST_CASE(turn_is_due_though_planned_far_ahead) {
  PollPolicy policy;
  policy.found();
  policy.found_nothing(1'000'000, false);
  BOOST_TEST(policy.due(policy.count()));
}

BOOST_AUTO_TEST_CASE(yields_are_rare_unless_others_run) {
  PollPolicy policy;
  BOOST_TEST(polls_to_yield(policy, Others::kBriefly) + 1 == tuning::kUncontendedStride);
  BOOST_TEST(policy.contended());
  BOOST_TEST(polls_to_yield(policy, Others::kBriefly) + 1 == tuning::kContendedStride);
  BOOST_TEST(polls_to_yield(policy, Others::kNone) + 1 == tuning::kContendedStride);
  BOOST_TEST(!policy.contended());
  BOOST_TEST(polls_to_yield(policy, Others::kBriefly) + 1 == tuning::kUncontendedStride);
  policy.found();
  BOOST_TEST(polls_to_yield(policy, Others::kBriefly) + 1 == tuning::kPatientPolls);
}

// The peer that would answer at once has no processor.
BOOST_AUTO_TEST_CASE(patience_ends_if_answers_come_after_yields) {
  PollPolicy policy;
  (void)polls_to_yield(policy, Others::kBriefly);
  int patient = 0;
  for (std::uint32_t find = 1; find != 4 * tuning::kPatientAgain + 1; ++find) {
    policy.found();
    const std::uint32_t polls = polls_to_yield(policy, Others::kBriefly) + 1;
    if (find >= tuning::kImpatientAfter && find % tuning::kPatientAgain != 0)
      BOOST_TEST(polls == tuning::kContendedStride);
    else
      BOOST_TEST(polls == tuning::kPatientPolls);
    patient += polls == tuning::kPatientPolls ? 1 : 0;
  }
  BOOST_TEST(patient == 5);
}

BOOST_AUTO_TEST_CASE(patience_returns_with_an_answer_before_the_yield) {
  PollPolicy policy;
  (void)polls_to_yield(policy, Others::kBriefly);
  for (std::uint32_t find = 0; find != 3; ++find) {
    policy.found();
    (void)polls_to_yield(policy, Others::kBriefly);
  }
  policy.found();  // from now on without patience
  (void)poll_in_vain(policy);
  policy.found();
  BOOST_TEST(polls_to_yield(policy, Others::kBriefly) + 1 == tuning::kPatientPolls);
}

// Two peers whose processors others use for milliseconds get some messages through in between.
BOOST_AUTO_TEST_CASE(patience_remains_if_yields_are_long) {
  PollPolicy policy;
  (void)polls_to_yield(policy, Others::kLong);
  BOOST_TEST(polls_to_yield(policy, Others::kLong) + 1 == tuning::kLongYieldStride);
  for (std::uint32_t find = 0; find != 2 * tuning::kPatientAgain; ++find) {
    policy.found();
    BOOST_TEST(polls_to_yield(policy, Others::kLong) + 1 == tuning::kPatientPolls);
  }
}

BOOST_AUTO_TEST_CASE(many_blocked_polls_ask_the_leader_to_go) {
  PollPolicy policy;
  for (std::uint32_t i = 1; i != tuning::kBlockedPolls; ++i) BOOST_TEST(!policy.blocked());
  policy.unblocked();
  for (std::uint32_t i = 1; i != tuning::kBlockedPolls; ++i) BOOST_TEST(!policy.blocked());
  BOOST_TEST(policy.blocked());
  BOOST_TEST(!policy.blocked());
}

BOOST_AUTO_TEST_CASE(poll_after_takes_is_recognised) {
  PollPolicy policy;
  const Clock::time_point now = Clock::now();
  policy.took_many(now);
  BOOST_TEST((policy.took_many(now + Clock::duration(5)) == now));
  BOOST_TEST(policy.among_takes(policy.count()));
  BOOST_TEST(!policy.among_takes(policy.count()));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(turn_policy)

BOOST_AUTO_TEST_CASE(turns_in_a_row_become_a_habit) {
  TurnPolicy policy;
  for (std::uint32_t i = 1; i != tuning::kHabit; ++i) (void)policy.end_turn(false);
  BOOST_TEST(!policy.habitual());
  BOOST_TEST(policy.end_turn(false));  // renews the lease
  BOOST_TEST(policy.habitual());
  policy.interrupt();
  BOOST_TEST(!policy.habitual());
  policy.expect_habit();
  (void)policy.end_turn(true);
  BOOST_TEST(policy.habitual());
}

// Regression: after an interruption turns() began anew, so that the same number came again.
BOOST_AUTO_TEST_CASE(turns_go_on_after_an_interruption) {
  for (const bool expected : {false, true}) {
    TurnPolicy policy;
    std::uint32_t last = policy.turns();
    for (int round = 0; round != 5; ++round) {
      if (expected) policy.expect_habit();
      make_habit(policy);
      BOOST_TEST(policy.turns() > last);
      last = policy.turns();
      policy.interrupt();
      policy.interrupt();
      BOOST_TEST(policy.turns() == last + 2);
    }
  }
}

BOOST_AUTO_TEST_CASE(turns_that_find_renew_the_lease_at_times) {
  TurnPolicy policy;
  make_habit(policy);
  std::uint32_t renewals = 0;
  for (std::uint32_t i = 0; i != 10 * tuning::kHabit; ++i) renewals += policy.end_turn(true);
  BOOST_TEST(renewals == 10U);
}

BOOST_AUTO_TEST_CASE(some_glances_are_followed_by_a_turn) {
  for (const bool some_rest : {false, true}) {
    TurnPolicy policy;
    const auto most = some_rest ? tuning::kGlancesIfSomeRest : tuning::kGlancesPerTurn;
    for (std::uint32_t i = 1; i != most; ++i) BOOST_TEST(!policy.turn_due(some_rest));
    BOOST_TEST(policy.turn_due(some_rest));
    BOOST_TEST(!policy.turn_due(some_rest));
  }
}

BOOST_AUTO_TEST_CASE(served_pollers_do_not_put_off_the_turn) {
  TurnPolicy policy;
  make_habit(policy);
  std::uint32_t serves = 0;
  while (!policy.turn_due(false)) {
    policy.begin_serving();
    policy.served();
    ++serves;
  }
  BOOST_TEST(serves <= tuning::kServesPerTurn);
}

BOOST_AUTO_TEST_CASE(epoll_is_polled_less_as_it_reports_nothing) {
  TurnPolicy policy;
  const auto turns_to_wait = [&](bool found, bool some_rest) {
    std::uint32_t turns = 1;
    while (!policy.wait_due(found, some_rest)) ++turns;
    return turns;
  };
  for (std::uint32_t turns = tuning::kTurnsPerWait; turns <= tuning::kFoundPerWait; turns *= 2) {
    BOOST_TEST(turns_to_wait(false, false) == turns);
    policy.reported_nothing();
  }
  policy.reported_nothing();
  BOOST_TEST(turns_to_wait(false, false) == tuning::kFoundPerWait);
  BOOST_TEST(turns_to_wait(true, false) == tuning::kFoundPerWait);
  BOOST_TEST(turns_to_wait(false, true) == 1U);
  policy.reported();
  BOOST_TEST(turns_to_wait(false, false) == tuning::kTurnsPerWait);
}

BOOST_AUTO_TEST_CASE(glances_grow_while_no_poller_wakes) {
  TurnPolicy policy;
  const auto glances = [&] {
    std::uint32_t count = 1;
    while (!policy.turn_due(true)) ++count;
    return count;
  };
  for (std::uint32_t most = tuning::kGlancesIfSomeRest; most <= tuning::kGlancesPerTurn;
       most *= 2) {
    BOOST_TEST(glances() == most);
    policy.reported_nothing();
  }
  BOOST_TEST(glances() == tuning::kGlancesPerTurn);
  policy.reported();
  BOOST_TEST(glances() == tuning::kGlancesIfSomeRest);
}

BOOST_AUTO_TEST_CASE(timers_wait_for_few_finds) {
  TurnPolicy policy;
  BOOST_TEST(policy.timers_due(false, false));
  BOOST_TEST(policy.timers_due(true, true));
  for (std::uint32_t i = 1; i != tuning::kTimersPerFound; ++i)
    BOOST_TEST(!policy.timers_due(true, false));
  BOOST_TEST(policy.timers_due(true, false));
}

BOOST_AUTO_TEST_CASE(few_pollers_are_woken_now_and_then) {
  TurnPolicy policy;
  std::uint32_t wakes = 0;
  for (std::uint32_t i = 0; i != 3 * tuning::kWakeFewEvery; ++i) {
    (void)policy.end_turn(false);
    wakes += policy.wakes_few();
  }
  BOOST_TEST(wakes == 3U);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(hot_handler)

BOOST_AUTO_TEST_CASE(one_ready_in_a_row_becomes_hot) {
  Watched watched(2);
  HotHandler handler;
  for (std::uint32_t i = 1; i != tuning::kHot; ++i) watched.ready(handler, 0);
  BOOST_TEST(!handler.hot());
  watched.ready(handler, 0);
  BOOST_TEST(handler.hot());
  BOOST_TEST(handler.name() == watched.names[0]);
  watched.ready(handler, 1);
  BOOST_TEST(!handler.hot());
}

BOOST_AUTO_TEST_CASE(hot_one_leaves_some_turns_to_epoll) {
  HotHandler handler;
  std::uint32_t looks = 0;
  for (std::uint32_t i = 0; i != 10 * tuning::kLooksPerWait; ++i) looks += handler.look_due();
  BOOST_TEST(looks == 10 * (tuning::kLooksPerWait - 1));
}

// Those that find something may have taken long.
BOOST_AUTO_TEST_CASE(quiet_looks_take_the_place_of_turns) {
  Watched watched(1);
  HotHandler handler;
  for (std::uint32_t i = 0; i != tuning::kHot; ++i) watched.ready(handler, 0);
  BOOST_TEST(!handler.look_suffices());
  handler.looked(false, true);
  std::uint32_t finds = 0;
  for (; handler.look_suffices(); ++finds) {
    BOOST_TEST(handler.look_due());
    watched.look(handler, true);
  }
  BOOST_TEST(finds == tuning::kLooksPerWait / tuning::kQuietPerLook);
  BOOST_TEST(!handler.look_due());
  BOOST_TEST(handler.look_suffices());
  handler.looked(false, false);
  BOOST_TEST(!handler.look_suffices());
}

BOOST_AUTO_TEST_CASE(hot_one_without_input_cools_down) {
  for (const bool quiet : {false, true}) {
    const std::uint32_t most = tuning::kColdAfter / (quiet ? 1 : tuning::kQuietPerLook);
    Watched watched(1);
    HotHandler handler;
    for (std::uint32_t i = 0; i != tuning::kHot; ++i) watched.ready(handler, 0);
    for (std::uint32_t i = 1; i != most; ++i) handler.looked(false, quiet);
    handler.looked(true, false);
    for (std::uint32_t i = 1; i != most; ++i) handler.looked(false, quiet);
    BOOST_TEST(handler.hot());
    handler.looked(false, quiet);
    BOOST_TEST(!handler.hot());
  }
}

// The second lap finds most by a look, without epoll, whatever the order.
BOOST_AUTO_TEST_CASE(each_of_many_in_turn_is_expected) {
  for (const std::size_t count : {std::size_t{2}, std::size_t{64}, std::size_t{1000}}) {
    Watched watched(count);
    HotHandler handler;
    for (std::size_t i = 0; i != count + tuning::kHot; ++i) watched.ready(handler, i * 37 % count);
    for (std::size_t i = count + tuning::kHot; i != 4 * count + tuning::kHot; ++i) {
      BOOST_REQUIRE(handler.hot());
      BOOST_REQUIRE(handler.name() == watched.names[i * 37 % count]);
      if (i % 7 == 0)  // epoll was polled in between
        watched.ready(handler, i * 37 % count);
      else
        watched.look(handler, true);
    }
  }
}

BOOST_AUTO_TEST_CASE(none_is_expected_in_an_unknown_order) {
  constexpr std::size_t kCount = 64;
  Watched watched(kCount);
  HotHandler handler;
  std::minstd_rand random;
  std::size_t hot = 0;
  for (std::size_t i = 0; i != 10 * kCount; ++i) {
    watched.ready(handler, random() % kCount);
    hot += handler.hot();
  }
  BOOST_TEST(hot == 0U);
}

// A guess is relied upon for no more looks than guesses were right.
BOOST_AUTO_TEST_CASE(fresh_guess_costs_few_looks) {
  Watched watched(3);
  HotHandler handler;
  for (std::size_t i = 0; !handler.hot(); ++i) watched.ready(handler, i % 3);
  std::uint32_t looks = 0;
  while (handler.look_due()) ++looks;
  BOOST_TEST(looks < tuning::kHot);
}

// While a look finds nothing, the one after the expected one is prepared, once.
BOOST_AUTO_TEST_CASE(next_but_one_is_named_once) {
  Watched watched(3);
  HotHandler handler;
  for (std::size_t i = 0; i != 9; ++i) watched.ready(handler, i % 3);
  BOOST_REQUIRE(handler.name() == watched.names[0]);
  watched.look(handler, true);
  BOOST_TEST(handler.soon() == WatchTable::kNoName);
  watched.look(handler, false);
  BOOST_TEST(handler.soon() == watched.names[2]);
  watched.look(handler, false);
  BOOST_TEST(handler.soon() == WatchTable::kNoName);
  Watched one(1);
  HotHandler alone;
  for (std::size_t i = 0; i != 9; ++i) one.ready(alone, 0);
  one.look(alone, false);
  BOOST_TEST(alone.soon() == WatchTable::kNoName);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(write_ahead)

BOOST_AUTO_TEST_CASE(polls_fetch_a_piece_each) {
  constexpr std::uint32_t kPiece = tuning::kFetchedAtOnce;
  const std::vector<char> memory(2 * kPiece + 100);
  WriteAhead ahead;
  ahead.fetch();
  BOOST_TEST(ahead.left() == 0U);
  ahead.expect(memory.data(), memory.size());
  for (const std::uint32_t left : {kPiece + 100, 100U, 0U, 0U}) {
    ahead.fetch();
    BOOST_TEST(ahead.left() == left);
  }
}

BOOST_AUTO_TEST_CASE(last_message_tells_what_is_expected) {
  const std::vector<char> memory(2 * tuning::kFetchedAtOnce);
  WriteAhead ahead;
  ahead.expect(memory.data(), memory.size());
  ahead.fetch();
  ahead.expect(memory.data(), 300);
  BOOST_TEST(ahead.left() == 300U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
