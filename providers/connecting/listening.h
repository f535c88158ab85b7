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

// Shared by all listeners.
namespace udapl {

// Queues connection requests from a listener to its sink, in order of arrival. Sink calls are made
// by the driving thread, one request per call. Thread-safe; add() may be called with any lock held.
// Owned by a listener, which the sink may destroy in a call; requests that are still queued then
// are refused.
class RequestQueue {
 public:
  using Request = std::unique_ptr<transport::IncomingConnection>;

  // Throws std::bad_alloc.
  RequestQueue(Reactor& reactor, transport::ListenSink& sink)
      : sink_(sink), gate_(reactor, SinkGate::to<&RequestQueue::deliver, RequestQueue>(), this) {}
  RequestQueue(const RequestQueue&) = delete;
  RequestQueue& operator=(const RequestQueue&) = delete;

  // Takes `request`. Returns false if memory ran out; the caller then keeps it.
  [[nodiscard]] bool add(Request& request) noexcept UDAPL_EXCLUDES(lock_);
  // No sink call begins after this. Waits for a call that runs in another thread: hold no lock that
  // the sink may acquire. Idempotent.
  void close() noexcept { gate_.close(); }

 private:
  void deliver(unsigned call) noexcept UDAPL_EXCLUDES(lock_);

  transport::ListenSink& sink_;
  Mutex lock_;
  std::deque<Request> waiting_ UDAPL_GUARDED_BY(lock_);
  SinkGate gate_;  // last, so that it is destroyed first: it calls this object
};

}  // namespace udapl
