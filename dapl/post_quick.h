// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/guard.h"
#include "dapl/post_submit.h"

// Posts at once: the common case of one segment and default flags, on an EP that is connected and
// configured, takes a slot and makes the transport call without the checks that its gate has made
// already (docs/adr/0019-a-gate-in-the-header.md). Whatever does not fit is not tried here and goes
// the way of post.h.
namespace udapl::dapl::post {

// A QP class may have functions of its own for one signalled segment, whose length is known.
template <class Q>
concept PostsSegments = requires(Q& qp, transport::WorkId id, const DAT_LMR_TRIPLET& segment,
                                 std::uint32_t length, const DAT_RMR_TRIPLET& remote) {
  { qp.post_one_send(id, segment, length) } -> std::same_as<DAT_RETURN>;
  { qp.post_one_write(id, segment, length, remote) } -> std::same_as<DAT_RETURN>;
};

// Can it be posted without a further look at state and configuration? `gate` is the queue's, of
// whatever object. One that is to be traced is not posted at once: a call on that path would cost
// all posts registers.
[[nodiscard, gnu::always_inline]] inline bool is_quick(const std::atomic<std::uint32_t>& gate,
                                                       DAT_COUNT count, const DAT_LMR_TRIPLET* list,
                                                       DAT_COMPLETION_FLAGS flags) noexcept {
  static_assert(DAT_COMPLETION_DEFAULT_FLAG == 0);
  return (gate.load(std::memory_order_relaxed) | static_cast<std::uint32_t>(flags)) == 0 &&
         count == 1 && list != nullptr && !trace::enabled(trace::kDetail);
}

// How that went. Not tried: nothing has happened.
struct Quick {
  bool tried;
  DAT_RETURN code;
};
inline constexpr Quick kNotTried{false, DAT_SUCCESS};

// Takes the next slot for a post of `length` bytes and makes the call `call(qp, id) ->
// DAT_RETURN`. Not tried: the lock is held by somebody, the gate has been shut before we had the
// lock, no slot is known to be free, or the post does not fit the limits.
template <class Q, class G, class Queue, class Fits, class Call>
[[nodiscard, gnu::always_inline]] inline Quick submit_quickly(
    Queue& queue, const std::atomic<std::uint32_t>& gate, DAT_DTO_COOKIE user, DAT_DTOS operation,
    std::uint32_t length, Fits&& fits, Call&& call) noexcept {
  if (!G::try_lock(queue.lock)) [[unlikely]]
    return kNotTried;
  Cookie* const cookie = queue.cookies.next();
  if ((G::kThreadSafe && gate.load(std::memory_order_relaxed) != 0) ||
      cookie == queue.cookies.known_end() || !fits()) [[unlikely]] {
    G::unlock(queue.lock);
    return kNotTried;
  }
  cookie->user = user;
  if (operation != DAT_DTO_RECEIVE) cookie->length = length;  // of a receive the completion tells
  cookie->operation = operation;
  cookie->suppressed = false;
  cookie->ib_extension = false;
  cookie->plain = true;
  queue.cookies.commit(*cookie);
  const DAT_RETURN code =
      call(*static_cast<Q*>(queue.qp), reinterpret_cast<transport::WorkId>(cookie));
  if (code != DAT_SUCCESS) [[unlikely]]
    queue.cookies.rollback();
  G::unlock(queue.lock);
  return {true, code};
}

template <HotQp Q, Guard G>
[[nodiscard, gnu::always_inline]] inline Quick send_quickly(Ep& ep, const DAT_LMR_TRIPLET& segment,
                                                            DAT_DTO_COOKIE cookie) noexcept {
  const std::uint32_t length = segment.segment_length;
  return submit_quickly<Q, G>(
      ep.requests, ep.request_gate, cookie, DAT_DTO_SEND, length,
      [&]() noexcept { return length <= ep.requests.max_message; },
      [&](Q& qp, transport::WorkId id) noexcept {
        if constexpr (PostsSegments<Q>)
          return qp.post_one_send(id, segment, length);
        else
          return qp.post_send(id, &segment, 1, transport::kSignalled);
      });
}

template <HotQp Q, Guard G>
[[nodiscard, gnu::always_inline]] inline Quick write_quickly(
    Ep& ep, const DAT_LMR_TRIPLET& segment, DAT_DTO_COOKIE cookie,
    const DAT_RMR_TRIPLET& remote) noexcept {
  const std::uint32_t length = segment.segment_length;
  if (length > remote.segment_length) [[unlikely]]
    return kNotTried;
  return submit_quickly<Q, G>(
      ep.requests, ep.request_gate, cookie, DAT_DTO_RDMA_WRITE, length,
      [&]() noexcept { return length <= ep.requests.max_rdma; },
      [&](Q& qp, transport::WorkId id) noexcept {
        if constexpr (PostsSegments<Q>)
          return qp.post_one_write(id, segment, length, remote);
        else
          return qp.post_rdma_write(id, &segment, 1, remote, transport::kSignalled);
      });
}

template <HotQp Q, Guard G>
[[nodiscard, gnu::always_inline]] inline Quick receive_quickly(Ep& ep,
                                                               const DAT_LMR_TRIPLET& segment,
                                                               DAT_DTO_COOKIE cookie) noexcept {
  return submit_quickly<Q, G>(
      ep.receives, ep.receive_gate, cookie, DAT_DTO_RECEIVE, 0, []() noexcept { return true; },
      [&](Q& qp, transport::WorkId id) noexcept {
        return qp.post_recv(id, &segment, 1, transport::kSignalled);
      });
}

}  // namespace udapl::dapl::post
