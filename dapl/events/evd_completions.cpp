// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Completions of an EVD on their way from its CQ to the dequeue: the stash of polled completions,
// those held because they arrived before their EP was connected, and those moved to the ring.
#include "common/tracing/cause.h"
#include "dapl/events/evd.h"
#include "dapl/posted/completion.h"

#include <algorithm>

namespace udapl::dapl {

std::size_t Evd::stashed_events() const noexcept {
  return static_cast<std::size_t>(
      std::count_if(stash_begin_, stash_begin_ + stashed_, makes_event));
}

void Evd::reserve_early(std::size_t qlen) {
  const ScopedLock lock(cq_->lock);
  held_.reserve(qlen + kStash);
}

// A completion is also early if older completions of its EP are still held.
bool Evd::is_early(const transport::Completion& completion) const noexcept {
  const void* const ep = ep_of(completion);
  return (ep != nullptr && static_cast<const EpQueues*>(ep)->awaits_established_on(*this)) ||
         std::any_of(held_.begin(), held_.end(),
                     [&](const transport::Completion& older) { return ep_of(older) == ep; });
}

void Evd::release_held() noexcept {
  const ScopedLock lock(ring_lock_);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < held_.size(); ++i) {
    const transport::Completion completion = held_[i];
    const void* const ep = ep_of(completion);
    const bool behind =
        std::any_of(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(kept),
                    [&](const transport::Completion& older) { return ep_of(older) == ep; });
    if (behind || ring_.full() || static_cast<const EpQueues*>(ep)->awaits_established_on(*this))
      held_[kept++] = completion;
    else
      move_to_ring(completion);
  }
  held_.resize(kept);
}

void Evd::hold_until_established() noexcept {
  if (!held_.empty()) release_held();
  transport::Completion* kept = stash_begin_;
  for (const transport::Completion* i = stash_begin_; i != stash_begin_ + stashed_; ++i) {
    if (held_.size() < held_.capacity() && is_early(*i))
      held_.push_back(*i);
    else
      *kept++ = *i;
  }
  stashed_ = static_cast<int>(kept - stash_begin_);
}

bool Evd::convert(const transport::Completion& completion, DAT_EVENT* event) noexcept {
  return to_event(completion, this, event);
}

bool Evd::dequeue_stashed(DAT_EVENT* event) noexcept {
  while (stashed_ != 0)
    if (convert(unstash(), event)) return true;
  return false;
}

// Completions in the ring are older than those in the stash. If the EVD is being freed, its CQ may
// be gone except for the lock.
bool Evd::dequeue_oldest(DAT_EVENT* event) noexcept {
  if (is_shut()) return false;
  if (merged_) return dequeue_merged(event);
  if ((!ring_empty() && dequeue_from_ring(event)) || dequeue_stashed(event)) return true;
  for (;;) {
    restash(cq_->poll(stash_, kStash));
    if (stashed_ == 0) return false;
    if (dequeue_stashed(event)) return true;
  }
}

// If a completion was not early before the ring was read, the ESTABLISHED event of its EP is in the
// ring or has been dequeued from it. A consumer may answer each software event with another one:
// therefore a completion takes the place of each in the ring.
bool Evd::dequeue_merged(DAT_EVENT* event) noexcept {
  for (;;) {
    hold_until_established();
    if (dequeue_from_ring(event)) {
      if (event->event_number == DAT_SOFTWARE_EVENT) move_to_ring(ring_.size() + 1);
      return true;
    }
    if (dequeue_stashed(event)) return true;
    restash(cq_->poll(stash_, kStash));
    if (stashed_ == 0) return false;
  }
}

// On return the stash is empty only if no completion makes an event now.
void Evd::refill_stash() noexcept {
  for (;;) {
    if (merged_) hold_until_established();
    while (stashed_ != 0 && !makes_event(*stash_begin_)) retire(unstash());
    if (stashed_ != 0) return;
    restash(cq_->poll(stash_, kStash));
    if (stashed_ == 0) return;
  }
}

void Evd::move_to_ring(const transport::Completion& completion) noexcept {
  if (convert(completion, &ring_.next())) commit_event();
}

