/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

/// The same numbers everywhere, whatever the standard library.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  /// 0 to bound - 1.
  unsigned below(unsigned bound) { return static_cast<unsigned>((next() >> 32U) % bound); }

  bool percent(unsigned chance) { return below(100) < chance; }

  template <typename T>
  T of(std::initializer_list<T> values) {
    return values.begin()[below(static_cast<unsigned>(values.size()))];
  }

 private:
  std::uint64_t next() {  // splitmix64
    std::uint64_t value = (state_ += 0x9e3779b97f4a7c15U);
    value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
    value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
    return value ^ (value >> 31U);
  }

  std::uint64_t state_;
};
