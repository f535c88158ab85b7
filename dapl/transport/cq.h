// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/quarantine.h"
#include "common/result.h"
#include "common/spin_lock.h"
#include "common/wait_word.h"
#include "dapl/transport/types.h"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace udapl::transport {

class EventDescriptor;
class WaitPlace;

// A completion queue: where QPs report finished work. Thread-safe. Owned by an EVD, which outlives
// every QP that feeds it.
//
// A thread may be polling the EVD while another one destroys both. Therefore the lock can be used,
// and progress() of a final class called, for some time after the destruction.
class Cq {
 public:
  virtual ~Cq() = default;
  static void operator delete(void* memory) noexcept { Quarantine<Cq>::release(memory); }
  static void operator delete(void* memory, std::align_val_t alignment) noexcept {
    Quarantine<Cq>::release(memory, alignment);
  }

  // Guards the completions that have not been returned by poll(). Must be held while polling; the
  // caller may guard its own processing of the completions with it. The transport acquires it for
  // its own checks and while it removes a QP. Only locks of the transport may be acquired inside
  // it.
  SpinLock lock;

  // Moves up to `max` completions, oldest first, to `out`, and returns their number. Non-blocking.
  // Returns no completion of a QP that has been destroyed.
  virtual int poll(Completion* out, int max) noexcept UDAPL_REQUIRES(lock) = 0;

  // Does pending work of the transport in the caller's thread, without blocking; may call sinks, so
  // no lock may be held. Does nothing while another thread does it, when called from a sink, and in
  // most of a long row of calls that find nothing. A no-op where hardware does the work. Returns
  // false if it did nothing: then an earlier poll() need not be repeated.
  virtual bool progress() noexcept = 0;

  // Requests one CqSink::on_notify when the next notification completion arrives: every failed one,
  // every successful one that is not kQuiet, and for a QP with solicited_only only solicited
  // receives. Completions that have arrived before do not notify: poll after arming. Arming an
  // armed CQ has no effect.
  virtual void arm() noexcept = 0;
  // The same, but the notification concerns only threads in Adapter::block(): while none is there,
  // it may come as late as the next one does.
  virtual void arm_for_waiters() noexcept { arm(); }
  // The same, but the notification concerns only the caller, which goes on to call block().
  virtual void arm_to_block() noexcept { arm_for_waiters(); }
  // Sleeps as Adapter::block() does, if nothing but this CQ, or a thread that changes the word, can
  // end the wait. Otherwise returns nothing, and does nothing: then that is to be called.
  virtual std::optional<WaitResult> block(WaitWord& word, std::uint32_t seen,
                                          const Deadline& deadline) noexcept {
    (void)word;
    (void)seen;
    (void)deadline;
    return std::nullopt;
  }
  // The same, but the notification concerns only the thread that sleeps on this descriptor: it may
  // be left to EventDescriptor::take_events(). Until the next call of arm().
  virtual void arm_for_descriptor(EventDescriptor& descriptor) noexcept {
    (void)descriptor;
    arm();
  }
  // The same, but the notification concerns only the thread that sleeps in WaitPlace::block() or
  // calls WaitPlace::take_events(), unless the place is given up.
  virtual void arm_for_place(WaitPlace& place) noexcept {
    (void)place;
    arm_for_waiters();
  }
  // Called after arm(), by a consumer that has polled since and wakes in vain before `count` more
  // notification completions have arrived. If none has, the CQ may let all but the last one pass
  // without notifying. Ends with the next arm().
  virtual void await_several(std::size_t count) noexcept { (void)count; }

  // Completions waiting now. A snapshot.
  [[nodiscard]] virtual int size() noexcept UDAPL_REQUIRES(lock) = 0;

  // Changes the capacity, without the room for QpInit::max_unseen, to at least `depth` without
  // losing completions. INVALID_STATE if more than `depth` are waiting.
  virtual Status resize(int depth) = 0;
  [[nodiscard]] virtual int depth() const noexcept = 0;
};

}  // namespace udapl::transport