void Evd::move_to_ring(std::size_t count) noexcept {
  for (;;) {
    refill_stash();
    if (stashed_ == 0) return;
    const ScopedLock lock(ring_lock_);
    while (stashed_ != 0 && !ring_.full() && ring_.size() < count) move_to_ring(unstash());
    if (stashed_ != 0 || ring_.full() || ring_.size() >= count) return;
  }
}

std::size_t Evd::count_events(std::size_t enough) noexcept {
  if (cq_ == nullptr) return ring_.size();
  const ScopedLock lock(cq_->lock);
  return count_locked(enough);
}

std::size_t Evd::count_locked(std::size_t enough) noexcept {
  refill_stash();
  const std::size_t count = ring_.size() + stashed_events();
  if (count >= enough || stashed_ == 0) return count;
  // If the last poll filled the stash, the CQ most likely holds more. Its size is not queried then,
  // because it may have to drain the hardware queue in order to count.
  const bool was_full = stash_begin_ + stashed_ == stash_ + kStash;
  if (!was_full && cq_->size() == 0) return count;
  move_to_ring(enough);
  return ring_.size() + stashed_events();
}

bool Evd::dequeue_any(DAT_EVENT* event) noexcept {
  if (cq_ == nullptr) return dequeue_from_ring(event);
  const ScopedLock lock(cq_->lock);
  return dequeue_oldest(event);
}

bool Evd::dequeue_and_count(DAT_EVENT* event, std::size_t* rest) noexcept {
  if (cq_ == nullptr) {
    if (!dequeue_from_ring(event)) return false;
    *rest = ring_.size();
    return true;
  }
  const ScopedLock lock(cq_->lock);
  if (!dequeue_oldest(event)) return false;
  *rest = count_locked(kAll);
  return true;
}

void Evd::explain_broken(const DAT_EVENT& event) noexcept {
  const DAT_EP_HANDLE handle = event.event_data.connect_event_data.ep_handle;
  const EpQueues* const ep = handle_cast<EpQueues>(handle);
  if (ep == nullptr || *ep->break_reason() == '\0') return;
  cause::note(static_cast<DAT_RETURN>(event.event_number), "ep %p: connection broken: %s%s%s",
              handle, ep->break_reason(), *ep->break_detail() != '\0' ? ": " : "",
              ep->break_detail());
}

bool Evd::dequeue_from_ring(DAT_EVENT* event) noexcept {
  bool popped = false;
  {
    const ScopedLock lock(ring_lock_);
    popped = ring_.pop(event);
    if (ring_.size() == 0) dequeue_gate.fetch_and(~kInRing, std::memory_order_release);
  }
  if (popped && event->event_number == DAT_CONNECTION_EVENT_BROKEN) [[unlikely]]
    explain_broken(*event);
  return popped;
}

bool Evd::reap() noexcept {
  if (cq_ != nullptr) {
    const ScopedLock lock(cq_->lock);
    move_to_ring(kAll);
  }
  const ScopedLock lock(ring_lock_);
  return !ring_.full();
}

void Evd::forget(const EpQueues& ep) noexcept {
  const ScopedLock lock(cq_->lock);
  transport::Completion* kept = stash_begin_;
  for (const transport::Completion* i = stash_begin_; i != stash_begin_ + stashed_; ++i) {
    if (ep_of(*i) != static_cast<const void*>(&ep))
      *kept++ = *i;
    else if (cookie_of(*i).ep == nullptr)
      retire(*i);  // its cookie belongs to the SRQ, not to the EP
  }
  stashed_ = static_cast<int>(kept - stash_begin_);
  std::erase_if(held_, [&](const transport::Completion& completion) {
    if (ep_of(completion) != static_cast<const void*>(&ep)) return false;
    if (cookie_of(completion).ep == nullptr) retire(completion);
    return true;
  });
}

std::size_t Evd::count_all() noexcept {
  if (cq_ == nullptr) return ring_.size();
  const ScopedLock lock(cq_->lock);
  refill_stash();
  return ring_.size() + held_.size() + stashed_events() + static_cast<std::size_t>(cq_->size());
}

}  // namespace udapl::dapl
