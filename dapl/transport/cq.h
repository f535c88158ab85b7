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
// A thread may be polling the EVD while another one destroys EVD and CQ. Therefore the lock can be
// used, and progress() of a final class called, for some time after the destruction.
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
  // no lock may be held. Does nothing if another thread is doing that work, if called from a sink,
  // and in most calls of a long series that finds nothing. A no-op where hardware does the work.
  // Returns false if it did nothing: the caller then need not poll again.
  virtual bool progress() noexcept = 0;

  // Requests one CqSink::on_notify when the next notification completion arrives. These are all
  // failed completions, and the successful ones without kQuiet; of the receives of a QP with
  // solicited_only, only the solicited ones. Completions that have arrived before do not notify:
  // poll after arming. Arming an armed CQ has no effect.
  virtual void arm() noexcept = 0;
  // Like arm(), but only threads in Adapter::block() need the notification: while no thread is
  // there, it may be delayed until the next one enters.
  virtual void arm_for_waiters() noexcept { arm(); }
  // Like arm(), but only the calling thread needs the notification; it calls block() next.
  virtual void arm_to_block() noexcept { arm_for_waiters(); }
  // Sleeps as Adapter::block() does, if only this CQ, or a thread that changes the word, can end
  // the wait. Otherwise does nothing and returns nullopt: the caller then calls Adapter::block().
  virtual std::optional<WaitResult> block(WaitWord& word, std::uint32_t seen,
                                          const Deadline& deadline) noexcept {
    (void)word;
    (void)seen;
    (void)deadline;
    return std::nullopt;
  }
  // Like arm(), but only a thread that sleeps on this descriptor needs the notification: it may be
  // delayed until EventDescriptor::take_events() is called. Effective until the next call of arm().
  virtual void arm_for_descriptor(EventDescriptor& descriptor) noexcept {
    (void)descriptor;
    arm();
  }
  // Like arm(), but only the thread that sleeps in WaitPlace::block(), or calls
  // WaitPlace::take_events(), needs the notification, unless the place is given up.
  virtual void arm_for_place(WaitPlace& place) noexcept {
    (void)place;
    arm_for_waiters();
  }
  // Called after arm() by a consumer that has polled since then and has no use for a wake-up before
  // `count` more notification completions have arrived. The CQ may then notify only for the last of
  // them, if none has arrived yet. Effective until the next arm().
  virtual void await_several(std::size_t count) noexcept { (void)count; }

  // Completions waiting now. A snapshot.
  [[nodiscard]] virtual int size() noexcept UDAPL_REQUIRES(lock) = 0;

  // Changes the capacity, without the room for QpInit::max_unseen, to at least `depth` without
  // losing completions. INVALID_STATE if more than `depth` are waiting.
  virtual Status resize(int depth) = 0;
  [[nodiscard]] virtual int depth() const noexcept = 0;
};

}  // namespace udapl::transport
