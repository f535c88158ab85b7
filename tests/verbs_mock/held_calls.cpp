// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Calls that a test interrupts, and receives that are not flushed at once.
#include "device.h"

#include "mock_control.h"

#include <atomic>
#include <condition_variable>
#include <mutex>

namespace verbs_mock {

namespace {

struct Hold {
  std::mutex mutex;
  std::condition_variable changed;
  verbs_mock_hold when = VERBS_MOCK_HOLD_NONE;
  unsigned waiting = 0;
};

Hold& hold() {
  static auto* const made = new Hold;
  return *made;
}

std::atomic<bool> lazy{false};

}  // namespace

void hold_at(verbs_mock_hold stage) {
  std::unique_lock<std::mutex> lock(hold().mutex);
  if (hold().when != stage) return;
  ++hold().waiting;
  hold().changed.wait(lock, [stage] { return hold().when != stage; });
  --hold().waiting;
}

bool flushes_lazily() noexcept { return lazy; }

}  // namespace verbs_mock

using namespace verbs_mock;

extern "C" {

void verbs_mock_flush_lazily(bool flush_lazily) { lazy = flush_lazily; }

void verbs_mock_hold_calls(verbs_mock_hold when) {
  const std::unique_lock<std::mutex> lock(hold().mutex);
  hold().when = when;
  hold().changed.notify_all();
}

unsigned verbs_mock_held_calls() {
  const std::unique_lock<std::mutex> lock(hold().mutex);
  return hold().waiting;
}

}  // extern "C"
