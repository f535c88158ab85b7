// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <cstdint>
#include <memory>

namespace udapl::verbs {

class Queue;
class Srq;

// From QP number to the queue of a QP, for the completions of one CQ: those whose wr_id does not
// say everything. Open addressing, at most half full. Not thread-safe: the CQ's lock protects it.
// Memory is allocated apart, so that nobody does that with the lock held. Owned by a Cq.
class QpMap {
 public:
  struct Entry {
    std::uint32_t number = kNone;
    std::uint32_t uses = 0;  // roles of the QP: feeds the CQ with requests, with receives
    Queue* queue = nullptr;
    void* context = nullptr;  // QpInit::context
    Srq* srq = nullptr;       // that its receives come from; null: its own queue
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

  // The size of the table that has to be given to grow() before the next add(); 0: none has to.
  [[nodiscard]] std::uint32_t wanted_size() const noexcept;
  // Goes over to `table`, which then has the former one. REQUIRES: its size is wanted_size().
  void grow(Table& table) noexcept;
  // Each is paired with one remove(). REQUIRES: wanted_size() is 0.
  void add(const Member& member) noexcept;
  // True: that was its last use.
  bool remove(std::uint32_t number) noexcept;
  [[nodiscard]] bool empty() const noexcept { return live_ == 0; }
  // Calls visit(Queue&) for each.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (std::uint32_t i = 0; i < table_.size; ++i)
      if (table_.entries[i].number < kGone) visit(*table_.entries[i].queue);
  }

  // Null: no QP that feeds the CQ has that number.
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
  static constexpr std::uint32_t kGone = UINT32_MAX - 1;  // a search goes on behind it

  [[nodiscard]] Entry* entry_of(std::uint32_t number) noexcept {
    return const_cast<Entry*>(find(number));
  }

  Table table_;
  std::uint32_t used_ = 0;  // slots that are not kNone
  std::uint32_t live_ = 0;
};

}  // namespace udapl::verbs
