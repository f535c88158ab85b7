// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <infiniband/verbs.h>

#include "common/annotations.h"
#include "common/fd.h"
#include "common/mutex.h"
#include "common/spin_lock.h"
#include "common/wait_word.h"
#include "dapl/transport/event_descriptor.h"
#include "dapl/transport/wait_place.h"
#include "providers/reactor/reactor.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

namespace udapl::verbs {

class Adapter;
class Cq;

// A completion channel, on which armed CQs report events. The adapter has one, which its reactor
// watches. Each CNO with a descriptor has one. *Own* channels belong to a single CQ or, as a
// *place*, to the CQs of a CNO without a descriptor.
//
// A thread that waits for an EVD whose CQ has an own channel, or for a CNO with a place, sleeps on
// that channel. It does not drive the reactor, which does not watch the channel. When other threads
// need the events as well, the channel is *given up*: from then on the reactor watches it, for good
// (docs/adr/0108, docs/adr/0109).
//
// The channel of a CNO with a descriptor *is shown* while all its CQs are armed only for that
// descriptor. The reactor does not watch it then. It is part of the descriptor, an epoll set, and
// the thread that the descriptor has woken reads the events (docs/adr/0086). When a CQ is armed for
// other threads as well, the reactor watches the channel, and the descriptor shows only what the
// service thread signals.
//
// Thread-safe. Any lock may be held where nothing else is said. Owned by the Adapter, or by its
// descriptor or place and CQs together.
class CqChannel final : private Handler, private WaitWord::Waker {
 public:
  // The adapter's channel. INSUFFICIENT_RESOURCES.
  static Result<std::shared_ptr<CqChannel>> create_watched(Adapter& adapter);
  // A channel whose descriptor is also readable while `signal` is. INSUFFICIENT_RESOURCES.
  static Result<std::shared_ptr<CqChannel>> create_shown(Adapter& adapter, int signal);

  // An own channel of one CQ. Null if the process has too few descriptors.
  static std::shared_ptr<CqChannel> create_own(Adapter& adapter);
  // An own channel for the CQs of a CNO. Null if the process has too few descriptors.
  static std::shared_ptr<CqChannel> create_place(Adapter& adapter);
  // Called by the thread that destroys an adapter.
  static void note_closed_adapter() noexcept;

  CqChannel(Adapter& adapter, ibv_comp_channel* channel) noexcept;  // use create_…()
  ~CqChannel();
  CqChannel(const CqChannel&) = delete;
  CqChannel& operator=(const CqChannel&) = delete;

  [[nodiscard]] ibv_comp_channel* get() const noexcept { return channel_.get(); }
  [[nodiscard]] int descriptor() const noexcept { return set_.get(); }
  [[nodiscard]] bool is_own() const noexcept { return timer_.valid(); }
  [[nodiscard]] bool is_place() const noexcept { return is_place_; }
  [[nodiscard]] bool begins_shown() const noexcept { return set_.valid() || is_own(); }

  // Called when a CQ is about to be armed, or is no longer armed.
  void begin_armed(Cq& cq) noexcept UDAPL_EXCLUDES(armed_lock_);
  void end_armed() noexcept UDAPL_EXCLUDES(armed_lock_);
  // No call of this CQ begins after this. REQUIRES: the CQ is not armed.
  void forget(const Cq& cq) noexcept UDAPL_EXCLUDES(armed_lock_);
  // Reads the event that was left on the channel, if any. Called before a CQ is armed: so no thread
  // waits for a notification by the event that was left, or by another one that is mistaken for it.
  void read_left_event() noexcept {
    if (left_.load(std::memory_order_relaxed) != nullptr) take_left();
  }
  // Called when a CQ was armed whose event is needed by more than waiting threads, or is no longer
  // armed.
  void begin_prompt() noexcept;
  void end_prompt() noexcept { prompt_cqs_.fetch_sub(1, std::memory_order_relaxed); }

  // `shown` belongs to one of the CQs and tells whether that is armed for the descriptor only,
  // which it is at first and when the CQ is destroyed. The channel is shown while all its CQs are.
  // show() returns false if the channel has no descriptor, or cannot be part of it. hide() for an
  // own channel gives it up.
  bool show(std::atomic<bool>& shown) noexcept UDAPL_EXCLUDES(lock_);
  void hide(std::atomic<bool>& shown) noexcept UDAPL_EXCLUDES(lock_);
  // Whether this is an own channel that was given up.
  [[nodiscard]] bool given_up() const noexcept { return given_up_.load(std::memory_order_seq_cst); }
  bool give_up() noexcept UDAPL_EXCLUDES(lock_);  // false: was given up before
  // Called when the descriptor is closed while there are CQs.
  void close_descriptor() noexcept UDAPL_EXCLUDES(lock_);
  // Reads the events that are waiting and calls the sinks of their CQs. No lock may be held.
  void take_events() noexcept;
  // For an own channel: sleeps as Adapter::block() does; nullopt if that is not possible. In a
  // place, also calls the sinks of CQs whose events have arrived, so no lock may be held. The
  // calling thread must not be cancelled in it.
  std::optional<WaitResult> sleep(WaitWord& word, std::uint32_t seen,
                                  const Deadline& deadline) noexcept;

