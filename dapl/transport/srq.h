// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/result.h"
#include "dapl/transport/types.h"

namespace udapl::transport {

// A queue of receive buffers shared by QPs. Thread-safe, except that posts need the caller's
// serialisation. Owned by an SRQ object, which outlives the QPs that use it. The destructor
// discards posted buffers without completions.
class Srq {
 public:
  virtual ~Srq() = default;

  // Hot; the final class's own function is called. PROTECTION_VIOLATION, PRIVILEGES_VIOLATION,
  // INVALID_PARAMETER for a bad segment; INSUFFICIENT_RESOURCES when full.
  virtual DAT_RETURN post_recv(WorkId id, const DAT_LMR_TRIPLET* segments,
                               DAT_COUNT count) noexcept = 0;

  // Makes room for at least `depth` buffers; keeps posted ones. REQUIRES: depth >= posted buffers.
  virtual Status resize(int depth) = 0;
  // Arms SrqSink::on_low_watermark, which is called at once if fewer than `mark` buffers are
  // available. 0 disarms. INSUFFICIENT_RESOURCES: the adapter rejects the mark; nothing is armed.
  virtual Status set_low_watermark(int mark) noexcept = 0;
  [[nodiscard]] virtual int available()
      const noexcept = 0;  // posted and not yet consumed by a message
};

}  // namespace udapl::transport
