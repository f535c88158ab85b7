// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/fd.h"
#include "dapl/transport/cm.h"
#include "dapl/transport/sink.h"
#include "providers/reactor/sink_gate.h"
#include "providers/reactor/watch.h"

namespace udapl::soft {

// Hears from the kernel when an address leaves this machine: nobody can connect to it then, and
// nothing else would say so. Listeners work again when it returns. Thread-safe. Owned by the
// Adapter. Makes sink calls from the driving thread.
class AddressWatch {
 public:
  AddressWatch(Reactor& reactor, const transport::SocketAddress& address,
               transport::AdapterSink& sink) noexcept;
  ~AddressWatch();
  AddressWatch(const AddressWatch&) = delete;
  AddressWatch& operator=(const AddressWatch&) = delete;

  // Begins. Where the kernel does not tell (no netlink in a container) there is no watch.
  void start() noexcept;

 private:
  void on_news() noexcept;
  [[nodiscard]] bool is_here() const noexcept;
  void deliver(unsigned call) noexcept;

  transport::SocketAddress address_;
  transport::AdapterSink& sink_;
  Fd news_;
  bool here_ = true;  // of the driving thread
  Watch watch_;
  SinkGate gate_;
};

}  // namespace udapl::soft
