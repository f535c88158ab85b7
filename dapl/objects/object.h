// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include <dat/dat_registry.h>

#include "common/fork.h"
#include "common/mutex.h"
#include "common/result.h"
#include "common/spin_lock.h"
#include "common/tracing/trace.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <type_traits>
#include <utility>

namespace udapl::dapl {

class Ia;

// The header that every DAT handle points at. Its first word belongs to DAT: the registry finds the
// provider through it. Handle objects are therefore never polymorphic. The memory of a freed object
// keeps a valid header that is marked dead, so that a stale handle is recognised.
struct ObjectHeader {
  ObjectHeader(const DAT_PROVIDER* table, DAT_HANDLE_TYPE type, Ia* owner) noexcept
      : provider(table), tag(tag_of(type)), ia(owner) {}

  static constexpr std::uint32_t kDead = 0xDEADDA7U;
  static constexpr std::uint32_t kConsumed = 0x5BE27DA7U;  // ended by itself; may be freed once
  static constexpr std::uint32_t tag_of(DAT_HANDLE_TYPE type) noexcept {
    return 0xDA70000U + static_cast<std::uint32_t>(type);
  }

  // The only check of a hot call is its gate, which is open if the object is live, is of the right
  // type and allows the fast path of the call; on all others it is shut. There is always an object,
  // since the registry has dispatched the call through its first word.
  static constexpr std::uint32_t kShut = 1;

  const DAT_PROVIDER* provider;
  std::atomic<std::uint32_t> tag;
  // Objects that refer to this one and keep it from being freed.
  std::atomic<std::uint32_t> uses{0};
  std::atomic<std::uint32_t> request_gate{kShut};  // 0: open
  std::atomic<std::uint32_t> receive_gate{kShut};  // 0: open
  std::atomic<std::uint32_t> dequeue_gate{kShut};  // 0: open
  // Whether a thread is inside a post for which NoLock holds no lock (guard.h).
  std::atomic<bool> posting_request{false};
  std::atomic<bool> posting_receive{false};
  DAT_CONTEXT context{};  // the consumer's; never interpreted
  Ia* ia;                 // for an Ia: itself
  // Links of ObjectList.
  ObjectHeader* next = nullptr;
  ObjectHeader* previous = nullptr;
};
static_assert(offsetof(ObjectHeader, provider) == 0);
// One cache line. In an EP, the next one holds the state.
static_assert(sizeof(void*) != 8 || sizeof(ObjectHeader) == 64);

// Shuts the gates of an object that is dead, or about to be.
inline void shut_gates(ObjectHeader& object) noexcept {
  object.request_gate.store(ObjectHeader::kShut, std::memory_order_relaxed);
  object.receive_gate.store(ObjectHeader::kShut, std::memory_order_relaxed);
  object.dequeue_gate.fetch_or(ObjectHeader::kShut, std::memory_order_relaxed);
}

// Whether `handle` can be the address of an object. The numbers that stand for IAs are below every
// address, as are null and sentinels; the kernel's half, with -1 and the like, is above.
[[nodiscard]] inline bool is_address(DAT_HANDLE handle) noexcept {
  using Address = std::conditional_t<sizeof(void*) == 8, std::intptr_t, std::uintptr_t>;
  constexpr Address kLowestAddress = 65536;
  auto address = reinterpret_cast<Address>(handle);
#if defined(__aarch64__)
  if ((address >> 48) != -1) address &= (Address{1} << 56) - 1;  // without a tag
#endif
  return address >= kLowestAddress && (address & (alignof(ObjectHeader) - 1)) == 0;
}

// T::kType is the DAT_HANDLE_TYPE of a T.
template <class T>
[[nodiscard]] bool is_live(const ObjectHeader& object) noexcept {
  return object.tag.load(std::memory_order_relaxed) == ObjectHeader::tag_of(T::kType);
}

// Returns the object of `handle`, or null if it is not a live T.
template <class T>
[[nodiscard]] T* handle_cast(DAT_HANDLE handle) noexcept {
  if (!is_address(handle)) return nullptr;
  auto* header = static_cast<ObjectHeader*>(handle);
  return is_live<T>(*header) ? static_cast<T*>(header) : nullptr;
}

// Marks the handle of `object` dead, so that calls no longer find the object. Returns false if it
// was dead already: then another thread is ending the object.
template <class T>
[[nodiscard]] bool invalidate(T& object) noexcept {
  std::uint32_t live = ObjectHeader::tag_of(T::kType);
  if (!object.tag.compare_exchange_strong(live, ObjectHeader::kDead, std::memory_order_acq_rel))
    return false;
  shut_gates(object);
  return true;
}

// Serialises the destruction of an object that has ended by itself with the consumer's call that
// frees its handle. One per provider library. Held during the destructor of such an object, which
// therefore must not block.
inline std::mutex& consumed_lock() noexcept {
  static constinit std::mutex lock;
  // No static destructor ends it, and its construction needs no memory.
  static_assert(std::is_trivially_destructible_v<std::mutex>);
  return lock;
}

// Returns whether `handle` belongs to an object that ended by itself and that the consumer had not
// freed; it counts as freed now. REQUIRES: consumed_lock() has been held since before the
// consumer's call examined the object.
[[nodiscard]] inline bool free_consumed(DAT_HANDLE handle) noexcept {
  std::uint32_t consumed = ObjectHeader::kConsumed;
  return is_address(handle) && static_cast<ObjectHeader*>(handle)->tag.compare_exchange_strong(
                                   consumed, ObjectHeader::kDead, std::memory_order_relaxed);
}

// Memory for handle objects of type T. Blocks are never returned to the system, and a freed block
// is reused as late as practical: after at least kQuarantine other frees. Thread-safe; one per type
// and provider library. Only allocate() can run out of memory. Empty in a forked child.
template <class T>
class ObjectPool : private forks::Cache {
 public:
  static constexpr std::size_t kQuarantine = 64;

