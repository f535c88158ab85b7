// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/verbs/region_cache.h"

#include <infiniband/verbs.h>

#include <boost/intrusive/list_hook.hpp>

#include <cstdint>

namespace udapl::verbs {

class MemoryTable;

// What the device does with a segment. As in OpenFabrics, a segment of a receive may extend beyond
// its LMR: the device reports an error for a message that does.
enum class SegmentUse : std::uint8_t { kRead, kWrite, kReceive };

// A cache of the registrations that the requests, or the receives, of one queue may name, which are
// those of its protection domain. Behind it is the MemoryTable, at which it is registered during
// its lifetime.
//
// Thread-safe as a RegionCache is: reset() and check() are for the posting thread. Owned by a
// Queue.
class QueueRegions final : public RegionCache {
 public:
  explicit QueueRegions(MemoryTable& table) noexcept;
  ~QueueRegions();
  QueueRegions(const QueueRegions&) = delete;
  QueueRegions& operator=(const QueueRegions&) = delete;

  // Forgets all registrations. From now on those of `pd` may be named.
  void reset(const ibv_pd* pd) noexcept {
    pd_ = pd;
    forget();
  }

  // Checks whether the segment may be passed to the device. The device itself would report an error
  // only when it executes the request, in some cases with a meaningless status, and inline data
  // would be copied without any check. REQUIRES: the length of the segment is not 0.
  [[gnu::always_inline]] DAT_RETURN check(const DAT_LMR_TRIPLET& segment, SegmentUse use) noexcept {
    const KnownRegion* const cached = find(segment.lmr_context);
    if (cached != nullptr && cached->contains(segment) &&
        (use == SegmentUse::kRead || cached->writable)) [[likely]]
      return DAT_SUCCESS;
    return check_in_table(segment, use);
  }

 private:
  friend class MemoryTable;
  [[gnu::noinline]] DAT_RETURN check_in_table(const DAT_LMR_TRIPLET& segment,
                                              SegmentUse use) noexcept;

  MemoryTable& table_;
  const ibv_pd* pd_ = nullptr;
  boost::intrusive::list_member_hook<> hook_;
};

}  // namespace udapl::verbs
