// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include <array>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/dat/registry_fixture.h"

using namespace registry_test;

BOOST_FIXTURE_TEST_SUITE(registry_threads, Fixture)

BOOST_AUTO_TEST_CASE(concurrent_first_opens_initialise_once) {
  constexpr int kThreads = 8;
  fake::Library& lib = world.add_library(0, a);
  auto add = lib.init;
  lib.init = [&](const DAT_PROVIDER_INFO& info, const std::string& params) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    add(info, params);
  };
  world.configure(line("ia", 0));
  std::vector<DAT_IA_HANDLE> ias(kThreads);
  std::vector<DAT_RETURN> codes(kThreads, 1U);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] { codes[i] = world.open("ia", &ias[i]); });
  for (std::thread& thread : threads) thread.join();
  for (const DAT_RETURN code : codes) BOOST_TEST(code == 0U);
  BOOST_TEST(lib.inits == 1);
  for (const DAT_IA_HANDLE open : ias) BOOST_TEST(world.close(open) == 0U);
  BOOST_TEST(lib.finis == 1);
}

// Both threads find the library not loaded; the second returns from the dynamic linker while the
// first is in init. The second must not touch the entry, which ThreadSanitizer checks.
BOOST_AUTO_TEST_CASE(the_slower_of_two_loads_changes_nothing) {
  fake::Library& lib = world.add_library(0, a);
  std::atomic<int> loading{0};
  std::atomic<bool> in_init{false};
  lib.during_load = [&] {
    const bool first = loading++ == 0;
    while (first ? loading < 2 : !in_init.load(std::memory_order_relaxed))
      std::this_thread::yield();
  };
  auto add = lib.init;
  lib.init = [&](const DAT_PROVIDER_INFO& info, const std::string& params) {
    in_init.store(true, std::memory_order_relaxed);              // without ordering
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // until the second has returned
    add(info, params);
  };
  world.configure(line("ia", 0));
  DAT_IA_HANDLE ias[2] = {};
  DAT_RETURN codes[2] = {1, 1};
  std::thread one([&] { codes[0] = world.open("ia", &ias[0]); });
  std::thread two([&] { codes[1] = world.open("ia", &ias[1]); });
  one.join();
  two.join();
  for (const DAT_RETURN code : codes) BOOST_TEST(code == 0U);
  BOOST_TEST(lib.inits == 1);
  for (const DAT_IA_HANDLE open : ias) BOOST_TEST(world.close(open) == 0U);
}

// Opens and closes of two names in one library and of a chain: init and fini alternate and never
// overlap, no open reaches a provider that is not initialised, and nothing is left registered.
BOOST_AUTO_TEST_CASE(opens_and_closes_from_many_threads) {
  constexpr int kThreads = 6;
  constexpr int kRounds = 300;
  fake::Provider chained("chain");
  std::array<std::atomic<bool>, 3> alive{};
  std::atomic<int> wrong{0};
  const auto guard = [&](std::size_t index, fake::Library& lib, fake::Provider& provider) {
    auto add = lib.init;
    auto remove = lib.fini;
    lib.init = [&, add, index](const DAT_PROVIDER_INFO& info, const std::string& params) {
      if (alive[index].exchange(true)) ++wrong;
      add(info, params);
    };
    lib.fini = [&, remove, index](const DAT_PROVIDER_INFO& info) {
      if (!alive[index].exchange(false)) ++wrong;
      remove(info);
    };
    provider.during_open = [&, index] {
      if (!alive[index]) ++wrong;
    };
  };
  guard(0, world.add_library(0, a), a);
  guard(1, world.add_library(1, b), b);
  guard(2, world.add_library(2, chained), chained);
  b.open_code = kUnreachable;
  world.configure(line("ia", 0) + line("chain", 1) + line("chain", 2));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < kRounds; ++round) {
        DAT_IA_HANDLE handle = nullptr;
        if (world.open(t % 2 == 0 ? "ia" : "chain", &handle) != DAT_SUCCESS) {
          ++wrong;
          continue;
        }
        if (world.close(handle) != DAT_SUCCESS) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  BOOST_TEST(wrong == 0);
  BOOST_TEST(!world.overlapped);
  for (const auto& still : alive) BOOST_TEST(!still);
  BOOST_TEST(a.opened + chained.opened == kThreads * kRounds);
  BOOST_TEST(a.closed == a.opened);
  BOOST_TEST(chained.closed == chained.opened);
}

