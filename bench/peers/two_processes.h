// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <chrono>
#include <functional>

// Measurements between two processes, each on a processor of its own.
namespace peers {

constexpr auto kDuration = std::chrono::milliseconds(200);

// Prints `what` and errno, and ends the program.
[[noreturn]] void fail(const char* what);

// Runs `other` repeatedly in a child on processor 0, and `round` repeatedly on processor 1 for
// `duration`. Returns the median time of a round, in microseconds.
double measure(const std::function<void()>& other, const std::function<void()>& round,
               std::chrono::steady_clock::duration duration = kDuration);

}  // namespace peers
