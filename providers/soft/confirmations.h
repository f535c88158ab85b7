// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/soft/completion_demand.h"

#include <cstdint>

namespace udapl::soft {

// The ability of a link that the peer confirms which messages it has placed (docs/adr/0039), as
// positions in the outgoing stream. Has the lock and the lifetime of the link.
class Confirmations {
 public:
  // The position up to which the peer has processed everything by now.
  [[nodiscard]] virtual std::uint64_t peer_placed() const noexcept = 0;
  // The position that the peer has confirmed with its last message, which costs less to read.
  [[nodiscard]] virtual std::uint64_t answered() const noexcept = 0;
  // From now on, the event kPlaced is pending once the peer has placed everything up to `position`
  // (0: never). The event wakes no thread unless `demand` is wanted. completion_wanted() must be
  // called when it becomes wanted.
  virtual void await_placed(std::uint64_t position, CompletionDemand& demand) noexcept = 0;
  virtual void completion_wanted() noexcept = 0;

 protected:
  Confirmations() = default;
  ~Confirmations() = default;
};

}  // namespace udapl::soft
