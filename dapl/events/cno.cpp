// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/events/cno.h"

#include "common/errno_text.h"
#include "common/not_cancelled.h"
#include "common/tracing/trace.h"
#include "dapl/events/evd.h"
#include "dapl/objects/boundary.h"
#include "dapl/objects/calls.h"
#include "dapl/objects/ia.h"
#include "dapl/objects/refuse.h"
#include "dapl/objects/require.h"
#include "dapl/objects/trace_points.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace udapl::dapl {

namespace {

constexpr DAT_OS_WAIT_PROXY_AGENT kNoAgent{nullptr, nullptr};

}  // namespace

Cno::Cno(Ia& owner, const DAT_OS_WAIT_PROXY_AGENT& agent, Fd fd,
         std::unique_ptr<transport::EventDescriptor> shown) noexcept
    : ObjectHeader(owner.provider, kType, &owner),
      agent_(agent),
      fd_(std::move(fd)),
      shown_(std::move(shown)),
      has_agent_(agent.proxy_agent_func != nullptr) {}

Cno::~Cno() { ia->agents().cancel(this); }

// ---- for Evd -----------------------------------------------------------------------------------

void Cno::attach(Evd& evd) {
  const ScopedLock lock(lock_);
  evds_.push_back(&evd);
  evd.cno_turn.store(0, std::memory_order_relaxed);
}

void Cno::remove(Evd& evd) noexcept {
  evds_.erase(std::remove(evds_.begin(), evds_.end(), &evd), evds_.end());
}

void Cno::detach(Evd& evd) noexcept {
  const ScopedLock lock(lock_);
  remove(evd);
}

void Cno::detach_freed(Evd& evd) noexcept {
  const ScopedLock lock(lock_);
  remove(evd);
  replace(evd);
  if (evds_.empty()) release_waiters();
}

void Cno::forget(const Evd& evd) noexcept {
  const ScopedLock lock(lock_);
  if (!aborted_) replace(evd);
}

Evd* Cno::find_pending() noexcept {
  const auto found =
      std::find_if(evds_.begin(), evds_.end(), [](Evd* evd) { return evd->has_pending(); });
  return found == evds_.end() ? nullptr : *found;
}

// Arms the CQs before it looks for events, so that an event that arrives later notifies.
void Cno::replace(const Evd& evd) noexcept {
  if (latest_ == &evd) latest_ = nullptr;
  if (!Upcall::is_queued(*ia, this, evd)) return;
  arm_all();
  // trigger() has removed the agent, which is called once. A dropped call does not count: the agent
  // is installed again.
  if (Upcall::redirect(*ia, this, evd, find_pending()) && agent_.proxy_agent_func == nullptr)
    put_agent(called_);
}

void Cno::put_agent(const DAT_OS_WAIT_PROXY_AGENT& agent) noexcept {
  agent_ = agent;
  has_agent_.store(agent.proxy_agent_func != nullptr, std::memory_order_seq_cst);
}

Upcall Cno::trigger(Evd& evd, WaitWord::Wakeup& wakeup) noexcept {
  const ScopedLock lock(lock_);
  if (aborted_) return Upcall();
  if (trace::enabled(trace::kDetail)) [[unlikely]]
    point::wake(*this, "triggered");
  latest_ = &evd;
  if (evd.cno_turn.load(std::memory_order_relaxed) == 0)
    evd.cno_turn.store(++turns_, std::memory_order_relaxed);
  again_ = false;
  if (!triggered_) wakeup = word_.change();
  set_triggered(true);
  if (agent_.proxy_agent_func == nullptr) return Upcall();
  called_ = agent_;
  put_agent(kNoAgent);
  Upcall upcall(*ia, called_, &evd, this);
  // If no thread waits, the agent consumes the trigger, so that the next event triggers again.
  if (waiters_ == 0) consume_trigger();
  return upcall;
}

void Cno::set_triggered(bool triggered) noexcept {
  if (triggered == triggered_) return;
  triggered_ = triggered;
  if (!fd_.valid()) return;
  const bool signalled = triggered && takers_ == 0;
  if (signalled == std::exchange(signalled_, signalled)) return;
  const NotCancelled scope;
  // The counter is 0 or 1 and the descriptor does not block, so neither call can fail or wait.
  std::uint64_t count = 1;
  const ssize_t done = signalled ? ::write(fd_.get(), &count, sizeof count)
                                 : ::read(fd_.get(), &count, sizeof count);
  if (done != sizeof count)
    UDAPL_TRACE(kError, "CNO %p: event descriptor: %s", static_cast<void*>(this),
                ErrnoText(errno).c_str());
}

