// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "fault.h"

#include "mock_control.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

using verbs_mock::Kind;

constexpr auto kKinds = static_cast<std::size_t>(Kind::kCount);
constexpr const char* kNames[kKinds] = {"context", "pd",           "td",    "mr",
                                        "mw",      "comp channel", "cq",    "srq",
                                        "qp",      "cm channel",   "cm id", "cm event"};

std::atomic<int> live[kKinds];
std::atomic<unsigned> calls{0};
std::atomic<unsigned> fail_at{0};
std::atomic<unsigned> disconnect_delay{0};
std::atomic<unsigned> resolutions_to_lose{0};
std::atomic<unsigned> tos_set{0};
std::atomic<bool> disconnects_lost{false};
std::atomic<const char*> failed{nullptr};

char always[64];      // the call that always fails
int always_with = 0;  // its errno; 0: the typical one of the call

[[gnu::constructor]] void read_environment() {
  if (const char* const text = std::getenv("VERBS_MOCK_FAIL"))
    std::sscanf(text, "%63[a-z_0-9]=%d", always, &always_with);
  if (const char* const at = std::getenv("VERBS_MOCK_FAIL_AT"))
    fail_at = static_cast<unsigned>(std::strtoul(at, nullptr, 10));
}

}  // namespace

bool verbs_mock_fault(const char* call, int error) noexcept {
  if (*always != '\0' && std::strcmp(call, always) == 0) {
    errno = always_with != 0 ? always_with : error;
    return true;
  }
  const unsigned number = calls.fetch_add(1, std::memory_order_relaxed) + 1;
  if (number != fail_at.load(std::memory_order_relaxed)) return false;
  failed = call;
  errno = error;
  return true;
}

void verbs_mock_count(Kind kind, int change) noexcept {
  live[static_cast<std::size_t>(kind)].fetch_add(change, std::memory_order_relaxed);
}

void verbs_mock_fail_at(unsigned n) {
  fail_at = 0;
  calls = 0;
  failed = nullptr;
  fail_at = n;
}

void verbs_mock_lose_resolutions(unsigned n) { resolutions_to_lose = n; }

bool verbs_mock_loses_resolution() noexcept {
  unsigned left = resolutions_to_lose;
  while (left != 0 && !resolutions_to_lose.compare_exchange_weak(left, left - 1)) {
  }
  return left != 0;
}

unsigned verbs_mock_tos() { return tos_set; }

void verbs_mock_note_tos(unsigned tos) noexcept { tos_set = tos; }

void verbs_mock_delay_disconnect(unsigned microseconds) { disconnect_delay = microseconds; }

unsigned verbs_mock_disconnect_delay() noexcept { return disconnect_delay; }

void verbs_mock_lose_disconnects(bool lose) { disconnects_lost = lose; }

bool verbs_mock_disconnects_lost() noexcept { return disconnects_lost; }

const char* verbs_mock_failed_call() { return failed; }

unsigned verbs_mock_live(char* text, std::size_t size) {
  unsigned total = 0;
  std::size_t used = 0;
  if (text != nullptr && size != 0) *text = '\0';
  for (std::size_t i = 0; i < kKinds; ++i) {
    const int count = live[i];
    if (count == 0) continue;
    total += static_cast<unsigned>(count);
    if (text == nullptr || used >= size) continue;
    const int wrote =
        std::snprintf(text + used, size - used, "%s%s %d", used == 0 ? "" : ", ", kNames[i], count);
    if (wrote > 0) used += static_cast<std::size_t>(wrote);
  }
  return total;
}
