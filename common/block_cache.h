// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <array>
#include <cstddef>
#include <new>
#include <type_traits>

#include "common/fork.h"
#include "common/mutex.h"
#include "common/spin_lock.h"

namespace udapl {

// Memory for objects of a final class T that are created and destroyed often: up to kBlocks freed
// blocks are kept for reuse, which saves malloc and free. The operators new and delete of T must
// call these functions. One per type and library, never destroyed. Thread-safe. Keeps nothing under
// AddressSanitizer, so that this detects uses of freed objects.
template <class T>
class BlockCache : private forks::Cache {
 public:
  [[nodiscard]] static void* allocate() {  // throws std::bad_alloc
    static_assert(std::is_final_v<T> && alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    BlockCache& cache = instance();
    {
      const ScopedLock lock(cache.lock_);
      if (cache.count_ != 0) return cache.blocks_[--cache.count_];
    }
    cache.watch_forks();
    return ::operator new(sizeof(T));
  }
  static void release(void* block) noexcept {
#if !defined(__SANITIZE_ADDRESS__)
    BlockCache& cache = instance();
    {
      const ScopedLock lock(cache.lock_);
      if (cache.count_ < kBlocks) {
        cache.blocks_[cache.count_++] = block;
        return;
      }
    }
#endif
    ::operator delete(block);
  }

 private:
  static constexpr std::size_t kBlocks = 32;

  constexpr BlockCache() noexcept : Cache(&BlockCache::repair) {}

  static void repair(forks::Cache& base) noexcept UDAPL_NO_THREAD_SAFETY_ANALYSIS {
    auto& cache = static_cast<BlockCache&>(base);
    cache.count_ = 0;
    cache.lock_.unlock();
  }
  static BlockCache& instance() noexcept {
    static constinit BlockCache cache;
    return cache;
  }

  SpinLock lock_;
  std::size_t count_ UDAPL_GUARDED_BY(lock_) = 0;
  std::array<void*, kBlocks> blocks_ UDAPL_GUARDED_BY(lock_){};
};

}  // namespace udapl