  static ObjectPool& instance() noexcept {
    static constinit ObjectPool pool;
    // No static destructor ends it.
    static_assert(std::is_trivially_destructible_v<ObjectPool>);
    return pool;
  }

  [[nodiscard]] void* allocate() {
    {
      const ScopedLock lock(lock_);
      if (count_ > kQuarantine) {
        ObjectHeader* const block = oldest_;
        oldest_ = block->next;
        --count_;
        return block;
      }
    }
    watch_forks();
    if constexpr (alignof(T) > __STDCPP_DEFAULT_NEW_ALIGNMENT__)
      return ::operator new(sizeof(T), std::align_val_t(alignof(T)));
    else
      return ::operator new(sizeof(T));
  }
  // The blocks are chained by their headers.
  void release(ObjectHeader* block) noexcept {
    const ScopedLock lock(lock_);
    (count_ == 0 ? oldest_ : latest_->next) = block;
    latest_ = block;
    ++count_;
  }

 private:
  constexpr ObjectPool() noexcept : Cache(&ObjectPool::repair) {}

  static void repair(forks::Cache& base) noexcept UDAPL_NO_THREAD_SAFETY_ANALYSIS {
    auto& pool = static_cast<ObjectPool&>(base);
    pool.count_ = 0;
    pool.lock_.unlock();
  }

