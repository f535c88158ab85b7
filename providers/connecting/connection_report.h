// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "dapl/transport/qp_lock.h"
#include "dapl/transport/sink.h"
#include "providers/connecting/sink_call.h"
#include "providers/reactor/sink_gate.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

namespace udapl {

// Makes sink call `call` with its arguments, and does nothing after it: the sink may destroy
// objects.
void make_call(transport::ConnectionSink& sink, SinkCall call, transport::PrivateData from_peer,
               transport::BreakCause cause) noexcept;

// Reports the connections of a QP to the core: keeps the pending sink calls and their arguments (up
// to kRoom bytes of the peer's private data, and why a connection broke). The calls are made
// through a SinkGate. The arguments are guarded by the lock of the QP; the other functions are
// thread-safe, and any lock may be held unless they say otherwise.
//
// A member of the object that owns the connections; declare it last, or close() it first.
template <std::size_t kRoom>
class ConnectionReport {
 public:
  // `after_established` is posted when kEstablished is delivered, so it runs after that sink call.
  ConnectionReport(Reactor& reactor, transport::ConnectionSink& sink, transport::QpLock& lock,
                   Deferred* after_established = nullptr) noexcept
      : sink_(sink),
        lock_(lock),
        after_established_(after_established),
        gate_(reactor, SinkGate::to<&ConnectionReport::deliver, ConnectionReport>(), this) {}
  ConnectionReport(const ConnectionReport&) = delete;
  ConnectionReport& operator=(const ConnectionReport&) = delete;

  // Resets the arguments; pending calls stay pending.
  void forget() noexcept UDAPL_REQUIRES(transport::qp_locked) {
    size_ = 0;
    cause_ = {};
  }
  // Allocates memory for the peer's data, which is released when the outcome of the connection is
  // reported: a connection does not need it. Returns false if there is none.
  [[nodiscard]] bool reserve() noexcept UDAPL_REQUIRES(transport::qp_locked) {
    if (from_peer_ == nullptr) from_peer_.reset(new (std::nothrow) std::byte[kRoom]);
    return from_peer_ != nullptr;
  }
  // REQUIRES: reserve() has succeeded since the last outcome, or `from_peer` is empty.
  void keep(transport::PrivateData from_peer) noexcept UDAPL_REQUIRES(transport::qp_locked) {
    size_ = std::min(from_peer.size(), kRoom);
    std::copy_n(from_peer.begin(), size_, from_peer_.get());
  }
  // The argument of kBroken.
  void set_cause(transport::BreakCause cause) noexcept UDAPL_REQUIRES(transport::qp_locked) {
    cause_ = cause;
  }

  // Does nothing for kNoCall.
  void post(SinkCall call) noexcept {
    if (call != SinkCall::kNoCall) gate_.post(static_cast<unsigned>(call));
  }
  // Cancels pending calls about the outcome of a connection: SinkGate::cancel.
  void cancel_outcome() noexcept { gate_.cancel(kOutcome); }
  // Likewise, and waits for a running call: SinkGate::drain.
  void drain_outcome() noexcept { gate_.drain(kOutcome); }
  // Drains all calls.
  void drain() noexcept { gate_.drain(); }
  [[nodiscard]] transport::ConnectionSink& sink() const noexcept { return sink_; }
  void close() noexcept { gate_.close(); }

 private:
  static constexpr std::uint32_t bit(SinkCall call) noexcept {
    return 1U << static_cast<unsigned>(call);
  }
  static constexpr std::uint32_t kOutcome =
      (bit(SinkCall::kSoftWatermark) - 1) & ~bit(SinkCall::kAsyncError);

  // Called by the driving thread with no lock held. The sink call comes last: it may destroy *this.
  void deliver(unsigned number) noexcept UDAPL_EXCLUDES(transport::qp_locked) {
    const auto call = static_cast<SinkCall>(number);
    std::unique_ptr<std::byte[]> data;
    transport::PrivateData from_peer;
    transport::BreakCause cause;
    {
      const transport::QpGuard guard(lock_);
      if ((bit(call) & kOutcome) != 0) {
        data = std::move(from_peer_);
        from_peer = {data.get(), std::exchange(size_, 0)};
      }
      cause = cause_;
    }
    if (call == SinkCall::kEstablished && after_established_ != nullptr) after_established_->post();
    make_call(sink_, call, from_peer, cause);
  }

  transport::ConnectionSink& sink_;
  transport::QpLock& lock_;
  Deferred* const after_established_;
  std::unique_ptr<std::byte[]> from_peer_ UDAPL_GUARDED_BY(transport::qp_locked);
  std::size_t size_ UDAPL_GUARDED_BY(transport::qp_locked) = 0;
  transport::BreakCause cause_ UDAPL_GUARDED_BY(transport::qp_locked);
  SinkGate gate_;  // last, so that it is destroyed first: it calls this object
};

}  // namespace udapl
