// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/result.h"
#include "common/spin_lock.h"
#include "dapl/transport/types.h"

namespace udapl::transport {

// A completion queue: where QPs report finished work. Thread-safe. Owned by an EVD, which outlives
// every QP that feeds it.
class Cq {
 public:
  virtual ~Cq() = default;

  // Guards the completions that have not been handed out. Whoever polls holds it, and may guard
  // with it what becomes of the completions; the transport takes it for looks of its own and while
  // it removes a QP. Of our locks only those of the transport are taken inside it.
  SpinLock lock;

  // Moves up to `max` completions, oldest first, to `out`; returns how many (0: none).
  // Non-blocking. After a QP was destroyed none of its completions is returned any more.
  virtual int poll(Completion* out, int max) noexcept UDAPL_REQUIRES(lock) = 0;

  // Drives the transport's work with the caller's thread, without blocking; may call sinks, so the
  // caller holds no lock. Returns at once when another thread is at it, when called from a sink, and
  // in a long row of calls that find nothing most of the time. A no-op where hardware does the work.
  // Returns false if it did nothing: a poll() before it need not be repeated.
  virtual bool progress() noexcept = 0;

  // Asks for one CqSink::on_notify when a notification completion arrives from now on: every failed
  // one, every successful one that is not kQuiet and, of a QP with solicited_only, only solicited
  // receives. Completions that are already there do not notify: poll after arming. Arming an armed
  // CQ changes nothing.
  virtual void arm() noexcept = 0;

  // Completions waiting now. A snapshot.
  [[nodiscard]] virtual int size() noexcept UDAPL_REQUIRES(lock) = 0;

  // Changes the capacity to at least `depth`. Loses nothing. INVALID_STATE when more than `depth`
  // are waiting.
  virtual Status resize(int depth) = 0;
  [[nodiscard]] virtual int depth() const noexcept = 0;
};

}  // namespace udapl::transport
