// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <cstdint>
#include <memory>

namespace udapl::verbs {

class Queue;
class Srq;

// Maps QP numbers to the queues of QPs, for those completions of one CQ that their wr_id does not
// describe completely. A hash table with open addressing, at most half full. Not thread-safe: the
// CQ's lock protects it. Memory is allocated separately, so that it can be done without the lock.
// Owned by a Cq.
class QpMap {
 public:
  struct Entry {
    std::uint32_t number = kNone;
    std::uint32_t uses = 0;  // roles of the QP at this CQ: requests, receives
    Queue* queue = nullptr;
    void* context = nullptr;  // QpInit::context
    Srq* srq = nullptr;       // source of its receives; null: its own queue
  };
  struct Member {
    std::uint32_t number;
    Queue* queue;
    void* context;
    Srq* srq;
  };
  struct Table {
    explicit Table(std::uint32_t count) : size(count), entries(new Entry[count]) {}
    std::uint32_t size;  // a power of two
    std::unique_ptr<Entry[]> entries;
  };

  QpMap() : table_(kFirstSize) {}  // Throws std::bad_alloc.
  QpMap(const QpMap&) = delete;
  QpMap& operator=(const QpMap&) = delete;

  // The size of the table that must be passed to grow() before the next add(); 0 if not needed.
  [[nodiscard]] std::uint32_t wanted_size() const noexcept;
  // Moves the entries to `table` and swaps: `table` then holds the former one. REQUIRES: its size
  // is wanted_size().
  void grow(Table& table) noexcept;
  // Each add() is paired with one remove(). REQUIRES: wanted_size() is 0.
  void add(const Member& member) noexcept;
  // Returns true if that was the last use of the QP.
  bool remove(std::uint32_t number) noexcept;
  [[nodiscard]] bool empty() const noexcept { return live_ == 0; }
  // Calls visit(Queue&) for each QP.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (std::uint32_t i = 0; i < table_.size; ++i)
      if (table_.entries[i].number < kGone) visit(*table_.entries[i].queue);
  }

  // Null if no QP attached to the CQ has that number.
  [[nodiscard]] const Entry* find(std::uint32_t number) const noexcept {
    for (std::uint32_t i = number;; ++i) {
      const Entry& entry = table_.entries[i & (table_.size - 1)];
      if (entry.number == number) [[likely]]
        return &entry;
      if (entry.number == kNone) return nullptr;
    }
  }

 private:
  static constexpr std::uint32_t kFirstSize = 8;
  // QP numbers have 24 bits.
  static constexpr std::uint32_t kNone = UINT32_MAX;
  static constexpr std::uint32_t kGone = UINT32_MAX - 1;  // removed; a search continues past it

  [[nodiscard]] Entry* entry_of(std::uint32_t number) noexcept {
    return const_cast<Entry*>(find(number));
  }

  Table table_;
  std::uint32_t used_ = 0;  // slots that are not kNone
  std::uint32_t live_ = 0;
};

}  // namespace udapl::verbs
