// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/soft/iwarp/tx_batch.h"

#include <atomic>
#include <cstdint>
#include <span>

namespace udapl::soft {

class MrTable;
namespace shm {
class Grants;
}

// A Send of at least this many bytes may be shared: both sides copy a part of it (docs/adr/0080).
// In a series of Sends, to which the peer sends nothing in return, the next Sends have to wait
// until this side has copied its part. So there only Sends of at least kMinSharedInSeries bytes are
// shared.
inline constexpr std::uint32_t kMinSharedSend = 64 * 1024;
// Only the last segment of a message, and of a receive, is shared. The segments before it, such as
// a header, must be shorter than this together. So little is never lent, but goes through the ring.
inline constexpr std::uint32_t kMaxBeforeShared = 2048;
inline constexpr std::uint32_t kMinSharedInSeries = 256 * 1024;

// An RDMA Write or Read that this side may be able to perform without the peer.
struct Reach {
  bool write = false;
  std::uint32_t stag = 0;
  std::uint64_t to = 0;
  std::uint32_t length = 0;  // > 0
};

// The ability of a link to a peer on this host that each side accesses memory of the other without
// the other's threads (docs/adr/0035). Has the lock and the lifetime of the link.
class DirectAccess {
 public:
  // Performs an RDMA Write or Read at once. All our messages must have been sent before, because
  // the access would overtake them. `local`: the source or sink, pinned by the caller. Returns
  // false if the request must be sent as a message.
  [[nodiscard]] virtual bool reach(const Reach& what,
                                   std::span<const iwarp::IoSpan> local) noexcept = 0;
  // Whether a message takes less time than reach(), because the consumer has several requests in
  // flight, `others` besides this one: the peer then handles some while this side builds others.
  [[nodiscard]] virtual bool prefers_message(bool /*write*/, std::uint32_t /*length*/,
                                             std::uint64_t /*others*/) noexcept {
    return false;
  }
  // When reach() has returned false for an RDMA Write, the Write may be shared between both sides
  // (docs/adr/0076); then share().frames != 0. The caller begins a message for all but the `first`
  // bytes, and builds and hands over `frames` of its frames. Then it calls assist(), which places
  // the `first` bytes and some bytes of these frames that the peer has not yet taken, and resets
  // share(). Then it sends the rest of the message, and calls settle(), which waits briefly until
  // the peer has placed everything. The memory must be pinned in all these calls.
  struct Share {
    std::uint32_t first = 0;
    std::uint32_t frames = 0;
  };
  [[nodiscard]] const Share& share() const noexcept { return share_; }
  void forget_share() noexcept { share_ = {}; }
  // Returns false if the peer lacks bytes that cannot be placed any more.
  [[nodiscard]] virtual bool assist() noexcept { return true; }
  virtual void settle() noexcept {}
  // Whether the peer can reach our memory and wants grants for it.
  [[nodiscard]] bool peer_reaches() const noexcept {
    return peer_reaches_.load(std::memory_order_relaxed) != 0;
  }
  // The peer's grants for memory of this table; null if the peer gets no grants.
  virtual shm::Grants* grants(MrTable& memory) noexcept = 0;

 protected:
  // `peer_reaches`: nonzero if the peer wants grants.
  explicit DirectAccess(const std::atomic<std::uint32_t>& peer_reaches) noexcept
      : peer_reaches_(peer_reaches) {}
  ~DirectAccess() = default;
  Share share_;

 private:
  const std::atomic<std::uint32_t>& peer_reaches_;
};

}  // namespace udapl::soft
