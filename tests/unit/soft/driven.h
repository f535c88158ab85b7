// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "tests/unit/soft/side.h"

#include <atomic>
#include <thread>

namespace udapl::soft::test {

// A thread that drives one side during its lifetime. The rings of both sides are awake.
class Driven {
 public:
  Driven(Side& side, Side& peer) : side_(side) {
    for (int i = 0; i < kPolls || polls_ < kPolls; ++i) peer.reactor->progress();
  }
  ~Driven() { over_ = true; }

 private:
  static constexpr int kPolls = 2000;
  Side& side_;
  std::atomic<bool> over_{false};
  std::atomic<int> polls_{0};
  std::jthread thread_{[this] {
    while (!over_) {
      side_.reactor->progress();
      ++polls_;
    }
  }};
};

}  // namespace udapl::soft::test
