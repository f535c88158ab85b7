// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/reactor/poller_set.h"
#include "providers/reactor/tuning.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace udapl {

// Which pollers the turns ask: all that are awake or, if they are many, a piece of the list in each
// turn, a small one if polls know where the next input comes from, and a smaller one while they
// wait for that; and now and then one with a quiet sign. Used by the thread that holds the role.
class AskOrder {
 public:
  struct Piece {
    std::size_t begin;
    std::size_t end;
    std::size_t quiet;  // as in PollerSet::next_to_ask
  };
  // `all`: some poller must be called although its sign may be quiet.
  enum class Order : std::uint8_t { kUnknown, kKnown, kWaiting };
  [[nodiscard]] Piece next(std::size_t awake, bool all, Order order = Order::kUnknown) noexcept {
    ++asks_;
    if (all) return {0, awake, PollerSet::kAll};
    Piece piece{0, awake, PollerSet::kNone};
    const std::size_t most = order == Order::kUnknown ? tuning::kAskedPerTurn
                             : order == Order::kKnown ? tuning::kAskedInOrder
                                                      : tuning::kAskedWaiting;
    if (awake > most) {
      piece.begin = asked_ < awake ? asked_ : 0;
      asked_ = piece.end = std::min(piece.begin + most, awake);
    }
    if (asks_ % tuning::kTurnsPerQuietCall == 0 && piece.end != piece.begin)
      piece.quiet = piece.begin + asks_ / tuning::kTurnsPerQuietCall % (piece.end - piece.begin);
    return piece;
  }

 private:
  std::uint32_t asks_ = 0;
  std::size_t asked_ = 0;  // where the next piece begins
};

}  // namespace udapl
