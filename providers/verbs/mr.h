// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <infiniband/verbs.h>

#include "common/annotations.h"
#include "common/block_cache.h"
#include "common/mutex.h"
#include "common/result.h"
#include "dapl/transport/mr.h"
#include "providers/verbs/by_key.h"

#include <boost/intrusive/list_hook.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

namespace udapl::verbs {

class Adapter;
class Mr;
class Queue;
class Window;

// The access flags for DAT privileges. Verbs requires local write access for remote writes and
// atomics, so it is added. `windows`: the device has windows, so allow binding them.
[[nodiscard]] int access_flags(DAT_MEM_PRIV_FLAGS privileges, bool windows) noexcept;

// A protection domain. Immutable, so thread-safe. Owned by a PZ.
class Pd final : public transport::Pd {
 public:
  static Result<std::unique_ptr<transport::Pd>> create(Adapter& adapter);
  Pd(Adapter& adapter, ibv_pd* pd) noexcept : adapter_(adapter), pd_(pd) {}
  ~Pd() override;
  Pd(const Pd&) = delete;
  Pd& operator=(const Pd&) = delete;
  static void* operator new(std::size_t) { return BlockCache<Pd>::allocate(); }
  static void operator delete(void* block) noexcept { BlockCache<Pd>::release(block); }

  [[nodiscard]] ibv_pd* get() const noexcept { return pd_; }
  [[nodiscard]] Adapter& adapter() const noexcept { return adapter_; }

 private:
  Adapter& adapter_;
  ibv_pd* const pd_;
};

// Registered memory. Thread-safe. Owned by an LMR.
class Mr final : public transport::Mr {
 public:
  // PRIVILEGES_VIOLATION: the memory does not permit this access. INVALID_PARAMETER: not mapped.
  static Result<std::unique_ptr<transport::Mr>> create(Adapter& adapter, Pd& pd,
                                                       const transport::MrInit& init);
  Mr(Adapter& adapter, ibv_mr* mr, const transport::MrInit& init) noexcept;
  ~Mr() override;
  Mr(const Mr&) = delete;
  Mr& operator=(const Mr&) = delete;
  static void* operator new(std::size_t) { return BlockCache<Mr>::allocate(); }
  static void operator delete(void* block) noexcept { BlockCache<Mr>::release(block); }

  [[nodiscard]] DAT_LMR_CONTEXT lmr_context() const noexcept override { return mr_->lkey; }
  [[nodiscard]] DAT_RMR_CONTEXT rmr_context() const noexcept override;
  [[nodiscard]] bool has_windows() const noexcept override {
    return windows_.load(std::memory_order_acquire) != 0;
  }

  [[nodiscard]] ibv_mr* get() const noexcept { return mr_; }
  [[nodiscard]] const transport::MrInit& init() const noexcept { return init_; }

 private:
  // Tries again for a while, and blocks meanwhile. `error` is the result of the first attempt.
  [[gnu::cold, gnu::noinline]] void deregister_later(int error) noexcept;

  friend class Window;
  friend class ByKey<Mr>;
  friend class MemoryTable;
  [[nodiscard]] std::uint32_t table_key() const noexcept { return mr_->lkey; }

  Adapter& adapter_;
  ibv_mr* const mr_;
  const transport::MrInit init_;
  std::atomic<int> windows_{0};  // bound, or being bound
  Mr* next_ = nullptr;           // used by ByKey
  bool found_ = false;           // a RegionCache may hold it; under the lock of the MemoryTable
};

// A memory window: type 2B for scope kQp if the device has them, otherwise type 1 (which works over
// all QPs of its protection domain). Thread-safe. Owned by an RMR.
//
// For a post_bind, a Queue acquires lock(), calls prepare(), checks type2(), bound() etc., posts
// accordingly, and calls posted() after success. When a bind has failed or was flushed, it calls
// MemoryTable::bind_failed(); before it destroys its ibv_qp, MemoryTable::qp_ends().
//
// After a failed bind the state of the window in the device is unknown: the former binding may
// still be in force, or the key may be another one. The window is then *stale*. To *renew* it is to
// replace its ibv_mw by a new one, which revokes whatever the old one granted. A stale window is
// renewed before the next bind, before the QP is destroyed, and when a registration cannot be
// removed.
//
// Only a polled completion tells that a bind was flushed. If the last bind was posted to a queue
// that is in error, or has entered that state since, the window is *doubtful*: it counts as bound
// or unbound as before, but is renewed before the next bind. A bind through another queue queries
// the state of the former queue from the device, because its failure may not have been polled
// either.
class Window final : public transport::Window {
 public:
  static Result<std::unique_ptr<transport::Window>> create(Adapter& adapter, Pd& pd,
                                                           transport::WindowScope scope);
  Window(Adapter& adapter, ibv_mw* mw) noexcept;
  ~Window() override;
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  [[nodiscard]] DAT_RMR_CONTEXT rmr_context() const noexcept override;
  [[nodiscard]] std::optional<transport::Binding> binding() const noexcept override;

