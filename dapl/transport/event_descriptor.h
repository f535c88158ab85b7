// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

namespace udapl::transport {

// A descriptor on which a consumer sleeps outside of the library: readable while its signal is, and
// while an event of a CQ is waiting that was armed for it (Cq::arm_for_descriptor). So such a
// completion wakes the consumer without the help of another thread. Thread-safe. Owned by a CNO;
// CQs that were made for it may outlive it.
class EventDescriptor {
 public:
  virtual ~EventDescriptor() = default;

  [[nodiscard]] virtual int get() const noexcept = 0;
  // Makes the notifications of those CQs whose events are waiting, in the caller's thread. No lock
  // may be held.
  virtual void take_events() noexcept = 0;
};

}  // namespace udapl::transport
