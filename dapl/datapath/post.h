// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/datapath/post_submit.h"
#include "dapl/endpoint/srq.h"
#include "dapl/memory/lmr.h"
#include "dapl/memory/rmr.h"

// The steps of each post on an EP: under the lock of its queue it checks its arguments in the order
// of docs/semantics.md#order-of-checks, then takes the steps that all posts share.
//
// calls::Ladder (datapath.h) posts Send, Receive, RdmaWrite and RdmaRead. Each of these classes has
// the name of its call for traces, the gate in the header of the EP and the flag there by which it
// announces a post, whether its completion can be suppressed, whether it looks for freed slots
// before it returns kTryAgain, and run(), the steps for each shape. run() returns kTryAgain only if
// it has done nothing.
namespace udapl::dapl::post {

using transport::Operation;

// Stands for a null remote triplet: a transfer of length 0 needs no remote range.
inline constexpr DAT_RMR_TRIPLET kNoRemoteRange{};

// Send, RDMA Write and RDMA Read. A Send ignores `remote`.
template <Operation kOperation, HotQp Q, Guard G, Shape kShape>
[[nodiscard, gnu::always_inline]] inline Outcome transfer(Ep& ep, const Segments& local,
                                                          DAT_DTO_COOKIE cookie,
                                                          const DAT_RMR_TRIPLET* remote,
                                                          DAT_COMPLETION_FLAGS flags) noexcept {
  constexpr bool kSend = kOperation == Operation::kSend;
  constexpr bool kRead = kOperation == Operation::kRead;
  RequestQueue& queue = ep.requests;
  const typename G::Scope lock(queue.lock);
  if (!still_has_shape<kShape, G>(ep.request_gate)) [[unlikely]]
    return kTryAgain;
  if (!kOneSegment<kShape> && !local.fit(kSend   ? queue.max_segments
                                         : kRead ? queue.max_read_segments
                                                 : queue.max_write_segments)) [[unlikely]]
    return bad(DAT_INVALID_ARG2, "bad segment count or list");
  const std::uint64_t length = local.total();
  if (!kSend && remote == nullptr) [[unlikely]] {
    if constexpr (kGated<kShape>) return kTryAgain;
    if (length != 0) return bad(DAT_INVALID_ARG5, "no remote triplet");
    remote = &kNoRemoteRange;
  }
  if (length > (kSend ? queue.max_message : queue.max_rdma)) [[unlikely]]
    return bad(DAT_INVALID_ARG3,
               kSend ? "longer than the largest message" : "longer than the largest RDMA transfer");
  if constexpr (!kGated<kShape>)
    flags = legal(flags, kSend ? queue.legal_flags : queue.legal_flags & kRdmaFlags);
  // The length of a Read is that of its local segments: some programs leave the remote length 0.
  DAT_RMR_TRIPLET from;
  if constexpr (kRead) {
    from = *remote;
    from.segment_length = static_cast<DAT_SEG_LENGTH>(length);
    remote = &from;
  }
  constexpr DAT_DTOS kDto = kSend ? DAT_DTO_SEND : kRead ? DAT_DTO_RDMA_READ : DAT_DTO_RDMA_WRITE;
  return submit<Q, kShape>(ep, queue, cookie, {kDto, length, flags},
                           [&](Q& qp, transport::WorkId id, transport::WorkFlags work) noexcept {
                             const transport::Transfer what{id,     local.list, local.count,
                                                            length, remote,     work};
                             if constexpr (kGated<kShape> && PostsGated<Q>)
                               return qp.template post_gated<kOperation, kOneSegment<kShape>>(what);
                             else
                               return transport::post<kOperation>(qp, what);
                           });
}

struct Send {
  static constexpr const char* kName = "post_send";
  static constexpr auto kGate = &ObjectHeader::request_gate;
  static constexpr auto kPosting = &ObjectHeader::posting_request;
  static constexpr bool kSuppressible = true;
  static constexpr bool kLooks = false;
  template <HotQp Q, Guard G, Shape kShape>
  [[nodiscard, gnu::always_inline]] static Outcome run(Ep& ep, const Segments& local,
                                                       DAT_DTO_COOKIE cookie,
                                                       DAT_COMPLETION_FLAGS flags) noexcept {
    return transfer<Operation::kSend, Q, G, kShape>(ep, local, cookie, nullptr, flags);
  }
};
template <Operation kOperation>
struct Rdma {
  static constexpr const char* kName =
      kOperation == Operation::kWrite ? "post_rdma_write" : "post_rdma_read";
  static constexpr auto kGate = &ObjectHeader::request_gate;
  static constexpr auto kPosting = &ObjectHeader::posting_request;
  static constexpr bool kSuppressible = true;
  static constexpr bool kLooks = false;
  template <HotQp Q, Guard G, Shape kShape>
  [[nodiscard, gnu::always_inline]] static Outcome run(Ep& ep, const Segments& local,
                                                       DAT_DTO_COOKIE cookie,
                                                       const DAT_RMR_TRIPLET* remote,
                                                       DAT_COMPLETION_FLAGS flags) noexcept {
    return transfer<kOperation, Q, G, kShape>(ep, local, cookie, remote, flags);
  }
};
using RdmaWrite = Rdma<Operation::kWrite>;
using RdmaRead = Rdma<Operation::kRead>;

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
  flags = legal(flags, queue.legal_flags);
  if (!queue.can_invalidate) [[unlikely]]
    return kNotSupported;
  return submit<Q, Shape::kAny>(
      ep, queue, cookie, {DAT_DTO_SEND, length, flags},
      [&](Q& qp, transport::WorkId id, transport::WorkFlags work) noexcept {
        return qp.post_send_invalidate(id, local.list, local.count, context, work);
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
  flags = legal(flags, queue.legal_flags & kRdmaFlags);
  if (!queue.can_read_to_rmr) [[unlikely]]
    return kNotSupported;
  return submit<Q, Shape::kAny>(
      ep, queue, cookie, {DAT_DTO_RDMA_READ, length, flags},
      [&](Q& qp, transport::WorkId id, transport::WorkFlags work) noexcept {
        return qp.post_rdma_read_to_rmr(id, *local, *remote, work);
      });
}

// The arguments of dat_rmr_bind, except the EP.
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
  flags = legal(flags, queue.legal_flags & kRdmaFlags);
  if (const Outcome checked = check_bind(what); checked.code != DAT_SUCCESS) [[unlikely]]
    return checked;
  const Pz* const pz = queue.pz;
  return submit<Q, Shape::kAny>(
      ep, queue, cookie, {DAT_DTO_BIND_MW, 0, flags, &what.rmr},
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

struct Receive {
  static constexpr const char* kName = "post_recv";
  static constexpr auto kGate = &ObjectHeader::receive_gate;
  static constexpr auto kPosting = &ObjectHeader::posting_receive;
  static constexpr bool kSuppressible = false;
  static constexpr bool kLooks = true;
  template <HotQp Q, Guard G, Shape kShape>
  [[nodiscard]] static Outcome run(Ep& ep, const Segments& local, DAT_DTO_COOKIE user,
                                   DAT_COMPLETION_FLAGS flags) noexcept;
};

template <HotQp Q, Guard G, Shape kShape>
[[gnu::always_inline]] inline Outcome Receive::run(Ep& ep, const Segments& local,
                                                   DAT_DTO_COOKIE user,
                                                   DAT_COMPLETION_FLAGS flags) noexcept {
  ReceiveQueue& queue = ep.receives;
  const typename G::Scope lock(queue.lock);
  if (!still_has_shape<kShape, G>(ep.receive_gate)) [[unlikely]]
    return kTryAgain;
  if constexpr (!kGated<kShape>) {
    if (queue.exchanging) [[unlikely]]
      return kTryAgain;
    if (queue.qp == nullptr) [[unlikely]]
      return no_receive_queue(ep);
  }
  if (!kOneSegment<kShape> && !local.fit(queue.max_segments)) [[unlikely]]
    return bad(DAT_INVALID_ARG2, "bad segment count or list");
  if constexpr (!kGated<kShape>) flags = legal(flags, queue.legal_flags);
  Cookie* cookie = claim<kShape>(queue.cookies);
  if (cookie == nullptr) [[unlikely]] {
    if constexpr (kGated<kShape>) {
      queue.cookies.look();
      return kTryAgain;
    }
    cookie = reclaim(queue);
    if (cookie == nullptr)
      return {dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY),
              "max_recv_dtos are outstanding"};
  }
  cookie->user = user;
  if constexpr (!kGated<kShape>) cookie->length = 0;  // for traces; the completion has the length
  cookie->operation = DAT_DTO_RECEIVE;
  cookie->suppressed = false;
  cookie->ib_extension = false;
  cookie->plain = true;
  if (!kGated<kShape> && trace::enabled(trace::kDetail)) [[unlikely]]
    point::post(ep, *cookie, static_cast<std::uint32_t>(flags));
  queue.cookies.commit(*cookie);
  const auto id = reinterpret_cast<transport::WorkId>(cookie);
  const transport::WorkFlags work = kGated<kShape> ? transport::WorkFlags{transport::kSignalled}
                                                   : work_flags(static_cast<std::uint32_t>(flags));
  auto& qp = *static_cast<Q*>(queue.qp);
  DAT_RETURN code;
  if constexpr (kShape == Shape::kList && PostsGated<Q>)
    code = qp.post_list_recv(id, local.list, local.count);
  else
    code = qp.post_recv(id, local.list, local.count, work);
  if (code != DAT_SUCCESS) [[unlikely]] {
    queue.cookies.rollback();
    return {code, "the transport refused the request"};
  }
  return kPosted;
}

// A receive for an SRQ. The pool of cookies has its own lock, because any dequeuing thread returns
// cookies, in any order.
template <HotSrq S, Guard G>
[[nodiscard, gnu::always_inline]] inline Outcome srq_receive(Srq& srq, const Segments& local,
                                                             DAT_DTO_COOKIE user) noexcept {
  const typename G::Scope lock(srq.post_lock());
  if (G::kThreadSafe && !is_live<Srq>(srq)) [[unlikely]]
    return {dat_error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_SRQ), "the SRQ is being freed"};
  if (!local.fit(static_cast<std::uint32_t>(srq.max_recv_iov()))) [[unlikely]]
    return bad(DAT_INVALID_ARG2, "bad segment count or list");
  SrqCookie* const cookie = srq.cookies().claim();
  if (cookie == nullptr) [[unlikely]]
    return {dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_SRQ),
            "max_recv_dtos are outstanding"};
  cookie->user = user;
  cookie->ep = nullptr;
  cookie->length = 0;
  cookie->operation = DAT_DTO_RECEIVE;
  cookie->suppressed = false;
  cookie->ib_extension = false;
  cookie->plain = false;
  if (trace::enabled(trace::kDetail)) [[unlikely]]
    point::post(srq, *cookie, DAT_COMPLETION_DEFAULT_FLAG);
  const DAT_RETURN code =
      static_cast<S&>(srq.queue())
          .post_recv(reinterpret_cast<transport::WorkId>(static_cast<Cookie*>(cookie)), local.list,
                     local.count);
  if (code != DAT_SUCCESS) [[unlikely]] {
    srq.cookies().retire(*cookie);
    return {code, "the transport refused the request"};
  }
  return kPosted;
}

}  // namespace udapl::dapl::post
