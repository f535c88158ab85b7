// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/events/completion_mode.h"

#include <dat/udat.h>

#include <array>
#include <cstddef>

namespace udapl::dapl {

// Counts the completion streams that feed an EVD. Each completion notifies according to its own
// stream, so streams of all modes can be mixed.
//
// Not thread-safe. Owned by an Evd.
class CompletionStreams {
 public:
  enum class Kind { kRecv, kRequest };

  // `change`: 1 if a stream starts to feed the EVD, -1 if it stops.
  void count(Kind kind, CompletionMode mode, int change) noexcept {
    (kind == Kind::kRecv ? recv_ : request_)[static_cast<std::size_t>(mode)] += change;
  }
  // What causes notifications: the threshold of a wait, or the completion flags of the streams. A
  // single UNSIGNALLED or SOLICITED stream is enough to rule out CONFIG_THRESHOLD, and thereby
  // waits with a threshold above 1.
  [[nodiscard]] DAT_EVD_STATE configuration() const noexcept {
    constexpr auto kUnsignalled = static_cast<std::size_t>(CompletionMode::kUnsignalled);
    constexpr auto kSolicited = static_cast<std::size_t>(CompletionMode::kSolicited);
    if (recv_[kUnsignalled] + request_[kUnsignalled] > 0) return DAT_EVD_STATE_CONFIG_NOTIFY;
    if (recv_[kSolicited] > 0) return DAT_EVD_STATE_CONFIG_SOLICITED;
    return DAT_EVD_STATE_CONFIG_THRESHOLD;
  }

 private:
  using Counts = std::array<int, kCompletionModes>;  // by mode
  Counts recv_{};
  Counts request_{};
};

}  // namespace udapl::dapl
