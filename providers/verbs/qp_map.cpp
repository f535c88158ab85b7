// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/qp_map.h"

#include <utility>

namespace udapl::verbs {

namespace {

constexpr std::uint32_t kFirstSize = 8;

}  // namespace

QpMap::QpMap() : table_(new Table(kFirstSize)) {}

QpMap::~QpMap() { delete table_.load(std::memory_order_relaxed); }

std::unique_ptr<QpMap::Table> QpMap::make_room(std::uint32_t number) {
  Table* const old = table_.load(std::memory_order_relaxed);
  const std::uint32_t size = old->mask + 1;
  if (entry_of(number) != nullptr || 2 * (used_ + 1) <= size) return nullptr;
  // Of the same size if it is full of what is gone.
  auto table = std::make_unique<Table>(4 * (live_ + 1) <= size ? size : 2 * size);
  for (std::uint32_t i = 0; i < size; ++i) {
    const Entry& from = old->entries[i];
    const std::uint32_t key = from.number.load(std::memory_order_relaxed);
    if (key >= kGone) continue;
    std::uint32_t to = key & table->mask;
    while (table->entries[to].number.load(std::memory_order_relaxed) != kNone)
      to = (to + 1) & table->mask;
    table->entries[to].uses = from.uses;
    table->entries[to].qp = from.qp;
    table->entries[to].context = from.context;
    table->entries[to].srq = from.srq;
    table->entries[to].number.store(key, std::memory_order_relaxed);
  }
  used_ = live_;
  table_.store(table.release(), std::memory_order_release);
  return std::unique_ptr<Table>(old);
}

void QpMap::insert(const Member& member) noexcept {
  if (Entry* const known = entry_of(member.number); known != nullptr) {
    ++known->uses;
    if (member.srq != nullptr) known->srq = member.srq;  // before there are completions
    return;
  }
  Table& table = *table_.load(std::memory_order_relaxed);
  std::uint32_t i = member.number & table.mask;
  while (table.entries[i].number.load(std::memory_order_relaxed) < kGone) i = (i + 1) & table.mask;
  Entry& entry = table.entries[i];
  if (entry.number.load(std::memory_order_relaxed) == kNone) ++used_;
  ++live_;
  entry.uses = 1;
  entry.qp = member.qp;
  entry.context = member.context;
  entry.srq = member.srq;
  // release: whoever finds the number sees the rest.
  entry.number.store(member.number, std::memory_order_release);
}

// False: it has other uses, or is not there.
bool QpMap::take_out(std::uint32_t number) noexcept {
  Entry* const known = entry_of(number);
  if (known == nullptr || --known->uses != 0) return false;
  known->number.store(kGone, std::memory_order_release);
  --live_;
  return true;
}

// What is gone at the end of a run of used slots is free again: no search goes on behind it.
void QpMap::clean_up(std::uint32_t number) noexcept {
  Table& table = *table_.load(std::memory_order_relaxed);
  std::uint32_t end = number & table.mask;
  while (table.entries[end].number.load(std::memory_order_relaxed) != kNone)
    end = (end + 1) & table.mask;
  for (std::uint32_t i = (end - 1) & table.mask;
       table.entries[i].number.load(std::memory_order_relaxed) == kGone; i = (i - 1) & table.mask) {
    table.entries[i].number.store(kNone, std::memory_order_relaxed);
    --used_;
  }
}

}  // namespace udapl::verbs
