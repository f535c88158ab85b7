// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "tests/fake_transport/queues.h"

#include "tests/fake_transport/qp.h"
#include "tests/fake_transport/scheduler.h"

#include <algorithm>
#include <utility>

namespace udapl::fake {

// ---- Cq ----------------------------------------------------------------------------------------

Cq::~Cq() { Scheduler::instance().cancel(this); }

int Cq::poll(transport::Completion* out, int max) noexcept {
  polls.fetch_add(1, std::memory_order_relaxed);
  std::function<void()> call;
  {
    const std::scoped_lock in_world(world());
    call = std::exchange(next_poll_, nullptr);
  }
  if (call) call();
  const std::scoped_lock in_world(world());
  for (Qp* const qp : feeders_) qp->polled_locked();
  const int count = std::min(max, static_cast<int>(completions_.size()));
  std::copy_n(completions_.begin(), count, out);
  completions_.erase(completions_.begin(), completions_.begin() + count);
  return count;
}

bool Cq::progress() noexcept {
  progresses.fetch_add(1, std::memory_order_relaxed);
  if (drive) Scheduler::instance().run();
  return true;
}

void Cq::arm() noexcept {
  const std::scoped_lock in_world(world());
  armed_ = true;
}

int Cq::size() noexcept {
  const std::scoped_lock in_world(world());
  return static_cast<int>(completions_.size());
}

Status Cq::resize(int depth) {
  if (refuse_resize) return failure(DAT_INSUFFICIENT_RESOURCES);
  const std::scoped_lock in_world(world());
  if (static_cast<int>(completions_.size()) > depth) return failure(DAT_INVALID_STATE);
  depth_ = depth;
  return Status();
}

int Cq::depth() const noexcept {
  const std::scoped_lock in_world(world());
  return depth_;
}

void Cq::push(const transport::Completion& completion, bool notify) {
  const std::scoped_lock in_world(world());
  push_locked(completion, notify);
}

void Cq::on_next_poll(std::function<void()> call) {
  const std::scoped_lock in_world(world());
  next_poll_ = std::move(call);
}

void Cq::overflow() {
  const std::scoped_lock in_world(world());
  overflow_locked();
}

bool Cq::armed() const {
  const std::scoped_lock in_world(world());
  return armed_;
}

void Cq::push_locked(const transport::Completion& completion, bool notify) {
  if (overflowed_ || static_cast<int>(completions_.size()) >= depth_) {
    overflow_locked();
    return;
  }
  completions_.push_back(completion);
  if (!notify || !armed_) return;
  armed_ = false;
  Scheduler::instance().defer(this, [this] { sink_.on_notify(); });
}

void Cq::purge_locked(const void* qp_context) {
  std::erase_if(completions_, [qp_context](const transport::Completion& completion) {
    return completion.qp_context == qp_context;
  });
}

void Cq::overflow_locked() {
  if (overflowed_) return;
  overflowed_ = true;
  Scheduler::instance().defer(this, [this] { sink_.on_overflow(); });
  for (Qp* const qp : feeders_) qp->break_later_locked(transport::BreakReason::kLocalFault);
}

// ---- Srq ---------------------------------------------------------------------------------------

Srq::~Srq() { Scheduler::instance().cancel(this); }

DAT_RETURN Srq::post_recv(transport::WorkId id, const DAT_LMR_TRIPLET* segments,
                          DAT_COUNT count) noexcept {
  const std::scoped_lock lock(world());
  const DAT_RETURN code =
      MemoryTable::instance().check(segments, count, &pd_, DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
  if (code != DAT_SUCCESS) return code;
  if (static_cast<int>(buffers_.size()) >= depth_) return dat_error(DAT_INSUFFICIENT_RESOURCES);
  buffers_.push_back({id, {segments, segments + count}, false});
  return DAT_SUCCESS;
}

Status Srq::resize(int depth) {
  if (refuse_resize) return failure(DAT_INSUFFICIENT_RESOURCES);
  const std::scoped_lock lock(world());
  depth_ = depth;
  return Status();
}

Status Srq::set_low_watermark(int mark) noexcept {
  if (refuse_watermark) return failure(DAT_INSUFFICIENT_RESOURCES);
  const std::scoped_lock lock(world());
  mark_ = mark;
  check_mark_locked();
  return Status();
}

int Srq::available() const noexcept {
  const std::scoped_lock lock(world());
  return static_cast<int>(buffers_.size());
}

void Srq::fail() {
  Scheduler::instance().defer(this, [this] { sink_.on_async_error(); });
}

bool Srq::take_locked(Buffer* buffer) {
  if (buffers_.empty()) return false;
  *buffer = buffers_.front();
  buffers_.pop_front();
  check_mark_locked();
  return true;
}

void Srq::check_mark_locked() {
  if (static_cast<int>(buffers_.size()) >= mark_) return;
  mark_ = 0;
  Scheduler::instance().defer(this, [this] { sink_.on_low_watermark(); });
}

}  // namespace udapl::fake
