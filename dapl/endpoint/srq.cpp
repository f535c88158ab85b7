// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/endpoint/srq.h"

#include "dapl/events/async_evds.h"
#include "dapl/objects/await_posts.h"
#include "dapl/objects/boundary.h"
#include "dapl/objects/calls.h"
#include "dapl/objects/ia.h"
#include "dapl/objects/refuse.h"
#include "dapl/objects/require.h"

#include <algorithm>

namespace udapl::dapl {

Srq::Srq(Ia& owner, Pz& pz, const DAT_SRQ_ATTR& attributes)
    : ObjectHeader(owner.provider, kType, &owner),
      pz_(&pz),
      max_recv_iov_(std::max(attributes.max_recv_iov, 1)),
      cookies_(attributes.max_recv_dtos),
      reported_watermark_(attributes.low_watermark),
      sink_(*this) {}

// The handle is dead already. Waits for a post that has still found it alive.
Srq::~Srq() {
  { const ScopedLock posts(post_lock_); }
  await_posts(*this);
}

Result<Owned<Srq>> Srq::create(Ia& ia, Pz& pz, const DAT_SRQ_ATTR& attributes) {
  Owned<Srq> srq = make_object<Srq>(ia, pz, attributes);
  auto queue =
      ia.adapter().create_srq(pz.pd(), attributes.max_recv_dtos, srq->max_recv_iov(), srq->sink_);
  if (!queue.ok())
    UDAPL_PASS_ON(queue.status(), "creating a shared receive queue of %d buffers failed",
                  attributes.max_recv_dtos);
  srq->queue_ = *std::move(queue);
  return Result<Owned<Srq>>(std::move(srq));
}

// ---- state -------------------------------------------------------------------------------------

void Srq::query(DAT_SRQ_PARAM* param) const noexcept {
  const int available = queue_->available();
  param->srq_state =
      failed_.load(std::memory_order_relaxed) ? DAT_SRQ_STATE_ERROR : DAT_SRQ_STATE_OPERATIONAL;
  param->pz_handle = &pz();
  param->max_recv_iov = max_recv_iov_;
  param->available_dto_count = available;
  const SrqCookies::Counts counts = cookies_.counts();
  param->max_recv_dtos = counts.limit;
  param->low_watermark = reported_watermark_.load(std::memory_order_relaxed);
  param->outstanding_dto_count = counts.outstanding;
}

// While this runs, at most as many buffers can be outstanding as the smaller of the two sizes.
Status Srq::resize(int max_recv_dtos) {
  const ScopedLock resizing(resize_lock_);
  cookies_.reserve(max_recv_dtos);
  LimitChange change(*this);
  const int mark = low_watermark_.load(std::memory_order_relaxed);
  if (max_recv_dtos < mark || !cookies_.lower_limit(max_recv_dtos))
    UDAPL_REFUSE(DAT_INVALID_STATE, DAT_NO_SUBTYPE,
                 "SRQ %p: %d buffers, but %d are outstanding and the watermark is %d",
                 static_cast<void*>(this), max_recv_dtos, cookies_.counts().outstanding, mark);
  if (const Status status = queue_->resize(max_recv_dtos); !status.ok())
    UDAPL_PASS_ON(status, "SRQ %p: the transport has no room for %d buffers",
                  static_cast<void*>(this), max_recv_dtos);
  change.final_limit = max_recv_dtos;
  return Status();
}

Srq::LimitChange::LimitChange(Srq& owner) noexcept
    : srq(owner), final_limit(owner.max_recv_dtos()) {}

Srq::LimitChange::~LimitChange() { srq.cookies_.set_limit(final_limit); }

void Srq::set_marks(int mark) noexcept {
  low_watermark_.store(mark, std::memory_order_relaxed);
  reported_watermark_.store(mark, std::memory_order_relaxed);
}

Status Srq::set_low_watermark(int mark) noexcept {
  const ScopedLock resizing(resize_lock_);
  set_marks(mark);
  const Status status = queue_->set_low_watermark(mark);
  if (status.ok()) return status;
  set_marks(0);
  UDAPL_PASS_ON(status, "SRQ %p: the transport rejected the low watermark %d",
                static_cast<void*>(this), mark);
}

void Srq::Sink::on_low_watermark() noexcept {
  report_async(*srq.ia, DAT_ASYNC_ERROR_EP_BROKEN, &srq, DAT_SRQ_LOW_WATERMARK_EVENT);
}

void Srq::Sink::on_async_error() noexcept {
  srq.failed_.store(true, std::memory_order_relaxed);
  report_async(*srq.ia, DAT_ASYNC_ERROR_EP_BROKEN, &srq, DAT_SRQ_TRANSFER_TO_ERROR);
}

// ---- table entries -----------------------------------------------------------------------------

namespace {

Status check_attributes(const DAT_SRQ_ATTR& wanted, const transport::Attributes& limits) noexcept {
  if (limits.max_srqs <= 0)
    UDAPL_REFUSE(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE, "the IA has no shared receive queues");
  if (wanted.max_recv_dtos <= 0 || wanted.max_recv_dtos > limits.max_recv_per_srq)
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3, "max_recv_dtos %d, 1 to %d are possible",
                 wanted.max_recv_dtos, limits.max_recv_per_srq);
  if (wanted.max_recv_iov < 0 || wanted.max_recv_iov > limits.max_segments)
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3, "max_recv_iov %d, at most %d",
                 wanted.max_recv_iov, limits.max_segments);
  return Status();
}

