// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/srq.h"

#include "common/mutex.h"

#include <algorithm>
#include <utility>

namespace udapl::soft {

Srq::Srq(Reactor& reactor, MrTable& memory, ScopeId pd, int depth, int max_segments,
         transport::SrqSink& sink)
    : memory_(memory),
      pd_(pd),
      max_segments_(max_segments),
      sink_(sink),
      buffers_(static_cast<std::uint32_t>(depth), static_cast<std::uint32_t>(max_segments)),
      gate_(reactor, SinkGate::to<&Srq::deliver, Srq>(), this) {}

DAT_RETURN Srq::post_recv(transport::WorkId id, const DAT_LMR_TRIPLET* segments,
                          DAT_COUNT count) noexcept {
  const ScopedLock lock(lock_);
  if (buffers_.full()) return dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
  Receive& receive = buffers_.next();
  receive.id = id;
  receive.flags = transport::kSignalled;
  const DAT_RETURN checked =
      resolve_receive(memory_, pd_, {segments, static_cast<std::size_t>(count)},
                      buffers_.max_segments(), buffers_.segments(buffers_.tail()), receive);
  if (checked != DAT_SUCCESS) return checked;
  buffers_.push();
  promise();
  return DAT_SUCCESS;
}

// Promises buffers that are not promised yet to waiting QPs.
void Srq::promise() noexcept {
  while (!wait_queue_.empty() && promised_ < buffers_.size()) {
    Waiter& first = wait_queue_.front();
    wait_queue_.pop_front();
    first.promised_ = true;
    ++promised_;
    first.wake_.post_for_poll();
  }
}

bool Srq::take(Receive& out, Segment* segments, Waiter& waiter) noexcept {
  const ScopedLock lock(lock_);
  if (std::exchange(waiter.promised_, false)) {
    --promised_;
  } else if (promised_ == buffers_.size()) {
    if (!waiter.hook_.is_linked()) wait_queue_.push_back(waiter);
    return false;
  }
  out = buffers_.at(buffers_.head());
  std::copy_n(buffers_.segments(buffers_.head()), out.segment_count, segments);
  buffers_.pop();
  check_low_watermark();
  return true;
}

void Srq::stop_waiting(Waiter& waiter) noexcept {
  const ScopedLock lock(lock_);
  if (waiter.hook_.is_linked()) wait_queue_.erase(wait_queue_.iterator_to(waiter));
  if (!std::exchange(waiter.promised_, false)) return;
  --promised_;
  promise();
}

Status Srq::resize(int depth) {
  WorkRing<Receive> larger(static_cast<std::uint32_t>(depth),
                           static_cast<std::uint32_t>(max_segments_));
  {
    const ScopedLock lock(lock_);
    if (buffers_.size() > larger.depth()) return failure(DAT_INVALID_STATE);
    move_all(buffers_, larger);
    std::swap(buffers_, larger);  // the old memory is freed without the lock
  }
  return Status();
}

Status Srq::set_low_watermark(int mark) noexcept {
  const ScopedLock lock(lock_);
  low_watermark_ = static_cast<std::uint32_t>(std::max(mark, 0));
  check_low_watermark();
  return Status();
}

void Srq::check_low_watermark() noexcept {
  if (buffers_.size() >= low_watermark_) return;
  low_watermark_ = 0;
  gate_.post(kLowWatermark);
}

int Srq::available() const noexcept {
  const ScopedLock lock(lock_);
  return static_cast<int>(buffers_.size());
}

void Srq::deliver(unsigned) noexcept { sink_.on_low_watermark(); }

}  // namespace udapl::soft
