// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/mutex.h"

#include <atomic>
#include <cstdint>
#include <memory>

namespace udapl::verbs {

class Qp;
class Srq;

// From QP number to QP, for the completions of one CQ. Open addressing, at most half full. Lookups
// take no lock and write nothing; whoever changes the map makes sure, by `quiesce`, that no lookup
// still uses what he takes out. Thread-safe. Owned by a Cq.
class QpMap {
 public:
  struct Entry {
    std::atomic<std::uint32_t> number{kNone};
    std::uint32_t uses = 0;  // roles of the QP: feeds the CQ with requests, with receives
    Qp* qp = nullptr;
    void* context = nullptr;  // QpInit::context
    Srq* srq = nullptr;       // that its receives come from; null: its own queue
  };
  struct Member {
    std::uint32_t number;
    Qp* qp;
    void* context;
    Srq* srq;
  };

  QpMap();  // Throws std::bad_alloc.
  ~QpMap();
  QpMap(const QpMap&) = delete;
  QpMap& operator=(const QpMap&) = delete;

  // `quiesce` returns when all lookups that had begun are over; the map's lock is held. Each
  // success of add is paired with one remove. Throws std::bad_alloc.
  template <class Quiesce>
  void add(const Member& member, Quiesce&& quiesce) UDAPL_EXCLUDES(lock_) {
    const ScopedLock lock(lock_);
    const std::unique_ptr<Table> old = make_room(member.number);
    if (old != nullptr) quiesce();
    insert(member);
  }
  template <class Quiesce>
  void remove(std::uint32_t number, Quiesce&& quiesce) noexcept UDAPL_EXCLUDES(lock_) {
    const ScopedLock lock(lock_);
    if (!take_out(number)) return;
    quiesce();
    clean_up(number);
  }
  [[nodiscard]] bool empty() noexcept UDAPL_EXCLUDES(lock_) {
    const ScopedLock lock(lock_);
    return live_ == 0;
  }
  // Calls visit(Qp&) for each, with the lock held.
  template <class Visit>
  void for_each(Visit&& visit) UDAPL_EXCLUDES(lock_) {
    const ScopedLock lock(lock_);
    const Table& table = *table_.load(std::memory_order_relaxed);
    for (std::uint32_t i = 0; i <= table.mask; ++i)
      if (table.entries[i].number.load(std::memory_order_relaxed) < kGone)
        visit(*table.entries[i].qp);
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

 private:
  // QP numbers have 24 bits.
  static constexpr std::uint32_t kNone = UINT32_MAX;
  static constexpr std::uint32_t kGone = UINT32_MAX - 1;  // a search goes on behind it
  struct Table {
    explicit Table(std::uint32_t size) : mask(size - 1), entries(new Entry[size]) {}
    const std::uint32_t mask;
    const std::unique_ptr<Entry[]> entries;
  };

  [[nodiscard]] Entry* entry_of(std::uint32_t number) noexcept UDAPL_REQUIRES(lock_) {
    return const_cast<Entry*>(find(number));
  }
  // Gives the table that was replaced, if one was.
  [[nodiscard]] std::unique_ptr<Table> make_room(std::uint32_t number) UDAPL_REQUIRES(lock_);
  void insert(const Member& member) noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] bool take_out(std::uint32_t number) noexcept UDAPL_REQUIRES(lock_);
  void clean_up(std::uint32_t number) noexcept UDAPL_REQUIRES(lock_);

  std::atomic<Table*> table_;  // owned
  Mutex lock_;
  std::uint32_t used_ UDAPL_GUARDED_BY(lock_) = 0;  // slots that are not kNone
  std::uint32_t live_ UDAPL_GUARDED_BY(lock_) = 0;
};

}  // namespace udapl::verbs