Status create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle, const DAT_SRQ_ATTR* attributes,
              DAT_SRQ_HANDLE* srq_handle) {
  const auto ia = require<Ia>(ia_handle);
  if (ia == nullptr) return ia.refusal();
  const auto pz = require_of<Pz>(*ia, pz_handle);
  if (pz == nullptr) return pz.refusal();
  if (attributes == nullptr)
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3, "null SRQ attributes");
  if (srq_handle == nullptr)
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG4, "null SRQ handle pointer");
  if (const Status status = check_attributes(*attributes, ia->attributes()); !status.ok())
    return status;
  if (ia->full<Srq>(ia->attributes().max_srqs))
    UDAPL_REFUSE(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_SRQ, "already %d SRQs",
                 ia->attributes().max_srqs);
  auto srq = Srq::create(*ia, *pz, *attributes);
  if (!srq.ok()) return srq.status();
  *srq_handle = &ia->adopt(*std::move(srq));
  return Status();
}

}  // namespace

namespace calls {

DAT_RETURN srq_create(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, DAT_SRQ_ATTR* attributes,
                      DAT_SRQ_HANDLE* srq) {
  return boundary([&] { return create(ia, pz, attributes, srq); });
}

DAT_RETURN srq_query(DAT_SRQ_HANDLE handle, DAT_SRQ_PARAM_MASK, DAT_SRQ_PARAM* param) {
  return boundary([&]() -> Status {
    const auto srq = require<Srq>(handle);
    if (srq == nullptr) return srq.refusal();
    if (param == nullptr) UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3, "null parameters");
    param->ia_handle = srq->ia->handle();
    srq->query(param);
    return Status();
  });
}

DAT_RETURN srq_resize(DAT_SRQ_HANDLE handle, DAT_COUNT max_recv_dtos) {
  return boundary([&]() -> Status {
    const auto srq = require<Srq>(handle);
    if (srq == nullptr) return srq.refusal();
    if (max_recv_dtos <= 0 || max_recv_dtos > srq->ia->attributes().max_recv_per_srq)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2, "%d buffers", max_recv_dtos);
    return srq->resize(max_recv_dtos);
  });
}

DAT_RETURN srq_set_lw(DAT_SRQ_HANDLE handle, DAT_COUNT low_watermark) {
  return boundary([&]() -> Status {
    const auto srq = require<Srq>(handle);
    if (srq == nullptr) return srq.refusal();
    if (low_watermark < 0 || low_watermark > srq->max_recv_dtos())
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2, "low watermark %d", low_watermark);
    return srq->set_low_watermark(low_watermark);
  });
}

DAT_RETURN srq_free(DAT_SRQ_HANDLE handle) {
  return boundary([&]() -> Status {
    const auto srq = require<Srq>(handle);
    if (srq == nullptr) return srq.refusal();
    if (srq->uses.load(std::memory_order_acquire) != 0)
      UDAPL_REFUSE(DAT_INVALID_STATE, DAT_INVALID_STATE_SRQ_IN_USE, "SRQ %p is in use", handle);
    srq->ia->destroy(*srq);
    return Status();
  });
}

}  // namespace calls
}  // namespace udapl::dapl
