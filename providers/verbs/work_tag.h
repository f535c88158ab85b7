// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/transport/types.h"

#include <cstdint>

// What a wr_id says beside the WorkId, because a failed ibv_wc says nothing else. WorkIds are
// addresses of objects aligned to 8 bytes, so three bits are free.
namespace udapl::verbs {

inline constexpr std::uint64_t kReceiveTag = 1;  // posted to a receive queue or an SRQ
inline constexpr std::uint64_t kQuietTag = 2;    // posted with kQuiet
inline constexpr std::uint64_t kBindTag = 4;     // a bind or unbind of a window; with kReceiveTag:
                                                 // posted to an SRQ
inline constexpr std::uint64_t kTags = 7;

// The wr_id of requests of our own, which are not handed on: an invalidation in front of a bind,
// never signalled, so that it comes back only when it failed or was flushed; and the marker behind
// the last request of a graceful disconnect, whose success Queue::on_marker() is told.
inline constexpr std::uint64_t kInternalWork = 4;  // no WorkId is 0, so this is no bind

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
// Of the consumer's; not an invalidation of our own.
[[nodiscard]] constexpr bool is_bind(std::uint64_t wr_id) noexcept {
  return (wr_id & (kBindTag | kReceiveTag)) == kBindTag && work_id(wr_id) != 0;
}

}  // namespace udapl::verbs
