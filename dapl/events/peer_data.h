// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <vector>

namespace udapl::dapl {

// Private data of a peer, to which connection events point.
struct PeerData {
  std::vector<std::byte> room;  // zeros follow the data
  std::size_t size = 0;
  std::uint64_t last_event = 0;  // in a KeptPeerData: the number of events that were queued before
};

// A list, whose elements move from owner to owner without an allocation.
using PeerDataList = std::list<PeerData>;

// The private data of EPs that were freed or reset while connection events were queued. It is kept
// until these have been dequeued, and a little longer, because consumers read it after the dequeue.
// Not thread-safe. Owned by an Evd, whose ring lock protects it.
class KeptPeerData {
 public:
  // `queued`, `dequeued`: numbers of events since the queue exists. Returns what is to be
  // destroyed.
  [[nodiscard]] PeerDataList keep(PeerDataList data, std::uint64_t queued,
                                  std::uint64_t dequeued) noexcept {
    if (queued == dequeued) return data;
    for (PeerData& each : data) each.last_event = queued;
    kept_.splice(kept_.end(), data);
    PeerDataList unused;
    while (kept_.size() > kRecent && kept_.front().last_event <= dequeued)
      unused.splice(unused.end(), kept_, kept_.begin());
    return unused;
  }

 private:
  static constexpr std::size_t kRecent = 64;  // these may still be read

  PeerDataList kept_;
};

}  // namespace udapl::dapl
