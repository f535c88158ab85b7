// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/fd.h"
#include "common/wait_word.h"
#include "providers/reactor/reactor.h"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <memory>
#include <thread>

namespace udapl::test {

using namespace std::chrono_literals;

inline constexpr auto kPatience = 20s;  // only a hang takes longer, on any machine

inline std::unique_ptr<Reactor> make_reactor() {
  auto reactor = Reactor::create("reactor-test");
  BOOST_REQUIRE(reactor.ok());
  return std::move(*reactor);
}

// Waits until condition() without driving any reactor: only the service thread works.
template <class Condition>
[[nodiscard]] bool eventually(Condition condition, Clock::duration patience = kPatience) {
  const auto end = Clock::now() + patience;
  while (!condition()) {
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(200us);
  }
  return true;
}

// Waits until condition(), driving the reactor.
template <class Condition>
bool drive_until(Reactor& reactor, Condition condition) {
  const auto end = Clock::now() + kPatience;
  while (!condition()) {
    if (Clock::now() > end) return false;
    reactor.progress();
  }
  return true;
}

}  // namespace udapl::test
