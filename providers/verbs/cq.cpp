// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/cq.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <new>
#include <utility>

#include <dat/dat_ib_extensions.h>

#include "common/errno_text.h"
#include "common/tracing/cause.h"
#include "common/tracing/trace.h"
#include "providers/verbs/adapter.h"
#include "providers/verbs/cq_channel.h"
#include "providers/verbs/queue.h"
#include "providers/verbs/srq.h"
#include "providers/verbs/status.h"
#include "providers/verbs/trace_points.h"

namespace udapl::verbs {

Result<std::unique_ptr<transport::Cq>> Cq::create(Adapter& adapter,
                                                  const std::shared_ptr<CqChannel>& channel,
                                                  int depth, transport::CqSink& sink) {
  auto cq = std::make_unique<Cq>(adapter, channel, sink);
  cq->depth_ = depth;
  cq->cq_ = point::made("ibv_create_cq",
                        ibv_create_cq(adapter.context(), depth + cq->spare_for(depth), cq.get(),
                                      channel->get(), adapter.next_completion_vector()));
  if (cq->cq_ == nullptr) {
    const int error = errno;
    const Status status = failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
    UDAPL_EXPLAIN_ERRNO(kNormal, status.code(), error, "ibv_create_cq for %d completions", depth);
    return status;
  }
  cq->reserve_held(false);
  adapter.idle_cqs().join(*cq);
  return std::unique_ptr<transport::Cq>(std::move(cq));
}

Cq::Cq(Adapter& adapter, std::shared_ptr<CqChannel> channel, transport::CqSink& sink)
    : invalidate_flags_(adapter.device().invalidate_flags()),
      adapter_(adapter),
      channel_(std::move(channel)),
      shown_(channel_->begins_shown()),
      sink_(sink),
      gate_(adapter.reactor(), SinkGate::to<&Cq::deliver, Cq>(), this) {}

Cq::~Cq() {
  adapter_.idle_cqs().leave(*this);
  unsigned seen = 0;
  {
    const ScopedLock events_guard(events_lock_);
    closing_ = true;  // a thread that is reading an event now acknowledges it
    seen = unacknowledged_;
  }
  gate_.close();
  if (cq_ == nullptr) return;
  end_arming();
  channel_->forget(*this);
  {
    const ScopedLock guard(lock);  // waits for the driving thread in found_notification()
    closed_ = true;
  }
  if (seen != 0) ibv_ack_cq_events(cq_, seen);
  if (const int error = ibv_destroy_cq(cq_); error != 0)
    UDAPL_TRACE(kError, "ibv_destroy_cq: %s", ErrnoText(error).c_str());
  channel_->show(shown_);  // this CQ no longer prevents the channel from being shown
}

// ---- completions -------------------------------------------------------------------------------

namespace {

// The operation of a request that succeeded. A write with immediate data is reported as a write, as
// by verbs: the core tells them apart by the cookie.
DAT_DTOS request_operation(ibv_wc_opcode opcode) noexcept {
  static_assert(IBV_WC_SEND == 0 && IBV_WC_RDMA_WRITE == 1 && IBV_WC_RDMA_READ == 2 &&
                IBV_WC_COMP_SWAP == 3 && IBV_WC_FETCH_ADD == 4 && IBV_WC_BIND_MW == 5 &&
                IBV_WC_LOCAL_INV == 6);
  static constexpr std::array<DAT_DTOS, 8> kOperations = {
      DAT_DTO_SEND,
      DAT_DTO_RDMA_WRITE,
      DAT_DTO_RDMA_READ,
      static_cast<DAT_DTOS>(DAT_IB_DTO_CMP_SWAP),
      static_cast<DAT_DTOS>(DAT_IB_DTO_FETCH_ADD),
      DAT_DTO_BIND_MW,
      DAT_DTO_BIND_MW,
      DAT_DTO_SEND};
  return kOperations[opcode % kOperations.size()];
}

}  // namespace

bool Cq::convert(const ibv_wc& from, transport::Completion& to) const noexcept {
  const QpMap::Entry* const entry = qps_.find(from.qp_num);
  if (entry == nullptr) return false;
  if (!is_plain(from)) return convert_special(from, *entry, to);
  convert_plain(from, to);
  to.qp_context = entry->context;
  return true;
}

bool Cq::convert_special(const ibv_wc& from, const QpMap::Entry& entry,
                         transport::Completion& to) const noexcept {
  const bool receive = (from.wr_id & kReceiveTag) != 0;
  const bool success = from.status == IBV_WC_SUCCESS;
  const ibv_wc_status status =
      success ? from.status : entry.queue->meaning_of(from.wr_id, from.status);
  if (!success) {
    point::failed_work(from, entry.context);
    entry.queue->on_failed_work(from.wr_id, status);
  } else if (from.wr_id == kMarker) {
    entry.queue->on_marker();
  }
  if (receive && entry.srq != nullptr) entry.srq->taken();
  if (work_id(from.wr_id) == 0) return false;

  to = transport::Completion{};
  to.id = work_id(from.wr_id);
  to.qp_context = entry.context;
  // If the connection manager has lost the peer, the oldest flushed request reports the loss.
  const bool lost = !receive && from.status == IBV_WC_WR_FLUSH_ERR && entry.queue->takes_loss();
  to.status = dto_status(lost ? IBV_WC_RETRY_EXC_ERR : status);
  // verbs does not report the operation of a failed request; the core has it in the cookie.
  to.operation = receive               ? DAT_DTO_RECEIVE
                 : is_bind(from.wr_id) ? DAT_DTO_BIND_MW
                 : success             ? request_operation(from.opcode)
                                       : DAT_DTO_SEND;
  if (!success) return true;
  to.length = from.byte_len;
  if (!receive) return true;
  if ((from.wc_flags & invalidate_flags_) != 0) {
    to.operation = DAT_DTO_RECEIVE_WITH_INVALIDATE;
    to.rmr_context = from.invalidated_rkey;
    adapter_.memory().invalidated(from.invalidated_rkey);
  } else if ((from.wc_flags & IBV_WC_WITH_IMM) != 0) {
    to.immediate = from.imm_data;  // not byte-swapped, as in OpenFabrics
    to.operation =
        static_cast<DAT_DTOS>(from.opcode == IBV_WC_RECV_RDMA_WITH_IMM ? DAT_IB_DTO_RECV_IMMED
                                                                       : DAT_IB_DTO_RECV_MSG_IMMED);
  }
  return true;
}

int Cq::poll_verbs(int most) noexcept {
  const int count = ibv_poll_cq(cq_, most, work_.data());
  // The CQ was empty after the last QP was detached: all later completions are those of live QPs.
  if (count >= 0 && count < most) set_stale(false);
  return count;
}

int Cq::poll_via_held(transport::Completion* out, int max) noexcept {
  for (int count = kBatch; held_begin_ == held_.size() && count == kBatch;) count = hold();
  return take_held(out, max);
}

int Cq::take_held(transport::Completion* out, int max) noexcept {
  const std::size_t count =
      std::min(held_.size() - held_begin_, static_cast<std::size_t>(std::max(max, 0)));
  for (std::size_t i = 0; i < count; ++i) {
    const Held& held = held_[held_begin_ + i];
    out[i] = held.completion;
    handed_notification_ |= held.notifies;
  }
  held_begin_ += count;
  end_held_if_empty();
  return static_cast<int>(count);
}

void Cq::end_held_if_empty() noexcept {
  if (held_begin_ == held_.size()) {
    held_.clear();
    held_begin_ = 0;
  }
  update_uses_held();
}

void Cq::drop_held(std::uint32_t number) noexcept {
  const auto begin = held_.begin() + static_cast<std::ptrdiff_t>(held_begin_);
  held_.erase(std::remove_if(begin, held_.end(),
                             [&](const Held& held) { return held.qp_number == number; }),
              held_.end());
  end_held_if_empty();
}

void Cq::reserve_held(bool more) {
  for (std::vector<Held> larger;;) {
    std::size_t wanted = static_cast<std::size_t>(std::max(cq_->cqe, kBatch));
    {
      const ScopedLock guard(lock);
      const std::size_t held = held_.size() - held_begin_;
      if (more) wanted += held;
      if (wanted <= held_.capacity()) return;
      if (wanted <= larger.capacity()) {  // allocated in the previous round
        larger.assign(held_.begin() + static_cast<std::ptrdiff_t>(held_begin_), held_.end());
        held_.swap(larger);
        held_begin_ = 0;
        return;
      }
    }
    larger.reserve(wanted);
  }
}

int Cq::hold() noexcept {
  if (held_.capacity() - held_.size() < kBatch && held_begin_ != 0) {
    held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(held_begin_));
    held_begin_ = 0;
  }
  const std::size_t room = held_.capacity() - held_.size();
  if (room == 0) return 0;
  const int count = poll_verbs(static_cast<int>(std::min<std::size_t>(room, kBatch)));
  for (int i = 0; i < count; ++i) {
    const ibv_wc& work = work_[static_cast<std::size_t>(i)];
    transport::Completion completion;
    if (convert(work, completion))
      held_.push_back(
          {completion, work.qp_num, (work.wr_id & kReceiveTag) == 0, is_notification(work)});
  }
  update_uses_held();
  return count;
}

