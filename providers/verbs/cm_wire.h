// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/transport/types.h"

#include <array>
#include <cstddef>
#include <cstdint>

// The private data of rdma_cm messages. InfiniBand and RoCE pad it with zeros to a fixed size, and
// DAT consumers want the size that was sent, so what we send says how much of it counts, in places
// that existing providers take for padding (docs/adr/0008). iWARP keeps the size itself.
namespace udapl::verbs::wire {

inline constexpr std::size_t kRequestRoom = 56;  // of RDMA_PS_TCP; the least of the three
inline constexpr std::size_t kReplyRoom = 196;
inline constexpr std::size_t kRejectRoom = 148;

// Bytes to hand to rdma_cm.
struct Message {
  std::array<std::byte, 255> bytes;
  std::uint8_t size = 0;
  // Of a request: announces that the last byte tells the size (rdma_conn_param::flow_control 0,
  // which no device looks at and existing providers set).
  bool sized = false;
};

// REQUIRES: data.size() <= kRequestRoom.
[[nodiscard]] Message make_request(transport::PrivateData data, bool iwarp) noexcept;
[[nodiscard]] Message make_reply(transport::PrivateData data, bool iwarp) noexcept;
// A rejection by the consumer: has the header that existing providers send and look for.
[[nodiscard]] Message make_reject(transport::PrivateData data, bool iwarp) noexcept;

// What the peer's consumer sent; of a peer that does not tell the size, with the padding. The
// result refers to `received`.
[[nodiscard]] transport::PrivateData read_request(transport::PrivateData received, bool sized,
                                                  bool iwarp) noexcept;
[[nodiscard]] transport::PrivateData read_reply(transport::PrivateData received,
                                                bool iwarp) noexcept;
struct Rejection {
  bool by_consumer;
  transport::PrivateData data;
};
[[nodiscard]] Rejection read_reject(transport::PrivateData received, bool iwarp) noexcept;

}  // namespace udapl::verbs::wire
