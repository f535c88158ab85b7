// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/endpoint/ep.h"
#include "dapl/objects/guard.h"
#include "dapl/posted/trace_points.h"

#include <concepts>
#include <type_traits>

// The parts that all posts share: the outcome, the segments, the request, and the steps after a
// post's own checks: the check of the EP's state, the cookie, one transport call. These steps run
// with the queue's lock held, allocate nothing and make no system call. Refusals leave by unlikely
// branches with a reason that refused() traces after the lock is released.
namespace udapl::dapl {

// The transport classes of a provider are final, so that their functions are called directly.
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

// The outcome of a post. `why` is the reason of a refusal, in words, for the trace.
struct Outcome {
  DAT_RETURN code;
  const char* why;
};
inline constexpr Outcome kPosted{DAT_SUCCESS, nullptr};
// Not a final outcome: nothing has been done, and the post must be retried in the shape kAny, or
// after the queue has been replaced. Its code is not one of DAT's. is_final() recognises it by the
// address in `why`, which the compiler knows on each path through a post, so that the check costs
// nothing. A check of the code, which comes from the transport and is unknown to the compiler, or
// of a separate flag costs a post four to thirty instructions.
inline constexpr char kAgain[] = "again";
inline constexpr Outcome kTryAgain{0x7FFFFFFF, kAgain};
static_assert(kTryAgain.code != DAT_SUCCESS && (kTryAgain.code & DAT_CLASS_ERROR) == 0);
[[nodiscard, gnu::always_inline]] constexpr bool is_final(const Outcome& outcome) noexcept {
  return outcome.why != kAgain;
}
inline constexpr Outcome kNotSupported{dat_error(DAT_MODEL_NOT_SUPPORTED),
                                       "not supported by the transport"};
// The flags of a Send that other requests may have as well.
inline constexpr auto kRdmaFlags = ~std::uint32_t{DAT_COMPLETION_SOLICITED_WAIT_FLAG};
inline constexpr int kRemotePrivileges =
    DAT_MEM_PRIV_REMOTE_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG;

// The effective subset of a program's flags. Flags that mean nothing for the request, or that the
// EP's attributes do not allow, are ignored, not refused (docs/compatibility.md C101).
[[nodiscard]] constexpr DAT_COMPLETION_FLAGS legal(DAT_COMPLETION_FLAGS flags,
                                                   std::uint32_t mask) noexcept {
  return static_cast<DAT_COMPLETION_FLAGS>(static_cast<std::uint32_t>(flags) & mask);
}

[[nodiscard]] constexpr Outcome bad(DAT_RETURN arg, const char* why) noexcept {
  return {dat_error(DAT_INVALID_PARAMETER, arg), why};
}

// Traces a refusal and returns its code. Called without a lock.
[[gnu::cold, gnu::noinline]] DAT_RETURN refused(DAT_HANDLE handle, const char* call,
                                                Outcome outcome) noexcept;
[[gnu::cold, gnu::noinline]] DAT_RETURN bad_handle(DAT_HANDLE handle, const char* call,
                                                   DAT_RETURN subtype) noexcept;
// For a full ring: collects completions, then claims again.
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

  // A negative count is a huge unsigned one, and does not fit.
  [[nodiscard]] bool fit(std::uint32_t limit) const noexcept {
    return static_cast<std::uint32_t>(count) <= limit && (count == 0 || list != nullptr);
  }
  [[nodiscard]] std::uint64_t total() const noexcept {
    std::uint64_t bytes = 0;
    for (DAT_COUNT i = 0; i < count; ++i) bytes += list[i].segment_length;
    return bytes;
  }
};

// What is known about a post when it begins. Checks that the EP's gate or the shape makes redundant
// are left out; all shapes of an operation share one function template.
enum class Shape {
  kPlain,       // one segment, default flags, the gate is open, tracing is off
  kSuppressed,  // the same with DAT_COMPLETION_SUPPRESS_FLAG
  kList,        // as kPlain, but several segments
  kAny
};
template <Shape kShape>
inline constexpr bool kOneSegment = kShape == Shape::kPlain || kShape == Shape::kSuppressed;
// Whether the gate has made the checks, so that flags and traces need no further check.
template <Shape kShape>
inline constexpr bool kGated = kShape != Shape::kAny;

// Whether the post has the shape: has_shape() is both functions before it. `gate` is that of the
// queue, in an object that may be of any type. A traced post has the shape kAny, because a trace
// call on this path would make all posts save registers.
template <Shape kShape>
[[nodiscard, gnu::always_inline]] inline bool gate_allows(const std::atomic<std::uint32_t>& gate,
                                                          DAT_COMPLETION_FLAGS flags) noexcept {
  static_assert(DAT_COMPLETION_DEFAULT_FLAG == 0);
  constexpr unsigned kFlags =
      kShape == Shape::kSuppressed ? unsigned{DAT_COMPLETION_SUPPRESS_FLAG} : 0U;
  return (gate.load(std::memory_order_relaxed) | (static_cast<unsigned>(flags) ^ kFlags)) == 0;
}
template <Shape kShape>
[[nodiscard, gnu::always_inline]] inline bool has_list(DAT_COUNT count,
                                                       const DAT_LMR_TRIPLET* list) noexcept {
  return (kShape == Shape::kList ? count > 1 : count == 1) && list != nullptr &&
         !trace::enabled(trace::kDetail);
}
template <Shape kShape>
[[nodiscard, gnu::always_inline]] inline bool has_shape(const std::atomic<std::uint32_t>& gate,
                                                        DAT_COUNT count,
                                                        const DAT_LMR_TRIPLET* list,
                                                        DAT_COMPLETION_FLAGS flags) noexcept {
  return gate_allows<kShape>(gate, flags) && has_list<kShape>(count, list);
}