void Cq::hold_all() noexcept {
  while (hold() == kBatch) {
  }
}

bool Cq::holds_notification() const noexcept {
  return std::any_of(held_.begin() + static_cast<std::ptrdiff_t>(held_begin_), held_.end(),
                     [](const Held& held) { return held.notifies; });
}

int Cq::size() noexcept {
  hold_all();
  return static_cast<int>(held_.size() - held_begin_);
}

void Cq::set_stale(bool stale) noexcept {
  stale_ = stale;
  update_uses_held();
}

void Cq::update_uses_held() noexcept { uses_held_ = stale_ || held_begin_ != held_.size(); }

void Cq::scan() noexcept {
  const ScopedLock guard(lock);
  hold_all();
}

int Cq::scan_for(std::uint32_t number) noexcept {
  const ScopedLock guard(lock);
  hold_all();
  return static_cast<int>(std::count_if(
      held_.begin() + static_cast<std::ptrdiff_t>(held_begin_), held_.end(),
      [number](const Held& held) { return held.request && held.qp_number == number; }));
}

Cq::Scan Cq::scan_if_idle() noexcept {
  const ScopedLock guard(lock);
  if (qps_.empty()) return Scan::kNoQps;
  if (std::exchange(polled_, false)) return Scan::kPolled;
  hold_all();
  return Scan::kIdle;
}