// A completion that arrives after the arming notifies and thus triggers again; one that arrived
// before belongs to the trigger that is being consumed.
Evd* Cno::consume_trigger() noexcept {
  arm_all();
  set_triggered(false);
  for (Evd* const evd : evds_) evd->cno_turn.store(0, std::memory_order_relaxed);
  if (latest_ == nullptr) return find_pending();
  return std::exchange(latest_, nullptr);
}

Evd* Cno::consume_turn(WaitWord::Wakeup& wakeup) noexcept {
  const auto other_has_turn = [latest = latest_](const Evd* evd) {
    return evd != latest && evd->cno_turn.load(std::memory_order_relaxed) != 0;
  };
  if (std::ranges::none_of(evds_, other_has_turn)) return consume_trigger();
  arm_all();
  Evd* reported = next_in_turn();
  if (reported == nullptr) reported = latest_;
  latest_ = nullptr;
  const auto is_reported = [reported](const Evd* evd) { return evd == reported; };
  if (const auto found = std::ranges::find_if(evds_, is_reported); found != evds_.end())
    (*found)->cno_turn.store(0, std::memory_order_relaxed);
  // A CNO with a descriptor loses its trigger with each consumption, as by dat_cno_trigger.
  again_ = !fd_.valid() && next_in_turn() != nullptr;
  set_triggered(again_);
  if (again_ && waiters_ > 1) wakeup = word_.change();
  return reported;
}

Evd* Cno::next_in_turn() noexcept {
  Evd* first = nullptr;
  std::uint64_t least = 0;
  for (Evd* const evd : evds_) {
    const std::uint64_t turn = evd->cno_turn.load(std::memory_order_relaxed);
    if (turn == 0 || (first != nullptr && turn > least)) continue;
    if (evd->has_pending()) {
      first = evd;
      least = turn;
    } else {
      evd->cno_turn.store(0, std::memory_order_relaxed);
    }
  }
  return first;
}

void Cno::arm_all() noexcept {
  for (Evd* const evd : evds_)
    if (evd->needs_arming()) arm_locked(*evd->cq());
}

void Cno::arm_locked(transport::Cq& cq) const noexcept {
  if (shown_ != nullptr && waiters_ == 0)
    cq.arm_for_descriptor(*shown_);
  else if (fd_.valid() || has_agent_.load(std::memory_order_seq_cst))
    cq.arm();
  else if (place_ != nullptr)
    cq.arm_for_place(*place_);
  else
    cq.arm_for_waiters();
}

void Cno::arm(transport::Cq& cq) const noexcept {
  const ScopedLock lock(lock_);
  arm_locked(cq);
}

void Cno::hide(transport::Cq& cq) const noexcept {
  if (shown_ == nullptr) return;
  const ScopedLock lock(lock_);
  cq.arm();
}

void Cno::release_waiters() noexcept {
  ++releases_;
  word_.signal();
}

// ---- for the consumer --------------------------------------------------------------------------

// While takers_ is not 0, a trigger does not signal the descriptor: this call consumes it.
Evd* Cno::consume() noexcept {
  if (shown_ != nullptr) {
    {
      const ScopedLock lock(lock_);
      ++takers_;
    }
    shown_->take_events();
  }
  if (transport::WaitPlace* const place = current_place(); place != nullptr) place->take_events();
  const ScopedLock lock(lock_);
  if (shown_ != nullptr) --takers_;
  return triggered_ ? consume_trigger() : nullptr;
}

Status Cno::set_agent(const DAT_OS_WAIT_PROXY_AGENT& agent) noexcept {
  if (fd_.valid())
    UDAPL_REFUSE(DAT_INVALID_STATE, DAT_NO_SUBTYPE, "CNO %p is tied to a descriptor",
                 static_cast<void*>(this));
  // A caller that removes an agent does not expect further calls of it.
  if (agent.proxy_agent_func == nullptr) ia->agents().cancel(this);
  const ScopedLock lock(lock_);
  put_agent(agent);
  // The CQs may be disarmed by an older trigger that was never consumed, or armed for waiters only;
  // the agent must be called for the next event nevertheless.
  arm_all();
  return Status();
}

