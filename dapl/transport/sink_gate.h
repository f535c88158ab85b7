// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/call.h"
#include "common/call_probe.h"

#include <atomic>
#include <bit>
#include <cstdint>

namespace udapl::transport {

// Makes the sink calls of one object (sink.h). It makes them only from deferred calls of the
// transport, hence by its driving thread, without locks and one at a time. An object numbers its
// sink calls (0..30) and posts the numbers; of several pending calls the lowest is made first. The
// arguments of a call are stored in the object.
//
// Deferred(scheduler, call): post() makes the driving thread call `call` once; close() cancels
// that, and waits for a call that runs in another thread. post_for_poll(): a call for which no
// thread is woken that polls the transport anyway.
//
// Thread-safe. A member of the object whose calls it makes; declare it last, or close() it first.
template <class Deferred>
class SinkGate {
 private:
  static constexpr std::uint32_t kClosed = 1U << 31;

 public:
  // Makes sink call number `call` of `object`, as its last act: the sink may destroy the object.
  using Deliver = void (*)(void* object, unsigned call) noexcept;

  template <class Scheduler>
  SinkGate(Scheduler& scheduler, Deliver deliver, void* object) noexcept
      : deliver_(deliver),
        object_(object),
        deferred_(scheduler, Call::to<&SinkGate::make_next_call>(this)) {}
  ~SinkGate() { close(); }

  // SinkGate(scheduler, SinkGate::to<&Qp::deliver, Qp>(), this)
  template <auto Member, class T>
  [[nodiscard]] static Deliver to() noexcept {
    return [](void* object, unsigned call) noexcept { (static_cast<T*>(object)->*Member)(call); };
  }

  // Any lock may be held. Posting a call that is already pending changes nothing. Must not run
  // concurrently with close().
  void post(unsigned call) noexcept {
    const std::uint32_t before = waiting_.fetch_or(1U << call, std::memory_order_acq_rel);
    if (before == 0) deferred_.post();
  }

  // Like post(), for a call that may wait until the consumer polls or waits. hurry() makes one that
  // is pending follow as after post().
  void post_for_poll(unsigned call) noexcept {
    const std::uint32_t before = waiting_.fetch_or(1U << call, std::memory_order_acq_rel);
    if (before == 0) deferred_.post_for_poll();
  }
  void hurry() noexcept {
    if ((waiting_.load(std::memory_order_acquire) & ~kClosed) != 0) deferred_.hurry();
  }

  // Cancels the pending calls whose bits (1 << number) are set in `calls`; one that has begun in
  // another thread may still run. Any lock may be held.
  void cancel(std::uint32_t calls) noexcept {
    waiting_.fetch_and(~calls | kClosed, std::memory_order_acq_rel);
  }

  // Like cancel(), by default for all calls, but also waits for a call that runs in another thread:
  // hold no lock that the sink could acquire. Calls posted afterwards are made.
  void drain(std::uint32_t calls = ~kClosed) noexcept {
    cancel(calls & ~kClosed);
    deferred_.close();
    if ((waiting_.load(std::memory_order_acquire) & ~kClosed) != 0) deferred_.post();
  }

  // No call begins after this. Waits for a call that runs in another thread: hold no lock that the
  // sink could acquire. Idempotent.
  void close() noexcept {
    waiting_.store(kClosed, std::memory_order_release);
    deferred_.close();
  }

 private:
  void make_next_call() noexcept {
    std::uint32_t waiting = waiting_.load(std::memory_order_acquire) & ~kClosed;
    if (waiting == 0) return;
    const auto call = static_cast<unsigned>(std::countr_zero(waiting));
    waiting = waiting_.fetch_and(~(1U << call), std::memory_order_acq_rel) & ~kClosed;
    if ((waiting & ~(1U << call)) != 0) deferred_.post();
    if ((waiting & 1U << call) == 0) return;  // cancelled in between
    about_to_call(Decided::kSinkCall, object_);
    deliver_(object_, call);
  }

  const Deliver deliver_;
  void* const object_;
  std::atomic<std::uint32_t> waiting_{0};
  Deferred deferred_;
};

}  // namespace udapl::transport
