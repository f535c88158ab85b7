// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/rdma_cm/wire.h"

#include "providers/verbs/device.h"

#include <algorithm>

namespace udapl::verbs::wire {

using transport::PrivateData;

namespace {

// The last byte of a request is this mark plus the number of bytes behind the data. It is never 0,
// the value of padding.
constexpr unsigned padding_mark(Carrier carrier) noexcept {
  return carrier == Carrier::kNative ? 0x80 : 0xC0;
}
static_assert(padding_mark(Carrier::kIp) + kRequestRoom <= 0xFF);
static_assert(padding_mark(Carrier::kNative) + kNativeRequestRoom <= 0xFF);

// A reply or rejection ends with this mark, followed by the number of valid bytes.
constexpr std::array kSizeMark{std::byte{'d'}, std::byte{'a'}, std::byte{'t'}};
constexpr std::size_t kTrailer = kSizeMark.size() + 1;

// "Version 2.0" twice, two bytes each.
constexpr std::array kRejectHeader{std::byte{2}, std::byte{0}, std::byte{2}, std::byte{0}};

bool zeros(PrivateData data) noexcept {
  return std::all_of(data.begin(), data.end(), [](std::byte b) { return b == std::byte{0}; });
}

void append(Message& message, PrivateData data) noexcept {
  data = data.first(std::min(data.size(), message.bytes.size() - message.size));
  std::copy(data.begin(), data.end(), message.bytes.begin() + message.size);
  message.size = static_cast<std::uint8_t>(message.size + data.size());
}

// Pads `message` to `room` bytes, ending with the size of its data.
void add_trailer(Message& message, std::size_t room) noexcept {
  if (message.size + kTrailer > room) return;
  const std::uint8_t size = message.size;
  std::fill_n(message.bytes.begin() + size, room - size, std::byte{0});
  std::copy(kSizeMark.begin(), kSizeMark.end(), message.bytes.begin() + (room - kTrailer));
  message.bytes[room - 1] = std::byte{size};
  message.size = static_cast<std::uint8_t>(room);
}

// Removes the padding if there is a trailer with the size.
PrivateData cut_trailer(PrivateData received, std::size_t room) noexcept {
  if (received.size() < room) return received;
  const PrivateData trailer = received.subspan(room - kTrailer, kTrailer);
  const auto size = std::to_integer<std::size_t>(trailer.back());
  if (!std::equal(kSizeMark.begin(), kSizeMark.end(), trailer.begin()) || size + kTrailer > room ||
      !zeros(received.subspan(size, room - kTrailer - size)))
    return received;
  return received.first(size);
}

}  // namespace

transport::PrivateDataRoom data_room(Carrier carrier) noexcept {
  const int request = static_cast<int>(request_room(carrier));
  if (carrier == Carrier::kIwarp) return {request, request, request};
  return {request, kReplyRoom - kTrailer, kRejectRoom - kRejectHeader.size() - kTrailer};
}

Message make_request(PrivateData data, Carrier carrier) noexcept {
  Message message;
  append(message, data);
  const std::size_t room = request_room(carrier);
  if (carrier == Carrier::kIwarp || data.size() >= room) return message;
  const std::size_t padding = room - data.size();
  std::fill_n(message.bytes.begin() + message.size, padding, std::byte{0});
  message.bytes[room - 1] = std::byte(padding_mark(carrier) + padding);
  message.size = static_cast<std::uint8_t>(room);
  message.sized = true;
  return message;
}

Message make_reply(PrivateData data, Carrier carrier) noexcept {
  Message message;
  append(message, data);
  if (carrier != Carrier::kIwarp) add_trailer(message, kReplyRoom);
  return message;
}

Message make_reject(PrivateData data, Carrier carrier) noexcept {
  Message message;
  append(message, kRejectHeader);
  append(message, data);
  if (carrier != Carrier::kIwarp) add_trailer(message, kRejectRoom);
  return message;
}

PrivateData read_request(PrivateData received, bool sized, Carrier carrier) noexcept {
  if (carrier == Carrier::kIwarp) return received;
  const std::size_t room = request_room(carrier);
  received = received.first(std::min(received.size(), room));
  if (!sized || received.size() < room) return received;
  const std::size_t padding = std::to_integer<std::size_t>(received.back()) - padding_mark(carrier);
  if (padding == 0 || padding > room) return received;
  const std::size_t size = room - padding;
  if (!zeros(received.subspan(size, padding - 1))) return received;
  return received.first(size);
}

PrivateData read_reply(PrivateData received, Carrier carrier) noexcept {
  return carrier == Carrier::kIwarp ? received : cut_trailer(received, kReplyRoom);
}

Rejection read_reject(PrivateData received, Carrier carrier) noexcept {
  if (received.size() < kRejectHeader.size() ||
      !std::equal(kRejectHeader.begin(), kRejectHeader.end(), received.begin()))
    return {false, {}};
  if (carrier != Carrier::kIwarp) received = cut_trailer(received, kRejectRoom);
  return {true, received.subspan(std::min(received.size(), kRejectHeader.size()))};
}

}  // namespace udapl::verbs::wire

namespace udapl::verbs {

wire::Carrier carrier_of(const Device& device) noexcept {
  if (device.iwarp()) return wire::Carrier::kIwarp;
  return device.by_gid ? wire::Carrier::kNative : wire::Carrier::kIp;
}

}  // namespace udapl::verbs
