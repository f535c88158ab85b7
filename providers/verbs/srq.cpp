// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/srq.h"

#include "common/errno_text.h"
#include "common/tracing/cause.h"
#include "common/tracing/trace.h"
#include "providers/verbs/adapter.h"
#include "providers/verbs/compact_list.h"
#include "providers/verbs/queue.h"
#include "providers/verbs/status.h"
#include "providers/verbs/trace_points.h"

#include <cerrno>

namespace udapl::verbs {

Result<std::unique_ptr<transport::Srq>> Srq::create(Adapter& adapter, Pd& pd, int depth,
                                                    int max_segments, transport::SrqSink& sink) {
  const int limit = adapter.device().attr.orig_attr.max_srq_sge;
  if (max_segments > limit) {
    UDAPL_EXPLAIN(kNormal, dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3),
                  "an SRQ of %s takes %d segments, not %d", adapter.device().name.c_str(), limit,
                  max_segments);
    return failure(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3);
  }
  auto srq = std::make_unique<Srq>(adapter, sink);
  ibv_srq_init_attr init{};
  init.srq_context = srq.get();
  init.attr.max_wr = static_cast<std::uint32_t>(depth);
  init.attr.max_sge = static_cast<std::uint32_t>(max_segments);
  srq->srq_ = point::made("ibv_create_srq", ibv_create_srq(pd.get(), &init));
  if (srq->srq_ == nullptr) {
    const int error = errno;
    const Status status = failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_SRQ);
    UDAPL_EXPLAIN_ERRNO(kNormal, status.code(), error, "ibv_create_srq for %d buffers", depth);
    return status;
  }
  return std::unique_ptr<transport::Srq>(std::move(srq));
}

Srq::Srq(Adapter& adapter, transport::SrqSink& sink)
    : adapter_(adapter),
      sink_(sink),
      gate_(adapter.reactor(), SinkGate::to<&Srq::deliver, Srq>(), this) {}

Srq::~Srq() {
  gate_.close();
  if (srq_ == nullptr) return;
  // Waits for an event that is being handled, whose handler finds the gate closed.
  if (const int error = ibv_destroy_srq(srq_); error != 0)
    UDAPL_TRACE(kError, "ibv_destroy_srq: %s", ErrnoText(error).c_str());
}

// ---- buffers -----------------------------------------------------------------------------------

[[gnu::always_inline]] inline DAT_RETURN Srq::submit(ibv_recv_wr& receive) noexcept {
  // Counted before the post, because a message may take the buffer at once.
  posted_.store(posted_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_srq_recv(srq_, &receive, &bad);
  if (error != 0) [[unlikely]]
    return not_posted(receive, error);
  return DAT_SUCCESS;
}

DAT_RETURN Srq::not_posted(ibv_recv_wr& receive, int error) noexcept {
  ibv_recv_wr* bad = nullptr;
  error = post_again(receive, error, [&] { return ibv_post_srq_recv(srq_, &receive, &bad); });
  if (error == 0) return DAT_SUCCESS;
  posted_.store(posted_.load(std::memory_order_relaxed) - 1, std::memory_order_release);
  return point::refused("ibv_post_srq_recv", error);
}

DAT_RETURN Srq::post_without_empty(ibv_recv_wr& receive) noexcept {
  CompactList list(receive.sg_list, receive.num_sge, UINT64_MAX);
  if (!list.fits) return CompactList::kTooMany;
  receive.sg_list = list.segments;
  receive.num_sge = static_cast<int>(list.size);
  return submit(receive);
}

DAT_RETURN Srq::post_recv(transport::WorkId id, const DAT_LMR_TRIPLET* segments,
                          DAT_COUNT count) noexcept {
  ibv_recv_wr receive;
  receive.wr_id = srq_wr_id(id);
  receive.next = nullptr;
  receive.sg_list = to_sge(segments);
  receive.num_sge = count;
  bool has_empty = false;
  for (DAT_COUNT i = 0; i < count; ++i) has_empty |= segments[i].segment_length == 0;
  if (has_empty) [[unlikely]]
    return post_without_empty(receive);
  return submit(receive);
}

int Srq::available() const noexcept {
  adapter_.idle_cqs().scan_all();  // counts buffers whose completions are still on a CQ
  // taken_ is read first, so that every buffer that counts as taken also counts as posted.
  const std::uint32_t taken = taken_.load(std::memory_order_acquire);
  return static_cast<int>(posted_.load(std::memory_order_acquire) - taken);
}

Status Srq::resize(int depth) {
  ibv_srq_attr attr{};
  attr.max_wr = static_cast<std::uint32_t>(depth);
  const int error = ibv_modify_srq(srq_, &attr, IBV_SRQ_MAX_WR);
  if (error == 0) return Status();
  ibv_srq_attr now{};
  if (ibv_query_srq(srq_, &now) == 0 && static_cast<std::uint32_t>(depth) <= now.max_wr)
    return Status();  // it is large enough
  const Status status = adapter_.device().has(IBV_DEVICE_SRQ_RESIZE)
                            ? status_of(error, DAT_RESOURCE_SRQ)
                            : failure(DAT_MODEL_NOT_SUPPORTED);
  UDAPL_EXPLAIN_ERRNO(kNormal, status.code(), error, "ibv_modify_srq to %d buffers", depth);
  return status;
}

// ---- low watermark -----------------------------------------------------------------------------

Status Srq::set_low_watermark(int mark) noexcept {
  if (mark <= 0) {
    armed_.store(false, std::memory_order_release);
    return Status();
  }
  armed_.store(true, std::memory_order_release);
  // Some devices check the limit only when the next message takes a buffer.
  if (available() < mark) {
    on_limit();
    return Status();
  }
  ibv_srq_attr attr{};
  attr.srq_limit = static_cast<std::uint32_t>(mark);
  const int error = ibv_modify_srq(srq_, &attr, IBV_SRQ_LIMIT);
  if (error == 0) return Status();
  armed_.store(false, std::memory_order_release);
  const Status status = status_of(error, DAT_RESOURCE_SRQ);
  UDAPL_EXPLAIN_ERRNO(kError, status.code(), error, "ibv_modify_srq to the low watermark %d", mark);
  return status;
}

void Srq::on_limit() noexcept {
  if (armed_.exchange(false, std::memory_order_acq_rel)) gate_.post(kLowWatermark);
}

void Srq::on_error() noexcept { gate_.post(kSrqError); }

void Srq::deliver(unsigned call) noexcept {
  if (call == kLowWatermark)
    sink_.on_low_watermark();
  else
    sink_.on_async_error();
}

}  // namespace udapl::verbs
