// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/ep.h"
#include "dapl/trace_points.h"

#include <concepts>
#include <type_traits>

// What all posts share: how one ends, the segments and the request, and the steps after the checks
// of its own, which are state, cookie and one transport call. They are taken while the queue's lock
// is held. No allocation, no system call; refusals leave by unlikely branches with a reason that
// refused() traces when the lock is gone.
namespace udapl::dapl {

// The transport classes of a provider are final, so that its calls are direct.
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

// The result of a post, with its trace if it was refused. Called without a lock.
[[nodiscard, gnu::always_inline]] inline DAT_RETURN finish(DAT_HANDLE handle, const char* call,
                                                           Outcome outcome) noexcept {
  if (outcome.code != DAT_SUCCESS) [[unlikely]]
    return refused(handle, call, outcome);
  return DAT_SUCCESS;
}

}  // namespace post

}  // namespace udapl::dapl
