// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

namespace udapl::transport {

// A descriptor on which a consumer sleeps outside of the library. It is readable while its signal
// is readable, and while an event is waiting of a CQ that was armed for it
// (Cq::arm_for_descriptor). Completions on such a CQ wake the consumer without the help of another
// thread. Thread-safe. Owned by a CNO; CQs that were created for it may outlive it.
class EventDescriptor {
 public:
  virtual ~EventDescriptor() = default;

  [[nodiscard]] virtual int get() const noexcept = 0;
  // Calls CqSink::on_notify, in the caller's thread, for each CQ whose event is waiting. No lock
  // may be held.
  virtual void take_events() noexcept = 0;
};

}  // namespace udapl::transport
