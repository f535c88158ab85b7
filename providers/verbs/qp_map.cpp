// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/qp_map.h"

#include <utility>

namespace udapl::verbs {

// The new table has the same size if the current one is mostly filled with removed entries.
std::uint32_t QpMap::wanted_size() const noexcept {
  if (2 * (used_ + 1) <= table_.size) return 0;
  return 4 * (live_ + 1) <= table_.size ? table_.size : 2 * table_.size;
}

void QpMap::grow(Table& table) noexcept {
  const std::uint32_t mask = table.size - 1;
  for (std::uint32_t i = 0; i < table_.size; ++i) {
    const Entry& from = table_.entries[i];
    if (from.number >= kGone) continue;
    std::uint32_t to = from.number & mask;
    while (table.entries[to].number != kNone) to = (to + 1) & mask;
    table.entries[to] = from;
  }
  used_ = live_;
  std::swap(table_, table);
}

void QpMap::add(const Member& member) noexcept {
  if (Entry* const known = entry_of(member.number); known != nullptr) {
    ++known->uses;
    if (member.srq != nullptr) known->srq = member.srq;
    return;
  }
  const std::uint32_t mask = table_.size - 1;
  std::uint32_t i = member.number & mask;
  while (table_.entries[i].number < kGone) i = (i + 1) & mask;
  Entry& entry = table_.entries[i];
  if (entry.number == kNone) ++used_;
  ++live_;
  entry = {member.number, 1, member.queue, member.context, member.srq};
}

bool QpMap::remove(std::uint32_t number) noexcept {
  Entry* const known = entry_of(number);
  if (known == nullptr || --known->uses != 0) return false;
  known->number = kGone;
  --live_;
  // Removed entries at the end of a run of used slots become free: no search continues past them.
  const std::uint32_t mask = table_.size - 1;
  std::uint32_t end = number & mask;
  while (table_.entries[end].number != kNone) end = (end + 1) & mask;
  for (std::uint32_t i = (end - 1) & mask; table_.entries[i].number == kGone; i = (i - 1) & mask) {
    table_.entries[i].number = kNone;
    --used_;
  }
  return true;
}

}  // namespace udapl::verbs
