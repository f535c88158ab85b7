// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <chrono>
#include <functional>

// Measurements between two processes, each on a processor of its own.
namespace peers {

constexpr auto kDuration = std::chrono::milliseconds(200);

// Prints the reason, with errno's, and ends the program.
[[noreturn]] void fail(const char* what);

// Runs `other` again and again in a child on processor 0, and `round` on processor 1 for so long.
// Returns the median time of a round, in microseconds.
double measure(const std::function<void()>& other, const std::function<void()>& round,
               std::chrono::steady_clock::duration duration = kDuration);

}  // namespace peers
