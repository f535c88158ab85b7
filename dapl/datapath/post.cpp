// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The cold paths of the posts.
#include "dapl/datapath/post.h"

#include "common/tracing/cause.h"
#include "dapl/objects/ia.h"

namespace udapl::dapl::post {

DAT_RETURN refused(DAT_HANDLE handle, const char* call, Outcome outcome) noexcept {
  UDAPL_EXPLAIN(kNormal, outcome.code, "%s on %p: %s (0x%x)", call, handle, outcome.why,
                outcome.code);
  return outcome.code;
}

DAT_RETURN bad_handle(DAT_HANDLE handle, const char* call, DAT_RETURN subtype) noexcept {
  return refused(handle, call,
                 {dat_error(DAT_INVALID_HANDLE, subtype), "not a handle of this type"});
}

namespace {

template <class Queue>
Cookie* claim_reaped(Queue& queue) noexcept UDAPL_REQUIRES(queue.lock) {
  if (queue.discard != nullptr)
    queue.discard->drain();
  else if (queue.evd != nullptr)
    queue.evd->reap();
  return queue.cookies.claim();
}

}  // namespace

// Programs expect, as of hardware, that requests complete without a poll, and that a request is
// complete once the peer has shown its effect: so a post on a full queue completes what it can, and
// waits for answers on which requests depend. The QP is not null in a state that takes requests.
// The lock stays held during the wait, although a SpinLock is not meant for that (docs/adr/0110).
Cookie* reclaim(RequestQueue& queue) noexcept {
  Cookie* cookie = claim_reaped(queue);
  if (cookie != nullptr) return cookie;
  queue.qp->complete_requests();
  cookie = claim_reaped(queue);
  Backoff backoff;
  for (bool more = true; more && cookie == nullptr; cookie = claim_reaped(queue))
    more = queue.qp->await_answer(backoff);
  return cookie;
}

Cookie* reclaim(ReceiveQueue& queue) noexcept { return claim_reaped(queue); }

Outcome no_receive_queue(Ep& ep) noexcept {
  if (ep.has_srq())
    return {dat_error(DAT_INVALID_STATE, DAT_INVALID_STATE_SRQ_IN_USE), "the EP uses an SRQ"};
  return {dat_error(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_NOTREADY), "the EP has no PZ"};
}

Outcome check_bind(const Bind& bind) noexcept {
  const DAT_LMR_TRIPLET& range = bind.range;
  if ((bind.privileges & ~DAT_MEM_PRIV_ALL_FLAG) != 0)
    return bad(DAT_INVALID_ARG4, "unknown privileges");
  if (bind.va_type != DAT_VA_TYPE_VA && bind.va_type != DAT_VA_TYPE_ZB)
    return bad(DAT_INVALID_ARG5, "unknown address type");
  if (range.segment_length != 0) {
    const DAT_VADDR first = bind.lmr->first_address();
    const DAT_VLEN offset = range.virtual_address - first;
    if (range.virtual_address < first || offset > bind.lmr->length() ||
        range.segment_length > bind.lmr->length() - offset)
      return bad(DAT_INVALID_ARG3, "the range is not inside the LMR");
    if (range.lmr_context != bind.lmr->mr().lmr_context())
      return bad(DAT_INVALID_ARG3, "the context is not that of the LMR");
  }
  if (bind.va_type == DAT_VA_TYPE_ZB && !bind.rmr.ia->attributes().zero_based_va)
    return kNotSupported;
  return kPosted;
}

DAT_RETURN check_bind_rights(const Bind& bind, const Pz* ep_pz) noexcept {
  if (&bind.rmr.pz() != ep_pz || (bind.lmr != nullptr && &bind.lmr->pz() != ep_pz))
    return dat_error(DAT_PROTECTION_VIOLATION);
  if (bind.lmr == nullptr || bind.range.segment_length == 0) return DAT_SUCCESS;
  const int has = bind.lmr->privileges();
  const int wants = bind.privileges;
  // A window for remote reading does not need the LMR's LOCAL_READ (docs/compatibility.md C1).
  if ((wants & DAT_MEM_PRIV_REMOTE_WRITE_FLAG) != 0 && (has & DAT_MEM_PRIV_LOCAL_WRITE_FLAG) == 0)
    return dat_error(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_WRITE);
  return DAT_SUCCESS;
}

}  // namespace udapl::dapl::post
