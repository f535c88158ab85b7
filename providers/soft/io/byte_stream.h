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

// Bytes that a stream keeps a copy of.
struct KeptBytes {
  std::unique_ptr<std::byte[]> bytes;
  std::size_t size = 0;
};

struct IoResult {
  enum Kind : std::uint8_t {
    kDone,     // `bytes` > 0 were moved, perhaps fewer than requested
    kBlocked,  // nothing can be moved now
    kEnd,      // the peer has ended its direction; send: it reads no more, the input tells why
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
// Not thread-safe: serialised by its owner's lock. The destructor stops watching and ends the
// connection; it does not wait for a running on_ready: see Reactor::quiesce.
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

  // Sends as many bytes as are accepted at once (from at most 1024 spans). The memory of the
  // `bytes` reported as sent may change. `lent` bytes behind them were accepted as well, but the
  // peer may still read the memory of some of them: call send() again with all of them at the
  // front; they are reported as sent once the peer has read them (EPOLLOUT reports that even if it
  // is not awaited). The first `kept` bytes are never lent.
  virtual IoResult send(std::span<const iwarp::IoSpan> spans, std::size_t kept) noexcept = 0;
  // Like send() without new bytes, but does not call loans in.
  virtual IoResult collect_returned() noexcept { return {}; }
  // Revokes all loans. If there are any, the stream ends there: with a reset after
  // abort_on_close().
  virtual void recall() noexcept {}
  // Fast path for short frames, while no send() is pending. most_frame(): the longest payload; 0 if
  // there is no fast path. takes_frame(): whether a frame of this many bytes fits now (`write`: it
  // is an RDMA Write, which may have a faster alternative). Then put_frame() writes its pieces, and
  // show_frames() publishes all frames that were put.
  [[nodiscard]] virtual std::size_t most_frame() const noexcept { return 0; }
  [[nodiscard]] virtual bool takes_frame(std::size_t, bool) noexcept { return false; }
  virtual void put_frame(std::span<const std::byte>, std::span<const std::byte>,
                         std::span<const std::byte>) noexcept {}
  virtual void show_frames() noexcept {}
  // How many bytes of the payload that is sent after a pause should be copied first: send() would
  // take longer if it got them in the application's memory.
  [[nodiscard]] virtual std::size_t copied_first() const noexcept { return 0; }
  virtual IoResult receive(std::span<std::byte> room) noexcept = 0;
  // The same, into two pieces. The first may be registered memory, if receives_in_place().
  virtual IoResult receive_both(std::span<std::byte> room, std::span<std::byte>) noexcept {
    return receive(room);
  }
  [[nodiscard]] virtual bool receives_in_place() const noexcept { return false; }
  // The contiguous input, in place; the peer may still write there. Empty if there is none, or if
  // only receive() can read it. drop() consumes its first bytes, and includes placed().
  struct Input {
    std::span<const std::byte> bytes;
    bool lent_follows = false;  // the bytes that follow are lent: receive() them in place
  };
  [[nodiscard]] virtual Input input() noexcept { return {}; }
  virtual void drop(std::size_t, [[maybe_unused]] std::uint64_t placed) noexcept {}
  // Whether input() cannot grow before some of it is consumed by drop() or receive().
  [[nodiscard]] virtual bool cut() const noexcept { return false; }
  // Called when everything received up to this position, in bytes since the beginning, has been
  // processed.
  virtual void placed(std::uint64_t) noexcept {}
  // If the peer reports that in turn, look() and ready() return kPlaced once the awaited position
  // has been processed.
  static constexpr std::uint32_t kPlaced = 1U << 20;  // not an event of epoll
  // For what only rings can do, without virtual calls: null if the stream is none.
  [[nodiscard]] virtual RingStream* rings() noexcept { return nullptr; }
  // Null if the stream has no such ability. For Link.
  [[nodiscard]] virtual Confirmations* confirmations() noexcept { return nullptr; }
  [[nodiscard]] virtual DirectAccess* direct_access() noexcept { return nullptr; }
  // Sends the MPA Reply, before everything else.
  virtual IoResult answer(std::span<const std::byte> reply) noexcept = 0;

  virtual void shutdown_write() noexcept = 0;  // ends the stream after what was sent
  // Makes the destructor reset the stream, whatever was sent: the peer finds it broken.
  virtual void abort_on_close() noexcept = 0;
  // Whether the end of the stream has a mark that tells it from an accident. If so, it may end
  // within a frame, and ended_on_purpose() tells whether the peer has ended it in this way.
  [[nodiscard]] virtual bool ends_anywhere() const noexcept { return false; }
  [[nodiscard]] virtual bool ended_on_purpose() const noexcept { return false; }
  // Destroys `stream`; what was sent still arrives, and behind it `rest`. Does not block.
  static void end_gently(std::unique_ptr<ByteStream> stream, KeptBytes rest = {}) noexcept;

  [[nodiscard]] virtual std::uint32_t effective_mss() const noexcept = 0;  // bytes
  // The same for messages that may be lent.
  [[nodiscard]] virtual std::uint32_t lent_mss() const noexcept { return effective_mss(); }
  // Bytes that were sent and that the peer's host has not acknowledged.
  [[nodiscard]] virtual std::size_t unacknowledged() noexcept = 0;
  // How many of the bytes sent have not reached the peer's host: they are lost with the
  // stream.
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
