// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/ep.h"
#include "dapl/guard.h"
#include "dapl/lmr.h"
#include "dapl/rmr.h"
#include "dapl/srq.h"
#include "dapl/trace_points.h"

#include <concepts>
#include <type_traits>

// What a post does while it holds the queue's lock: arguments are checked in the order of semantics
// 0.3, a cookie is claimed, one transport call is made. No allocation, no system call; refusals
// leave by unlikely branches with a reason that refused() traces when the lock is gone.
namespace udapl::dapl {

template <class Q>
concept HotQp = std::derived_from<Q, transport::Qp> && std::is_final_v<Q>;
template <class S>
concept HotSrq = std::derived_from<S, transport::Srq> && std::is_final_v<S>;

namespace post {

// DAT completion flags are work flags moved to another bit.
static_assert(int{DAT_COMPLETION_SOLICITED_WAIT_FLAG} == int{transport::kSolicited});
static_assert(DAT_COMPLETION_BARRIER_FENCE_FLAG >> 1 == int{transport::kFence});
static_assert(DAT_COMPLETION_UNSIGNALLED_FLAG << 1 == int{transport::kQuiet});

[[nodiscard]] constexpr transport::WorkFlags work_flags(std::uint32_t flags) noexcept {
  return transport::kSignalled | (flags & DAT_COMPLETION_SOLICITED_WAIT_FLAG) |
         ((flags & DAT_COMPLETION_BARRIER_FENCE_FLAG) >> 1) |
         ((flags & DAT_COMPLETION_UNSIGNALLED_FLAG) << 1);
}

// How a post ended. `why` is the reason of a refusal, in words, for the trace.
struct Outcome {
  DAT_RETURN code;
  const char* why;
};
inline constexpr Outcome kPosted{DAT_SUCCESS, nullptr};
inline constexpr Outcome kNotSupported{dat_error(DAT_MODEL_NOT_SUPPORTED),
                                       "the transport cannot do that"};
// Of the flags that a send may carry, those that other requests may.
inline constexpr auto kRdmaFlags = ~std::uint32_t{DAT_COMPLETION_SOLICITED_WAIT_FLAG};
inline constexpr int kRemotePrivileges =
    DAT_MEM_PRIV_REMOTE_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG;

[[nodiscard]] constexpr Outcome bad(DAT_RETURN arg, const char* why) noexcept {
  return {dat_error(DAT_INVALID_PARAMETER, arg), why};
}

// Traces a refusal and gives its code. Called without a lock.
[[gnu::cold, gnu::noinline]] DAT_RETURN refused(DAT_HANDLE handle, const char* call,
                                                Outcome outcome) noexcept;
[[gnu::cold, gnu::noinline]] DAT_RETURN bad_handle(DAT_HANDLE handle, const char* call,
                                                   DAT_RETURN subtype) noexcept;
// The ring is full: collects completions that are there, and claims again.
[[gnu::cold, gnu::noinline]] Cookie* reclaim(RequestQueue& queue) noexcept
    UDAPL_REQUIRES(queue.lock);
[[gnu::cold, gnu::noinline]] Cookie* reclaim(ReceiveQueue& queue) noexcept
    UDAPL_REQUIRES(queue.lock);
// Why a receive cannot be posted on an EP without a usable QP.
[[gnu::cold, gnu::noinline]] Outcome no_receive_queue(Ep& ep) noexcept;

// A segment list as an application passes it.
struct Segments {
  const DAT_LMR_TRIPLET* list;
  DAT_COUNT count;

  // A negative count is a huge one.
  [[nodiscard]] bool fit(std::uint32_t limit) const noexcept {
    return static_cast<std::uint32_t>(count) <= limit && (count == 0 || list != nullptr);
  }
  [[nodiscard]] std::uint64_t total() const noexcept {
    std::uint64_t bytes = 0;
    for (DAT_COUNT i = 0; i < count; ++i) bytes += list[i].segment_length;
    return bytes;
  }
};

// What is remembered of a request.
struct Request {
  DAT_DTO_COOKIE cookie;
  DAT_DTOS operation;
  std::uint64_t length;
  DAT_COMPLETION_FLAGS flags;
  void* rmr = nullptr;
  bool ib_extension = false;
};

// The last steps of every request: state, cookie, and the transport call
// `call(qp, id, work_flags) -> DAT_RETURN`.
template <class Q, class Call>
[[nodiscard, gnu::always_inline]] inline Outcome submit(Ep& ep, RequestQueue& queue,
                                                        const Request& request,
                                                        Call&& call) noexcept
    UDAPL_REQUIRES(queue.lock) {
  const DAT_EP_STATE state = ep.posting_state();
  if (!takes_requests(state)) [[unlikely]]
    return {wrong_state(state), "the EP is not connected"};
  Cookie* cookie = queue.cookies.claim();
  if (cookie == nullptr) [[unlikely]] {
    cookie = reclaim(queue);
    if (cookie == nullptr)
      return {dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY),
              "max_request_dtos are outstanding"};
  }

