// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The part of MrTable that deals with accesses in progress: our own pins, and peers on this host
// that access the memory by themselves.
#include "common/backoff.h"
#include "common/mutex.h"
#include "common/not_cancelled.h"
#include "common/tracing/trace.h"
#include "providers/soft/mr_entry.h"
#include "providers/soft/mr_table.h"

#include <chrono>
#include <thread>
#include <utility>

#include <sched.h>

namespace udapl::soft {
namespace {

// A peer copies at most 512 KiB before it checks its grant again.
constexpr auto kCopyTime = std::chrono::milliseconds(1);
constexpr auto kLooksEvery = std::chrono::milliseconds(10);
constexpr auto kEndGrantsWait = std::chrono::milliseconds(5);
// A thread of the peer is seldom without a processor for so long, unless the machine is overloaded.
constexpr auto kOfferWait = std::chrono::milliseconds(200);
constexpr int kPauses = 64;

// Spins at first, then yields, then sleeps.
class PeerBackoff {
 public:
  // Returns true once every kLooksEvery: then the caller checks what the peer's thread does.
  bool wait() noexcept {
    if (++turns_ < kPauses) {
      cpu_pause();
      return false;
    }
    const auto now = std::chrono::steady_clock::now();
    if (since_ == Time{}) since_ = looked_ = now;
    if (now - since_ < kCopyTime) {
      ::sched_yield();
      return false;
    }
    sleep();
    if (now - looked_ < kLooksEvery) return false;
    looked_ = now;
    return true;
  }
  [[nodiscard]] std::chrono::steady_clock::duration waited() const noexcept {
    return since_ == Time{} ? std::chrono::steady_clock::duration{}
                            : std::chrono::steady_clock::now() - since_;
  }

 private:
  static void sleep() noexcept {
    const NotCancelled scope;
    std::this_thread::sleep_for(kCopyTime);
  }

