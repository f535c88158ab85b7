// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/fd.h"
#include "dapl/transport/cm.h"
#include "dapl/transport/sink.h"
#include "providers/reactor/sink_gate.h"
#include "providers/reactor/watch.h"

namespace udapl::soft {

// Learns from the kernel when an address leaves this machine: no peer can connect to it then, and
// nothing else would report that. Listeners work again when the address returns. Thread-safe. Owned
// by the Adapter. Makes sink calls from the driving thread.
class AddressWatch {
 public:
  // Whether a socket can be bound to it.
  using Here = bool (*)(const transport::SocketAddress& address) noexcept;
  AddressWatch(Reactor& reactor, const transport::SocketAddress& address,
               transport::AdapterSink& sink, Here here = &can_be_bound) noexcept;
  ~AddressWatch();
  AddressWatch(const AddressWatch&) = delete;
  AddressWatch& operator=(const AddressWatch&) = delete;

  // Starts watching. If the kernel does not report addresses (no netlink in a container), the
  // address is not watched.
  void start() noexcept;
  // The same with a given descriptor, which becomes readable when addresses are added or removed.
  void start(Fd notifications) noexcept;

 private:
  static bool can_be_bound(const transport::SocketAddress& address) noexcept;
  void on_notification() noexcept;
  void look() noexcept;
  void deliver(unsigned call) noexcept;

  transport::SocketAddress address_;
  transport::AdapterSink& sink_;
  Fd notifications_;
  const Here is_here_;
  bool here_ = true;  // used by the driving thread only
  Watch watch_;
  SinkGate gate_;
  Timer soon_;  // the timers last: their callbacks post to the gate
  Timer later_;
};

}  // namespace udapl::soft
