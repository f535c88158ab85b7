// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/events/cno.h"
#include "dapl/events/evd.h"
#include "dapl/events/wait_cancellably.h"
#include "dapl/objects/calls.h"
#include "dapl/objects/ia.h"
#include "dapl/objects/refuse.h"
#include "dapl/objects/require.h"

#include <algorithm>
#include <utility>

// dat_cno_wait.
namespace udapl::dapl {

bool Cno::take(unsigned releases, DAT_EVD_HANDLE* evd) noexcept {
  WaitWord::Wakeup wakeup;
  const ScopedLock lock(lock_);
  // The events of the EVDs that have turns may have been dequeued since the last wait.
  if (triggered_ && again_ && next_in_turn() == nullptr) set_triggered(false);
  if (triggered_ && !aborted_)
    *evd = consume_turn(wakeup);
  else if (aborted_ || releases_ != releases)
    *evd = DAT_HANDLE_NULL;
  else
    return false;
  return true;
}

unsigned Cno::enter() noexcept {
  WaitWord::Wakeup wakeup;
  const ScopedLock lock(lock_);
  // With a second waiter, the first one wakes up and leaves the place for Adapter::block().
  if (++waiters_ > 1 && place_ != nullptr && place_->give_up()) wakeup = word_.change();
  if (shown_ != nullptr) arm_all();  // not for the descriptor only: this thread waits as well
  return releases_;
}

void Cno::leave() noexcept {
  const ScopedLock lock(lock_);
  --waiters_;
  if (shown_ != nullptr) arm_all();
}

// A thread that already waits in Adapter::block() is woken and moves to the place. There it would
// miss the events of a CQ that was armed before for waiters in Adapter::block(): so no place is
// created once an attached EVD has a CQ.
transport::WaitPlace* Cno::place() {
  WaitWord::Wakeup wakeup;
  const ScopedLock lock(lock_);
  const auto has_cq = [](const Evd* evd) { return evd->cq() != nullptr; };
  if (place_ != nullptr || fd_.valid() || agent_.proxy_agent_func != nullptr || waiters_ > 1 ||
      std::ranges::any_of(evds_, has_cq))
    return place_.get();
  place_ = ia->adapter().create_wait_place();
  if (place_ != nullptr && waiters_ == 1) wakeup = word_.change();
  return place_.get();
}

WaitResult Cno::block(std::uint32_t seen, const Deadline& deadline) noexcept {
  if (transport::WaitPlace* const place = current_place(); place != nullptr)
    if (const auto result = place->block(word_, seen, deadline)) return *result;
  return ia->adapter().block(word_, seen, deadline);
}

// One call of dat_cno_wait, used by one thread. It counts as a waiter from the first call of
// sleep() until end(), or until the thread is cancelled: also between two calls of sleep(), when
// the thread checks whether it is cancelled.
class Cno::Wait {
 public:
  Wait() = default;
  ~Wait() { end(); }
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;

  // Blocks. kWaitAgain: call again, nothing has happened for some seconds.
  [[nodiscard]] DAT_RETURN sleep(Cno& cno, const Deadline& deadline, DAT_EVD_HANDLE* evd) noexcept {
    if (cno_ == nullptr) {
      visit_.begin(cno.ia->visits());
      releases_ = cno.enter();
      cno_ = &cno;
    }
    DAT_RETURN code = DAT_SUCCESS;
    while (true) {
      const std::uint32_t seen = cno.word_.value();
      if (cno.take(releases_, evd)) return DAT_SUCCESS;
      if (code != DAT_SUCCESS) break;
      const WaitResult result = cno.block(seen, deadline);
      if (visit_.left()) [[unlikely]] {
        code = dat_error(DAT_ABORT);
        break;
      }
      switch (result) {
        case WaitResult::kTimedOut:
          // Without class bits, as existing programs expect (docs/compatibility.md C21).
          code = DAT_QUEUE_EMPTY;
          break;
        case WaitResult::kSleptLong:
          code = kWaitAgain;
          break;
        case WaitResult::kInterrupted:  // docs/compatibility.md C23
        case WaitResult::kChanged:
          if (expired(deadline)) code = DAT_QUEUE_EMPTY;
          break;
      }
    }
    *evd = DAT_HANDLE_NULL;
    return code;
  }
  void end() noexcept {
    if (cno_ == nullptr) return;
    Cno& cno = *std::exchange(cno_, nullptr);
    if (visit_.left()) [[unlikely]]
      return;
    cno.leave();
    visit_.end();
  }

 private:
  Cno* cno_ = nullptr;  // not null while this counts as a waiter
  WaitVisit visit_;
  unsigned releases_ = 0;
};

namespace calls {

DAT_RETURN cno_wait(DAT_CNO_HANDLE handle, DAT_TIMEOUT timeout, DAT_EVD_HANDLE* evd) {
  Cno::Wait wait;
  return wait_cancellably(
      timeout,
      [&](const Deadline& deadline) -> Status {
        const auto cno = require<Cno>(handle);
        if (cno == nullptr) return cno.refusal();
        if (evd == nullptr)
          UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3, "null EVD handle pointer");
        return Status(wait.sleep(*cno, deadline, evd));
      },
      [&](DAT_RETURN) { wait.end(); });
}

}  // namespace calls
}  // namespace udapl::dapl
