// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Completions of an EVD between its CQ and whoever takes events: the stash of what was polled, what
// came before its EP is connected, and what moved to the ring.
#include "dapl/datapath_evd.h"
#include "dapl/evd.h"

#include <algorithm>

namespace udapl::dapl {

std::size_t Evd::stashed_events() const noexcept {
  return static_cast<std::size_t>(
      std::count_if(stash_begin_, stash_begin_ + stashed(), makes_event));
}

void Evd::reserve_early(std::size_t qlen) {
  const ScopedLock lock(poll_lock_);
  early_.reserve(qlen + kStash);
}

// One of an EP that has older ones set aside is early, too.
bool Evd::is_early(const transport::Completion& completion) const noexcept {
  const void* const ep = ep_of(completion);
  return (ep != nullptr && static_cast<const Ep*>(ep)->awaits_established()) ||
         std::any_of(early_.begin(), early_.end(),
                     [&](const transport::Completion& older) { return ep_of(older) == ep; });
}

void Evd::release_early() noexcept {
  const ScopedLock lock(ring_lock_);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < early_.size(); ++i) {
    const transport::Completion completion = early_[i];
    const void* const ep = ep_of(completion);
    const bool behind =
        std::any_of(early_.begin(), early_.begin() + static_cast<std::ptrdiff_t>(kept),
                    [&](const transport::Completion& older) { return ep_of(older) == ep; });
    DAT_EVENT event{};
    if (behind || ring_.full() || static_cast<const Ep*>(ep)->awaits_established())
      early_[kept++] = completion;
    else if (convert(completion, &event))
      enqueue(event);
  }
  early_.resize(kept);
}

void Evd::set_early_aside() noexcept {
  if (!early_.empty()) release_early();
  transport::Completion* kept = stash_begin_;
  for (const transport::Completion* i = stash_begin_; i != stash_begin_ + stashed(); ++i) {
    if (early_.size() < early_.capacity() && is_early(*i))
      early_.push_back(*i);
    else
      *kept++ = *i;
  }
  stashed() = static_cast<std::int32_t>(kept - stash_begin_);
}

// What was not early before the look at the ring has its ESTABLISHED there, or taken from there.
bool Evd::take_merged(DAT_EVENT* event) noexcept {
  for (;;) {
    set_early_aside();
    if (take_from_ring(event) || take_stash(event)) return true;
    restash(cq_->poll(stash_, kStash));
    if (stashed() == 0) return false;
  }
}

// Afterwards the stash is empty only if there are no completions that make events now.
void Evd::refill_stash() noexcept {
  for (;;) {
    if (merged_) set_early_aside();
    while (stashed() != 0 && !makes_event(*stash_begin_)) retire(unstash());
    if (stashed() != 0) return;
    restash(cq_->poll(stash_, kStash));
    if (stashed() == 0) return;
  }
}

void Evd::move_to_ring(std::size_t count) noexcept {
  for (;;) {
    refill_stash();
    const ScopedLock lock(ring_lock_);
    while (stashed() != 0 && !ring_.full() && ring_.size() < count) {
      DAT_EVENT event{};
      if (convert(unstash(), &event)) enqueue(event);
    }
    if (stashed() != 0 || ring_.full() || ring_.size() >= count) return;
    if (cq_->size() == 0) return;
  }
}

std::size_t Evd::count_events(std::size_t enough) noexcept {
  if (cq_ == nullptr) return ring_.size();
  const ScopedLock lock(poll_lock_);
  refill_stash();
  const std::size_t count = ring_.size() + stashed_events();
  if (count >= enough || cq_->size() == 0) return count;
  move_to_ring(enough);
  return ring_.size() + stashed_events();
}

bool Evd::take_any(DAT_EVENT* event) noexcept {
  if (cq_ == nullptr) return take_from_ring(event);
  const ScopedLock lock(poll_lock_);
  if (merged_) return take_merged(event);
  if (take_from_ring(event)) return true;
  refill_stash();
  return stashed() != 0 && convert(unstash(), event);
}

bool Evd::take_from_ring(DAT_EVENT* event) noexcept {
  const ScopedLock lock(ring_lock_);
  const bool popped = ring_.pop(event);
  if (ring_.size() == 0) poll_gate.clear(kInRing);
  return popped;
}

bool Evd::reap() noexcept {
  if (cq_ != nullptr) {
    const ScopedLock lock(poll_lock_);
    move_to_ring(kAll);
  }
  const ScopedLock lock(ring_lock_);
  return !ring_.full();
}

void Evd::forget(const Ep& ep) noexcept {
  const ScopedLock lock(poll_lock_);
  transport::Completion* kept = stash_begin_;
  for (const transport::Completion* i = stash_begin_; i != stash_begin_ + stashed(); ++i) {
    if (ep_of(*i) != static_cast<const void*>(&ep))
      *kept++ = *i;
    else if (cookie_of(*i).ep == nullptr)
      retire(*i);  // the SRQ's, not the EP's
  }
  stashed() = static_cast<std::int32_t>(kept - stash_begin_);
  std::erase_if(early_, [&](const transport::Completion& completion) {
    if (ep_of(completion) != static_cast<const void*>(&ep)) return false;
    if (cookie_of(completion).ep == nullptr) retire(completion);
    return true;
  });
}

std::size_t Evd::count_all() noexcept {
  if (cq_ == nullptr) return ring_.size();
  const ScopedLock lock(poll_lock_);
  refill_stash();
  return ring_.size() + early_.size() + stashed_events() + static_cast<std::size_t>(cq_->size());
}

}  // namespace udapl::dapl
