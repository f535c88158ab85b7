// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/io/address_watch.h"

#include <array>
#include <cerrno>
#include <chrono>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "common/errno_text.h"
#include "common/tracing/trace.h"
#include "providers/connecting/socket_address.h"

namespace udapl::soft {

namespace {

constexpr unsigned kGone = 0;

// The kernel sends the notification just before the change affects bind(). A check made at once may
// still find the old state, so it is repeated after these times.
constexpr auto kSoon = std::chrono::milliseconds(20);
constexpr auto kLater = std::chrono::seconds(1);

}  // namespace

AddressWatch::AddressWatch(Reactor& reactor, const transport::SocketAddress& address,
                           transport::AdapterSink& sink, Here here) noexcept
    : address_(address),
      sink_(sink),
      is_here_(here),
      watch_(reactor, Call::to<&AddressWatch::on_notification>(this)),
      gate_(reactor, SinkGate::to<&AddressWatch::deliver, AddressWatch>(), this),
      soon_(reactor, Call::to<&AddressWatch::look>(this)),
      later_(reactor, Call::to<&AddressWatch::look>(this)) {
  address_.set_port(0);
}

AddressWatch::~AddressWatch() {
  if (notifications_.valid()) watch_.stop();
}

void AddressWatch::start() noexcept {
  Fd notifications =
      Fd::made(::socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE));
  sockaddr_nl groups{};
  groups.nl_family = AF_NETLINK;
  groups.nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (!notifications.valid() ||
      ::bind(notifications.get(), reinterpret_cast<const sockaddr*>(&groups), sizeof groups) != 0) {
    UDAPL_TRACE(kNormal, "the loss of address %s will not be noticed: %s",
                to_text(address_).c_str(), ErrnoText(errno).c_str());
    return;
  }
  start(std::move(notifications));
}

void AddressWatch::start(Fd notifications) noexcept {
  notifications_ = std::move(notifications);
  if (!watch_.start(notifications_.get()).ok()) notifications_.reset();
}

// Ignores the contents of the messages, and the loss of messages (ENOBUFS): look() queries the
// kernel. The kernel drops the rest of a message that is longer than the buffer.
void AddressWatch::on_notification() noexcept {
  std::array<std::byte, 64> dropped;
  ssize_t got = 0;
  do {
    got = ::recv(notifications_.get(), dropped.data(), dropped.size(), MSG_DONTWAIT);
  } while (got > 0 || (got < 0 && errno == ENOBUFS));
  look();
  soon_.start_after(kSoon);
  later_.start_after(kLater);
}

void AddressWatch::look() noexcept {
  const bool here = is_here_(address_);
  if (here == here_) return;
  here_ = here;
  if (here) {
    UDAPL_TRACE(kError, "the address %s is back: listeners work again", to_text(address_).c_str());
    return;
  }
  UDAPL_TRACE(kError, "the address %s is no longer on this machine: no peer can connect to it",
              to_text(address_).c_str());
  gate_.post(kGone);
}

bool AddressWatch::can_be_bound(const transport::SocketAddress& address) noexcept {
  const Fd probe = Fd::made(::socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return !probe.valid() || ::bind(probe.get(), address.get(), address.size()) == 0 ||
         errno != EADDRNOTAVAIL;
}

void AddressWatch::deliver(unsigned) noexcept { sink_.on_internal_error(); }

}  // namespace udapl::soft