// Whether the post may proceed in its shape, now that the lock is held: the gate may have been shut
// meanwhile.
template <Shape kShape, Guard G>
[[nodiscard, gnu::always_inline]] inline bool still_has_shape(
    const std::atomic<std::uint32_t>& gate) noexcept {
  return !kGated<kShape> || !G::kThreadSafe || gate.load(std::memory_order_relaxed) == 0;
}

// A QP class may have functions of its own for posts that the gate allows: of one segment or of a
// list, of known length.
template <class Q>
concept PostsGated = requires(Q& qp, const transport::Transfer& transfer, transport::WorkId id,
                              const DAT_LMR_TRIPLET* list, DAT_COUNT count) {
  {
    qp.template post_gated<transport::Operation::kSend, true>(transfer)
    } -> std::same_as<DAT_RETURN>;
  { qp.post_list_recv(id, list, count) } -> std::same_as<DAT_RETURN>;
};

// Claims a slot; null: none is known to be free. Only kAny looks for slots that completions have
// freed: a look would make the other shapes save registers.
template <Shape kShape>
[[nodiscard, gnu::always_inline]] inline Cookie* claim(CookieRing& cookies) noexcept {
  return kShape == Shape::kAny ? cookies.claim() : cookies.claim_known();
}

// What submit() writes into the cookie of a request. It is not a Cookie, because that has a union,
// which would keep the compiler from holding the fields in registers.
struct Request {
  DAT_DTOS operation;
  std::uint64_t length;
  DAT_COMPLETION_FLAGS flags;
  void* rmr = nullptr;
  bool ib_extension = false;
};

// How a request completes.
struct Signalling {
  transport::WorkFlags work;
  bool suppressed;
  std::uint32_t silent;  // RequestQueue::silent afterwards
};
template <Shape kShape>
[[nodiscard, gnu::always_inline]] inline Signalling signalling_of(const RequestQueue& queue,
                                                                  std::uint32_t flags) noexcept
    UDAPL_REQUIRES(queue.lock) {
  if (kShape == Shape::kPlain || kShape == Shape::kList) return {transport::kSignalled, false, 0};
  if (kShape == Shape::kSuppressed) return {transport::kQuiet, true, queue.silent + 1};
  const bool suppressed = (flags & DAT_COMPLETION_SUPPRESS_FLAG) != 0 || queue.discard != nullptr;
  Signalling how{work_flags(flags), suppressed, 0};
  if (!suppressed) return how;
  // After max_silent suppressed requests, one is signalled, without a notification, so that its
  // completion frees the slots.
  how.work |= transport::kQuiet | transport::kUnseen;
  if (queue.silent < queue.max_silent) {
    how.silent = queue.silent + 1;
    how.work &= ~transport::WorkFlags{transport::kSignalled};
  }
  return how;
}

// The last steps of every request: state, cookie, and the transport call
// `call(qp, id, work_flags) -> DAT_RETURN`.
template <class Q, Shape kShape, class Call>
[[nodiscard, gnu::always_inline]] inline Outcome submit(Ep& ep, RequestQueue& queue,
                                                        DAT_DTO_COOKIE user, const Request& request,
                                                        Call&& call) noexcept
    UDAPL_REQUIRES(queue.lock) {
  if constexpr (kShape == Shape::kAny) {
    const DAT_EP_STATE state = ep.posting_state();
    if (!takes_requests(state)) [[unlikely]]
      return {wrong_state(state), "the EP is not connected"};
  }
  // A suppressed request that must be signalled, so that slots become free, has the shape kAny.
  if (kShape == Shape::kSuppressed && queue.silent >= queue.max_silent) [[unlikely]]
    return kTryAgain;
  Cookie* cookie = claim<kShape>(queue.cookies);
  if (cookie == nullptr) [[unlikely]] {
    if constexpr (kShape != Shape::kAny) return kTryAgain;
    cookie = reclaim(queue);
    if (cookie == nullptr)
      return {dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY),
              "max_request_dtos are outstanding"};
  }
  const auto flags = static_cast<std::uint32_t>(request.flags);
  const Signalling how = signalling_of<kShape>(queue, flags);
  cookie->user = user;
  if (request.rmr != nullptr)
    cookie->rmr = request.rmr;
  else
    cookie->length = static_cast<std::uint32_t>(request.length);
  cookie->operation = request.operation;
  cookie->suppressed = how.suppressed;
  cookie->ib_extension = request.ib_extension;
  cookie->plain = !how.suppressed && !request.ib_extension && request.operation != DAT_DTO_BIND_MW;
  if (kShape == Shape::kAny && trace::enabled(trace::kDetail)) [[unlikely]]
    point::post(ep, *cookie, flags);
  queue.cookies.commit(*cookie);
  if (kShape == Shape::kSuppressed) ++queue.silent;  // after the call it would need a register
  const DAT_RETURN code =
      call(*static_cast<Q*>(queue.qp), reinterpret_cast<transport::WorkId>(cookie), how.work);
  if (code != DAT_SUCCESS) [[unlikely]] {
    queue.cookies.rollback();
    if (kShape == Shape::kSuppressed) --queue.silent;
    return {code, "the transport refused the request"};
  }
  if (kShape != Shape::kSuppressed) queue.silent = how.silent;
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
