// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/reactor/reactor.h"
#include "providers/soft/qp_shared.h"
#include "providers/soft/queue.h"
#include "providers/soft/staging_pool.h"

#include <cstdint>
#include <optional>

namespace udapl::soft {

// Reads from a connection's link into its queue, in bounded passes so that other connections get
// their turn. Handles messages that arrive before their receive (docs/adr/0022), and peers that
// begin a frame or message and do not finish it. Used under the lock of the Qp; the calls of the
// timers acquire it. Owned by a Connection.
class Intake {
 public:
  // An event that the connection must handle.
  enum class Event : std::uint8_t {
    kNone,
    kFirstMessage,  // only while the first message is awaited
    kEndOfStream,   // the peer has closed; its last messages are delivered, or wait for receives
    kPeerClosed,    // it closed earlier, and now no message waits, or one has waited too long
    kPeerReset,     // it closed earlier, and now it has reset the connection
    kLost           // the link is broken: Link::error() says why
  };
  struct Limits {
    Clock::duration peer_timeout;               // 0: none
    std::optional<Clock::duration> no_receive;  // 0: messages do not wait for receives
  };
  // Called by the timers. They lock the Qp and call the function of the same name.
  struct Calls {
    udapl::Call continue_pass;
    udapl::Call debt_due;
    udapl::Call wait_over;
  };

  Intake(QpShared& shared, Queue& queue, Reactor& reactor, StagingPool& pool, const Limits& limits,
         const Calls& calls) noexcept;

  void clear() noexcept UDAPL_REQUIRES(qp_locked);
  // Called when the connection has ended.
  void stop() noexcept UDAPL_REQUIRES(qp_locked);

  // ---- all of these require a link --------------------------------------------------------------
  [[nodiscard]] Event on_ready(unsigned what) noexcept UDAPL_REQUIRES(qp_locked);
  // Fast path for short messages. kElse: on_ready() has to handle the input; kRead: take_read() has
  // to handle the rest.
  [[nodiscard]] Link::Quick receive_short() noexcept UDAPL_REQUIRES(qp_locked);
  void take_read() noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] Event continue_pass() noexcept UDAPL_REQUIRES(qp_locked) { return receive(); }
  // Reads what has arrived. Must be called before the peer is taken for silent, because timers may
  // run before the descriptors are polled: after the process was stopped, all timers that are due
  // do.
  [[nodiscard]] Event catch_up() noexcept UDAPL_REQUIRES(qp_locked) {
    return reads() ? receive() : Event::kNone;
  }
  // Called at the end of the stream: stops watching the stream, and causes a call of continue_pass
  // after the other descriptors have been handled.
  void put_off_end() noexcept UDAPL_REQUIRES(qp_locked);
  // For the end of set-up. await_first(): reads until the first message is complete, and keeps it.
  // pause(): reads nothing. open(): reads and delivers from now on, first what was kept.
  void await_first() noexcept UDAPL_REQUIRES(qp_locked) { set_input(Input::kFirst); }
  void pause() noexcept UDAPL_REQUIRES(qp_locked) { set_input(Input::kClosed); }
  void open() noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] bool reading() const noexcept UDAPL_REQUIRES(qp_locked) {
    return input_ != Input::kClosed;
  }
  // Called when a receive was posted or promised: delivers messages that have waited for it.
  [[nodiscard]] Event release() noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] Event wait_over() noexcept UDAPL_REQUIRES(qp_locked);
  void debt_due() noexcept UDAPL_REQUIRES(qp_locked);  // after catch_up()

  // Whether a message waits for a receive.
  [[nodiscard]] bool waits() const noexcept UDAPL_REQUIRES(qp_locked) { return waiting_; }
  // Called when the peer has closed while a message waits: waits some time for receives for its
  // last messages.
  void wait_for_last() noexcept UDAPL_REQUIRES(qp_locked);
  void stop_waiting() noexcept UDAPL_REQUIRES(qp_locked);
  // Whether reading has stopped because no more messages can be held back.
  [[nodiscard]] bool stalled() const noexcept UDAPL_REQUIRES(qp_locked) { return stalled_; }
  [[nodiscard]] bool peer_closed() const noexcept UDAPL_REQUIRES(qp_locked) { return peer_closed_; }

 private:
  enum class Input : std::uint8_t { kClosed, kFirst, kOpen };
  // What the peer has begun and not finished. If the peer then sends nothing for the time of
  // Limits::peer_timeout, the connection breaks.
  struct Debt {
    bool frame = false;    // an incomplete FPDU
    bool message = false;  // an incomplete message, in a buffer of an SRQ
    std::uint64_t frames = 0;
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;
  };

  void set_input(Input input) noexcept UDAPL_REQUIRES(qp_locked) {
    input_ = input;
    update_wants();
  }
  [[nodiscard]] bool reads() const noexcept UDAPL_REQUIRES(qp_locked) {
    return input_ != Input::kClosed && !stalled_ && !peer_closed_;
  }
  void update_wants() noexcept UDAPL_REQUIRES(qp_locked);
  void starve() noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] Event receive() noexcept UDAPL_REQUIRES(qp_locked);
  void deliver_staged(std::size_t& work) noexcept UDAPL_REQUIRES(qp_locked);
  // Called after input was delivered.
  void delivered() noexcept UDAPL_REQUIRES(qp_locked) {
    const Link::Incoming& in = shared_.link->incoming();
    if (in.waits != waiting_ || in.full != stalled_ || in.failed) [[unlikely]]
      note_delivered();
  }
  void note_delivered() noexcept UDAPL_REQUIRES(qp_locked);
  void end_pass(std::size_t work) noexcept UDAPL_REQUIRES(qp_locked);
  void note_waiting(bool moved) noexcept UDAPL_REQUIRES(qp_locked);
  void start_wait_timer() noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] Debt debt() const noexcept UDAPL_REQUIRES(qp_locked);
  void watch_debt() noexcept UDAPL_REQUIRES(qp_locked);

  QpShared& shared_;
  Queue& queue_;
  StagingPool& pool_;
  const Limits limits_;
  Reactor& reactor_;

  Input input_ UDAPL_GUARDED_BY(qp_locked) = Input::kClosed;
  bool stalled_ UDAPL_GUARDED_BY(qp_locked) = false;
  bool peer_ends_ UDAPL_GUARDED_BY(qp_locked) = false;    // the peer's FIN is behind unread input
  bool peer_closed_ UDAPL_GUARDED_BY(qp_locked) = false;  // the peer's FIN was read
  // continue_pass_ is running: unfinished_: because whole FPDUs are staged; starved_: because there
  // was no memory to read into.
  bool unfinished_ UDAPL_GUARDED_BY(qp_locked) = false;
  bool starved_ UDAPL_GUARDED_BY(qp_locked) = false;
  bool waiting_ UDAPL_GUARDED_BY(qp_locked) = false;  // a message waits for a receive
  Clock::time_point wait_until_ UDAPL_GUARDED_BY(qp_locked){};
  Debt seen_debt_ UDAPL_GUARDED_BY(qp_locked);  // when the timer was started
  bool debt_watched_ UDAPL_GUARDED_BY(qp_locked) = false;

  Timer continue_pass_;
  Timer debt_timer_;
  Timer wait_timer_;
};

}  // namespace udapl::soft
