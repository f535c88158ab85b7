// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/memory_table.h"

namespace udapl::verbs {

namespace {

// The lowest byte of a key is the part that binds change (ibv_inc_rkey).
constexpr std::uint32_t stable_part(std::uint32_t rkey) noexcept { return rkey >> 8U; }

}  // namespace

// ---- windows -----------------------------------------------------------------------------------

template <class Act>
void MemoryTable::visit(Window& window, Act act) noexcept {
  ++window.visits_;
  lock_.unlock();
  act(window);
  lock_.lock();
  if (--window.visits_ == 0 && removals_ != 0) visited_.notify_all();
}

template <class Act>
void MemoryTable::visit_all(Act act) noexcept {
  const ScopedLock lock(lock_);
  for (Window& window : windows_) visit(window, act);
}

void MemoryTable::add(Window& window, std::uint32_t rkey) {
  const ScopedLock lock(lock_);
  window.table_key_ = stable_part(rkey);
  windows_by_key_.add(window);
  windows_.push_back(window);
}

void MemoryTable::remove(Window& window) noexcept {
  const ScopedLock lock(lock_);
  if (!window.hook_.is_linked()) return;
  ++removals_;
  while (window.visits_ != 0) visited_.wait(lock_);
  --removals_;
  windows_.erase(windows_.iterator_to(window));
  windows_by_key_.remove(window);
}

void MemoryTable::key_ends(Window& window) noexcept {
  const ScopedLock lock(lock_);
  windows_by_key_.remove(window);
}

void MemoryTable::key_begins(Window& window, std::uint32_t rkey) noexcept {
  const ScopedLock lock(lock_);
  window.table_key_ = stable_part(rkey);
  windows_by_key_.add_again(window);
}

void MemoryTable::bind_failed(std::uint64_t number) noexcept {
  visit_all([&](Window& window) { window.bind_failed(number); });
}

void MemoryTable::invalidated(std::uint32_t key) noexcept {
  const ScopedLock lock(lock_);
  Window* const found = windows_by_key_.find(stable_part(key));
  if (found != nullptr) visit(*found, [&](Window& window) { window.invalidated(key); });
}

void MemoryTable::qp_fails(const Queue& queue) noexcept {
  visit_all([&](Window& window) { window.qp_fails(queue); });
}

void MemoryTable::qp_ends(const Queue& queue) noexcept {
  visit_all([&](Window& window) { window.qp_ends(queue); });
}

void MemoryTable::renew_stale_windows() noexcept {
  visit_all([](Window& window) { window.renew_if_stale(); });
}

void MemoryTable::renew_windows_formerly_of(DAT_LMR_CONTEXT lkey) noexcept {
  visit_all([&](Window& window) { window.renew_if_formerly(lkey); });
}

// ---- registrations -----------------------------------------------------------------------------

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

}  // namespace udapl::verbs
