// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/cq.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include <dat/dat_ib_extensions.h>

#include "common/cause.h"
#include "common/errno_text.h"
#include "common/trace.h"
#include "providers/verbs/adapter.h"
#include "providers/verbs/barrier.h"
#include "providers/verbs/qp.h"
#include "providers/verbs/srq.h"
#include "providers/verbs/status.h"
#include "providers/verbs/trace_points.h"

namespace udapl::verbs {

namespace {

// The kernel is told of so many events at once that they were seen.
constexpr unsigned kEventsPerAck = 64;

bool notifies(const ibv_wc& work) noexcept {
  return work.status != IBV_WC_SUCCESS || (work.wr_id & kQuietTag) == 0;
}

}  // namespace

Result<std::unique_ptr<transport::Cq>> Cq::create(Adapter& adapter, int depth,
                                                  transport::CqSink& sink) {
  auto cq = std::make_unique<Cq>(adapter, sink);
  cq->cq_ = cq->make(depth);
  if (cq->cq_ == nullptr) {
    const int error = errno;
    const Status status = failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
    UDAPL_EXPLAIN_ERRNO(kNormal, status.code(), error, "ibv_create_cq for %d completions", depth);
    return status;
  }
  adapter.patrol().join(*cq);
  // Without the kernel's help all polls take the lock.
  if (!has_process_barrier()) cq->keep_out(kLocked);
  return std::unique_ptr<transport::Cq>(std::move(cq));
}

Cq::Cq(Adapter& adapter, transport::CqSink& sink)
    : invalidate_flags_(adapter.device().invalidate_flags()),
      adapter_(adapter),
      sink_(sink),
      poll_gate_(sink.poll_gate() != nullptr ? *sink.poll_gate() : own_gate_),
      gate_(adapter.reactor(), SinkGate::to<&Cq::deliver, Cq>(), this) {}

Cq::~Cq() {
  adapter_.patrol().leave(*this);
  unsigned seen = 0;
  {
    const ScopedLock lock(events_lock_);
    closing_ = true;  // an event that is being read now is acknowledged by its reader
    seen = unacknowledged_;
  }
  gate_.close();
  if (cq_ == nullptr) return;
  {
    const Access access(*this);  // the driver may be looking for what made it fire
    set_mode(kClosed, true);
  }
  if (seen != 0) ibv_ack_cq_events(cq_, seen);
  if (const int error = ibv_destroy_cq(cq_); error != 0)
    UDAPL_TRACE(kError, "ibv_destroy_cq: %s", ErrnoText(error).c_str());
}

// ---- completions -------------------------------------------------------------------------------

namespace {

// The operation of a request that succeeded. What verbs does not tell apart (a write with immediate
// data is a write) the core knows from its cookie.
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
  if (!success) {
    point::failed_work(from, entry.context);
    entry.qp->on_failed_work(from.wr_id, from.status);
  } else if (from.wr_id == kInternalWork) {
    entry.qp->on_marker();
  }
  if (receive && entry.srq != nullptr) entry.srq->taken();
  if (work_id(from.wr_id) == 0) return false;

  to = transport::Completion{};
  to.id = work_id(from.wr_id);
  to.qp_context = entry.context;
  // When the connection manager has lost the peer, that is what the oldest request fails by.
  const bool lost = !receive && from.status == IBV_WC_WR_FLUSH_ERR && entry.qp->takes_loss();
  to.status = dto_status(lost ? IBV_WC_RETRY_EXC_ERR : from.status);
  // A request that failed: verbs does not say which operation it was; the core's cookie does.
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
    to.immediate = from.imm_data;  // as it is: the old provider does not swap it
    to.operation =
        static_cast<DAT_DTOS>(from.opcode == IBV_WC_RECV_RDMA_WITH_IMM ? DAT_IB_DTO_RECV_IMMED
                                                                       : DAT_IB_DTO_RECV_MSG_IMMED);
  }
  return true;
}

int Cq::poll_verbs(ibv_wc* work, int max) noexcept {
  const int count = ibv_poll_cq(cq_, max, work);
  // The queue has been empty since the last QP went: what comes now is of QPs that live.
  if (count >= 0 && count < max) set_mode(kGhosts, false);
  return count;
}