  // ---- for Queue -------------------------------------------------------------------------------
  // Type 1: bind with ibv_bind_mw (length 0 unbinds); afterwards key() is the new key. Type 2: bind
  // with a work request IBV_WR_BIND_MW of rkey next_key(), preceded by an IBV_WR_LOCAL_INV of key()
  // if bound(); unbind with the IBV_WR_LOCAL_INV alone, or with nothing if not bound().
  [[nodiscard]] bool type2() const noexcept { return type_ == IBV_MW_TYPE_2; }
  Mutex& lock() const noexcept UDAPL_TSA(lock_returned(lock_)) { return lock_; }
  // Renews the window if it is stale or doubtful, or if it is a type 2 window that is bound through
  // another queue, because only that queue could invalidate it. Returns false if that fails: the
  // bind is then refused.
  [[nodiscard]] bool prepare(const Queue& queue) noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] ibv_mw* get() const noexcept UDAPL_REQUIRES(lock_) { return mw_; }
  [[nodiscard]] bool bound() const noexcept UDAPL_REQUIRES(lock_) { return binding_.has_value(); }
  // REQUIRES: bound().
  [[nodiscard]] const Mr& bound_to() const noexcept UDAPL_REQUIRES(lock_) { return *mr_; }
  [[nodiscard]] std::uint32_t key() const noexcept UDAPL_REQUIRES(lock_) { return mw_->rkey; }
  [[nodiscard]] std::uint32_t next_key() const noexcept UDAPL_REQUIRES(lock_) {
    return ibv_inc_rkey(mw_->rkey);
  }
  // Called after the request was posted on `queue`, with a number of MemoryTable::next_post().
  // `key`: the new key, 0 for an unbind.
  void posted(const transport::BindRequest& request, std::uint32_t key, const Queue& queue,
              std::uint64_t number) noexcept UDAPL_REQUIRES(lock_);

  // ---- for MemoryTable: no-ops if they concern another window -----------------------------------
  // The bind or unbind with this number has failed or was flushed: if it is the last one that was
  // posted, marks the window as unbound and stale.
  void bind_failed(std::uint64_t number) noexcept UDAPL_EXCLUDES(lock_);
  // The peer has invalidated `key`: marks the window as unbound.
  void invalidated(std::uint32_t key) noexcept UDAPL_EXCLUDES(lock_);
  // `queue` has entered the error state: marks the window as doubtful.
  void qp_fails(const Queue& queue) noexcept UDAPL_EXCLUDES(lock_);
  // Forgets `queue`, and renews a type 2 window that the device may have bound through it.
  void qp_ends(const Queue& queue) noexcept UDAPL_EXCLUDES(lock_);
  void renew_if_stale() noexcept UDAPL_EXCLUDES(lock_);
  // Renews a window that was bound to the registration `lkey` before.
  void renew_if_formerly(DAT_LMR_CONTEXT lkey) noexcept UDAPL_EXCLUDES(lock_);

 private:
  friend class ByKey<Window>;
  friend class MemoryTable;
  void release() noexcept UDAPL_REQUIRES(lock_);
  void renew() noexcept UDAPL_REQUIRES(lock_);
  // Whether the last bind may have been flushed although no poll has found that yet.
  [[nodiscard]] bool may_be_flushed() const noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] std::uint32_t table_key() const noexcept { return table_key_; }

  Adapter& adapter_;
  ibv_pd* const pd_;
  const ibv_mw_type type_;
  mutable Mutex lock_;
  ibv_mw* mw_ UDAPL_GUARDED_BY(lock_);  // null if renewing it has failed
  DAT_RMR_CONTEXT context_ UDAPL_GUARDED_BY(lock_) = 0;
  Mr* mr_ UDAPL_GUARDED_BY(lock_) = nullptr;  // the Mr to which it is bound, or being bound
  // The lkey of the Mr to which it was bound before: the device may still have that binding while a
  // later request is outstanding or after it has failed. Then the queue of the last post, and the
  // ibv_qp that it had, until qp_ends().
  DAT_LMR_CONTEXT former_ UDAPL_GUARDED_BY(lock_) = 0;
  const Queue* queue_ UDAPL_GUARDED_BY(lock_) = nullptr;
  ibv_qp* qp_ UDAPL_GUARDED_BY(lock_) = nullptr;
  std::uint64_t last_post_ UDAPL_GUARDED_BY(lock_) = 0;
  bool stale_ UDAPL_GUARDED_BY(lock_) = false;
  bool doubtful_ UDAPL_GUARDED_BY(lock_) = false;
  std::optional<transport::Binding> binding_ UDAPL_GUARDED_BY(lock_);

  // Used by the MemoryTable, under its lock.
  boost::intrusive::list_member_hook<> hook_;
  Window* next_ = nullptr;  // used by ByKey
  std::uint32_t table_key_ = 0;
  int visits_ = 0;
};

}  // namespace udapl::verbs