BOOST_AUTO_TEST_CASE(only_one_of_two_closes_succeeds) {
  world.add_library(0, a);
  world.configure(line("ia", 0));
  for (int round = 0; round < 200; ++round) {
    BOOST_TEST_REQUIRE(world.open("ia", &ia) == 0U);
    DAT_RETURN codes[2] = {1, 1};
    std::thread one([&] { codes[0] = world.close(ia); });
    std::thread two([&] { codes[1] = world.close(ia); });
    one.join();
    two.join();
    BOOST_TEST(
        ((codes[0] == 0U && codes[1] == kInvalidIa) || (codes[1] == 0U && codes[0] == kInvalidIa)));
  }
  BOOST_TEST(a.closed == 200);
}

// While the last close waits for its turn to call fini, an open revives the provider.
BOOST_AUTO_TEST_CASE(open_between_last_close_and_fini) {
  fake::Library& lib = world.add_library(0, a);
  fake::Library& slow = world.add_library(1, b);
  std::atomic<bool> in_init{false}, go_on{false};
  auto add = slow.init;
  slow.init = [&](const DAT_PROVIDER_INFO& info, const std::string& params) {
    in_init = true;
    while (!go_on) std::this_thread::yield();
    add(info, params);
  };
  world.configure(line("ia", 0) + line("slow", 1));
  BOOST_TEST(world.open("ia", &ia) == 0U);
  DAT_IA_HANDLE slow_ia = nullptr, again = nullptr;
  DAT_RETURN slow_open = 1, close = 1;  // checked later, as Boost's checks are not thread-safe
  std::thread opener([&] { slow_open = world.open("slow", &slow_ia); });
  while (!in_init) std::this_thread::yield();
  std::thread closer([&] { close = world.close(ia); });
  while (a.closed == 0) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // until it waits for its turn
  BOOST_TEST(world.open("ia", &again) == 0U);
  go_on = true;
  opener.join();
  closer.join();
  BOOST_TEST(slow_open == 0U);
  BOOST_TEST(close == 0U);
  BOOST_TEST(lib.inits == 1);
  BOOST_TEST(lib.finis == 0);
  BOOST_TEST(world.close(again) == 0U);
  BOOST_TEST(lib.finis == 1);
  BOOST_TEST(world.close(slow_ia) == 0U);
}

BOOST_AUTO_TEST_CASE(ia_is_not_closed_while_it_is_queried) {
  world.add_library(0, a);
  std::atomic<bool> query_started{false}, answer{false};
  a.during_related = [&] {
    query_started = true;
    while (!answer) std::this_thread::yield();
  };
  world.configure(line("ia", 0));
  BOOST_TEST(world.open("ia", &ia) == 0U);
  DAT_RETURN related = 1, close = 1;
  std::thread asker([&] {
    std::string one = "ia", two = "ia";
    related = world.registry().related(one.data(), two.data()).status().code();
  });
  while (!query_started) std::this_thread::yield();
  std::thread closer([&] { close = world.close(ia); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  BOOST_TEST(a.closed == 0);
  answer = true;
  asker.join();
  closer.join();
  BOOST_TEST(related == 0U);
  BOOST_TEST(close == 0U);
  BOOST_TEST(a.closed == 1);
}

BOOST_AUTO_TEST_CASE(related_while_ias_come_and_go) {
  world.add_library(0, a);
  world.configure(line("ia", 0));
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::thread asker([&] {
    std::string one = "ia", two = "ia";
    while (!stop)
      if (!world.registry().related(one.data(), two.data()).ok()) ++wrong;
  });
  for (int round = 0; round < 500; ++round) {
    BOOST_TEST_REQUIRE(world.open("ia", &ia) == 0U);
    BOOST_TEST_REQUIRE(world.close(ia) == 0U);
  }
  stop = true;
  asker.join();
  BOOST_TEST(wrong == 0);
}

BOOST_AUTO_TEST_SUITE_END()
