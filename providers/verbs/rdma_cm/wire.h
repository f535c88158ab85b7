// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/transport/adapter.h"
#include "dapl/transport/types.h"

#include <array>
#include <cstddef>
#include <cstdint>

// The private data of rdma_cm messages. InfiniBand and RoCE pad it with zeros to a fixed size, but
// DAT consumers need the size that was sent. So we send the size as well, in bytes that existing
// providers treat as padding (docs/adr/0008). iWARP preserves the size.
namespace udapl::verbs {
struct Device;
}

namespace udapl::verbs::wire {

// The protocol that carries the messages.
enum class Carrier : std::uint8_t {
  kIp,      // InfiniBand's connection manager, with IP addresses in front of a request's data
  kNative,  // the same without IP addresses: the GIDs suffice
  kIwarp
};

inline constexpr std::size_t kRequestRoom = 56;  // for kIp
inline constexpr std::size_t kNativeRequestRoom = 92;
// MPA has 512. But rdma_cm stores the size in eight bits, some devices include the four leading
// bytes of MPA revision 2 in it, and a rejection begins with a header of four bytes.
inline constexpr std::size_t kIwarpRoom = 255 - 4 - 4;
inline constexpr std::size_t kReplyRoom = 196;
inline constexpr std::size_t kRejectRoom = 148;

// The most private data that a consumer can send with a request.
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

// The most private data of each kind of message. Messages that are padded also need room for the
// size.
[[nodiscard]] transport::PrivateDataRoom data_room(Carrier carrier) noexcept;

// Bytes to pass to rdma_cm.
struct Message {
  std::array<std::byte, 255> bytes;
  std::uint8_t size = 0;
  // In a request, announces that the last byte holds the size (rdma_conn_param::flow_control 0,
  // which no device reads and which OpenFabrics sets to 1).
  bool sized = false;
};

// REQUIRES: data.size() <= request_room(carrier).
[[nodiscard]] Message make_request(transport::PrivateData data, Carrier carrier) noexcept;
[[nodiscard]] Message make_reply(transport::PrivateData data, Carrier carrier) noexcept;
// A rejection by the consumer: begins with the header that OpenFabrics sends and expects.
[[nodiscard]] Message make_reject(transport::PrivateData data, Carrier carrier) noexcept;

// The data that the peer's consumer has sent, including the padding if the peer does not send the
// size. The result refers to `received`.
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
