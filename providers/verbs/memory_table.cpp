// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/memory_table.h"

#include "providers/verbs/mr.h"

#include <algorithm>
#include <utility>

namespace udapl::verbs {

// ---- MrsByKey ----------------------------------------------------------------------------------

void MrsByKey::grow() {
  constexpr std::size_t kFirstSize = 16;
  std::vector<Mr*> former(std::max(2 * buckets_.size(), kFirstSize));
  former.swap(buckets_);
  for (Mr* chain : former) {
    while (chain != nullptr) {
      Mr** const bucket = bucket_of(chain->lmr_context());
      Mr* const next = std::exchange(chain->next_, *bucket);
      *bucket = std::exchange(chain, next);
    }
  }
}

inline void MrsByKey::add(Mr& mr) {
  if (count_ >= buckets_.size()) [[unlikely]]
    grow();
  Mr** const bucket = bucket_of(mr.lmr_context());
  mr.next_ = *bucket;
  *bucket = &mr;
  ++count_;
}

inline void MrsByKey::remove(Mr& mr) noexcept {
  if (buckets_.empty()) return;
  Mr** link = bucket_of(mr.lmr_context());
  while (*link != nullptr && *link != &mr) link = &(*link)->next_;
  if (*link == nullptr) return;
  *link = mr.next_;
  --count_;
}

Mr* MrsByKey::find(DAT_LMR_CONTEXT key) const noexcept {
  if (buckets_.empty()) return nullptr;
  Mr* mr = *const_cast<MrsByKey*>(this)->bucket_of(key);
  while (mr != nullptr && mr->lmr_context() != key) mr = mr->next_;
  return mr;
}

// ---- MemoryTable -------------------------------------------------------------------------------

void MemoryTable::add(Window& window) {
  const ScopedLock lock(lock_);
  windows_.insert(&window);
}

void MemoryTable::remove(Window& window) noexcept {
  const ScopedLock lock(lock_);
  windows_.erase(&window);
}

void MemoryTable::add(Mr& mr) {
  const ScopedLock lock(lock_);
  mrs_.add(mr);
}

void MemoryTable::remove(Mr& mr) noexcept {
  const ScopedLock lock(lock_);
  mrs_.remove(mr);
  if (!mr.found_) return;
  for (QueueRegions& cache : caches_) cache.forget(mr.lmr_context());
}

void MemoryTable::add(QueueRegions& cache) noexcept {
  const ScopedLock lock(lock_);
  caches_.push_back(cache);
}

void MemoryTable::remove(QueueRegions& cache) noexcept {
  const ScopedLock lock(lock_);
  caches_.erase(caches_.iterator_to(cache));
}

std::optional<MemoryTable::Region> MemoryTable::find(DAT_LMR_CONTEXT key) noexcept {
  const ScopedLock lock(lock_);
  Mr* const found = mrs_.find(key);
  if (found == nullptr) return std::nullopt;
  found->found_ = true;
  const transport::MrInit& init = found->init();
  const bool writable = (access_flags(init.privileges, false) & IBV_ACCESS_LOCAL_WRITE) != 0;
  return Region{{key, init.address, init.length, writable}, found->get()->pd};
}

void MemoryTable::bind_failed(std::uint64_t number) noexcept {
  const ScopedLock lock(lock_);
  for (Window* const window : windows_) window->bind_failed(number);
}

void MemoryTable::invalidated(std::uint32_t key) noexcept {
  const ScopedLock lock(lock_);
  for (Window* const window : windows_) window->invalidated(key);
}

void MemoryTable::qp_ends(const Queue& queue) noexcept {
  const ScopedLock lock(lock_);
  for (Window* const window : windows_) window->qp_ends(queue);
}

void MemoryTable::renew_stale_windows() noexcept {
  const ScopedLock lock(lock_);
  for (Window* const window : windows_) window->renew_if_stale();
}

void MemoryTable::renew_windows_formerly_of(DAT_LMR_CONTEXT lkey) noexcept {
  const ScopedLock lock(lock_);
  for (Window* const window : windows_) window->renew_if_formerly(lkey);
}

}  // namespace udapl::verbs
