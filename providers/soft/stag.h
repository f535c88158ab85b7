// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <array>
#include <cstdint>

namespace udapl::soft {

// Generates STags: a keyed permutation (a Feistel network over SipHash, key from getrandom) of a
// counter. A value cannot be predicted from earlier ones. Values are spread over all 32 bits, and
// none is repeated before all 2^32 - 1 have been used: so freed values need no list for the
// quarantine that RFC 5042 requires. Never 0. Not thread-safe. Owned by an MrTable.
class StagGenerator {
 public:
  StagGenerator() noexcept;
  explicit StagGenerator(std::array<std::uint64_t, 2> key) noexcept : key_(key) {}  // for tests

  [[nodiscard]] std::uint32_t next() noexcept;
  // Whether next() has returned this value since the counter last began at 0.
  [[nodiscard]] bool issued(std::uint32_t stag) const noexcept {
    return stag != 0 && inverse(stag) < counter_;
  }

  // The permutation itself: a bijection of 32-bit values.
  [[nodiscard]] std::uint32_t permute(std::uint32_t value) const noexcept;
  [[nodiscard]] std::uint32_t inverse(std::uint32_t stag) const noexcept;

 private:
  std::array<std::uint64_t, 2> key_;
  std::uint32_t counter_ = 0;
};

}  // namespace udapl::soft
