// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/reactor/poller_set.h"
#include "providers/reactor/tuning.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace udapl {

// Decides which pollers a turn asks: all that are awake or, if these are many, the next piece of
// their list. The piece is smaller if it is known where the next input comes from, and smaller
// still while polls wait for that input. Some turns also ask one poller with a quiet sign. Used by
// the thread that holds the role.
class AskOrder {
 public:
  struct Piece {
    std::size_t begin;
    std::size_t end;
    std::size_t quiet;  // as in PollerSet::next_to_ask
  };
  // `all`: asks all, also those with quiet signs, because one of them must be called.
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
