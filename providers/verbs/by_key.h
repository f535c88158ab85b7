// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace udapl::verbs {

// Objects by key, chained through the objects: Object has table_key(), which does not change while
// the object is here, and next_. Not thread-safe. Owned by a MemoryTable.
template <class Object>
class ByKey {
 public:
  void add(Object& object) {  // throws std::bad_alloc
    if (count_ >= buckets_.size()) [[unlikely]]
      grow();
    link(object);
  }
  // Adds an object again that was removed before.
  void add_again(Object& object) noexcept { link(object); }
  // Returns false if the object was not in the table.
  bool remove(Object& object) noexcept {
    if (buckets_.empty()) return false;
    Object** link = bucket_of(object.table_key());
    while (*link != nullptr && *link != &object) link = &(*link)->next_;
    if (*link == nullptr) return false;
    *link = object.next_;
    --count_;
    return true;
  }
  // Null if there is none.
  [[nodiscard]] Object* find(std::uint32_t key) const noexcept {
    if (buckets_.empty()) return nullptr;
    Object* object = buckets_[index_of(key)];
    while (object != nullptr && object->table_key() != key) object = object->next_;
    return object;
  }

 private:
  [[nodiscard]] std::size_t index_of(std::uint32_t key) const noexcept {
    return (key ^ key >> 8U) & (buckets_.size() - 1);  // the lowest byte of keys varies little
  }
  [[nodiscard]] Object** bucket_of(std::uint32_t key) noexcept { return &buckets_[index_of(key)]; }
  void link(Object& object) noexcept {
    Object** const bucket = bucket_of(object.table_key());
    object.next_ = std::exchange(*bucket, &object);
    ++count_;
  }
  [[gnu::cold, gnu::noinline]] void grow() {
    constexpr std::size_t kFirstSize = 16;
    std::vector<Object*> former(std::max(2 * buckets_.size(), kFirstSize));
    former.swap(buckets_);
    for (Object* chain : former) {
      while (chain != nullptr) {
        Object** const bucket = bucket_of(chain->table_key());
        Object* const next = std::exchange(chain->next_, *bucket);
        *bucket = std::exchange(chain, next);
      }
    }
  }

  std::vector<Object*> buckets_;  // a power of two, or none
  std::size_t count_ = 0;
};

}  // namespace udapl::verbs
