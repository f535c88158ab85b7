// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/mutex.h"
#include "dapl/events/evd.h"
#include "dapl/objects/ia.h"
#include "dapl/posted/completion.h"
#include "dapl/transport/cq.h"

#include <concepts>
#include <type_traits>

// The fast path for taking completions out of an EVD, bound to the transport's CQ class at compile
// time.
namespace udapl::dapl {

// A CQ class is final, so that its functions are called directly. kDrivesProgress: progress() does
// work. A dequeue calls it when the EVD is empty; after a dequeued completion it calls turn_due(),
// which tells whether to call progress() then as well.
template <class C>
concept CompletionQueue = std::derived_from<C, transport::Cq> && std::is_final_v<C> && requires {
  { C::kDrivesProgress } -> std::convertible_to<bool>;
};

// A CQ class may return a batch in two steps; the second one is short if the batch is a single
// ordinary success. All of these functions are called with `lock` held:
// polls_batches(): false while completions are held back; then use poll().
// poll_batch(): returns the size of the batch; must be followed by take_only() or convert_batch().
// take_only(): fetches the only completion of the batch. Returns false, and does nothing, if it is
// a special one. convert_batch(): fills `out`, which has room for a stash, and returns the number
// of completions.
template <class C>
concept PollsBatches = requires(C& cq, transport::Completion& only, transport::Completion* out) {
  { cq.polls_batches() } -> std::same_as<bool>;
  { cq.poll_batch() } -> std::same_as<int>;
  { cq.take_only(only) } -> std::same_as<bool>;
  { cq.convert_batch(1, out) } -> std::same_as<int>;
  { C::kBatch } -> std::convertible_to<int>;  // the largest batch
};

// Out of line, so that a dequeue from an empty queue saves no registers for it.
template <class C>
[[gnu::noinline]] void Evd::stash_batch(C& cq, int count) noexcept {
  static_assert(C::kBatch <= CompletionStash::kSize);
  stash_.set_batch(cq.convert_batch(count, stash_.room()));
}

template <class C>
[[gnu::always_inline]] inline Evd::Dequeued Evd::dequeue_next(C& cq, DAT_EVENT* event) noexcept {
  if (stash_.empty()) {
    if constexpr (PollsBatches<C>) {
      if (!cq.polls_batches()) [[unlikely]]
        return Dequeued::kSpecial;
      const int count = cq.poll_batch();
      if (count <= 0) return Dequeued::kNothing;
      transport::Completion only;
      if (count == 1 && cq.take_only(only)) [[likely]] {
        if (to_plain_event(only, this, event)) [[likely]]
          return Dequeued::kEvent;
        *stash_.room() = only;
        stash_.set_batch(1);
        return Dequeued::kSpecial;
      }
      stash_batch<C>(cq, count);
    } else {
      stash_.set_batch(cq.poll(stash_.room(), CompletionStash::kSize));
    }
    if (stash_.empty()) return Dequeued::kNothing;
  }
  if (!to_plain_event(stash_.front(), this, event)) [[unlikely]]
    return Dequeued::kSpecial;
  stash_.drop_front();
  return Dequeued::kEvent;
}

// Reads the gate again under the lock: a post that found its cookie ring full may have just moved
// older completions to the ring of events, or the EVD is being freed.
template <class C>
[[gnu::always_inline]] inline bool Evd::dequeue(DAT_EVENT* event) noexcept {
  C& cq = *static_cast<C*>(cq_);
  const ScopedLock lock(cq_->lock);
  if (dequeue_gate.load(std::memory_order_relaxed) == 0) [[likely]] {
    const Dequeued result = dequeue_next<C>(cq, event);
    if (result != Dequeued::kSpecial) [[likely]]
      return result == Dequeued::kEvent;
  }
  return dequeue_oldest(event);
}

// If exactly one completion is available, no events are left to count after it.
template <class C>
[[gnu::always_inline]] inline Evd::Dequeued Evd::dequeue_only(C& cq, DAT_EVENT* event) noexcept {
  if (dequeue_gate.load(std::memory_order_relaxed) != 0 || !stash_.empty() || !cq.polls_batches())
      [[unlikely]]
    return Dequeued::kSpecial;
  const int count = cq.poll_batch();
  if (count <= 0) return Dequeued::kNothing;
  transport::Completion only;
  if (count != 1 || !cq.take_only(only)) [[unlikely]] {
    stash_batch<C>(cq, count);
    return Dequeued::kSpecial;
  }
  if (to_plain_event(only, this, event)) [[likely]]
    return Dequeued::kEvent;
  *stash_.room() = only;
  stash_.set_batch(1);
  return Dequeued::kSpecial;
}

// The calling thread does not become the EVD's waiter: this is a dequeue that also counts.
template <class C>
[[gnu::always_inline]] inline bool Evd::try_dequeue(DAT_EVENT* event, DAT_COUNT* more) noexcept {
  const Visit visit(ia->visits());
  if (wait_refused_.load(std::memory_order_seq_cst)) [[unlikely]]
    return false;
  const unsigned gate = dequeue_gate.load(std::memory_order_acquire);
  if ((gate & (kWaited | kShut)) != 0) [[unlikely]]
    return false;
  if constexpr (PollsBatches<C>) {
    if (gate == 0) [[likely]] {
      C& cq = *static_cast<C*>(cq_);
      const ScopedLock lock(cq_->lock);
      const Dequeued result = dequeue_only<C>(cq, event);
      if (result == Dequeued::kNothing) return false;
      if (result == Dequeued::kEvent) [[likely]] {
        *more = 0;
        return true;
      }
    }
  }
  return dequeue_counting(event, more);
}

}  // namespace udapl::dapl
