// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "common/fork.h"

#include <pthread.h>

#include <atomic>

namespace udapl::forks {

void repair_caches() noexcept;

namespace {

std::atomic<unsigned> forks_since{0};
std::atomic<bool> has_forked{false};
std::atomic<Handler> in_child_now{nullptr};

std::atomic<Cache*> caches{nullptr};

void in_parent() noexcept { has_forked.store(true, std::memory_order_relaxed); }

void in_child() noexcept {
  has_forked.store(true, std::memory_order_relaxed);
  forks_since.fetch_add(1, std::memory_order_relaxed);
  repair_caches();
  in_child_now.load(std::memory_order_acquire)();
}

}  // namespace

void repair_caches() noexcept {
  for (Cache* cache = caches.load(std::memory_order_acquire); cache != nullptr;
       cache = cache->next_)
    cache->repair_(*cache);
}

void Cache::enlist() noexcept {
  if (watched_.exchange(true, std::memory_order_relaxed)) return;
  next_ = caches.load(std::memory_order_relaxed);
  while (!caches.compare_exchange_weak(next_, this, std::memory_order_release,
                                       std::memory_order_relaxed)) {
  }
}

bool watch(Handler handler) noexcept {
  in_child_now.store(handler, std::memory_order_release);
  return ::pthread_atfork(nullptr, &in_parent, &in_child) == 0;
}

unsigned generation() noexcept { return forks_since.load(std::memory_order_relaxed); }

bool descriptors_may_be_shared() noexcept { return has_forked.load(std::memory_order_relaxed); }

}  // namespace udapl::forks
