// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include <cstdint>

namespace udapl::dapl {

// Which completions of a stream notify the consumer, by the EP attribute recv_completion_flags or
// request_completion_flags.
enum class CompletionMode : std::uint8_t {
  kThreshold,    // all
  kUnsignalled,  // those whose posts say so
  kSolicited     // receives of Sends that the peer marks as solicited
};
inline constexpr int kCompletionModes = static_cast<int>(CompletionMode::kSolicited) + 1;

// Ignores bits of `flags` that do not name a mode, as OpenFabrics does (docs/compatibility.md C69).
[[nodiscard]] constexpr CompletionMode completion_mode(DAT_COMPLETION_FLAGS flags) noexcept {
  if ((flags & DAT_COMPLETION_UNSIGNALLED_FLAG) != 0) return CompletionMode::kUnsignalled;
  if ((flags & DAT_COMPLETION_SOLICITED_WAIT_FLAG) != 0) return CompletionMode::kSolicited;
  return CompletionMode::kThreshold;
}

}  // namespace udapl::dapl
