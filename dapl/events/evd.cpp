// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/events/evd.h"

#include "common/dat_names.h"
#include "common/tracing/trace.h"
#include "common/tracing/trace_limit.h"
#include "dapl/events/cno.h"
#include "dapl/objects/ia.h"
#include "dapl/objects/refuse.h"
#include "dapl/objects/trace_points.h"

#include <algorithm>
#include <utility>

namespace udapl::dapl {

namespace {

constexpr unsigned kCompletionFlags = DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG;
constexpr unsigned kAnyStream = DAT_EVD_SOFTWARE_FLAG | DAT_EVD_DEFAULT_FLAG;

bool needs_cq(DAT_EVD_FLAGS flags) noexcept { return (flags & kCompletionFlags) != 0; }
bool has_other_streams(DAT_EVD_FLAGS flags) noexcept {
  return (flags & kAnyStream & ~kCompletionFlags) != 0;
}

// Whether `event` ends a connection or its set-up. The completions of its EP must precede it.
bool ends_connection(const DAT_EVENT& event) noexcept {
  return event.event_number > DAT_CONNECTION_EVENT_ESTABLISHED &&
         event.event_number <= DAT_CONNECTION_EVENT_UNREACHABLE;
}

}  // namespace

Evd::Evd(Ia& owner, DAT_COUNT qlen, DAT_EVD_FLAGS flags)
    : ObjectHeader(owner.provider, kType, &owner),
      flags_(flags),
      merged_(needs_cq(flags) && has_other_streams(flags)),
      qlen_(qlen),
      ring_(static_cast<std::size_t>(qlen)),
      idle_poll_(owner.adapter().idle_poll()),
      sink_(*this) {
  if (!needs_cq(flags))
    dequeue_gate.fetch_or(kNoCq, std::memory_order_relaxed);
  else if (merged_)
    dequeue_gate.fetch_or(kMerged, std::memory_order_relaxed);
}

// A running sink call may trigger the CNO even after the EVD was detached from it, and CNOs to
// which the EVD was attached earlier may name it as well: so, after the last sink call, every CNO
// of the IA forgets the EVD.
Evd::~Evd() {
  detach_from_cno();
  if (cq_ != nullptr) {
    const ScopedLock lock(cq_->lock);  // waits for a dequeue that found the gate open
  }
  owned_cq_.reset();  // waits for a running sink call
  ia->for_each<Cno>([this](Cno& cno) { cno.forget(*this); });
  const ScopedLock lock(ring_lock_);
  ring_.clear();  // a late dequeue finds nothing
}

Result<Owned<Evd>> Evd::create(Ia& ia, DAT_COUNT qlen, DAT_EVD_FLAGS flags, Cno* cno) {
  Owned<Evd> evd = make_object<Evd>(ia, qlen, flags);
  if (needs_cq(flags)) {
    transport::Adapter& adapter = ia.adapter();
    transport::EventDescriptor* const shown = cno != nullptr ? cno->shown() : nullptr;
    transport::WaitPlace* const place = cno != nullptr ? cno->place() : nullptr;
    auto cq = shown != nullptr   ? adapter.create_cq_for(*shown, qlen, evd->sink_)
              : place != nullptr ? adapter.create_cq_for(*place, qlen, evd->sink_)
              : cno != nullptr   ? adapter.create_cq(qlen, evd->sink_)
                                 : adapter.create_cq_to_block(qlen, evd->sink_);
    if (!cq.ok())
      UDAPL_PASS_ON(cq.status(), "creating a completion queue for %d events failed", qlen);
    evd->owned_cq_ = *std::move(cq);
    evd->cq_ = evd->owned_cq_.get();
  }
  if (evd->merged_) evd->reserve_early(static_cast<std::size_t>(qlen));
  if (cno != nullptr) evd->set_cno(cno);
  evd->dequeue_gate.fetch_and(~kShut, std::memory_order_release);
  return Result<Owned<Evd>>(std::move(evd));
}

// ---- streams -----------------------------------------------------------------------------------

Status Evd::check_stream(DAT_EVD_FLAGS flag, DAT_RETURN subtype) const noexcept {
  if ((flags_ & flag) == 0)
    UDAPL_REFUSE(DAT_INVALID_HANDLE, subtype, "EVD %p has flags 0x%x, needed is 0x%x",
                 static_cast<const void*>(this), static_cast<unsigned>(flags_),
                 static_cast<unsigned>(flag));
  return Status();
}

void Evd::attach_stream(StreamKind kind, CompletionMode mode) noexcept {
  const ScopedLock lock(notify_lock_);
  streams_.count(kind, mode, 1);
}

void Evd::detach_stream(StreamKind kind, CompletionMode mode) noexcept {
  const ScopedLock lock(notify_lock_);
  streams_.count(kind, mode, -1);
}

DAT_EVD_STATE Evd::state() const noexcept {
  const ScopedLock lock(notify_lock_);
  unsigned state =
      enabled_.load(std::memory_order_relaxed) ? DAT_EVD_STATE_ENABLED : DAT_EVD_STATE_DISABLED;
  state |= waitable_ ? DAT_EVD_STATE_WAITABLE : DAT_EVD_STATE_UNWAITABLE;
  return static_cast<DAT_EVD_STATE>(state | static_cast<unsigned>(streams_.configuration()));
}

// ---- events in ---------------------------------------------------------------------------------

void Evd::commit_event() noexcept {
  ring_.commit();
  dequeue_gate.fetch_or(kInRing, std::memory_order_release);
}

bool Evd::has_room(const DAT_EVENT& event) const noexcept {
  if (event.event_number != DAT_CONNECTION_REQUEST_EVENT) return !ring_.full();
  // An EP can have two events in the queue: ESTABLISHED and the end of its connection.
  const int ends = 2 * connections_.load(std::memory_order_relaxed);
  return ring_.size() + std::min(static_cast<std::size_t>(ends), ring_.capacity() / 2) <
         ring_.capacity();
}

Evd::Push Evd::push(const DAT_EVENT& event, IfFull if_full) noexcept {
  const ScopedLock lock(ring_lock_);
  if (!has_room(event)) {
    if (if_full == IfFull::kRefuse) return Push::kRefused;
    return std::exchange(overflowing_, true) ? Push::kLostAgain : Push::kLost;
  }
  overflowing_ = false;
  DAT_EVENT& queued = ring_.next();
  queued = event;
  queued.evd_handle = this;
  commit_event();
  return Push::kQueued;
}

Upcall Evd::post(const DAT_EVENT& event) noexcept {
  if (merged_ && ends_connection(event)) {
    const ScopedLock lock(cq_->lock);
    move_to_ring(kAll);
  }
  const Push result = push(event, IfFull::kLose);
  if (result == Push::kQueued) return notify();
  if (result == Push::kLostAgain) return Upcall();
  static constinit trace::RateLimit limit;
  UDAPL_TRACE_LIMITED(limit, kError, "EVD %p is full, event %s is lost", static_cast<void*>(this),
                      event_name(event.event_number));
  // The overflow of an async EVD cannot be reported anywhere.
  if ((flags_ & DAT_EVD_ASYNC_FLAG) != 0) return Upcall();
  return Upcall::overflow(*this);
}

Upcall Evd::try_post(const DAT_EVENT& event, bool* queued) noexcept {
  *queued = push(event, IfFull::kRefuse) == Push::kQueued;
  if (*queued) return notify();
  UDAPL_TRACE(kNormal, "EVD %p is full, event %s is refused", static_cast<void*>(this),
              event_name(event.event_number));
  return Upcall();
}

void Evd::keep(PeerDataList data) noexcept {
  PeerDataList unused;  // destroyed without the lock
  const ScopedLock lock(ring_lock_);
  unused = kept_.keep(std::move(data), ring_.popped() + ring_.size(), ring_.popped());
}

Upcall Evd::notify() noexcept {
  WaitWord::Wakeup wakeup;  // wakes after the unlock, because the woken thread takes the lock
  const ScopedLock lock(notify_lock_);
  if (trace::enabled(trace::kDetail)) [[unlikely]]
    point::wake(*this, waited() ? "wakes its waiter" : cno_ ? "triggers its CNO" : "no waiter");
  if (waited()) {
    notified_.store(true, std::memory_order_release);  // pairs with the waiter's exchange
    wakeup = word_.change();
    return Upcall();
  }
  if (cno_ && enabled_.load(std::memory_order_relaxed)) return cno_->trigger(*this, wakeup);
  return Upcall();
}

void Evd::Sink::on_notify() noexcept {
  // The agent may free the EVD: it must not be accessed afterwards.
  evd.notify().run();
}

// Needs no lock: if the word is that of this EVD, the calling thread is its waiter.
bool Evd::Sink::notify_waiter(WaitWord& word) noexcept {
  if (&word != &evd.word_) return false;
  if (trace::enabled(trace::kDetail)) [[unlikely]]
    point::wake(evd, "wakes its waiter");
  evd.notified_.store(true, std::memory_order_release);  // as in notify()
  word.signal();
  return true;
}

void Evd::Sink::on_overflow() noexcept {
  UDAPL_TRACE(kError, "EVD %p: completion queue overflowed", static_cast<void*>(&evd));
  Upcall upcall = Upcall::overflow(evd);
  const ScopedLock lock(evd.notify_lock_);
  evd.lost_completions_ = true;
  evd.update_wait_gate();
  evd.word_.signal();
}

// ---- state -------------------------------------------------------------------------------------

Cno* Evd::cno() const noexcept {
  const ScopedLock lock(notify_lock_);
  return cno_.get();
}

// Arms the CQ if its completions trigger the CNO; Cno arms it again when a trigger is consumed.
void Evd::arm_for_cno() noexcept {
  if (!cno_ || !needs_arming()) return;
  if (trace::enabled(trace::kDetail)) [[unlikely]]
    point::arm(*this, "for its CNO");
  cno_->arm(*cq_);
}

void Evd::set_enabled(bool enabled) noexcept {
  const ScopedLock lock(notify_lock_);
  enabled_.store(enabled, std::memory_order_relaxed);
  if (!enabled && cno_ && cq_ != nullptr) cno_->hide(*cq_);
  arm_for_cno();
}

void Evd::set_waitable(bool waitable) noexcept {
  const ScopedLock lock(notify_lock_);
  waitable_ = waitable;
  update_wait_gate();
  if (waitable || !waited()) return;
  must_return_ = true;
  word_.signal();
}

void Evd::set_cno(Cno* cno) {
  const ScopedLock lock(notify_lock_);
  if (cno == cno_.get()) return;
  if (cno != nullptr) cno->attach(*this);
  if (cno_) {
    cno_->detach(*this);
    if (cq_ != nullptr) cno_->hide(*cq_);
  }
  cno_ = Use<Cno>(cno);
  arm_for_cno();
}

void Evd::detach_from_cno() noexcept {
  const ScopedLock lock(notify_lock_);
  if (cno_) cno_->detach_freed(*this);
  cno_ = Use<Cno>();
}

void Evd::abort() noexcept {
  const ScopedLock lock(notify_lock_);
  aborted_ = true;
  update_wait_gate();
  word_.signal();
}

Status Evd::check_free() const noexcept {
  if (uses.load(std::memory_order_acquire) != 0)
    UDAPL_REFUSE(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_IN_USE, "EVD %p is in use",
                 static_cast<const void*>(this));
  // waited() is read first, because release_waiter() increments leaving_ before it clears kWaited.
  if (waited() || leaving_.load(std::memory_order_acquire) != 0)
    UDAPL_REFUSE(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_WAITER, "EVD %p has a waiter",
                 static_cast<const void*>(this));
  return Status();
}

// The CQ is resized without a lock, since that may block. Events that arrive meanwhile are kept: if
// they do not fit into the new ring, the old ring stays in use.
Status Evd::resize(DAT_COUNT qlen) {
  const auto capacity = static_cast<std::size_t>(qlen);
  if (waited())
    UDAPL_REFUSE(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_WAITER, "EVD %p has a waiter",
                 static_cast<void*>(this));
  if (count_all() > capacity)
    UDAPL_REFUSE(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_IN_USE,
                 "EVD %p: more than %d events are queued", static_cast<void*>(this), qlen);
  EventRing ring(capacity);
  if (merged_) reserve_early(capacity);
  if (cq_ != nullptr)
    if (const Status status = cq_->resize(qlen); !status.ok()) return status;
  const ScopedLock lock(ring_lock_);
  if (ring_.size() <= capacity) ring_.move_into(ring);
  qlen_.store(qlen, std::memory_order_relaxed);
  return Status();
}

}  // namespace udapl::dapl
