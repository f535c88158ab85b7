// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dat/ia_table.h"

#include <algorithm>
#include <new>

#include "common/tracing/cause.h"

namespace udapl::dat {

IaTable::~IaTable() {
  for (std::size_t b = 1; b < blocks_.size(); ++b)
    delete blocks_[b].load(std::memory_order_relaxed);
}

Result<DAT_IA_HANDLE> IaTable::insert(DAT_IA_HANDLE provider_ia) noexcept {
  ScopedLock lock(mutex_);
  for (std::uintptr_t index = lowest_free_; index < kMaxHandles; ++index) {
    std::atomic<Block*>& block = blocks_[index / kBlock];
    if (block.load(std::memory_order_relaxed) == nullptr) {
      Block* fresh = new (std::nothrow) Block;
      if (fresh == nullptr) break;
      block.store(fresh, std::memory_order_release);  // pairs with slot_of and number_of
    }
    Slot& slot = *slot_of(handle_of(index));
    if (slot.provider_ia.load(std::memory_order_relaxed) != nullptr) continue;
    slot.closing.store(false, std::memory_order_relaxed);
    slot.provider_ia.store(provider_ia, std::memory_order_release);  // pairs with pointer_of
    lowest_free_ = index + 1;
    return handle_of(index);
  }
  UDAPL_EXPLAIN(kError, dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY),
                "no IA handle left, or no memory for one");
  return failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
}

void IaTable::remove(DAT_IA_HANDLE handle) noexcept {
  ScopedLock lock(mutex_);
  Slot* slot = slot_of(handle);
  if (slot == nullptr) return;
  slot->provider_ia.store(nullptr, std::memory_order_release);
  lowest_free_ = std::min(lowest_free_, index_of(handle));
}

bool IaTable::begin_close(DAT_IA_HANDLE handle) noexcept {
  Slot* slot = slot_of(handle);
  return slot != nullptr && slot->provider_ia.load(std::memory_order_acquire) != nullptr &&
         !slot->closing.exchange(true, std::memory_order_acq_rel);
}

void IaTable::cancel_close(DAT_IA_HANDLE handle) noexcept {
  Slot* slot = slot_of(handle);
  if (slot != nullptr) slot->closing.store(false, std::memory_order_release);
}

DAT_IA_HANDLE IaTable::number_of(DAT_IA_HANDLE provider_ia) const noexcept {
  if (provider_ia == nullptr) return nullptr;
  DAT_IA_HANDLE closing = nullptr;
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    const Block* block = blocks_[b].load(std::memory_order_acquire);
    if (block == nullptr) break;
    for (std::size_t s = 0; s < kBlock; ++s) {
      const Slot& slot = block->slots[s];
      if (slot.provider_ia.load(std::memory_order_acquire) != provider_ia) continue;
      if (!slot.closing.load(std::memory_order_acquire)) return handle_of(b * kBlock + s);
      closing = handle_of(b * kBlock + s);
    }
  }
  return closing;
}

DAT_RETURN IaTable::translate(DAT_IA_HANDLE handle, DAT_IA_HANDLE* other) const noexcept {
  constexpr DAT_RETURN kInvalid = dat_error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA);
  if (other == nullptr) return dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2);
  if (handle == nullptr) return kInvalid;
  if (slot_of(handle) != nullptr) {
    const DAT_IA_HANDLE pointer = pointer_of(handle);
    *other = pointer;  // null if the number is free
    if (pointer == nullptr) return kInvalid;
    return DAT_SUCCESS;
  }
  const DAT_IA_HANDLE number = number_of(handle);
  if (number == nullptr) return kInvalid;
  *other = number;
  return DAT_SUCCESS;
}

}  // namespace udapl::dat
