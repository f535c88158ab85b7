// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/transport/types.h"

#include <array>
#include <cstddef>
#include <cstdint>

// The private data of rdma_cm messages. InfiniBand and RoCE pad it with zeros to a fixed size, and
// DAT consumers want the size that was sent, so what we send says how much of it counts, in places
// that existing providers take for padding (docs/adr/0008). iWARP keeps the size itself.
namespace udapl::verbs {
struct Device;
}

namespace udapl::verbs::wire {

// What carries the messages.
enum class Carrier : std::uint8_t {
  kIp,      // InfiniBand's connection manager, with IP addresses in front of a request's data
  kNative,  // the same without: GIDs are addresses enough
  kIwarp
};

inline constexpr std::size_t kRequestRoom = 56;  // of kIp
inline constexpr std::size_t kNativeRequestRoom = 92;
// MPA has 512. rdma_cm counts in eight bits, some devices count the four bytes that MPA revision 2
// puts first among them, and a rejection begins with a header of four.
inline constexpr std::size_t kIwarpRoom = 255 - 4 - 4;
inline constexpr std::size_t kReplyRoom = 196;
inline constexpr std::size_t kRejectRoom = 148;

// The most that a consumer can send with a request.
[[nodiscard]] constexpr std::size_t request_room(Carrier carrier) noexcept {
  switch (carrier) {
    case Carrier::kNative:
      return kNativeRequestRoom;
    case Carrier::kIwarp:
      return kIwarpRoom;
    case Carrier::kIp:
      break;
  }
  return kRequestRoom;
}

// And with the answer to one.
[[nodiscard]] constexpr std::size_t reply_room(Carrier carrier) noexcept {
  return carrier == Carrier::kIwarp ? kIwarpRoom : kReplyRoom;
}

// Bytes to hand to rdma_cm.
struct Message {
  std::array<std::byte, 255> bytes;
  std::uint8_t size = 0;
  // Of a request: announces that the last byte tells the size (rdma_conn_param::flow_control 0,
  // which no device looks at and existing providers set).
  bool sized = false;
};

// REQUIRES: data.size() <= request_room(carrier).
[[nodiscard]] Message make_request(transport::PrivateData data, Carrier carrier) noexcept;
[[nodiscard]] Message make_reply(transport::PrivateData data, Carrier carrier) noexcept;
// A rejection by the consumer: has the header that existing providers send and look for.
[[nodiscard]] Message make_reject(transport::PrivateData data, Carrier carrier) noexcept;

// What the peer's consumer sent; of a peer that does not tell the size, with the padding. The
// result refers to `received`.
[[nodiscard]] transport::PrivateData read_request(transport::PrivateData received, bool sized,
                                                  Carrier carrier) noexcept;
[[nodiscard]] transport::PrivateData read_reply(transport::PrivateData received,
                                                Carrier carrier) noexcept;
struct Rejection {
  bool by_consumer;
  transport::PrivateData data;
};
[[nodiscard]] Rejection read_reject(transport::PrivateData received, Carrier carrier) noexcept;

}  // namespace udapl::verbs::wire

namespace udapl::verbs {

[[nodiscard]] wire::Carrier carrier_of(const Device& device) noexcept;

}  // namespace udapl::verbs
