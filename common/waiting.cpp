// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "common/waiting.h"

#include "common/mutex.h"
#include "common/spin_lock.h"

namespace udapl {

constinit thread_local const Inside* Inside::innermost_ = nullptr;

bool Inside::among(const Inside* inside, const void* what) noexcept {
  for (; inside != nullptr; inside = inside->outer_)
    if (inside->what_ == what) return true;
  return false;
}

// The threads that wait now; their waits never form a cycle.
struct Waiting::List {
  SpinLock lock;  // acquired before those of is_blocked_by()
  Waiting* first UDAPL_GUARDED_BY(lock) = nullptr;

  // Whether `from` waits, directly or through others, for `target`. REQUIRES: no object is seen_.
  [[nodiscard]] bool reaches(Waiting& from, const Waiting& target) noexcept UDAPL_REQUIRES(lock) {
    if (from.is_blocked_by(target)) return true;
    from.seen_ = true;
    for (Waiting* other = first; other != nullptr; other = other->next_)
      if (!other->seen_ && from.is_blocked_by(*other) && reaches(*other, target)) return true;
    return false;
  }

  static List all;  // trivially destructible: threads may wait when static destructors run
};

Waiting::List Waiting::List::all;

bool Waiting::begin() noexcept {
  List& list = List::all;
  const ScopedLock guard(list.lock);
  for (Waiting* other = list.first; other != nullptr; other = other->next_) other->seen_ = false;
  if (list.reaches(*this, *this)) return false;
  next_ = list.first;
  list.first = this;
  begun_ = true;
  return true;
}

void Waiting::end() noexcept {
  if (!begun_) return;
  List& list = List::all;
  const ScopedLock guard(list.lock);
  Waiting** place = &list.first;
  while (*place != this) place = &(*place)->next_;
  *place = next_;
  begun_ = false;
}

}  // namespace udapl