// ---- QPs ---------------------------------------------------------------------------------------

// Makes room for one more QP, allocated without the spin lock.
void Cq::make_room() {
  std::uint32_t size = 0;
  {
    const ScopedLock guard(lock);
    size = qps_.wanted_size();
  }
  if (size == 0) return;
  QpMap::Table table(size);
  const ScopedLock guard(lock);
  qps_.grow(table);
}

void Cq::attach(Queue& queue, std::uint32_t number, void* context, Role role, bool solicited_only,
                Srq* srq) {
  const ScopedLock qps_guard(qps_lock_);
  make_room();
  if (has_stale()) reserve_held(true);
  {
    const ScopedLock guard(lock);
    while (stale_ && hold() == kBatch) {  // a stale completion may carry the same QP number
    }
    qps_.add({number, &queue, context, srq});
  }
  count(role == Role::kReceive && solicited_only, 1);
  adapter_.idle_cqs().start();
}

// `change`: 1 if such a role is added, -1 if it has ended.
void Cq::count(bool solicited_only, int change) noexcept {
  const bool was = solicited_.load(std::memory_order_relaxed);
  (solicited_only ? solicited_receivers_ : others_) += change;
  solicited_.store(others_ == 0 && solicited_receivers_ != 0, std::memory_order_release);
  if (was && others_ != 0) {
    end_arming();  // the CQ may be armed for solicited completions only
    request_notification();
  }
}

void Cq::exchange_receiver(bool before, bool after) noexcept {
  const ScopedLock qps_guard(qps_lock_);
  count(after, 1);
  count(before, -1);
}

void Cq::detach(std::uint32_t number, Role role, bool solicited_only) noexcept {
  const ScopedLock qps_guard(qps_lock_);
  {
    const ScopedLock guard(lock);
    if (qps_.remove(number)) {
      set_stale(true);
      drop_held(number);
    }
  }
  count(role == Role::kReceive && solicited_only, -1);
}

// ---- size --------------------------------------------------------------------------------------

// The consumer sizes an EVD for the events that it expects. The CQ gets further completions: of the
// marker of a graceful disconnect, of invalidations that are flushed, and of suppressed requests.
// The usual spare entries suffice for some suppressed requests; for more, the CQ grows in large
// steps, not with each QP.
int Cq::spare_for(int depth) const noexcept {
  constexpr int kSpare = 64;
  const int unseen = unseen_.load(std::memory_order_relaxed);
  const int more =
      unseen <= kSpare / 2 ? 0 : static_cast<int>(std::bit_ceil(static_cast<unsigned>(unseen)));
  return std::clamp(adapter_.device().attr.orig_attr.max_cqe - depth, 0, kSpare + more);
}

void Cq::expect_unseen(int count) noexcept {
  const ScopedLock qps_guard(qps_lock_);
  unseen_.fetch_add(count, std::memory_order_relaxed);
  const int depth = this->depth();
  const int wanted = depth + spare_for(depth);
  if (wanted <= cq_->cqe) return;
  const int error = point::ended("ibv_resize_cq", "", ibv_resize_cq(cq_, wanted));
  if (error != 0) {
    UDAPL_TRACE(kNormal, "ibv_resize_cq from %d to %d for suppressed requests: %s", cq_->cqe,
                wanted, ErrnoText(error).c_str());
    return;
  }
  try {
    reserve_held(false);
  } catch (const std::bad_alloc&) {
    // Completions that cannot be held stay on the verbs CQ.
  }
}

void Cq::end_unseen(int count) noexcept {
  const ScopedLock qps_guard(qps_lock_);
  unseen_.fetch_sub(count, std::memory_order_relaxed);
}

Status Cq::resize(int depth) {
  if (depth <= 0) return failure(DAT_INVALID_PARAMETER);
  const ScopedLock qps_guard(qps_lock_);  // expect_unseen() resizes as well
  const int wanted = depth + spare_for(depth);
  const int error = point::ended("ibv_resize_cq", "", ibv_resize_cq(cq_, wanted));
  if (error == 0) {
    reserve_held(false);
    depth_.store(depth, std::memory_order_relaxed);
    return Status();
  }
  // Shrinking is optional; completions in the queue are never lost.
  if (depth <= this->depth() && error != EINVAL) return Status();
  const Status status = error == EINVAL || error == EBUSY ? failure(DAT_INVALID_STATE)
                                                          : status_of(error, DAT_RESOURCE_MEMORY);
  UDAPL_EXPLAIN_ERRNO(kNormal, status.code(), error, "ibv_resize_cq from %d to %d", this->depth(),
                      depth);
  return status;
}

}  // namespace udapl::verbs