  const auto flags = static_cast<std::uint32_t>(request.flags);
  transport::WorkFlags work = work_flags(flags);
  std::uint32_t silent = 0;
  const bool suppressed = (flags & DAT_COMPLETION_SUPPRESS_FLAG) != 0 || queue.discard != nullptr;
  if (suppressed) {
    // Now and then one completes, without anybody being told, so that slots become free again.
    work |= transport::kQuiet;
    if (queue.silent < queue.max_silent) {
      silent = queue.silent + 1;
      work &= ~transport::WorkFlags{transport::kSignalled};
    }
  }
  cookie->user = request.cookie;
  if (request.rmr != nullptr)
    cookie->rmr = request.rmr;
  else
    cookie->length = static_cast<std::uint32_t>(request.length);
  cookie->operation = request.operation;
  cookie->suppressed = suppressed;
  cookie->ib_extension = request.ib_extension;
  cookie->plain = !suppressed && !request.ib_extension && request.operation != DAT_DTO_BIND_MW;
  if (trace::enabled(trace::kDetail)) [[unlikely]]
    point::post(ep, *cookie, flags);
  queue.cookies.commit(*cookie);
  const DAT_RETURN code =
      call(*static_cast<Q*>(queue.qp), reinterpret_cast<transport::WorkId>(cookie), work);
  if (code != DAT_SUCCESS) [[unlikely]] {
    queue.cookies.rollback();
    return {code, "the transport refuses"};
  }
  queue.silent = silent;
  return kPosted;
}

// ---- posts at once ------------------------------------------------------------------------------

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

// ---- all posts ----------------------------------------------------------------------------------

// The locked part of each post: the argument checks, then the common steps. `queue` is the EP's.

template <HotQp Q>
[[nodiscard]] inline Outcome send(Ep& ep, RequestQueue& queue, const Segments& local,
                                  DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags) noexcept
    UDAPL_REQUIRES(queue.lock) {
  if (!local.fit(queue.max_segments)) [[unlikely]]
    return bad(DAT_INVALID_ARG2, "bad segment count or list");
  const std::uint64_t length = local.total();
  if (length > queue.max_message) [[unlikely]]
    return bad(DAT_INVALID_ARG3, "longer than the largest message");
  if ((flags & ~queue.legal_flags) != 0) [[unlikely]]
    return bad(DAT_INVALID_ARG5, "flags not allowed on this request");
  return submit<Q>(ep, queue, {cookie, DAT_DTO_SEND, length, flags},
                   [&](Q& qp, transport::WorkId id, transport::WorkFlags work) noexcept {
                     return qp.post_send(id, local.list, local.count, work);
                   });
}

template <HotQp Q>
[[nodiscard]] inline Outcome send_invalidate(Ep& ep, RequestQueue& queue, const Segments& local,
                                             DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags,
                                             DAT_RMR_CONTEXT context) noexcept
    UDAPL_REQUIRES(queue.lock) {
  if (!local.fit(queue.max_segments)) [[unlikely]]
    return bad(DAT_INVALID_ARG2, "bad segment count or list");
  const std::uint64_t length = local.total();
  if (length > queue.max_message) [[unlikely]]
    return bad(DAT_INVALID_ARG3, "longer than the largest message");
  if ((flags & ~queue.legal_flags) != 0) [[unlikely]]
    return bad(DAT_INVALID_ARG5, "flags not allowed on this request");
  if (!queue.can_invalidate) [[unlikely]]
    return kNotSupported;
  return submit<Q>(ep, queue, {cookie, DAT_DTO_SEND, length, flags},
                   [&](Q& qp, transport::WorkId id, transport::WorkFlags work) noexcept {
                     return qp.post_send_invalidate(id, local.list, local.count, context, work);
                   });
}

template <HotQp Q>
[[nodiscard]] inline Outcome rdma_write(Ep& ep, RequestQueue& queue, const Segments& local,
                                        DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET* remote,
                                        DAT_COMPLETION_FLAGS flags) noexcept
    UDAPL_REQUIRES(queue.lock) {
  static constexpr DAT_RMR_TRIPLET kNowhere{};
  if (!local.fit(queue.max_write_segments)) [[unlikely]]
    return bad(DAT_INVALID_ARG2, "bad segment count or list");
  const std::uint64_t length = local.total();
  if (remote == nullptr) [[unlikely]] {
    if (length != 0) return bad(DAT_INVALID_ARG5, "no remote triplet");
    remote = &kNowhere;  // a write of nothing needs no place
  }
  if (length > queue.max_rdma) [[unlikely]]
    return bad(DAT_INVALID_ARG3, "longer than the largest RDMA transfer");
  if (length > remote->segment_length) [[unlikely]]
    return {dat_error(DAT_LENGTH_ERROR), "the remote triplet is smaller than the local segments"};
  if ((flags & ~(queue.legal_flags & kRdmaFlags)) != 0) [[unlikely]]
    return bad(DAT_INVALID_ARG6, "flags not allowed on this request");
  return submit<Q>(ep, queue, {cookie, DAT_DTO_RDMA_WRITE, length, flags},
                   [&](Q& qp, transport::WorkId id, transport::WorkFlags work) noexcept {
                     return qp.post_rdma_write(id, local.list, local.count, *remote, work);
                   });
}

template <HotQp Q>
[[nodiscard, gnu::always_inline]] inline Outcome rdma_read(Ep& ep, RequestQueue& queue,
                                                           const Segments& local,
                                                           DAT_DTO_COOKIE cookie,
                                                           const DAT_RMR_TRIPLET* remote,
                                                           DAT_COMPLETION_FLAGS flags) noexcept
    UDAPL_REQUIRES(queue.lock) {
  if (!local.fit(queue.max_read_segments)) [[unlikely]]
    return bad(DAT_INVALID_ARG2, "bad segment count or list");
  if (remote == nullptr) [[unlikely]]
    return bad(DAT_INVALID_ARG5, "no remote triplet");
  const std::uint32_t length = remote->segment_length;
  if (length > queue.max_rdma) [[unlikely]]
    return bad(DAT_INVALID_ARG5, "longer than the largest RDMA transfer");
  if (local.total() < length) [[unlikely]]
    return {dat_error(DAT_LENGTH_ERROR), "the local segments are smaller than the remote triplet"};
  if ((flags & ~(queue.legal_flags & kRdmaFlags)) != 0) [[unlikely]]
    return bad(DAT_INVALID_ARG6, "flags not allowed on this request");
  return submit<Q>(ep, queue, {cookie, DAT_DTO_RDMA_READ, length, flags},
                   [&](Q& qp, transport::WorkId id, transport::WorkFlags work) noexcept {
                     return qp.post_rdma_read(id, local.list, local.count, *remote, work);
                   });
}

template <HotQp Q>
[[nodiscard]] inline Outcome rdma_read_to_rmr(Ep& ep, RequestQueue& queue,
                                              const DAT_RMR_TRIPLET* local, DAT_DTO_COOKIE cookie,
                                              const DAT_RMR_TRIPLET* remote,
                                              DAT_COMPLETION_FLAGS flags) noexcept
    UDAPL_REQUIRES(queue.lock) {
  if (local == nullptr) [[unlikely]]
    return bad(DAT_INVALID_ARG2, "no local triplet");
  if (remote == nullptr) [[unlikely]]
    return bad(DAT_INVALID_ARG4, "no remote triplet");
  const std::uint32_t length = remote->segment_length;
  if (length > queue.max_rdma) [[unlikely]]
    return bad(DAT_INVALID_ARG4, "longer than the largest RDMA transfer");
  if (local->segment_length < length) [[unlikely]]
    return {dat_error(DAT_LENGTH_ERROR), "the local triplet is smaller than the remote one"};
  if ((flags & ~(queue.legal_flags & kRdmaFlags)) != 0) [[unlikely]]
    return bad(DAT_INVALID_ARG5, "flags not allowed on this request");
  if (!queue.can_read_to_rmr) [[unlikely]]
    return kNotSupported;
  return submit<Q>(ep, queue, {cookie, DAT_DTO_RDMA_READ, length, flags},
                   [&](Q& qp, transport::WorkId id, transport::WorkFlags work) noexcept {
                     return qp.post_rdma_read_to_rmr(id, *local, *remote, work);
                   });
}

// What dat_rmr_bind asks for, beside the EP.
struct Bind {
  Rmr& rmr;
  Lmr* lmr;  // null: only for an unbind
  const DAT_LMR_TRIPLET& range;
  DAT_MEM_PRIV_FLAGS privileges;
  DAT_VA_TYPE va_type;
};
// The checks of a bind that need no EP: range, privileges, address type.
[[nodiscard]] Outcome check_bind(const Bind& bind) noexcept;
// Protection zones and rights, which come after the EP's state.
[[nodiscard]] DAT_RETURN check_bind_rights(const Bind& bind, const Pz* ep_pz) noexcept;

template <HotQp Q>
[[nodiscard]] inline Outcome bind(Ep& ep, RequestQueue& queue, const Bind& what,
                                  DAT_RMR_COOKIE cookie, DAT_COMPLETION_FLAGS flags,
                                  DAT_RMR_CONTEXT* context) noexcept UDAPL_REQUIRES(queue.lock) {
  if ((flags & ~(queue.legal_flags & kRdmaFlags)) != 0) [[unlikely]]
    return bad(DAT_INVALID_ARG8, "flags not allowed on this request");
  const Outcome checked = check_bind(what);
  if (checked.code != DAT_SUCCESS) [[unlikely]]
    return checked;
  const Pz* const pz = queue.pz;
  return submit<Q>(
      ep, queue, {cookie, DAT_DTO_BIND_MW, 0, flags, &what.rmr},
      [&](Q& qp, transport::WorkId id, transport::WorkFlags work) noexcept {
        const DAT_RETURN rights = check_bind_rights(what, pz);
        if (rights != DAT_SUCCESS) [[unlikely]]
          return rights;
        const transport::BindRequest request{
            .window = &what.rmr.window(),
            .mr = what.lmr != nullptr ? &what.lmr->mr() : nullptr,
            .range = what.range,
            .privileges = static_cast<DAT_MEM_PRIV_FLAGS>(what.privileges & kRemotePrivileges),
            .va_type = what.va_type};
        DAT_RMR_CONTEXT made = 0;
        const DAT_RETURN code = qp.post_bind(id, request, work, &made);
        if (code == DAT_SUCCESS && context != nullptr) *context = made;
        return code;
      });
}

template <HotQp Q>
[[nodiscard]] inline Outcome receive(Ep& ep, ReceiveQueue& queue, const Segments& local,
                                     DAT_DTO_COOKIE user, DAT_COMPLETION_FLAGS flags) noexcept
    UDAPL_REQUIRES(queue.lock) {
  if (queue.qp == nullptr) [[unlikely]]
    return no_receive_queue(ep);
  if (!local.fit(queue.max_segments)) [[unlikely]]
    return bad(DAT_INVALID_ARG2, "bad segment count or list");
  if ((flags & ~queue.legal_flags) != 0) [[unlikely]]
    return bad(DAT_INVALID_ARG5, "flags not allowed on this receive");
  Cookie* cookie = queue.cookies.claim();
  if (cookie == nullptr) [[unlikely]] {
    cookie = reclaim(queue);
    if (cookie == nullptr)
      return {dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY),
              "max_recv_dtos are outstanding"};
  }
  cookie->user = user;
  cookie->length = 0;
  cookie->operation = DAT_DTO_RECEIVE;
  cookie->suppressed = false;
  cookie->ib_extension = false;
  cookie->plain = true;
  if (trace::enabled(trace::kDetail)) [[unlikely]]
    point::post(ep, *cookie, static_cast<std::uint32_t>(flags));
  queue.cookies.commit(*cookie);
  const DAT_RETURN code = static_cast<Q*>(queue.qp)->post_recv(
      reinterpret_cast<transport::WorkId>(cookie), local.list, local.count,
      work_flags(static_cast<std::uint32_t>(flags)));
  if (code != DAT_SUCCESS) [[unlikely]] {
    queue.cookies.rollback();
    return {code, "the transport refuses"};
  }
  return kPosted;
}

[[nodiscard, gnu::always_inline]] inline DAT_RETURN finish(DAT_HANDLE handle, const char* call,
                                                           Outcome outcome) noexcept {
  if (outcome.code != DAT_SUCCESS) [[unlikely]]
    return refused(handle, call, outcome);
  return DAT_SUCCESS;
}

}  // namespace post

}  // namespace udapl::dapl
