// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/mutex.h"
#include "dapl/transport/mr.h"
#include "providers/verbs/by_key.h"
#include "providers/verbs/mr.h"
#include "providers/verbs/queue_regions.h"
#include "providers/verbs/region_cache.h"

#include <infiniband/verbs.h>

#include <boost/intrusive/list.hpp>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <optional>

namespace udapl::verbs {

class Queue;

// The windows of an adapter, and its registrations by local key. Thread-safe. Its lock is acquired
// after those of the windows, and is not held while a function of a window runs. Owned by the
// Adapter.
class MemoryTable {
 public:
  // Throws std::bad_alloc.
  void add(Window& window, std::uint32_t rkey) UDAPL_EXCLUDES(lock_);
  // Waits until no function of the window runs in another thread.
  void remove(Window& window) noexcept UDAPL_EXCLUDES(lock_);
  // Called with the window's lock held, when the window is about to destroy its ibv_mw, or has a
  // new one.
  void key_ends(Window& window) noexcept UDAPL_EXCLUDES(lock_);
  void key_begins(Window& window, std::uint32_t rkey) noexcept UDAPL_EXCLUDES(lock_);
  void add(Mr& mr) UDAPL_EXCLUDES(lock_);  // throws std::bad_alloc
  void remove(Mr& mr) noexcept UDAPL_EXCLUDES(lock_);
  // Caches of the results of find(), which must forget a registration when it is removed.
  void add(QueueRegions& cache) noexcept UDAPL_EXCLUDES(lock_);
  void remove(QueueRegions& cache) noexcept UDAPL_EXCLUDES(lock_);

  // A number for a bind or unbind that is about to be posted. Keys do not identify posts, because
  // an unbind has none.
  [[nodiscard]] std::uint64_t next_post() noexcept {
    return posts_.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  // Called when the bind or unbind with this number has failed or was flushed. Any lock but a
  // Window's may be held, here and for invalidated().
  void bind_failed(std::uint64_t number) noexcept UDAPL_EXCLUDES(lock_);
  // Called when the peer has invalidated `key`.
  void invalidated(std::uint32_t key) noexcept UDAPL_EXCLUDES(lock_);
  struct Region : KnownRegion {
    const ibv_pd* pd;
  };
  [[nodiscard]] std::optional<Region> find(DAT_LMR_CONTEXT key) noexcept UDAPL_EXCLUDES(lock_);
  // Called when `queue` has entered the error state (Queue::in_error()). A window whose bind is
  // being posted to it learns of that by this call or in Window::posted(). Any lock but a Window's
  // may be held.
  void qp_fails(const Queue& queue) noexcept UDAPL_EXCLUDES(lock_);
  // Called before `queue` destroys its ibv_qp: unbinds the windows that are bound through it,
  // because devices may refuse to destroy a QP with windows. Blocks, as do the next two.
  void qp_ends(const Queue& queue) noexcept UDAPL_EXCLUDES(lock_);
  // These two are called when the device refuses to remove a registration.
  void renew_stale_windows() noexcept UDAPL_EXCLUDES(lock_);
  void renew_windows_formerly_of(DAT_LMR_CONTEXT lkey) noexcept UDAPL_EXCLUDES(lock_);

 private:
  // Calls `act` for the window without the lock; the window cannot be removed meanwhile.
  template <class Act>
  void visit(Window& window, Act act) noexcept UDAPL_REQUIRES(lock_);
  template <class Act>
  void visit_all(Act act) noexcept UDAPL_EXCLUDES(lock_);

  std::atomic<std::uint64_t> posts_{0};
  mutable Mutex lock_;
  using Windows = boost::intrusive::list<
      Window,
      boost::intrusive::member_hook<Window, boost::intrusive::list_member_hook<>, &Window::hook_>>;
  Windows windows_ UDAPL_GUARDED_BY(lock_);
  std::condition_variable_any visited_;
  int removals_ UDAPL_GUARDED_BY(lock_) = 0;  // in progress
  // The windows that have an ibv_mw, by the part of the key that only a new ibv_mw changes.
  ByKey<Window> windows_by_key_ UDAPL_GUARDED_BY(lock_);
  ByKey<Mr> mrs_ UDAPL_GUARDED_BY(lock_);
  using Caches = boost::intrusive::list<
      QueueRegions, boost::intrusive::member_hook<
                        QueueRegions, boost::intrusive::list_member_hook<>, &QueueRegions::hook_>>;
  Caches caches_ UDAPL_GUARDED_BY(lock_);
};

}  // namespace udapl::verbs
