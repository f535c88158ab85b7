// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/fd.h"
#include "dapl/transport/cm.h"
#include "dapl/transport/sink.h"
#include "providers/reactor/sink_gate.h"
#include "providers/reactor/watch.h"

namespace udapl::soft {

// Is notified by the kernel when an address leaves this machine: no peer can connect to it then,
// and nothing else would say so. Listeners work again when it returns. Thread-safe. Owned by the
// Adapter. Makes sink calls from the driving thread.
class AddressWatch {
 public:
  // Whether a socket can be bound to it.
  using Here = bool (*)(const transport::SocketAddress& address) noexcept;
  AddressWatch(Reactor& reactor, const transport::SocketAddress& address,
               transport::AdapterSink& sink, Here here = &can_be_bound) noexcept;
  ~AddressWatch();
  AddressWatch(const AddressWatch&) = delete;
  AddressWatch& operator=(const AddressWatch&) = delete;

  // Begins. Where the kernel does not tell (no netlink in a container) there is no watch.
  void start() noexcept;
  // With a descriptor that is readable when addresses come or go.
  void start(Fd news) noexcept;

 private:
  static bool can_be_bound(const transport::SocketAddress& address) noexcept;
  void on_news() noexcept;
  void look() noexcept;
  void deliver(unsigned call) noexcept;

  transport::SocketAddress address_;
  transport::AdapterSink& sink_;
  Fd news_;
  const Here is_here_;
  bool here_ = true;  // of the driving thread
  Watch watch_;
  SinkGate gate_;
  Timer soon_;  // these two last: what they call posts to the gate
  Timer later_;
};

}  // namespace udapl::soft
