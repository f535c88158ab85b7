// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/call.h"
#include "common/call_probe.h"

#include <atomic>
#include <bit>
#include <cstdint>

namespace udapl::transport {

// Makes the sink calls of one object (sink.h): by deferred calls of the transport's driver only, so
// without locks, one at a time. An object numbers its sink calls (0..30) and posts the numbers; of
// several that wait the lowest is made first. What a call carries is kept in the object.
//
// Deferred(driver, call): post() makes the driver call once; close() takes that back, and waits for
// a call that runs in another thread.
//
// Thread-safe. A member of the object whose calls it makes; declare it last, or close() it first.
template <class Deferred>
class SinkGate {
 private:
  static constexpr std::uint32_t kClosed = 1U << 31;

 public:
  // Makes sink call number `call` of `object`, as its last act: the sink may destroy the object.
  using Deliver = void (*)(void* object, unsigned call) noexcept;

  template <class Driver>
  SinkGate(Driver& driver, Deliver deliver, void* object) noexcept
      : deliver_(deliver),
        object_(object),
        deferred_(driver, Call::to<&SinkGate::make_next_call>(this)) {}
  ~SinkGate() { close(); }

  // SinkGate(driver, SinkGate::to<&Qp::deliver, Qp>(), this)
  template <auto Member, class T>
  [[nodiscard]] static Deliver to() noexcept {
    return [](void* object, unsigned call) noexcept { (static_cast<T*>(object)->*Member)(call); };
  }

  // Any lock may be held. Posting a call that waits already changes nothing. Not concurrently with
  // close().
  void post(unsigned call) noexcept {
    const std::uint32_t before = waiting_.fetch_or(1U << call, std::memory_order_acq_rel);
    if (before == 0) deferred_.post();
  }

  // The calls of the set (1 << number) that wait will not be made; one that has begun in another
  // thread may still run. Any lock may be held.
  void cancel(std::uint32_t calls) noexcept {
    waiting_.fetch_and(~calls | kClosed, std::memory_order_acq_rel);
  }

  // As cancel(), by default of all calls, and waits for one that runs in another thread: hold no
  // lock that the sink could want. What is posted afterwards is made.
  void drain(std::uint32_t calls = ~kClosed) noexcept {
    cancel(calls & ~kClosed);
    deferred_.close();
    if ((waiting_.load(std::memory_order_acquire) & ~kClosed) != 0) deferred_.post();
  }

  // No call begins any more. Waits for one that runs in another thread: hold no lock that the sink
  // could want. Idempotent.
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
