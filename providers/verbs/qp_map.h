// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/spin_lock.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace udapl::verbs {

class Qp;

// From QP number to QP, for the completions of one CQ. Open addressing, at most half full. Lookups
// take no lock: a reader notes version(), looks up as much as it likes, and starts again under
// lock() if the version is odd or has changed. Thread-safe. Owned by a Cq.
class QpMap {
 public:
  struct Entry {
    std::atomic<std::uint32_t> number{kNone};
    std::atomic<std::uint32_t> uses{0};  // roles of the QP: feeds the CQ with requests, receives
    std::atomic<Qp*> qp{nullptr};
    std::atomic<void*> context{nullptr};  // QpInit::context
  };

  QpMap();  // Throws std::bad_alloc.
  QpMap(const QpMap&) = delete;
  QpMap& operator=(const QpMap&) = delete;

  // Throws std::bad_alloc.
  void add(std::uint32_t number, Qp* qp, void* context) UDAPL_EXCLUDES(lock_);
  void remove(std::uint32_t number) noexcept UDAPL_EXCLUDES(lock_);

  [[nodiscard]] std::uint32_t version() const noexcept {
    return version_.load(std::memory_order_acquire);
  }
  // Null: no QP that feeds the CQ has that number.
  [[nodiscard]] const Entry* find(std::uint32_t number) const noexcept {
    const Table& table = *table_.load(std::memory_order_acquire);
    for (std::uint32_t i = number & table.mask;; i = (i + 1) & table.mask) {
      const Entry& entry = table.entries[i];
      const std::uint32_t found = entry.number.load(std::memory_order_acquire);
      if (found == number) [[likely]]
        return &entry;
      if (found == kNone) return nullptr;
    }
  }
  [[nodiscard]] SpinLock& lock() const noexcept UDAPL_TSA(lock_returned(lock_)) { return lock_; }

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;  // QP numbers have 24 bits
  struct Table {
    explicit Table(std::uint32_t size) : mask(size - 1), entries(new Entry[size]) {}
    const std::uint32_t mask;
    const std::unique_ptr<Entry[]> entries;
  };

  void insert(const Table& table, std::uint32_t number, std::uint32_t uses, Qp* qp,
              void* context) noexcept UDAPL_REQUIRES(lock_);
  void begin_change() noexcept UDAPL_REQUIRES(lock_);
  void end_change() noexcept UDAPL_REQUIRES(lock_);

  std::atomic<Table*> table_;
  std::atomic<std::uint32_t> version_{0};
  mutable SpinLock lock_;
  std::uint32_t count_ UDAPL_GUARDED_BY(lock_) = 0;
  // The last one is in use; readers may still be in the others.
  std::vector<std::unique_ptr<Table>> tables_ UDAPL_GUARDED_BY(lock_);
};

}  // namespace udapl::verbs
