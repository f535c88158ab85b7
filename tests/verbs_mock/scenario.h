// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <boost/test/unit_test.hpp>

#include <string>

#include "run.h"

namespace faults {

// A scenario in which no call fails. A test requires each step (BOOST_REQUIRE). At its end, or when
// a step has failed, what the run has created is freed, and its errors are reported.
struct Scenario {
  explicit Scenario(bool threads = false) : run("mock", threads), pair(run) {}
  ~Scenario() {
    run.finish();
    BOOST_CHECK_MESSAGE(run.outcome().empty(), run.outcome());
    for (const std::string& complaint : run.complaints()) BOOST_ERROR(complaint);
  }
  Scenario(const Scenario&) = delete;
  Scenario& operator=(const Scenario&) = delete;

  Run run;
  Pair pair;
};

}  // namespace faults