int Cq::poll(transport::Completion* out, int max) noexcept {
  polled_.store(true, std::memory_order_relaxed);
  const Access access(*this);
  if (held_begin_ != held_.size()) return take_held(out, max);
  ibv_wc work[kBatch];
  while (true) {
    const int limit = std::min(max, kBatch);
    const int count = poll_verbs(work, limit);
    int kept = 0;
    for (int i = 0; i < count; ++i) kept += convert(work[i], out[kept]) ? 1 : 0;
    // Only behind a full batch of leftovers there may be more.
    if (kept != 0 || count < limit || limit <= 0) return kept;
  }
}

int Cq::take_held(transport::Completion* out, int max) noexcept {
  const std::size_t count =
      std::min(held_.size() - held_begin_, static_cast<std::size_t>(std::max(max, 0)));
  for (std::size_t i = 0; i < count; ++i) out[i] = held_[held_begin_ + i].completion;
  held_begin_ += count;
  end_held_if_empty();
  return static_cast<int>(count);
}

void Cq::end_held_if_empty() noexcept {
  if (held_begin_ != held_.size()) return;
  held_.clear();
  held_begin_ = 0;
  set_mode(kHeld, false);
}

void Cq::drop_held(std::uint32_t number) noexcept {
  const ScopedLock lock(lock_);
  const auto begin = held_.begin() + static_cast<std::ptrdiff_t>(held_begin_);
  held_.erase(std::remove_if(begin, held_.end(),
                             [&](const Held& held) { return held.qp_number == number; }),
              held_.end());
  end_held_if_empty();
}

