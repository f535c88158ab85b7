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
// One that can be polled in two steps by the consumer who is announced at its PollGate: fetch()
// looks how many completions there are (up to Evd::kStash), hand_out() gives those that were
// fetched. So a look at an empty queue is one call.
template <class C>
concept FetchingQueue = CompletionQueue<C> &&
    requires(C& cq, transport::Completion* out, int count) {
  { cq.fetch() } -> std::same_as<int>;
  { cq.hand_out(count, out) } -> std::same_as<int>;
};

inline bool Evd::convert(const transport::Completion& completion, DAT_EVENT* event) noexcept {
  return to_event(completion, this, event);
}

inline bool Evd::take_stashed(DAT_EVENT* event) noexcept {
  if (!to_plain_event(*stash_begin_, this, event)) [[unlikely]]
    return false;
  ++stash_begin_;
  --stashed();
  return true;
}

// The oldest completion that makes an event: stash, CQ.
template <class C>
[[gnu::always_inline]] inline bool Evd::take_completion(DAT_EVENT* event) noexcept {
  for (;;) {
    if (take_stash(event)) return true;
    restash(static_cast<C*>(cq_.get())->poll(stash_, kStash));
    if (stashed() == 0) return false;
  }
}

inline bool Evd::take_stash(DAT_EVENT* event) noexcept {
  while (stashed() != 0)
    if (convert(unstash(), event)) return true;
  return false;
}

template <class C>
[[gnu::always_inline]] inline int Evd::fetch() noexcept {
  return static_cast<C*>(cq_.get())->fetch();
}

template <class C>
bool Evd::take_fetched(int count, DAT_EVENT* event) noexcept {
  for (; count > 0; count = fetch<C>()) {
    restash(static_cast<C*>(cq_.get())->hand_out(count, stash_));
    if (take_stash(event)) return true;
  }
  return false;
}

// The oldest event: ring, stash, CQ. Completions in the ring are older than those in the stash.
template <class C>
bool Evd::take(DAT_EVENT* event) noexcept {
  if (merged_) [[unlikely]]
    return take_merged(event);
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

// ---- a dequeue at once -------------------------------------------------------------------------

// What could not be done at once. The caller is not announced.
template <CompletionQueue C, Guard G>
[[nodiscard, gnu::noinline]] DAT_RETURN dequeue_carefully(DAT_EVD_HANDLE handle,
                                                          DAT_EVENT* event) noexcept {
  Evd* const evd = handle_cast<Evd>(handle);
  if (evd == nullptr) return dat_error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EVD_REQUEST);
  if (event == nullptr) return dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2);
  return dequeue_slowly<C, G>(*evd, event);
}

// The rest of dequeue_from_cq(): completions have been fetched, `count` of them; and of
// dequeue_from_stash(): the next completion is not a plain one.
template <FetchingQueue C>
[[nodiscard, gnu::noinline]] DAT_RETURN dequeue_fetched(Evd& evd, int count) noexcept
    UDAPL_REQUIRES(evd.poll_lock()) {
  auto* const event = static_cast<DAT_EVENT*>(evd.poll_gate.announced());
  const bool taken = evd.take_fetched<C>(count, event);
  evd.poll_gate.withdraw();
  return taken ? DAT_SUCCESS : DAT_QUEUE_EMPTY;
}
template <FetchingQueue C>
[[nodiscard, gnu::noinline]] DAT_RETURN dequeue_stashed(Evd& evd) noexcept
    UDAPL_REQUIRES(evd.poll_lock()) {
  auto* const event = static_cast<DAT_EVENT*>(evd.poll_gate.announced());
  const bool taken = evd.take_stash(event) || evd.take_fetched<C>(evd.fetch<C>(), event);
  evd.poll_gate.withdraw();
  return taken ? DAT_SUCCESS : DAT_QUEUE_EMPTY;
}

// By the consumer who is announced at the open gate, with `event` as his word: that is not kept
// over the poll, so that an empty one needs no register for it.
template <FetchingQueue C>
[[nodiscard, gnu::always_inline]] inline DAT_RETURN dequeue_from_stash(Evd& evd,
                                                                       DAT_EVENT* event) noexcept
    UDAPL_REQUIRES(evd.poll_lock()) {
  if (!evd.take_stashed(event)) [[unlikely]]
    return dequeue_stashed<C>(evd);
  evd.poll_gate.withdraw();
  return DAT_SUCCESS;
}
template <FetchingQueue C>
[[nodiscard, gnu::always_inline]] inline DAT_RETURN dequeue_from_cq(Evd& evd) noexcept
    UDAPL_REQUIRES(evd.poll_lock()) {
  if (const int count = evd.fetch<C>(); count != 0) [[unlikely]]
    return dequeue_fetched<C>(evd, count);
  evd.poll_gate.withdraw();
  return DAT_QUEUE_EMPTY;
}

namespace calls {

// An empty EVD with a CQ answers QUEUE_EMPTY without class bits, another one with them: consumers
// compare with the codes that existing providers return (docs/compatibility.md).
template <CompletionQueue C, Guard G>
DAT_RETURN evd_dequeue(DAT_EVD_HANDLE handle, DAT_EVENT* event) noexcept {
  // Whoever calls has found this entry through the first word of the object.
  auto& object = *static_cast<ObjectHeader*>(handle);
  transport::PollGate& gate = object.poll_gate;
  auto& evd = static_cast<Evd&>(object);  // if the gate is open
  if constexpr (FetchingQueue<C> && !G::kThreadSafe) {
    const typename G::Scope lock(evd.poll_lock());
    gate.announce(event);
    const std::uint32_t closed = gate.bits();
    if ((closed | static_cast<std::uint32_t>(gate.stock())) == 0 && event != nullptr)
      return dequeue_from_cq<C>(evd);
    if (closed == 0 && event != nullptr) [[likely]]
      return dequeue_from_stash<C>(evd, event);
    gate.withdraw();
    return dequeue_carefully<C, G>(handle, event);
  } else {
    if (!gate.open() || event == nullptr) [[unlikely]]
      return dequeue_carefully<C, G>(handle, event);
    {
      const typename G::Scope lock(evd.poll_lock());
      if constexpr (FetchingQueue<C>) {
        gate.announce(event);
        if (gate.open()) [[likely]]
          return gate.stock() == 0 ? dequeue_from_cq<C>(evd) : dequeue_from_stash<C>(evd, event);
        gate.withdraw();
      } else if (gate.stock() != 0 && evd.take_stashed(event)) {
        return DAT_SUCCESS;
      }
    }
    return dequeue_slowly<C, G>(evd, event);
  }
}

}  // namespace calls
}  // namespace udapl::dapl