void Cno::query(DAT_CNO_PARAM* param) const noexcept {
  const ScopedLock lock(lock_);
  param->proxy.agent = kNoAgent;
  if (fd_.valid()) {
    param->proxy_type = DAT_PROXY_TYPE_FD;
    param->proxy.fd = descriptor();
  } else {  // the agent may be none (docs/compatibility.md C132)
    param->proxy_type = DAT_PROXY_TYPE_AGENT;
    param->proxy.agent = agent_;
  }
}

Status Cno::check_free() const noexcept {
  const ScopedLock lock(lock_);
  if (uses.load(std::memory_order_acquire) != 0 || waiters_ != 0)
    UDAPL_REFUSE(DAT_INVALID_STATE, DAT_INVALID_STATE_CNO_IN_USE, "CNO %p: %d waiters",
                 static_cast<const void*>(this), waiters_);
  return Status();
}

void Cno::abort() noexcept {
  const ScopedLock lock(lock_);
  aborted_ = true;
  owes_last_call_ = agent_.proxy_agent_func != nullptr;
  release_waiters();
}

Upcall Cno::last_call() noexcept {
  const ScopedLock lock(lock_);
  if (!std::exchange(owes_last_call_, false) || agent_.proxy_agent_func == nullptr) return Upcall();
  return Upcall(*ia, std::exchange(agent_, kNoAgent), nullptr, this);
}

// ---- table entries -----------------------------------------------------------------------------

namespace calls {

DAT_RETURN cno_create(DAT_IA_HANDLE ia_handle, DAT_OS_WAIT_PROXY_AGENT agent, DAT_CNO_HANDLE* cno) {
  return boundary([&]() -> Status {
    const auto ia = require<Ia>(ia_handle);
    if (ia == nullptr) return ia.refusal();
    if (cno == nullptr)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3, "null CNO handle pointer");
    *cno = &ia->adopt(make_object<Cno>(*ia, agent, Fd(), nullptr));
    return Status();
  });
}

DAT_RETURN cno_fd_create(DAT_IA_HANDLE ia_handle, DAT_FD* fd, DAT_CNO_HANDLE* cno) {
  return boundary([&]() -> Status {
    const auto ia = require<Ia>(ia_handle);
    if (ia == nullptr) return ia.refusal();
    if (fd == nullptr)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2, "null descriptor pointer");
    if (cno == nullptr)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3, "null CNO handle pointer");
    Fd event = Fd::made(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!event.valid())
      UDAPL_REFUSE(DAT_INSUFFICIENT_RESOURCES, DAT_NO_SUBTYPE,
                   "creating an event descriptor failed: %s", ErrnoText(errno).c_str());
    auto shown = ia->adapter().create_event_descriptor(event.get());
    Cno& made = ia->adopt(make_object<Cno>(*ia, kNoAgent, std::move(event), std::move(shown)));
    *fd = made.descriptor();
    *cno = &made;
    return Status();
  });
}

DAT_RETURN cno_modify_agent(DAT_CNO_HANDLE handle, DAT_OS_WAIT_PROXY_AGENT agent) {
  return boundary([&]() -> Status {
    const auto cno = require<Cno>(handle);
    if (cno == nullptr) return cno.refusal();
    return cno->set_agent(agent);
  });
}

DAT_RETURN cno_query(DAT_CNO_HANDLE handle, DAT_CNO_PARAM_MASK, DAT_CNO_PARAM* param) {
  return boundary([&]() -> Status {
    const auto cno = require<Cno>(handle);
    if (cno == nullptr) return cno.refusal();
    if (param == nullptr) UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3, "null parameters");
    param->ia_handle = cno->ia->handle();
    cno->query(param);
    return Status();
  });
}

DAT_RETURN cno_trigger(DAT_CNO_HANDLE handle, DAT_EVD_HANDLE* evd) {
  return boundary([&]() -> Status {
    const auto cno = require<Cno>(handle);
    if (cno == nullptr) return cno.refusal();
    if (evd == nullptr)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2, "null EVD handle pointer");
    *evd = cno->consume();
    return Status();
  });
}

DAT_RETURN cno_free(DAT_CNO_HANDLE handle) {
  return boundary([&]() -> Status {
    const auto cno = require<Cno>(handle);
    if (cno == nullptr) return cno.refusal();
    if (const Status status = cno->check_free(); !status.ok()) return status;
    cno->ia->destroy(*cno);
    return Status();
  });
}

}  // namespace calls
}  // namespace udapl::dapl
