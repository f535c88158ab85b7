// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/cq.h"

#include "common/tracing/trace.h"
#include "providers/soft/qp.h"

#include <dat/dat_ib_extensions.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace udapl::soft {
namespace {

// Devices round the depth up, too, and programs whose EVDs are slightly too small rely on that.
std::uint64_t rounded(std::uint64_t depth) noexcept { return std::bit_ceil(depth + 1) - 1; }

}  // namespace

Cq::Cq(Reactor& reactor, int depth, transport::CqSink& sink)
    : reactor_(reactor),
      sink_(sink),
      slots_(std::make_unique_for_overwrite<Slot[]>(rounded(static_cast<unsigned>(depth)) + 1)),
      mask_(rounded(static_cast<unsigned>(depth))),
      depth_(depth),
      capacity_(rounded(static_cast<unsigned>(depth))),
      gate_(reactor, SinkGate::to<&Cq::deliver, Cq>(), this) {}

int Cq::poll(transport::Completion* out, int max) noexcept {
  const std::uint64_t count = std::min(waiting(), static_cast<std::uint64_t>(std::max(max, 0)));
  if (count == 0) return 0;
  const std::uint64_t head = head_.load(std::memory_order_relaxed);
  for (std::uint64_t i = 0; i < count; ++i) out[i] = slots_[(head + i) & mask_].completion;
  head_.store(head + count, std::memory_order_release);  // the slots may be written again
  return static_cast<int>(count);
}

void Cq::arm() noexcept { arm(For::kAnyone); }

void Cq::arm_for_waiters() noexcept { arm(For::kWaiters); }

void Cq::arm(For whom) noexcept {
  For before{};
  {
    const ScopedLock push_guard(push_lock_);
    demand_.wanted.store(true, std::memory_order_seq_cst);
    missing_ = 1;
    before = std::exchange(armed_for_, whom);
  }
  if (whom != before && whom == For::kAnyone) gate_.hurry();
  if (demand_.sleepers.load(std::memory_order_seq_cst) != 0) [[unlikely]]
    wake_sleepers();
}

// Has no effect if the CQ has notified since it was armed: then it is no longer armed.
void Cq::await_several(std::size_t count) noexcept {
  const ScopedLock push_guard(push_lock_);
  missing_ = count;
}

void Cq::post_notification(For whom) noexcept {
  if (whom == For::kAnyone)
    gate_.post(kNotify);
  else
    gate_.post_for_poll(kNotify);
}

void Cq::wake_sleepers() noexcept {
  const ScopedLock qps_guard(qps_lock_);
  for (const Attached& attached : qps_) attached.qp->on_completion_wanted();
}

int Cq::size() noexcept { return static_cast<int>(waiting()); }

int Cq::depth() const noexcept {
  const ScopedLock push_guard(push_lock_);
  return depth_;
}

Status Cq::resize(int depth) {
  if (depth <= 0) return failure(DAT_INVALID_PARAMETER);
  const ScopedLock qps_guard(qps_lock_);
  return set_capacity(depth, unseen_);
}

Status Cq::set_capacity(int depth, int unseen) {
  const auto wanted = static_cast<std::uint64_t>(depth) + static_cast<std::uint64_t>(unseen);
  const std::uint64_t capacity = rounded(wanted);
  const std::uint64_t size = capacity + 1;
  const bool fits = size == mask_ + 1;
  auto slots = fits ? nullptr : std::make_unique_for_overwrite<Slot[]>(size);
  {
    const ScopedLock guard(lock);
    const ScopedLock push_guard(push_lock_);
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - head > wanted) return failure(DAT_INVALID_STATE);
    if (!fits) {
      for (std::uint64_t i = head; i != tail; ++i) slots[i & (size - 1)] = slots_[i & mask_];
      slots_.swap(slots);
      mask_ = size - 1;
    }
    depth_ = depth;
    capacity_ = capacity;
  }
  return Status();
}

void Cq::overflow() noexcept {
  if (!overflowed_) gate_.post(kOverflow);
  overflowed_ = true;
}

void Cq::attach(Qp& qp, int unseen) {
  const ScopedLock qps_guard(qps_lock_);
  qps_.reserve(qps_.size() + 1);
  // set_capacity() fails if more completions are queued, of former QPs: then the capacity is
  // already larger.
  if (unseen != 0) (void)set_capacity(depth(), unseen_ + unseen);
  unseen_ += unseen;
  qps_.push_back({&qp, unseen});
}

void Cq::detach(Qp& qp) noexcept {
  const ScopedLock qps_guard(qps_lock_);
  const auto found = std::find_if(qps_.begin(), qps_.end(),
                                  [&](const Attached& attached) { return attached.qp == &qp; });
  if (found == qps_.end()) return;
  // The capacity is not reduced before another QP is attached: completions of this QP may still be
  // queued, and must not take room from those of other QPs.
  unseen_ -= found->unseen;
  qps_.erase(found);
}

int Cq::receives_of(const Qp& qp) const noexcept {
  const ScopedLock push_guard(push_lock_);
  const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
  int count = 0;
  for (std::uint64_t i = head_.load(std::memory_order_relaxed); i != tail; ++i) {
    const Slot& slot = slots_[i & mask_];
    const int operation = slot.completion.operation;
    const bool receive = operation == DAT_DTO_RECEIVE ||
                         operation == DAT_DTO_RECEIVE_WITH_INVALIDATE ||
                         operation == static_cast<int>(DAT_IB_DTO_RECV_IMMED);
    if (slot.owner == &qp && receive) ++count;
  }
  return count;
}

void Cq::purge(const Qp& qp) noexcept {
  const ScopedLock guard(lock);
  const ScopedLock push_guard(push_lock_);
  const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
  std::uint64_t kept = head_.load(std::memory_order_relaxed);
  for (std::uint64_t i = kept; i != tail; ++i) {
    const Slot& slot = slots_[i & mask_];
    if (slot.owner != &qp) slots_[kept++ & mask_] = slot;
  }
  tail_.store(kept, std::memory_order_release);
}

// Called by the driving thread, without locks.
void Cq::deliver(unsigned call) noexcept {
  if (call == kNotify) {
    sink_.on_notify();
    return;
  }
  UDAPL_TRACE(kError, "CQ %p of %d completions overflowed: its connections break",
              static_cast<void*>(this), depth());
  break_qps();
  sink_.on_overflow();
}

void Cq::break_qps() noexcept {
  const ScopedLock qps_guard(qps_lock_);
  for (const Attached& attached : qps_) attached.qp->on_cq_overflow();
}

}  // namespace udapl::soft