  using Time = std::chrono::steady_clock::time_point;
  int turns_ = 0;
  Time since_{};
  Time looked_{};
};

void report_wait() noexcept {
  UDAPL_TRACE(kNormal, "waiting for a peer on this host that is in the middle of an RDMA access");
}

// Waits until no peer uses the memory: until forget(gone, over) returns true. `gone`: the threads
// of users() that have died or no longer use the memory. `over` is destroyed without a lock.
template <class Forget, class GetUsers>
void wait_for_peers(const Forget& forget, const GetUsers& users) noexcept {
  PeerBackoff backoff;
  shm::Users gone;
  bool reported = false;
  for (;;) {
    if (std::unique_ptr<shm::Grants> over; forget(gone, over)) return;
    if (!backoff.wait()) continue;
    gone = users();
    gone.keep_gone();
    if (!std::exchange(reported, true)) report_wait();
  }
}

}  // namespace

bool MrTable::reached(const Entry& entry) noexcept {
  return entry.grants.load(std::memory_order_acquire) != nullptr;
}

// Waits until the entry is not pinned, and no peer uses its memory. REQUIRES: the entry was
// withdrawn.
void MrTable::wait_unused(Entry& entry) noexcept {
  for (Backoff pinned; entry.users.load(std::memory_order_seq_cst) != 0;) pinned.wait();
  if (!reached(entry)) [[likely]]
    return;
  wait_for_peers(
      [&](const shm::Users& gone, std::unique_ptr<shm::Grants>& over) {
        const ScopedLock lock(lock_);
        return forget_unused(entry, gone, over);
      },
      [&] { return users_of(entry); });
}

// ---- grants -------------------------------------------------------------------------------------

void MrTable::grant(const Access& request, shm::Grants& grants) noexcept {
  const ScopedLock lock(lock_);
  if (grants.has(request.stag)) return;
  const std::uint32_t index = lookup(request.stag);
  if (index == kNone) return;
  Entry& entry = at(index);
  if (entry.pd.load(std::memory_order_relaxed) != request.pd ||
      (entry.kind.load(std::memory_order_relaxed) == Kind::kWindow &&
       entry.scope == transport::WindowScope::kQp && entry.qp != request.qp))
    return;
  shm::Grants::Grant* const place = grants.place_for(request.stag);
  if (place == nullptr) return;
  if (place->stag.load(std::memory_order_relaxed) != 0) forget_grant(*place);
  grants.qp = request.qp;
  const std::uint64_t address = entry.address.load(std::memory_order_relaxed);
  grants.give(*place, request.stag, index,
              {entry.zero_based.load(std::memory_order_relaxed) ? 0 : address,
               entry.length.load(std::memory_order_relaxed), address,
               entry.rights.load(std::memory_order_relaxed)});
  place->next = entry.grants.load(std::memory_order_relaxed);
  entry.grants.store(place, std::memory_order_release);
}

void MrTable::offer(const Offered& offered, shm::Grants& grants) noexcept {
  const ScopedLock lock(lock_);
  const Segment& memory = offered.memory;
  shm::Grants::Grant& grant = grants.offer_for(offered.number);
  if (!forget_offer(grant)) return;
  Entry& entry = at(memory.ref.index);
  if (offered.number == 0 || entry.current.load(std::memory_order_relaxed) != memory.ref.generation)
    return;
  grants.qp = offered.qp;
  grants.give(grant, offered.number, memory.ref.index,
              {offered.before, memory.length, reinterpret_cast<std::uintptr_t>(memory.address),
               offered.at_once ? kRemoteWrite : shm::kPlaceInTurn});
  grant.next = entry.grants.load(std::memory_order_relaxed);
  entry.grants.store(&grant, std::memory_order_release);
}

void MrTable::end_offers(shm::Grants& grants) noexcept {
  const ScopedLock lock(lock_);
  for (shm::Grants::Grant& grant : grants.offers()) static_cast<void>(forget_offer(grant));
}

// Returns false if the peer still uses the grant. Only a hostile peer uses the grant of a receive
// that is complete.
bool MrTable::forget_offer(shm::Grants::Grant& grant) noexcept {
  if (grant.stag.load(std::memory_order_relaxed) == 0) return true;
  shm::Grants::withdraw(grant);
  if (shm::Grants::in_use(grant, {})) return false;
  forget_grant(grant);
  return true;
}

void MrTable::take_back_offers(shm::Grants& grants) noexcept {
  PeerBackoff backoff;
  shm::Users gone;
  for (;;) {
    bool in_use = false;
    {
      const ScopedLock lock(lock_);
      for (shm::Grants::Grant& grant : grants.offers()) {
        if (grant.stag.load(std::memory_order_relaxed) == 0) continue;
        shm::Grants::withdraw(grant);
        in_use |= shm::Grants::in_use(grant, gone);
      }
    }
    if (!in_use || backoff.waited() >= kOfferWait) return;
    if (!backoff.wait()) continue;
    gone = shm::Users();
    for (const shm::Grants::Grant& grant : grants.offers()) shm::Grants::add_user(grant, gone);
    gone.keep_gone();
  }
}

// Removes the grant from the list of its entry and frees it. REQUIRES: it is withdrawn and not in
// use.
void MrTable::forget_grant(shm::Grants::Grant& grant) noexcept {
  std::atomic<shm::Grants::Grant*>& first = at(grant.entry).grants;
  shm::Grants::Grant* before = first.load(std::memory_order_relaxed);
  if (before == &grant) {
    first.store(grant.next, std::memory_order_release);
  } else {
    while (before->next != &grant) before = before->next;
    before->next = grant.next;
  }
  grant.owner->free(grant);
}

// Frees the withdrawn grants of the entry that no peer uses. Returns true if no withdrawn grant is
// left. If that frees the last grant of an ended connection, moves its Grants to `over`, which the
// caller must destroy.
bool MrTable::forget_unused(Entry& entry, const shm::Users& gone,
                            std::unique_ptr<shm::Grants>& over) noexcept {
  bool all = true;
  shm::Grants::Grant* grant = entry.grants.load(std::memory_order_relaxed);
  while (grant != nullptr) {
    shm::Grants::Grant* const next = grant->next;
    const bool in_use = grant->withdrawn && shm::Grants::in_use(*grant, gone);
    if (in_use) all = false;
    if (grant->withdrawn && !in_use) {
      shm::Grants& owner = *grant->owner;
      forget_grant(*grant);
      std::unique_ptr<shm::Grants> ended = owner.empty() ? take_ended(owner) : nullptr;
      if (ended != nullptr) {
        ended->next = std::move(over);
        over = std::move(ended);
      }
    }
    grant = next;
  }
  return all;
}

// Removes `grants` from the list of ended connections. Returns null if the connection still exists.
std::unique_ptr<shm::Grants> MrTable::take_ended(shm::Grants& grants) noexcept {
  std::unique_ptr<shm::Grants>* place = &ended_grants_;
  while (*place != nullptr && place->get() != &grants) place = &(*place)->next;
  std::unique_ptr<shm::Grants> found = std::move(*place);
  if (found != nullptr) *place = std::move(found->next);
  return found;
}

// The peers that use withdrawn grants of the entry.
shm::Users MrTable::users_of(const Entry& entry) const noexcept {
  shm::Users users;
  const ScopedLock lock(lock_);
  const shm::Grants::Grant* grant = entry.grants.load(std::memory_order_relaxed);
  for (; grant != nullptr; grant = grant->next) {
    if (grant->withdrawn) shm::Grants::add_user(*grant, users);
  }
  return users;
}

// ---- ended connections --------------------------------------------------------------------------

void MrTable::end_grants(std::unique_ptr<shm::Grants> grants) noexcept {
  sweep_ended();
  {
    const ScopedLock lock(lock_);
    for (shm::Grants::Grant& grant : grants->all()) {
      if (grant.stag.load(std::memory_order_relaxed) != 0) shm::Grants::withdraw(grant);
    }
  }
  PeerBackoff backoff;
  shm::Users gone;
  bool last = false;
  for (;;) {
    {
      const ScopedLock lock(lock_);
      if (forget_all_unused(*grants, gone)) return;
      if (last) {
        grants->next = std::move(ended_grants_);
        ended_grants_ = std::move(grants);
        return;
      }
    }
    static_cast<void>(backoff.wait());
    last = backoff.waited() >= kEndGrantsWait;
    if (!last) continue;
    {
      const ScopedLock lock(lock_);
      add_users(*grants, gone);
    }
    gone.keep_gone();
  }
}

void MrTable::wait_ended(ScopeId qp) noexcept {
  wait_for_peers(
      [&](const shm::Users& gone, std::unique_ptr<shm::Grants>& over) {
        const ScopedLock lock(lock_);
        return forget_ended(qp, gone, over);
      },
      [&] { return users_of_ended(qp); });
}

// Frees the grants of ended connections whose peers have died or no longer use them.
void MrTable::sweep_ended() noexcept {
  shm::Users gone = users_of_ended(0);
  gone.keep_gone();
  std::unique_ptr<shm::Grants> over;  // destroyed without the lock
  const ScopedLock lock(lock_);
  static_cast<void>(forget_ended(0, gone, over));
}

void MrTable::add_users(shm::Grants& grants, shm::Users& users) noexcept {
  for (const shm::Grants::Grant& grant : grants.all()) {
    if (grant.stag.load(std::memory_order_relaxed) != 0) shm::Grants::add_user(grant, users);
  }
}

// The peers of the ended connections of a QP; 0: of all.
shm::Users MrTable::users_of_ended(ScopeId qp) const noexcept {
  shm::Users users;
  const ScopedLock lock(lock_);
  for (shm::Grants* grants = ended_grants_.get(); grants != nullptr; grants = grants->next.get()) {
    if (qp == 0 || grants->qp == qp) add_users(*grants, users);
  }
  return users;
}

// Frees the grants of a connection that its peer does not use. Returns true if none is left.
bool MrTable::forget_all_unused(shm::Grants& grants, const shm::Users& gone) noexcept {
  for (shm::Grants::Grant& grant : grants.all()) {
    if (grant.stag.load(std::memory_order_relaxed) != 0 && !shm::Grants::in_use(grant, gone))
      forget_grant(grant);
  }
  return grants.empty();
}

// Frees the grants of ended connections that no peer uses. Moves the Grants that then have none to
// `over`, which the caller must destroy. Returns true if no grant of `qp` remains.
bool MrTable::forget_ended(ScopeId qp, const shm::Users& gone,
                           std::unique_ptr<shm::Grants>& over) noexcept {
  bool all = true;
  std::unique_ptr<shm::Grants>* place = &ended_grants_;
  while (*place != nullptr) {
    if (!forget_all_unused(**place, gone)) {
      if ((*place)->qp == qp) all = false;
      place = &(*place)->next;
      continue;
    }
    std::unique_ptr<shm::Grants> ended = std::move(*place);
    *place = std::move(ended->next);
    ended->next = std::move(over);
    over = std::move(ended);
  }
  return all;
}

}  // namespace udapl::soft
