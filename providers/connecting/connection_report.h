// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "dapl/transport/qp_lock.h"
#include "dapl/transport/sink.h"
#include "providers/connecting/sink_call.h"
#include "providers/reactor/sink_gate.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace udapl {

// Makes sink call `call`, with what it carries, as its last act.
void tell(transport::ConnectionSink& sink, SinkCall call, transport::PrivateData from_peer,
          transport::BreakCause cause) noexcept;

// The report of the connections of a QP to the core: which sink calls are to be made, and what they
// carry: up to kRoom bytes of the peer's private data, and why a connection broke. The calls go
// through a SinkGate. What they carry is guarded by the lock of the QP; the other functions are
// thread-safe, any lock may be held unless they say otherwise.
//
// A member of the object that has the connections; declare it last, or close() it first.
template <std::size_t kRoom>
class ConnectionReport {
 public:
  // `after_established`: is posted with kEstablished, so that it runs after that sink call.
  ConnectionReport(Reactor& reactor, transport::ConnectionSink& sink, transport::QpLock& lock,
                   Deferred* after_established = nullptr) noexcept
      : sink_(sink),
        lock_(lock),
        after_established_(after_established),
        gate_(reactor, SinkGate::to<&ConnectionReport::deliver, ConnectionReport>(), this) {}
  ConnectionReport(const ConnectionReport&) = delete;
  ConnectionReport& operator=(const ConnectionReport&) = delete;

  // As after the constructor, but for calls that wait.
  void forget() noexcept UDAPL_REQUIRES(transport::qp_locked) {
    size_ = 0;
    cause_ = {};
  }
  void keep(transport::PrivateData from_peer) noexcept UDAPL_REQUIRES(transport::qp_locked) {
    size_ = std::min(from_peer.size(), kRoom);
    std::copy_n(from_peer.begin(), size_, from_peer_.begin());
  }
  // Of kBroken.
  void set_cause(transport::BreakCause cause) noexcept UDAPL_REQUIRES(transport::qp_locked) {
    cause_ = cause;
  }

  // kNoCall: nothing.
  void post(SinkCall call) noexcept {
    if (call != SinkCall::kNoCall) gate_.post(static_cast<unsigned>(call));
  }
  // What waits of the outcome of a connection is not told: SinkGate::cancel.
  void cancel_outcome() noexcept { gate_.cancel(kOutcome); }
  // The same, and waits for a call that runs: SinkGate::drain.
  void drain_outcome() noexcept { gate_.drain(kOutcome); }
  // Of all calls.
  void drain() noexcept { gate_.drain(); }
  void close() noexcept { gate_.close(); }

 private:
  static constexpr std::uint32_t bit(SinkCall call) noexcept {
    return 1U << static_cast<unsigned>(call);
  }
  static constexpr std::uint32_t kOutcome =
      (bit(SinkCall::kSoftWatermark) - 1) & ~bit(SinkCall::kAsyncError);

  // By the driver, without locks; the sink call comes last, it may destroy us.
  void deliver(unsigned number) noexcept UDAPL_EXCLUDES(transport::qp_locked) {
    std::array<std::byte, kRoom> data;
    transport::PrivateData from_peer;
    transport::BreakCause cause;
    {
      const transport::QpGuard guard(lock_);
      from_peer = {data.data(), size_};
      std::copy_n(from_peer_.begin(), size_, data.begin());
      cause = cause_;
    }
    const auto call = static_cast<SinkCall>(number);
    if (call == SinkCall::kEstablished && after_established_ != nullptr) after_established_->post();
    tell(sink_, call, from_peer, cause);
  }

  transport::ConnectionSink& sink_;
  transport::QpLock& lock_;
  Deferred* const after_established_;
  std::array<std::byte, kRoom> from_peer_ UDAPL_GUARDED_BY(transport::qp_locked);
  std::size_t size_ UDAPL_GUARDED_BY(transport::qp_locked) = 0;
  transport::BreakCause cause_ UDAPL_GUARDED_BY(transport::qp_locked);
  SinkGate gate_;  // last: what calls us goes first
};

}  // namespace udapl
