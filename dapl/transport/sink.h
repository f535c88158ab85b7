// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/wait_word.h"
#include "dapl/transport/types.h"

#include <memory>

// The calls of a transport into the core. Only the adapter's service thread, and application
// threads inside Cq::progress, Cq::block and Adapter::block, make them. A post, poll, connect or
// disconnect leaves its consequences to those threads, so the core may hold its own locks around
// every other call. Sink calls are never made with a lock of the transport held, and never
// concurrently for the same object. One exception: take_events() of EventDescriptor and WaitPlace,
// and WaitPlace::block, call CqSink::on_notify in their caller's thread, possibly concurrently with
// another such call. Sinks do not block. A sink may call back into the transport, and may destroy
// the very object that it is called for (a consumer's proxy agent may free an EP): the destructor
// then does not wait for the call in which it runs. A destructor in any other thread waits until a
// running sink call of its object has ended.
namespace udapl::transport {

class IncomingConnection;

// Why an established connection ended on its own.
enum class BreakReason {
  kLocalFault,    // a local work request failed: its completion has the cause
  kRemoteFault,   // the peer reported an error (Terminate) or refused an access
  kProtocol,      // the peer's byte stream broke the protocol
  kNoReceive,     // a message arrived and no receive was posted
  kWatermark,     // the hard high watermark was exceeded
  kTransportLost  // reset, time-out, peer died
};
inline constexpr int kBreakReasons = static_cast<int>(BreakReason::kTransportLost) + 1;

[[nodiscard]] constexpr const char* text_of(BreakReason why) noexcept {
  switch (why) {
    case BreakReason::kLocalFault:
      return "a local request failed";
    case BreakReason::kRemoteFault:
      return "the peer reported an error";
    case BreakReason::kProtocol:
      return "protocol error";
    case BreakReason::kNoReceive:
      return "a message found no receive";
    case BreakReason::kWatermark:
      return "the hard high watermark was exceeded";
    case BreakReason::kTransportLost:
      break;
  }
  return "the peer is lost";
}

// A reason, and a short description of what was observed ("invalid STag"): a text with static
// lifetime, or "" if there is no detail.
struct BreakCause {
  BreakReason why = BreakReason::kTransportLost;
  const char* detail = "";

  BreakCause() noexcept = default;
  BreakCause(BreakReason reason, const char* text = "") noexcept : why(reason), detail(text) {}
};

// Connection outcomes of one QP. Every connect/accept yields exactly one of the first five calls;
// every on_established is followed by exactly one of on_disconnected/on_broken, unless the core
// called disconnect(kAbrupt) or destroyed or reset the QP first. When a call other than
// on_established is made, the QP is in error and all its work is on the CQs.
class ConnectionSink {
 public:
  virtual void on_established(PrivateData from_peer) noexcept = 0;  // passive side: empty
  virtual void on_rejected(PrivateData from_peer) noexcept = 0;     // by the peer's consumer
  virtual void
  on_refused() noexcept = 0;  // by the peer's stack: no listener, backlog full, incompatible
  virtual void on_unreachable() noexcept = 0;  // no route, no such host, no answer
  virtual void on_timed_out() noexcept = 0;  // active: ConnectRequest::timeout_us elapsed. The peer
                                             // has been notified.
  virtual void
  on_accept_failed() noexcept = 0;  // passive: the active side was gone before the handshake ended
  virtual void on_disconnected() noexcept = 0;  // the peer ended it, or a graceful disconnect of
                                                // ours has drained
  virtual void on_broken(BreakCause cause) noexcept = 0;

  virtual void
  on_soft_watermark() noexcept = 0;  // more buffers held than the soft mark; disarmed by this
  // The QP has an error that no work request reports (an asynchronous QP error of hardware).
  virtual void on_async_error() noexcept = 0;
  // A QP with an SRQ was connected, is now in error and consumes no more buffers. Called whatever
  // ended the connection, including a local disconnect.
  virtual void on_srq_released() noexcept {}

  // Queries, not reports, for transports that do not count posted work; any lock may be held. They
  // return the number of posted receives of the QP's own queue, and of posted requests, including
  // those whose completions have not been dequeued.
  [[nodiscard]] virtual int receives_held() const noexcept { return 0; }
  [[nodiscard]] virtual int requests_held() const noexcept { return 0; }
  // Not a report either. Called when a message is expected on this connection: prefetches what
  // posts and completions need, and changes nothing.
  virtual void prepare() const noexcept {}

 protected:
  ~ConnectionSink() = default;
};

class ListenSink {
 public:
  // A peer requests a connection. The sink owns the request. Destroying it without accepting or
  // rejecting it refuses the peer (on_refused there, not on_rejected).
  virtual void on_request(std::unique_ptr<IncomingConnection> request) noexcept = 0;

 protected:
  ~ListenSink() = default;
};

class CqSink {
 public:
  // A notification arrived at an armed CQ (see Cq::arm), which is disarmed now.
  virtual void on_notify() noexcept = 0;
  // Called instead of on_notify, by a thread that waits for `word` in Adapter::block() or
  // Cq::block(), with locks of the transport held, and possibly concurrently with other calls. If
  // only that thread needs the notification, changes the word and returns true. Otherwise does
  // nothing and returns false.
  virtual bool notify_waiter(WaitWord& word) noexcept {
    (void)word;
    return false;
  }
  // The CQ was full and a completion was lost. Every QP that feeds the CQ breaks. At most one call
  // per CQ.
  virtual void on_overflow() noexcept = 0;

 protected:
  ~CqSink() = default;
};

class SrqSink {
 public:
  virtual void
  on_low_watermark() noexcept = 0;  // fewer buffers available than the armed mark; disarmed by this
  virtual void on_async_error() noexcept = 0;

 protected:
  ~SrqSink() = default;
};

class AdapterSink {
 public:
  virtual void on_catastrophic() noexcept = 0;  // device or port gone
  virtual void on_internal_error() noexcept = 0;

 protected:
  ~AdapterSink() = default;
};

}  // namespace udapl::transport
