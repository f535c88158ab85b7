// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/queue_regions.h"

#include "common/result.h"
#include "providers/verbs/memory_table.h"

#include <optional>

namespace udapl::verbs {

QueueRegions::QueueRegions(MemoryTable& table) noexcept : table_(table) { table_.add(*this); }

QueueRegions::~QueueRegions() { table_.remove(*this); }

DAT_RETURN QueueRegions::check_in_table(const DAT_LMR_TRIPLET& segment, SegmentUse use) noexcept {
  const std::uint64_t before = forgotten();
  // In the order of docs/semantics.md#local-memory.
  const std::optional<MemoryTable::Region> region = table_.find(segment.lmr_context);
  if (!region.has_value()) return dat_error(DAT_PRIVILEGES_VIOLATION);
  if (region->pd != pd_) return dat_error(DAT_PROTECTION_VIOLATION);
  const bool inside =
      use == SegmentUse::kReceive ? region->contains_start_of(segment) : region->contains(segment);
  if (!inside) return dat_error(DAT_INVALID_PARAMETER);
  if (use != SegmentUse::kRead && !region->writable) return dat_error(DAT_PRIVILEGES_VIOLATION);
  remember(*region, before);
  return DAT_SUCCESS;
}

}  // namespace udapl::verbs
