// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <array>
#include <cstddef>
#include <new>
#include <utility>

#include "common/fork.h"
#include "common/mutex.h"
#include "common/spin_lock.h"

namespace udapl {

// Keeps the memory of the objects of a kind T that were destroyed last, because another thread may
// still be reading an object when it is destroyed: a call on a handle that is freed meanwhile finds
// the object's atomics and constants unchanged, and returns. A block is freed after kBlocks others
// were released. The operators delete of T must call release(). One per kind and library, never
// destroyed. Thread-safe.
template <class T>
class Quarantine : private forks::Cache {
 public:
  static void release(void* memory, std::align_val_t alignment = std::align_val_t{
                                        __STDCPP_DEFAULT_NEW_ALIGNMENT__}) noexcept {
    Quarantine& quarantine = instance();
    quarantine.watch_forks();
    Block oldest{memory, alignment};
    {
      const ScopedLock lock(quarantine.lock_);
      std::swap(quarantine.blocks_[quarantine.next_], oldest);
      quarantine.next_ = (quarantine.next_ + 1) % kBlocks;
    }
    if (oldest.alignment > std::align_val_t{__STDCPP_DEFAULT_NEW_ALIGNMENT__})
      ::operator delete(oldest.memory, oldest.alignment);
    else
      ::operator delete(oldest.memory);
  }

 private:
  struct Block {
    void* memory = nullptr;
    std::align_val_t alignment{};
  };
  static constexpr std::size_t kBlocks = 64;

  constexpr Quarantine() noexcept : Cache(&Quarantine::repair) {}

  static void repair(forks::Cache& base) noexcept UDAPL_NO_THREAD_SAFETY_ANALYSIS {
    auto& quarantine = static_cast<Quarantine&>(base);
    quarantine.blocks_ = {};
    quarantine.lock_.unlock();
  }
  static Quarantine& instance() noexcept {
    static constinit Quarantine quarantine;
    return quarantine;
  }

  SpinLock lock_;
  std::size_t next_ UDAPL_GUARDED_BY(lock_) = 0;
  std::array<Block, kBlocks> blocks_ UDAPL_GUARDED_BY(lock_){};
};

}  // namespace udapl
