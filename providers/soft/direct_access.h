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

// Sends of which both sides may copy a part (docs/adr/0080): of at least this many bytes. In a
// series of Sends that the peer answers by nothing, those that follow would have to wait for this
// side's part; that pays only for larger ones.
inline constexpr std::uint32_t kMinSharedSend = 64 * 1024;
// The last segment of a message, or of a receive, is shared; what precedes it, such as a header,
// must be shorter than this. So little is never lent, but goes through the ring.
inline constexpr std::uint32_t kMaxBeforeShared = 2048;
inline constexpr std::uint32_t kMinSharedInSeries = 256 * 1024;

// An RDMA Write or Read that may be possible without the peer.
struct Reach {
  bool write = false;
  std::uint32_t stag = 0;
  std::uint64_t to = 0;
  std::uint32_t length = 0;  // > 0
};

// Memory of a peer on this host that is reached without the peer's part, and ours that it reaches
// (docs/adr/0035). Has the lock and the lifetime of the link that offers it.
class DirectAccess {
 public:
  // Does an RDMA Write or Read at once. It would overtake our messages, so all of them must have
  // been sent. `local`: its source or sink, pinned by the caller. Returns false if it must be sent
  // as a message.
  [[nodiscard]] virtual bool reach(const Reach& what,
                                   std::span<const iwarp::IoSpan> local) noexcept = 0;
  // Whether a message is better, because it is one of several requests of the consumer, `others`
  // besides it, that are under way: the peer handles some while we build others.
  [[nodiscard]] virtual bool prefers_message(bool /*write*/, std::uint32_t /*length*/,
                                             std::uint64_t /*others*/) noexcept {
    return false;
  }
  // If reach() has returned false, an RDMA Write may be shared between both sides (docs/adr/0076):
  // a message is sent for all but the `first` bytes. Once `frames` of its frames have been handed
  // over, assist() places the first bytes, and others that the peer has not yet taken; only then
  // the rest of the message is sent. settle() waits a little for the peer to place it. All with the
  // memory pinned. frames == 0: not shared, or assist() was called.
  struct Share {
    std::uint32_t first = 0;
    std::uint32_t frames = 0;
  };
  [[nodiscard]] const Share& share() const noexcept { return share_; }
  void forget_share() noexcept { share_ = {}; }
  // Returns false if bytes are missing at the peer, and will not be placed in another way.
  [[nodiscard]] virtual bool assist() noexcept { return true; }
  virtual void settle() noexcept {}
  // Whether the peer wants grants for memory that it may reach in this way.
  [[nodiscard]] bool peer_reaches() const noexcept {
    return peer_reaches_.load(std::memory_order_relaxed) != 0;
  }
  // The grants for memory of this table that the peer has; null if it gets none.
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
