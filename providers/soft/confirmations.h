// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/soft/completion_demand.h"

#include <cstdint>

namespace udapl::soft {

// What the peer reports of the messages that it has placed (docs/adr/0039), as positions in the
// outgoing stream. Has the lock and the lifetime of the link that offers it.
class Confirmations {
 public:
  // The peer has carried out everything up to this position.
  [[nodiscard]] virtual std::uint64_t peer_placed() const noexcept = 0;
  // The same as of the last input that was seen, which costs less.
  [[nodiscard]] virtual std::uint64_t answered() const noexcept = 0;
  // From now on, the event kPlaced is pending once the peer has placed everything up to `position`
  // (0: never). No thread is woken for it while no completion is wanted: call completion_wanted()
  // once one is.
  virtual void await_placed(std::uint64_t position, CompletionDemand& demand) noexcept = 0;
  virtual void completion_wanted() noexcept = 0;

 protected:
  Confirmations() = default;
  ~Confirmations() = default;
};

}  // namespace udapl::soft