  SpinLock lock_;
  ObjectHeader* oldest_ UDAPL_GUARDED_BY(lock_) = nullptr;
  ObjectHeader* latest_ UDAPL_GUARDED_BY(lock_) = nullptr;
  std::size_t count_ UDAPL_GUARDED_BY(lock_) = 0;
};

// Records of trace_points.cpp.
[[gnu::cold, gnu::noinline]] void trace_create(const ObjectHeader& object,
                                               DAT_HANDLE_TYPE type) noexcept;
[[gnu::cold, gnu::noinline]] void trace_free(const ObjectHeader& object,
                                             DAT_HANDLE_TYPE type) noexcept;

// Ends an object: runs its destructor and returns its block to the pool. Of the header only the tag
// and the gates change; the provider pointer is not written, because the registry reads it without
// a lock: a dat_rsp_free() may do so while the RSP ends by itself because its request has arrived.
template <class T>
struct Dispose {
  void operator()(T* object) const noexcept {
    static_assert(!std::is_polymorphic_v<T>, "the first word of a handle belongs to DAT");
    static_assert(std::is_trivially_destructible_v<ObjectHeader>, "the header outlives the object");
    if (trace::enabled(trace::kCalls)) [[unlikely]]
      trace_free(*object, T::kType);
    std::unique_lock lock(consumed_lock(), std::defer_lock);
    if (object->tag.load(std::memory_order_relaxed) == ObjectHeader::kConsumed)
      lock.lock();
    else
      object->tag.store(ObjectHeader::kDead, std::memory_order_relaxed);
    shut_gates(*object);
    object->~T();
    ObjectPool<T>::instance().release(object);
  }
};

template <class T>
using Owned = std::unique_ptr<T, Dispose<T>>;

// Returns the block of an object whose constructor has thrown to the pool, marked dead: a consumer
// may have a stale handle of a former object in it.
template <class T>
struct ReleaseBlock {
  void operator()(void* block) const noexcept {
    auto* const header = static_cast<ObjectHeader*>(block);
    header->tag.store(ObjectHeader::kDead, std::memory_order_relaxed);
    ObjectPool<T>::instance().release(header);
  }
};

// Makes a handle object. Throws std::bad_alloc.
template <class T, class... Args>
[[nodiscard]] Owned<T> make_object(Args&&... args) {
  std::unique_ptr<void, ReleaseBlock<T>> block(ObjectPool<T>::instance().allocate());
  T* const object = ::new (block.get()) T(std::forward<Args>(args)...);
  static_cast<void>(block.release());
  if (trace::enabled(trace::kCalls)) [[unlikely]]
    trace_create(*object, T::kType);
  return Owned<T>(object);
}

// Objects of one type that an Ia owns. Not thread-safe: protected by the Ia's lock, except that any
// thread may read the size. Insert and remove are O(1). REQUIRES: it is empty when it is destroyed.
template <class T>
class ObjectList {
 public:
  ObjectList() = default;
  ObjectList(const ObjectList&) = delete;
  ObjectList& operator=(const ObjectList&) = delete;
  ~ObjectList() = default;

  T& insert(Owned<T>&& object) noexcept {
    T& inserted = *object.release();
    inserted.previous = nullptr;
    inserted.next = head_;
    if (head_ != nullptr) head_->previous = &inserted;
    head_ = &inserted;
    size_.store(size() + 1, std::memory_order_relaxed);
    return inserted;
  }
  // Null if another thread has removed it from the list.
  [[nodiscard]] Owned<T> remove(T& object) noexcept {
    if (object.previous == nullptr && head_ != &object) return nullptr;
    if (object.previous != nullptr)
      object.previous->next = object.next;
    else
      head_ = static_cast<T*>(object.next);
    if (object.next != nullptr) object.next->previous = object.previous;
    object.next = object.previous = nullptr;
    size_.store(size() - 1, std::memory_order_relaxed);
    return Owned<T>(&object);
  }
  [[nodiscard]] T* front() const noexcept { return head_; }
  [[nodiscard]] static T* next(const T& object) noexcept { return static_cast<T*>(object.next); }
  [[nodiscard]] std::size_t size() const noexcept { return size_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }

 private:
  T* head_ = nullptr;
  std::atomic<std::size_t> size_{0};
};

// Holds one use of an object for its own lifetime. Assignable, so that dat_ep_modify can replace
// it.
template <class T>
class Use {
 public:
  Use() noexcept = default;
  explicit Use(T* object) noexcept : object_(object) {
    if (object_ != nullptr) object_->uses.fetch_add(1, std::memory_order_relaxed);
  }
  Use(Use&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Use& operator=(Use&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Use() {
    if (object_ != nullptr) object_->uses.fetch_sub(1, std::memory_order_release);
  }

  [[nodiscard]] T* get() const noexcept { return object_; }
  T* operator->() const noexcept { return object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  T* object_ = nullptr;
};

}  // namespace udapl::dapl
