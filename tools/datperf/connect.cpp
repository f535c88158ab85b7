// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "connect.h"

#include <fmt/core.h>
#include <netdb.h>

#include <cstring>

namespace datperf {

namespace {

std::string reason_of(const dat::Ended& ended) {
  switch (ended.why) {
    case DAT_CONNECTION_EVENT_PEER_REJECTED:
      return "the server refused; its output says why";
    case DAT_CONNECTION_EVENT_NON_PEER_REJECTED:
      return "no server listens there";
    case DAT_CONNECTION_EVENT_UNREACHABLE:
      return "the address cannot be reached";
    case DAT_CONNECTION_EVENT_TIMED_OUT:
      return "no answer in time";
    default:
      return ended.name();
  }
}

std::string place(const Target& target) {
  return fmt::format("{} port {}", target.name, target.port);
}

}  // namespace

Target resolve(const std::string& host, std::uint16_t port, std::chrono::seconds patience) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0)
    throw Trouble(fmt::format("{}: {}", host, ::gai_strerror(error)));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  Target target;
  std::memcpy(&target.address, found->ai_addr, found->ai_addrlen);
  target.name = host;
  target.port = port;
  target.patience = patience;
  return target;
}

void request(const dat::Endpoint& endpoint, const Target& target, const Hello& hello) {
  endpoint.connect(reinterpret_cast<const sockaddr*>(&target.address), target.port, target.patience,
                   encode(hello));
}

std::optional<dat::Event> next_event(const dat::Queue& queue, Waiting waiting,
                                     std::chrono::seconds patience) {
  if (waiting == Waiting::kBlock) return queue.wait(patience);
  const auto end = Clock::now() + patience;
  do {
    if (std::optional<dat::Event> event = queue.poll()) return event;
  } while (Clock::now() < end);
  return std::nullopt;
}

dat::Established established_of(const std::optional<dat::Event>& event, const Target& target) {
  if (!event) throw Trouble(place(target) + ": no answer in time");
  if (const auto* ended = std::get_if<dat::Ended>(&*event))
    throw Trouble(place(target) + ": " + reason_of(*ended));
  const auto* established = std::get_if<dat::Established>(&*event);
  if (established == nullptr) throw Trouble(place(target) + ": unexpected event");
  return *established;
}

void part(const dat::Endpoint& endpoint, const dat::Queue& queue, std::chrono::seconds patience) {
  try {
    endpoint.disconnect();
    while (const std::optional<dat::Event> event = queue.wait(patience))
      if (std::holds_alternative<dat::Ended>(*event)) return;
  } catch (const dat::Error&) {
    return;  // the connection has ended already, or ends when the endpoint is destroyed
  }
}

Session::Session(const Device& device, const Target& target)
    : patience_(target.patience),
      zone_(device.adapter),
      queue_(device.adapter, DAT_EVD_CONNECTION_FLAG | DAT_EVD_DTO_FLAG, 8),
      endpoint_(device.adapter, zone_, queue_, queue_, queue_) {
  request(endpoint_, target, Hello{});
  const dat::Established answer = established_of(queue_.wait(target.patience), target);
  if (!invitation_of(answer.private_data))
    throw Trouble(fmt::format("{}: not a datperf server of this version", place(target)));
}

void Session::finish() const {
  endpoint_.post_send(dat::Segments());
  part(endpoint_, queue_, patience_);
}

}  // namespace datperf
