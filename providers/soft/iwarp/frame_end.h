// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/soft/iwarp/tx_batch.h"

#include <cstddef>
#include <cstdint>

namespace udapl::iwarp {

// Tracks where the FPDU ends that was sent only in part: a stream must end between two FPDUs. Not
// thread-safe. Owner: the connection.
class FrameEnd {
 public:
  explicit FrameEnd(bool markers) noexcept : markers_(markers) {}

  // Called before the first `bytes` bytes of the batch are consumed; need not be called if these
  // are all that is pending.
  void advance(const TxBatch& batch, std::size_t bytes) noexcept;
  // The number of pending bytes, at the front, that complete the FPDU that has begun.
  [[nodiscard]] std::size_t missing(const TxBatch& batch) const noexcept {
    return at_ > batch.sent() ? static_cast<std::size_t>(at_ - batch.sent()) : 0;
  }

 private:
  [[nodiscard]] std::uint64_t length_at(std::uint64_t start) const noexcept;
  [[nodiscard]] std::uint64_t end_of(std::uint64_t start, std::uint16_t length) const noexcept;

  const bool markers_;
  // A position at which an FPDU ends. If more than that has been sent, the batch has been empty
  // since then, and an FPDU ended where it became empty.
  std::uint64_t at_ = 0;
};

}  // namespace udapl::iwarp
