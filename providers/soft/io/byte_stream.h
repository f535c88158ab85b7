// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/result.h"
#include "dapl/transport/cm.h"
#include "providers/reactor/reactor.h"
#include "providers/soft/iwarp/tx_batch.h"
#include "providers/soft/reach.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace udapl::soft {

class MrTable;
namespace shm {
class Grants;
}

struct IoResult {
  enum Kind : std::uint8_t {
    kDone,     // `bytes` > 0 were moved, perhaps fewer than asked
    kBlocked,  // nothing can be moved now
    kEnd,      // receive only: the peer has finished its side
    kBroken    // `error` says why; the connection is dead
  };
  Kind kind = kBlocked;
  int error = 0;
  std::size_t bytes = 0;
  std::size_t lent = 0;  // send only: see ByteStream::send
};

// What an IwarpLink sends its bytes through: a TCP connection (TcpStream), or rings in memory that
// it shares with a peer on this host (RingStream). What is waited for and what is ready is said in
// epoll's bits: EPOLLIN, EPOLLOUT, EPOLLRDHUP, EPOLLHUP, EPOLLERR.
//
// Not thread-safe: its owner's lock serialises. The destructor stops watching and ends the
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
  // What is ready now that the handler was called with `reported`.
  [[nodiscard]] virtual std::uint32_t ready(std::uint32_t reported) noexcept { return reported; }
  // As Handler::look and Handler::rest. What may be ready, of what is waited for.
  [[nodiscard]] virtual std::uint32_t look() noexcept = 0;
  [[nodiscard]] virtual bool rest() noexcept { return true; }

  // As much as is taken at once (at most 1024 spans), and as there is. The memory of what counts as
  // sent may change. `lent` bytes behind that were taken, too, but the peer may still look at the
  // memory of some of them: send() is called again with all of them at the front, and they count
  // once the peer has read them (EPOLLOUT says so without being asked for). The first `kept` bytes
  // are never lent.
  virtual IoResult send(std::span<const iwarp::IoSpan> spans, std::size_t kept) noexcept = 0;
  // As send() of nothing new, without a look at what is still lent.
  virtual IoResult collect_returned() noexcept { return {}; }
  // From now on nobody looks at what is lent; the peer finds the stream broken.
  virtual void recall() noexcept {}
  // Frames without a list, while nothing of send() is waited for: with how much payload at most, if
  // at all; and would one of so many bytes be taken whole now? `write`: an RDMA Write, which may be
  // done in another way. Then put_frame() takes its pieces, and show_frames() tells the peer of all
  // that were put.
  [[nodiscard]] virtual std::size_t most_frame() const noexcept { return 0; }
  [[nodiscard]] virtual bool takes_frame(std::size_t, bool) noexcept { return false; }
  virtual void put_frame(std::span<const std::byte>, std::span<const std::byte>,
                         std::span<const std::byte>) noexcept {}
  virtual void show_frames() noexcept {}
  virtual IoResult receive(std::span<std::byte> room) noexcept = 0;
  // The same, into two pieces. Only where receives_in_place(): the first may be memory of others.
  virtual IoResult receive_both(std::span<std::byte> room, std::span<std::byte>) noexcept {
    return receive(room);
  }
  [[nodiscard]] virtual bool receives_in_place() const noexcept { return false; }
  // What has come and lies in one piece, where it lies; the peer may still write there. Empty if
  // there is nothing, or only receive() gets at it. drop(): the first bytes were used.
  struct Input {
    std::span<const std::byte> bytes;
    bool lent_follows = false;  // what comes behind them is best received into its place
  };
  [[nodiscard]] virtual Input input() noexcept { return {}; }
  virtual void drop(std::size_t) noexcept {}
  // input(), if nothing else but input is to be dealt with; empty otherwise, and look() says what.
  [[nodiscard]] virtual std::span<const std::byte> only_input() noexcept { return {}; }
  // input() will not grow before some of it is taken, by drop() or receive().
  [[nodiscard]] virtual bool cut() const noexcept { return false; }
  // All that was received has been delivered.
  virtual void delivered() noexcept {}
  // See Link. The rings only.
  [[nodiscard]] virtual bool reach(const Reach&, std::span<const iwarp::IoSpan>) noexcept {
    return false;
  }
  [[nodiscard]] virtual const std::atomic<std::uint32_t>* peer_reaches() const noexcept {
    return nullptr;
  }
  virtual shm::Grants* grants(MrTable&) noexcept { return nullptr; }
  // The MPA Reply, before everything else.
  virtual IoResult answer(std::span<const std::byte> reply) noexcept = 0;

  virtual void shutdown_write() noexcept = 0;  // the end, behind what was sent
  // Makes the destructor tell the peer that the stream is broken, whatever was sent.
  virtual void abort_on_close() noexcept = 0;
  // Destroys `stream` so that what was sent arrives. Returns at once.
  static void end_gently(std::unique_ptr<ByteStream> stream) noexcept;

  [[nodiscard]] virtual std::uint32_t effective_mss() const noexcept = 0;  // bytes, now
  // The same for messages that may be lent.
  [[nodiscard]] virtual std::uint32_t lent_mss() const noexcept { return effective_mss(); }
  // Bytes that were sent and the peer's host has not confirmed.
  [[nodiscard]] virtual std::size_t unacknowledged() noexcept = 0;
  [[nodiscard]] virtual const transport::Endpoints& endpoints() const noexcept = 0;

 protected:
  ByteStream() = default;

 private:
  virtual void end_gently_as(std::unique_ptr<ByteStream> self) noexcept = 0;
};

inline void ByteStream::end_gently(std::unique_ptr<ByteStream> stream) noexcept {
  if (stream == nullptr) return;
  ByteStream& self = *stream;
  self.end_gently_as(std::move(stream));
}

}  // namespace udapl::soft