 private:
  struct Close {
    void operator()(ibv_comp_channel* channel) const noexcept { ibv_destroy_comp_channel(channel); }
  };
  enum class Where : std::uint8_t { kDriving, kCaller };

  static Result<std::shared_ptr<CqChannel>> create(Adapter& adapter);
  void on_ready(std::uint32_t) noexcept override { read_events(Where::kDriving); }
  [[nodiscard]] bool can_be_left() const noexcept override {
    return prompt_cqs_.load(std::memory_order_seq_cst) == 0;
  }
  // If the event can only be that of one CQ, notifies for that CQ and leaves the event unread.
  bool leave_input(WaitWord& word) noexcept override;
  void take_left() noexcept;
  // Reads the next event, and returns its CQ or null. Stops watching a channel that fails.
  [[nodiscard]] Cq* next_event() noexcept;
  [[nodiscard]] bool was_left(const Cq& cq) noexcept;
  void read_events(Where where) noexcept;
  void read_events_of_waiter(WaitWord& word) noexcept;
  void wake() noexcept override;  // wakes the thread in sleep()
  void renew_limit(Clock::time_point now) noexcept;
  void end_limit() noexcept;
  static void give_back_descriptors() noexcept;
  [[nodiscard]] bool add_to_set(int fd) noexcept;
  [[nodiscard]] bool watch() noexcept UDAPL_REQUIRES(lock_);
  void unwatch() noexcept UDAPL_REQUIRES(lock_);
  void hide_all() noexcept UDAPL_REQUIRES(lock_);

  Adapter& adapter_;
  Reactor& reactor_;
  const std::unique_ptr<ibv_comp_channel, Close> channel_;
  SpinLock armed_lock_;
  std::atomic<int> armed_cqs_{0};  // CQs whose event may be on the channel; changed under the lock
  Cq* only_armed_ UDAPL_GUARDED_BY(armed_lock_) = nullptr;  // the only armed one, if known
  std::atomic<const Cq*> left_{nullptr};  // the CQ whose event was left; changed under the lock
  std::atomic<int> prompt_cqs_{0};        // CQs whose events more than waiting threads need
  Fd timer_;                              // for an own channel: ends the sleep
  Clock::time_point limit_;  // when the timer fires, unless wake() sets it; for the sleeping thread
  bool is_place_ = false;
  std::atomic<bool> given_up_{false};
  std::atomic<bool> failed_{false};  // the channel cannot be read
  Mutex lock_;
  Fd set_;                                     // the descriptor, or none
  bool open_ UDAPL_GUARDED_BY(lock_) = false;  // there is a descriptor
  bool watched_ UDAPL_GUARDED_BY(lock_) = false;
  int hidden_ UDAPL_GUARDED_BY(lock_) = 0;  // CQs that are armed for more than the descriptor
};

// The descriptor of a CNO.
class EventDescriptor final : public transport::EventDescriptor {
 public:
  explicit EventDescriptor(std::shared_ptr<CqChannel> channel) noexcept
      : channel_(std::move(channel)) {}
  ~EventDescriptor() override {
    if (channel_.use_count() > 1) channel_->close_descriptor();
  }
  EventDescriptor(const EventDescriptor&) = delete;
  EventDescriptor& operator=(const EventDescriptor&) = delete;

  [[nodiscard]] int get() const noexcept override { return channel_->descriptor(); }
  void take_events() noexcept override { channel_->take_events(); }
  [[nodiscard]] const std::shared_ptr<CqChannel>& channel() const noexcept { return channel_; }

 private:
  const std::shared_ptr<CqChannel> channel_;
};

// Where the only thread that waits for a CNO sleeps.
class WaitPlace final : public transport::WaitPlace {
 public:
  explicit WaitPlace(std::shared_ptr<CqChannel> channel) noexcept : channel_(std::move(channel)) {}

  std::optional<WaitResult> block(WaitWord& word, std::uint32_t seen,
                                  const Deadline& deadline) noexcept override;
  void take_events() noexcept override {
    if (!channel_->given_up()) channel_->take_events();
  }
  bool give_up() noexcept override { return channel_->give_up(); }
  [[nodiscard]] const std::shared_ptr<CqChannel>& channel() const noexcept { return channel_; }

 private:
  const std::shared_ptr<CqChannel> channel_;
};

}  // namespace udapl::verbs
