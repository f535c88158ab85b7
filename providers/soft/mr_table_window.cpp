// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The functions of MrTable for windows.
#include "providers/soft/mr_table.h"

#include "common/mutex.h"
#include "providers/soft/mr_entry.h"

#include <bitset>

namespace udapl::soft {
namespace {

// Returns the rights that a registration needs for a window that grants `remote`
// (docs/semantics.md#binding-an-rmr).
std::uint32_t local_rights_for(std::uint32_t remote) noexcept {
  std::uint32_t local = 0;
  if ((remote & kRemoteRead) != 0) local |= kLocalRead;
  if ((remote & (kRemoteWrite | kRemoteAtomic)) != 0) local |= kLocalWrite;
  return local;
}

}  // namespace

Result<std::uint32_t> MrTable::create_window(ScopeId pd, transport::WindowScope scope) {
  Result<std::uint32_t> index = allocate(Kind::kWindow, pd);
  if (!index.ok()) return index;
  const ScopedLock lock(lock_);
  at(*index).scope = scope;
  return index;
}

void MrTable::destroy_window(std::uint32_t window) noexcept {
  Entry& entry = at(window);
  {
    const ScopedLock lock(lock_);
    ++entry.life;  // binds that are still posted fail
    withdraw_window(window);
  }
  wait_unused(entry);
  const ScopedLock lock(lock_);
  release(window);
}

DAT_RMR_CONTEXT MrTable::window_context(std::uint32_t window) const noexcept {
  return at(window).latest.load(std::memory_order_relaxed);
}

std::optional<transport::Binding> MrTable::window_binding(std::uint32_t window) const noexcept {
  const ScopedLock lock(lock_);
  const Entry& entry = at(window);
  if (entry.current.load(std::memory_order_relaxed) == 0) return std::nullopt;
  return transport::Binding{
      entry.range, static_cast<DAT_MEM_PRIV_FLAGS>(entry.rights.load(std::memory_order_relaxed)),
      entry.zero_based.load(std::memory_order_relaxed) ? DAT_VA_TYPE_ZB : DAT_VA_TYPE_VA};
}

// Ends the current binding, if there is one. The window may still be pinned.
void MrTable::withdraw_window(std::uint32_t index) noexcept {
  Entry& entry = at(index);
  if (entry.current.load(std::memory_order_relaxed) == 0) return;
  withdraw(index);
  entry.qp = 0;
  drop_window_of(std::exchange(entry.mr, {}));
}

// Decrements the count of windows that prepare_bind() has incremented.
void MrTable::drop_window_of(MrRef mr) noexcept {
  if (mr.generation == 0) return;
  Entry& entry = at(mr.index);
  if (entry.current.load(std::memory_order_relaxed) == mr.generation)
    entry.windows.fetch_sub(1, std::memory_order_release);
}

DAT_RETURN MrTable::prepare_bind(ScopeId qp_pd, std::uint32_t window, const MrRef* mr,
                                 const transport::BindRequest& request, PendingBind& out) noexcept {
  const bool unbind = request.range.segment_length == 0;
  out = PendingBind{};
  out.window = window;
  out.range = request.range;
  out.zero_based = request.va_type == DAT_VA_TYPE_ZB;
  out.rights = static_cast<std::uint32_t>(request.privileges) & kRemoteRights;

  const ScopedLock lock(lock_);
  Entry& entry = at(window);
  out.window_life = entry.life;
  if (entry.pd.load(std::memory_order_relaxed) != qp_pd) return dat_error(DAT_PROTECTION_VIOLATION);
  if (unbind) {
    entry.latest.store(0, std::memory_order_relaxed);
    return DAT_SUCCESS;
  }
  if (mr == nullptr) return dat_error(DAT_INVALID_PARAMETER);
  if (request.range.lmr_context != lmr_context(*mr)) return dat_error(DAT_INVALID_PARAMETER);
  Segment covered;
  const DAT_RETURN checked = resolve(request.range, qp_pd, local_rights_for(out.rights), covered);
  if (checked != DAT_SUCCESS) return checked;
  out.mr = *mr;
  out.stag = new_stag();
  at(mr->index).windows.fetch_add(1, std::memory_order_relaxed);
  entry.latest.store(out.stag, std::memory_order_relaxed);
  return DAT_SUCCESS;
}

bool MrTable::commit_bind(const PendingBind& bind, ScopeId qp) noexcept {
  Entry& entry = at(bind.window);
  for (;;) {
    {
      const ScopedLock lock(lock_);
      Segment covered;
      const bool alive = entry.life == bind.window_life;
      // The binding has ended with the window. destroy_window() waits for the accesses.
      if (!alive && bind.stag == 0) return true;
      if (!alive || (bind.stag != 0 && resolve(bind.range, 0, 0, covered) != DAT_SUCCESS)) {
        cancel(bind);
        return false;
      }
      if (entry.current.load(std::memory_order_relaxed) != 0) {
        withdraw_window(bind.window);
      } else if (entry.users.load(std::memory_order_seq_cst) == 0 && !reached(entry)) {
        if (bind.stag == 0) return true;
        entry.address.store(reinterpret_cast<std::uintptr_t>(covered.address),
                            std::memory_order_release);
        entry.length.store(covered.length, std::memory_order_release);
        entry.rights.store(bind.rights, std::memory_order_release);
        entry.zero_based.store(bind.zero_based, std::memory_order_release);
        entry.qp = qp;
        entry.mr = bind.mr;
        entry.range = bind.range;
        publish(bind.window, bind.stag);
        return true;
      }
    }
    wait_unused(entry);
  }
}

void MrTable::cancel_bind(const PendingBind& bind) noexcept {
  const ScopedLock lock(lock_);
  cancel(bind);
}

// If no later bind was posted, the current binding is the latest again.
void MrTable::cancel(const PendingBind& bind) noexcept {
  drop_window_of(bind.mr);
  Entry& entry = at(bind.window);
  if (entry.life == bind.window_life && entry.latest.load(std::memory_order_relaxed) == bind.stag)
    entry.latest.store(entry.stag.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

Refusal MrTable::invalidate(std::uint32_t stag, ScopeId pd, ScopeId qp) noexcept {
  Entry* entry = nullptr;
  {
    const ScopedLock lock(lock_);
    const std::uint32_t index = lookup(stag);
    if (index == kNone) return Refusal::kInvalidStag;
    entry = &at(index);
    if (entry->pd.load(std::memory_order_relaxed) != pd) return Refusal::kNotThisStream;
    if (entry->kind.load(std::memory_order_relaxed) != Kind::kWindow ||
        entry->scope != transport::WindowScope::kQp)
      return Refusal::kAccess;
    if (entry->qp != qp) return Refusal::kNotThisStream;
    withdraw_window(index);
  }
  wait_unused(*entry);
  return Refusal::kNone;
}

// Withdraws all windows for which `matches` returns true. Holds the lock for only some hundred
// entries at a time.
template <class Matches>
void MrTable::withdraw_windows_if(Matches matches) noexcept {
  for (std::uint32_t first = 0;; first += kChunkSize) {
    std::uint32_t created = 0;
    std::bitset<kChunkSize> withdrawn;
    {
      const ScopedLock lock(lock_);
      created = created_;
      for (std::uint32_t i = first; i < first + kChunkSize && i < created; ++i) {
        const Entry& entry = at(i);
        if (entry.kind.load(std::memory_order_relaxed) == Kind::kWindow &&
            entry.current.load(std::memory_order_relaxed) != 0 && matches(entry)) {
          withdraw_window(i);
          withdrawn.set(i - first);
        }
      }
    }
    for (std::uint32_t i = first; i < first + kChunkSize && i < created; ++i) {
      if (withdrawn.test(i - first)) wait_unused(at(i));
    }
    if (first + kChunkSize >= created) return;
  }
}

void MrTable::unbind_all(ScopeId qp) noexcept {
  withdraw_windows_if([qp](const Entry& entry) {
    return entry.scope == transport::WindowScope::kQp && entry.qp == qp;
  });
}

void MrTable::unbind_windows_of(MrRef mr) noexcept {
  withdraw_windows_if([mr](const Entry& entry) {
    return entry.mr.index == mr.index && entry.mr.generation == mr.generation;
  });
}

}  // namespace udapl::soft
