// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/fd.h"
#include "dapl/transport/cm.h"
#include "dapl/transport/sink.h"
#include "providers/reactor/sink_gate.h"
#include "providers/reactor/watch.h"

namespace udapl::soft {

// Notices, through notifications of the kernel, that the adapter's address is no longer one of this
// machine. No peer can connect then, and nothing else would report it. Listeners work again when
// the address returns. Thread-safe. Owned by the Adapter. The driving thread makes its sink calls.
class AddressWatch {
 public:
  // Returns whether a socket can be bound to the address.
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