int Cq::hold() noexcept {
  try {
    held_.reserve(held_.size() + kBatch);
  } catch (const std::bad_alloc&) {
    return -1;
  }
  ibv_wc work[kBatch];
  const int count = poll_verbs(work, kBatch);
  for (int i = 0; i < count; ++i) {
    transport::Completion completion;
    if (!convert(work[i], completion)) continue;
    held_.push_back({completion, work[i].qp_num, notifies(work[i])});
  }
  if (!held_.empty()) set_mode(kHeld, true);
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

int Cq::size() const noexcept {
  auto& self = const_cast<Cq&>(*this);
  const Access access(self);
  self.hold_all();
  return static_cast<int>(self.held_.size() - self.held_begin_);
}

// ---- excluding the consumer ---------------------------------------------------------------------

void Cq::set_mode(unsigned bit, bool on) noexcept {
  const unsigned before = mode_;
  mode_ = on ? mode_ | bit : mode_ & ~bit;
  if ((before == 0) == (mode_ == 0)) return;
  if (mode_ != 0)
    poll_gate_.set(transport::PollGate::kDiverted);
  else
    poll_gate_.clear(transport::PollGate::kDiverted);
}

void Cq::wait_for_consumer() const noexcept {
  while (poll_gate_.occupied()) ::sched_yield();
}

// Returns when every poll that had begun is over, and every poll that begins later sees what the
// caller wrote before.
void Cq::quiesce() noexcept {
  if (has_process_barrier()) {
    process_barrier();
    wait_for_consumer();
  }
  const ScopedLock lock(lock_);  // for those that take it
}

// Returns when the consumer polls with the lock, or not at all, until the mode is taken back.
void Cq::keep_out(unsigned mode) noexcept {
  {
    const ScopedLock lock(lock_);
    if ((mode_ & (mode | kLocked)) != 0) return;  // somebody has done it
    set_mode(mode, true);
  }
  quiesce();
}

bool Cq::begin_look(bool only_idle) noexcept {
  const bool unused = poll_gate_.unused();
  const bool idle = !polled_.exchange(false, std::memory_order_relaxed) && unused;
  if ((only_idle && !idle) || !has_qps()) return false;
  const ScopedLock lock(lock_);
  set_mode(kLooking, true);
  return true;
}

void Cq::end_look() noexcept {
  if (has_process_barrier()) wait_for_consumer();
  const Access access(*this);
  hold_all();
  set_mode(kLooking, false);
}

// ---- notification ------------------------------------------------------------------------------

void Cq::request_notification() const noexcept {
  const int error = ibv_req_notify_cq(cq_, solicited_.load(std::memory_order_acquire) ? 1 : 0);
  if (error != 0 && !adapter_.dead())
    UDAPL_TRACE(kError, "ibv_req_notify_cq: %s", ErrnoText(error).c_str());
}

void Cq::on_event() noexcept {
  // As long as the event is not acknowledged, ibv_destroy_cq waits and we exist.
  const bool notification = !filters_.load(std::memory_order_relaxed) || found_notification();
  unsigned acknowledge = 1;
  {
    const ScopedLock lock(events_lock_);
    if (!closing_) {
      if (notification) gate_.post(kNotify);
      acknowledge = ++unacknowledged_ == kEventsPerAck ? kEventsPerAck : 0;
      if (acknowledge != 0) unacknowledged_ = 0;
    }
  }
  if (acknowledge != 0) ibv_ack_cq_events(cq_, acknowledge);
}

// What made the armed CQ fire: a notification, or something quiet? Then the CQ is armed again. A
// look into the CQ may have been here before and hold what fired it.
bool Cq::found_notification() noexcept {
  keep_out(kLocked);
  const Access access(*this);
  if ((mode_ & kClosed) != 0) return false;
  for (bool armed = false;; armed = true) {
    int count = 0;
    do {
      count = hold();
      if (count < 0) return true;  // no memory: rather once too often
    } while (count == kBatch);
    if (holds_notification()) return true;
    if (armed) return false;
    request_notification();
  }
}

void Cq::on_error() noexcept {
  if (overflowed_.exchange(true)) return;
  const ScopedLock lock(events_lock_);
  if (!closing_) gate_.post(kOverflow);
}

void Cq::deliver(unsigned call) noexcept {
  if (call == kNotify) {
    sink_.on_notify();
    return;
  }
  UDAPL_TRACE(kError, "CQ %p of %d completions overflowed: its connections break",
              static_cast<void*>(this), depth());
  qps_.for_each([](Qp& qp) { qp.on_failed_work(kInternalWork, IBV_WC_FATAL_ERR); });
  sink_.on_overflow();
}

// ---- QPs ---------------------------------------------------------------------------------------

void Cq::attach(Qp& qp, std::uint32_t number, void* context, Role role, bool solicited_only,
                Srq* srq) {
  forget_ghosts();  // one may have had the same number
  qps_.add({number, &qp, context, srq}, [this] { quiesce(); });
  const ScopedLock lock(roles_lock_);
  const bool was = solicited_.load(std::memory_order_relaxed);
  ++(role == Role::kReceive && solicited_only ? solicited_receivers_ : others_);
  solicited_.store(others_ == 0, std::memory_order_release);
  if (was && others_ != 0) arm();  // it may be armed for less
  adapter_.patrol().start();
}

void Cq::forget_ghosts() noexcept {
  const Access access(*this);
  while ((mode_ & kGhosts) != 0 && hold() == kBatch) {
  }
}

// What the device has put on the verbs CQ for the QP may still be there. It is dropped by those who
// poll with the lock, so the gate is closed until the queue has once been empty.
void Cq::detach(std::uint32_t number, Role role, bool solicited_only) noexcept {
  qps_.remove(number, [this] { keep_out(kGhosts); });
  drop_held(number);
  const ScopedLock lock(roles_lock_);
  --(role == Role::kReceive && solicited_only ? solicited_receivers_ : others_);
  solicited_.store(others_ == 0 && solicited_receivers_ != 0, std::memory_order_release);
}

// ---- size --------------------------------------------------------------------------------------

int Cq::depth() const noexcept { return cq_->cqe; }

Status Cq::resize(int depth) {
  if (depth <= 0) return failure(DAT_INVALID_PARAMETER);
  const int error = [&] {
    const Exclusion alone(*this);
    return point::ended("ibv_resize_cq", "", ibv_resize_cq(cq_, depth));
  }();
  if (error == 0) return Status();
  // Smaller is a wish; what the queue holds is never lost.
  if (depth <= cq_->cqe && error != EINVAL) return Status();
  const Status status = error == EINVAL || error == EBUSY ? failure(DAT_INVALID_STATE)
                                                          : status_of(error, DAT_RESOURCE_MEMORY);
  UDAPL_EXPLAIN_ERRNO(kNormal, status.code(), error, "ibv_resize_cq from %d to %d", cq_->cqe,
                      depth);
  return status;
}

}  // namespace udapl::verbs
