// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/io/address_watch.h"

#include <array>
#include <cerrno>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "common/errno_text.h"
#include "common/tracing/trace.h"
#include "providers/connecting/socket_address.h"

namespace udapl::soft {

namespace {

constexpr unsigned kGone = 0;

}  // namespace

AddressWatch::AddressWatch(Reactor& reactor, const transport::SocketAddress& address,
                           transport::AdapterSink& sink) noexcept
    : address_(address),
      sink_(sink),
      watch_(reactor, Call::to<&AddressWatch::on_news>(this)),
      gate_(reactor, SinkGate::to<&AddressWatch::deliver, AddressWatch>(), this) {
  address_.set_port(0);
}

AddressWatch::~AddressWatch() {
  if (news_.valid()) watch_.stop();
  gate_.close();
}

void AddressWatch::start() noexcept {
  Fd news = Fd::made(::socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE));
  sockaddr_nl groups{};
  groups.nl_family = AF_NETLINK;
  groups.nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (!news.valid() ||
      ::bind(news.get(), reinterpret_cast<const sockaddr*>(&groups), sizeof groups) != 0) {
    UDAPL_TRACE(kNormal, "nobody tells when %s goes away: %s", to_text(address_).c_str(),
                ErrnoText(errno).c_str());
    return;
  }
  news_ = std::move(news);
  if (!watch_.start(news_.get()).ok()) news_.reset();
}

// What the messages say is not looked at, nor whether some were lost: the kernel is asked.
void AddressWatch::on_news() noexcept {
  std::array<std::byte, 8192> dropped;
  ssize_t got = 0;
  do {
    got = ::recv(news_.get(), dropped.data(), dropped.size(), MSG_DONTWAIT);
  } while (got > 0 || (got < 0 && errno == ENOBUFS));
  const bool here = is_here();
  if (here == here_) return;
  here_ = here;
  if (here) {
    UDAPL_TRACE(kError, "the address %s is back: listeners work again", to_text(address_).c_str());
    return;
  }
  UDAPL_TRACE(kError, "the address %s has gone from this machine: nobody can connect to it",
              to_text(address_).c_str());
  gate_.post(kGone);
}

bool AddressWatch::is_here() const noexcept {
  const Fd probe = Fd::made(::socket(address_.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return !probe.valid() || ::bind(probe.get(), address_.get(), address_.size()) == 0 ||
         errno != EADDRNOTAVAIL;
}

void AddressWatch::deliver(unsigned) noexcept { sink_.on_internal_error(); }

}  // namespace udapl::soft
