// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/result.h"
#include "dapl/transport/types.h"

namespace udapl::transport {

// A completion queue: where QPs report finished work. Thread safety: calls of poll and size need
// the caller's serialisation; all else may run at any time. Owned by an EVD, which outlives every
// QP that feeds it.
class Cq {
 public:
  virtual ~Cq() = default;

  // Moves up to `max` completions, oldest first, to `out`; returns how many (0: none).
  // Non-blocking. After a QP was destroyed none of its completions is returned any more.
  virtual int poll(Completion* out, int max) noexcept = 0;

  // Drives the transport's work with the caller's thread, without blocking; may call sinks, so the
  // caller holds no lock. Returns at once when another thread is at it, or when called from a sink.
  // A no-op where hardware does the work.
  virtual void progress() noexcept = 0;

  // Asks for one CqSink::on_notify when a notification completion arrives from now on: every failed
  // one, every successful one that is not kQuiet and, of a QP with solicited_only, only solicited
  // receives. Completions that are already there do not notify: poll after arming. Arming an armed
  // CQ changes nothing.
  virtual void arm() noexcept = 0;
  // The same, where the consumer may poll meanwhile, although he serialises his own calls.
  virtual void arm_beside_consumer() noexcept { arm(); }

  // Completions waiting now. A snapshot.
  [[nodiscard]] virtual int size() const noexcept = 0;

  // Changes the capacity to at least `depth`. Loses nothing. INVALID_STATE when more than `depth`
  // are waiting.
  virtual Status resize(int depth) = 0;
  [[nodiscard]] virtual int depth() const noexcept = 0;
};

}  // namespace udapl::transport
