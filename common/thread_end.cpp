// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "common/thread_end.h"

#include <array>
#include <cstddef>

namespace udapl {

namespace {

struct Ends {
  constexpr Ends() noexcept = default;
  ~Ends() {
    for (auto* const run : functions)
      if (run != nullptr) run();
  }
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;

  std::array<void (*)() noexcept, kThreadEnds> functions{};
};
constinit thread_local Ends ends;

}  // namespace

void at_thread_end(ThreadEnd when, void (*run)() noexcept) noexcept {
  ends.functions[static_cast<std::size_t>(when)] = run;
}

void run_now(ThreadEnd when) noexcept {
  if (auto* const run = ends.functions[static_cast<std::size_t>(when)]; run != nullptr) run();
}

}  // namespace udapl
