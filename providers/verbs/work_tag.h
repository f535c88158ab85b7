// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/transport/types.h"

#include <cstdint>

// The information that a wr_id carries in addition to the WorkId, because a failed ibv_wc contains
// nothing else. WorkIds are addresses of objects aligned to 8 bytes, so three bits are free.
namespace udapl::verbs {

inline constexpr std::uint64_t kReceiveTag = 1;  // posted to a receive queue or an SRQ
inline constexpr std::uint64_t kQuietTag = 2;    // posted with kQuiet
inline constexpr std::uint64_t kBindTag = 4;     // a bind or unbind of a window; with kReceiveTag:
                                                 // posted to an SRQ
inline constexpr std::uint64_t kTags = 7;

// The wr_ids of internal requests, whose completions the core does not get. No WorkId is 0, so
// these differ from the wr_ids of binds. The marker behind the last request of a graceful
// disconnect; its success is reported to Queue::on_marker().
inline constexpr std::uint64_t kMarker = kBindTag;
// An invalidation before a bind. It is unsignalled, so it completes only if it failed or was
// flushed.
inline constexpr std::uint64_t kInvalidation = kBindTag | kQuietTag;

static_assert(transport::kQuiet == kQuietTag << 2);
[[nodiscard]] constexpr std::uint64_t request_wr_id(transport::WorkId id,
                                                    transport::WorkFlags flags) noexcept {
  return id | ((flags & transport::kQuiet) >> 2);
}
[[nodiscard]] constexpr std::uint64_t bind_wr_id(transport::WorkId id,
                                                 transport::WorkFlags flags) noexcept {
  return request_wr_id(id, flags) | kBindTag;
}
[[nodiscard]] constexpr std::uint64_t receive_wr_id(transport::WorkId id,
                                                    transport::WorkFlags flags) noexcept {
  return request_wr_id(id, flags) | kReceiveTag;
}
[[nodiscard]] constexpr std::uint64_t srq_wr_id(transport::WorkId id) noexcept {
  return id | kReceiveTag | kBindTag;
}
[[nodiscard]] constexpr transport::WorkId work_id(std::uint64_t wr_id) noexcept {
  return wr_id & ~kTags;
}
// Returns whether this is a bind of the consumer, and not an internal invalidation.
[[nodiscard]] constexpr bool is_bind(std::uint64_t wr_id) noexcept {
  return (wr_id & (kBindTag | kReceiveTag)) == kBindTag && work_id(wr_id) != 0;
}

}  // namespace udapl::verbs
