// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/result.h"
#include "dapl/transport/cm.h"
#include "providers/reactor/reactor.h"
#include "providers/soft/confirmations.h"
#include "providers/soft/direct_access.h"
#include "providers/soft/iwarp/tx_batch.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace udapl::soft {

class RingStream;

// A copy of bytes, for a stream that still has to send them.
struct KeptBytes {
  std::unique_ptr<std::byte[]> bytes;
  std::size_t size = 0;
};

struct IoResult {
  enum Kind : std::uint8_t {
    kDone,     // `bytes` > 0 were moved, perhaps fewer than requested
    kBlocked,  // nothing can be moved now
    kEnd,      // receive: the peer ended its direction; send: it reads no more, the input tells why
    kBroken    // `error` is the errno value; the connection is dead
  };
  Kind kind = kBlocked;
  int error = 0;
  std::size_t bytes = 0;
  std::size_t lent = 0;  // send only: see ByteStream::send
};

// The byte stream below an IwarpLink: a TCP connection (TcpStream), or rings in memory that is
// shared with a peer on this host (RingStream). Events are epoll's: EPOLLIN, EPOLLOUT, EPOLLRDHUP,
// EPOLLHUP, EPOLLERR.
//
// Not thread-safe: used under the lock of its owner. The destructor stops watching and ends the
// connection; it does not wait for an on_ready() that runs in another thread (Reactor::quiesce
// does).
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  // Reports readiness for `events` to `handler`, which replaces an earlier one.
  // INSUFFICIENT_RESOURCES.
  virtual Status watch(std::uint32_t events, Handler& handler) noexcept = 0;
  virtual void set_events(std::uint32_t events) noexcept = 0;
  // Returns the ready events, after the handler was called with `reported`.
  [[nodiscard]] virtual std::uint32_t ready(std::uint32_t reported) noexcept { return reported; }
  // Like Handler::look and Handler::rest. look() returns the awaited events that may be ready.
  [[nodiscard]] virtual std::uint32_t look() noexcept = 0;
  [[nodiscard]] virtual bool rest() noexcept { return true; }

  // Sends as many bytes as the stream accepts at once (from at most 1024 spans). Returns in `bytes`
  // how many were sent: their memory may be reused. Behind them, `lent` bytes were accepted as
  // well, but the peer may still read their memory. The caller passes the lent bytes again, at the
  // front of the spans of the next send(), which reports them as sent once the peer has read them.
  // EPOLLOUT reports that, even if it is not awaited. The first `kept` bytes are never lent.
  virtual IoResult send(std::span<const iwarp::IoSpan> spans, std::size_t kept) noexcept = 0;
  // Like send() without new bytes, but never copies loans that are still out.
  virtual IoResult collect_returned() noexcept { return {}; }
  // Revokes all loans. If there are any, this ends the outgoing stream: with a reset if
  // abort_on_close() was called.
  virtual void recall() noexcept {}
  // Fast path for short frames, while send() has nothing left to send. most_frame(): the longest
  // payload; 0 if there is no fast path. takes_frame(): whether a frame of this many bytes can be
  // sent now (`write`: it is an RDMA Write; false if another way would be faster). If so,
  // put_frame() writes its pieces; show_frames() publishes all frames that were put.
  [[nodiscard]] virtual std::size_t most_frame() const noexcept { return 0; }
  [[nodiscard]] virtual bool takes_frame(std::size_t, bool) noexcept { return false; }
  virtual void put_frame(std::span<const std::byte>, std::span<const std::byte>,
                         std::span<const std::byte>) noexcept {}
  virtual void show_frames() noexcept {}
  // How many bytes of payload the caller should copy into a buffer if they are sent after a pause:
  // send() would take longer with these bytes in the application's memory. 0: none.
  [[nodiscard]] virtual std::size_t copied_first() const noexcept { return 0; }
  virtual IoResult receive(std::span<std::byte> room) noexcept = 0;
  // The same, into two pieces. If receives_in_place(), the first piece may be the registered memory
  // that is the destination.
  virtual IoResult receive_both(std::span<std::byte> room, std::span<std::byte>) noexcept {
    return receive(room);
  }
  [[nodiscard]] virtual bool receives_in_place() const noexcept { return false; }
  // The contiguous input in shared memory, where the peer may still change it. Empty if there is
  // none, or if only receive() can read it. drop() consumes its first bytes, and does what placed()
  // does.
  struct Input {
    std::span<const std::byte> bytes;
    bool lent_follows = false;  // lent bytes follow: receive() can read them into their destination
  };
  [[nodiscard]] virtual Input input() noexcept { return {}; }
  virtual void drop(std::size_t, [[maybe_unused]] std::uint64_t placed) noexcept {}
  // Whether input() cannot grow before some of it is consumed by drop() or receive().
  [[nodiscard]] virtual bool cut() const noexcept { return false; }
  // Called when this side has processed everything up to this position of the incoming stream, in
  // bytes since the beginning.
  virtual void placed(std::uint64_t) noexcept {}
  // look() and ready() return kPlaced once the peer has processed the outgoing stream up to the
  // awaited position (Confirmations::await_placed).
  static constexpr std::uint32_t kPlaced = 1U << 20;  // not an event of epoll
  // This stream, if it is a RingStream; otherwise null. For calls of functions that only rings
  // have.
  [[nodiscard]] virtual RingStream* rings() noexcept { return nullptr; }
  // The abilities of Link that depend on the stream; null if it lacks them.
  [[nodiscard]] virtual Confirmations* confirmations() noexcept { return nullptr; }
  [[nodiscard]] virtual DirectAccess* direct_access() noexcept { return nullptr; }
  // Sends the MPA Reply, before everything else.
  virtual IoResult answer(std::span<const std::byte> reply) noexcept = 0;

  virtual void shutdown_write() noexcept = 0;  // ends the outgoing stream behind what was sent
  // Makes the destructor reset the stream: the peer finds the connection broken.
  virtual void abort_on_close() noexcept = 0;
  // Whether a side that ends the stream on purpose leaves a mark. If so, the stream may end within
  // a frame, and ended_on_purpose() tells whether the peer has left the mark.
  [[nodiscard]] virtual bool ends_anywhere() const noexcept { return false; }
  [[nodiscard]] virtual bool ended_on_purpose() const noexcept { return false; }
  // Destroys `stream`, without blocking. What was sent before still arrives, followed by `rest`.
  static void end_gently(std::unique_ptr<ByteStream> stream, KeptBytes rest = {}) noexcept;

  [[nodiscard]] virtual std::uint32_t effective_mss() const noexcept = 0;  // bytes
  // The same for messages whose payload may be lent.
  [[nodiscard]] virtual std::uint32_t lent_mss() const noexcept { return effective_mss(); }
  // Bytes that were sent and that the peer's host has not acknowledged.
  [[nodiscard]] virtual std::size_t unacknowledged() noexcept = 0;
  // The number of bytes that were sent and have not reached the peer's host: they are lost if the
  // stream breaks.
  [[nodiscard]] virtual std::size_t undelivered() noexcept { return 0; }
  [[nodiscard]] virtual const transport::Endpoints& endpoints() const noexcept = 0;

 protected:
  ByteStream() = default;

 private:
  virtual void end_gently_as(std::unique_ptr<ByteStream> self, KeptBytes rest) noexcept = 0;
};

inline void ByteStream::end_gently(std::unique_ptr<ByteStream> stream, KeptBytes rest) noexcept {
  if (stream == nullptr) return;
  ByteStream& self = *stream;
  self.end_gently_as(std::move(stream), std::move(rest));
}

}  // namespace udapl::soft
