// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/completion.h"
#include "dapl/evd.h"
#include "dapl/guard.h"
#include "dapl/object.h"
#include "dapl/transport/cq.h"

#include <concepts>
#include <type_traits>

// The hot way out of an EVD, bound to the transport's CQ class at compile time.
namespace udapl::dapl {

// A final class, so that calls through it need no table. kDrivesProgress: progress() does work.
template <class C>
concept CompletionQueue = std::derived_from<C, transport::Cq> && std::is_final_v<C> && requires {
  { C::kDrivesProgress } -> std::convertible_to<bool>;
};

inline bool Evd::convert(const transport::Completion& completion, DAT_EVENT* event) noexcept {
  return to_event(completion, this, event);
}

inline bool Evd::take_stashed(DAT_EVENT* event) noexcept {
  if (stash_begin_ == stash_end_ || !to_plain_event(*stash_begin_, this, event)) [[unlikely]]
    return false;
  ++stash_begin_;
  return true;
}

// The oldest completion that makes an event: stash, CQ.
template <class C>
[[gnu::always_inline]] inline bool Evd::take_completion(DAT_EVENT* event) noexcept {
  for (;;) {
    while (stash_begin_ != stash_end_)
      if (convert(*stash_begin_++, event)) return true;
    const int polled = static_cast<C*>(cq_.get())->poll(stash_, kStash);
    if (polled == 0) return false;
    stash_begin_ = stash_;
    stash_end_ = stash_ + polled;
  }
}

// The oldest event: ring, stash, CQ. Completions in the ring are older than those in the stash.
template <class C>
bool Evd::take(DAT_EVENT* event) noexcept {
  if (!ring_empty() && take_from_ring(event)) [[unlikely]]
    return true;
  return take_completion<C>(event);
}

// take() under the lock that this EVD needs: none if its consumer serialises and nothing but its
// consumer takes completions.
template <CompletionQueue C, Guard G>
[[nodiscard]] inline bool dequeue_once(Evd& evd, DAT_EVENT* event) noexcept {
  if (!G::kThreadSafe && evd.merged()) [[unlikely]] {
    const TakeLock::Scope lock(evd.poll_lock());
    return evd.take<C>(event);
  }
  const typename G::Scope lock(evd.poll_lock());
  return evd.take<C>(event);
}

// A dequeue from an EVD that is not plain, and one after the transport was driven.
template <CompletionQueue C, Guard G>
[[nodiscard, gnu::noinline]] DAT_RETURN dequeue_slowly(Evd& evd, DAT_EVENT* event) noexcept {
  if (evd.waited()) [[unlikely]]
    return dat_error(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_WAITER);
  if (evd.cq() == nullptr) {
    if (!evd.ring_empty() && evd.take_from_ring(event)) return DAT_SUCCESS;
    return dat_error(DAT_QUEUE_EMPTY);
  }
  if (dequeue_once<C, G>(evd, event)) return DAT_SUCCESS;
  if constexpr (C::kDrivesProgress) {
    evd.cq()->progress();
    if (dequeue_once<C, G>(evd, event)) return DAT_SUCCESS;
  }
  return DAT_QUEUE_EMPTY;
}

// A dequeue from a plain EVD whose stash has no plain event.
template <CompletionQueue C, Guard G>
[[nodiscard, gnu::noinline]] DAT_RETURN dequeue_from_cq(Evd& evd, DAT_EVENT* event) noexcept {
  {
    const typename G::Scope lock(evd.poll_lock());
    if (evd.take_completion<C>(event)) return DAT_SUCCESS;
  }
  if constexpr (C::kDrivesProgress) {
    evd.cq()->progress();
    return dequeue_slowly<C, G>(evd, event);
  }
  return DAT_QUEUE_EMPTY;
}

namespace calls {

// An empty EVD with a CQ answers QUEUE_EMPTY without class bits, another one with them: consumers
// compare with the codes that existing providers return (docs/compatibility.md).
template <CompletionQueue C, Guard G>
DAT_RETURN evd_dequeue(DAT_EVD_HANDLE handle, DAT_EVENT* event) noexcept {
  Evd* const evd = handle_cast<Evd>(handle);
  if (evd == nullptr) [[unlikely]]
    return dat_error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EVD_REQUEST);
  if (event == nullptr) [[unlikely]]
    return dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2);
  if (!evd->plain()) [[unlikely]]
    return dequeue_slowly<C, G>(*evd, event);
  {
    const typename G::Scope lock(evd->poll_lock());
    if (evd->take_stashed(event)) [[likely]]
      return DAT_SUCCESS;
  }
  return dequeue_from_cq<C, G>(*evd, event);
}

}  // namespace calls
}  // namespace udapl::dapl
