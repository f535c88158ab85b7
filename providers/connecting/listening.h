// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/mutex.h"
#include "common/result.h"
#include "dapl/transport/cm.h"
#include "dapl/transport/sink.h"
#include "providers/reactor/sink_gate.h"

#include <deque>
#include <memory>

// What listeners have in common, whatever they listen with.
namespace udapl {

// Requests for a connection on their way to the sink of a listener, in the order in which they
// came. Sink calls are made by the driving thread, one request a call. Thread-safe; add() may be
// called with any lock held. Owned by a listener, which the sink may destroy in a call; what is
// still here then is refused.
class RequestQueue {
 public:
  using Request = std::unique_ptr<transport::IncomingConnection>;

  // Throws std::bad_alloc.
  RequestQueue(Reactor& reactor, transport::ListenSink& sink)
      : sink_(sink), gate_(reactor, SinkGate::to<&RequestQueue::deliver, RequestQueue>(), this) {}
  RequestQueue(const RequestQueue&) = delete;
  RequestQueue& operator=(const RequestQueue&) = delete;

  // Takes `request`. False: no memory, and it is still the caller's.
  [[nodiscard]] bool add(Request& request) noexcept UDAPL_EXCLUDES(lock_);
  // No sink call begins any more. Waits for one that runs in another thread: hold no lock that the
  // sink could want. Idempotent.
  void close() noexcept { gate_.close(); }

 private:
  void deliver(unsigned call) noexcept UDAPL_EXCLUDES(lock_);

  transport::ListenSink& sink_;
  Mutex lock_;
  std::deque<Request> waiting_ UDAPL_GUARDED_BY(lock_);
  SinkGate gate_;  // last: what calls us goes first
};

}  // namespace udapl
