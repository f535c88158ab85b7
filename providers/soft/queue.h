// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/transport/qp.h"
#include "providers/reactor/reactor.h"
#include "providers/soft/iwarp/inbound.h"
#include "providers/soft/iwarp/mpa_negotiation.h"
#include "providers/soft/outgoing.h"
#include "providers/soft/qp_shared.h"
#include "providers/soft/receive_queue.h"
#include "providers/soft/responder.h"
#include "providers/soft/send_queue.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace udapl::soft {

// The work of a Qp, without the set-up and the end of connections: its requests, its answers to the
// peer's requests, and its receives. The connection gives it the link that carries them. Chooses
// the message to send next, and is the Inbound for the messages that arrive. Raises a Fault for
// whatever must end the connection. Used under the lock of the Qp. Owned by a Qp.
//
// queue.cpp: posting, sending, receiving. queue_placed.cpp: confirmations that data was placed,
// from the peer and for the peer.
class Queue final : public iwarp::Inbound {
 public:
  // One pass sends or receives about this many bytes, or units of work (Receiver::kFpduWork).
  static constexpr std::size_t kPassBudget = 256 * 1024;
  static constexpr std::size_t kPostBudget = 1024 * 1024;
  // A thread that moves several times this many bytes is away for longer than the service thread
  // waits for its next poll (Reactor::works_long).
  static constexpr std::size_t kLongWork = 32 * 1024;

  // Messages that this side sends without a request of the consumer.
  enum Control : std::uint8_t {
    kRtrSend = 1,
    kRtrWrite = 2,
    kRtrRead = 4,
    kKickWrite = 8,
    kPlacementRead = 16  // its answer confirms that all data before it is placed
  };
  // Functions of the Qp that the driving thread calls.
  struct Calls {
    udapl::Call send_gathered;
    udapl::Call answer_late;
    udapl::Call srq_buffer;
  };

  struct Rules {
    bool waits;            // messages wait for receives
    bool confirms_writes;  // see SendQueue
  };

  // Throws std::bad_alloc.
  Queue(QpShared& shared, const transport::QpInit& init, Reactor& reactor, const Rules& rules,
        QueueEnd& end, const Calls& calls);

  // Implements transport::Qp::modify, except for the CQs. If it throws std::bad_alloc, nothing has
  // changed.
  Status modify(const transport::QpInit& init, ScopeId pd) UDAPL_REQUIRES(qp_locked);
  // Restores the state after construction, but keeps posted receives.
  void clear() noexcept UDAPL_REQUIRES(qp_locked);
  void purge() noexcept UDAPL_REQUIRES(qp_locked);  // removes our completions from the CQs
  // Waits for calls that run in other threads. No lock may be held.
  void close() noexcept;

  // ---- for the connection -----------------------------------------------------------------------
  // The read depths to offer to the peer.
  [[nodiscard]] iwarp::MpaConfig depths() const noexcept UDAPL_REQUIRES(qp_locked);
  // Whether a peer that serves no Reads must be refused.
  [[nodiscard]] bool needs_reads() const noexcept UDAPL_REQUIRES(qp_locked) { return delayed_ack_; }
  // Called when there is a link, with the parameters that were agreed with the peer.
  void start(const iwarp::Agreed& agreed) noexcept UDAPL_REQUIRES(qp_locked);
  void set_mode(const QueueMode& mode) noexcept UDAPL_REQUIRES(qp_locked);
  void add_control(Control control) noexcept UDAPL_REQUIRES(qp_locked) { controls_ |= control; }
  // Sends until nothing is left, the link accepts no more, or `budget` bytes have been sent. In the
  // last two cases the link reports when sending can continue (Link::kRoom).
  void transmit(std::size_t budget) noexcept UDAPL_REQUIRES(qp_locked);
  // Called after input: sends what is due. If only confirmations for the peer are due, and the
  // application usually posts something before its next poll, they are put off until then, so that
  // both leave together.
  void transmit_after_input() noexcept UDAPL_REQUIRES(qp_locked);
  // Called by the next poll, if it finds no input.
  void send_put_off() noexcept UDAPL_REQUIRES(qp_locked) {
    if (answers_put_off_) [[unlikely]]
      answer_alone();
  }
  // Pins the memory that the link may read, until unpin(). Returns false if some of it is no longer
  // registered.
  [[nodiscard]] bool pin_unsent() noexcept UDAPL_REQUIRES(qp_locked);
  void unpin() noexcept UDAPL_REQUIRES(qp_locked) { out_.pins.clear(); }
  // See SendQueue::blame_transport().
  void blame_transport() noexcept UDAPL_REQUIRES(qp_locked) {
    requests_.blame_transport(current_ == Current::kRequest);
  }
  // Completes requests whose placement the peer has confirmed: by now, or with its last input.
  void collect_placed() noexcept UDAPL_REQUIRES(qp_locked) { requests_.collect_placed(); }
  void collect_answered() noexcept UDAPL_REQUIRES(qp_locked) { requests_.collect_answered(); }
  // Whether a Read is in flight whose answer confirms what the peer has placed.
  [[nodiscard]] bool awaits_placement_answer() const noexcept UDAPL_REQUIRES(qp_locked) {
    return requests_.awaits_placement_answer();
  }
  // Whether a post that finds the queue full should wait for such an answer.
  [[nodiscard]] bool worth_waiting() const noexcept UDAPL_REQUIRES(qp_locked) {
    return requests_.worth_waiting();
  }
  void note_waited_in_vain() noexcept UDAPL_REQUIRES(qp_locked) { requests_.note_waited_in_vain(); }
  // Called before the link is closed: completes what it has carried to the peer.
  void collect_last() noexcept UDAPL_REQUIRES(qp_locked) {
    requests_.sent(shared_.link->sent());
    requests_.collect_placed();
  }
  // See SendQueue::settle_for(), for all that has reached the peer's host, and set_unanswered().
  void settle_for_delivered() noexcept UDAPL_REQUIRES(qp_locked);
  void set_unanswered(bool unanswered) noexcept UDAPL_REQUIRES(qp_locked) {
    requests_.set_unanswered(unanswered);
  }
  // Whether all requests are done and all answers have been sent.
  [[nodiscard]] bool drained() const noexcept UDAPL_REQUIRES(qp_locked) {
    return requests_.drained() && responder_.empty() && shared_.link->all_sent();
  }
  // Releases kept pins of a registration that is being revoked.
  void let_go(MrRef ref) noexcept UDAPL_REQUIRES(qp_locked) {
    requests_.let_go(ref);
    receives_.let_go(ref);
    responder_.let_go(ref);
  }
  // Called when the connection has ended: completes everything.
  void stop() noexcept UDAPL_REQUIRES(qp_locked);
  // Called when the driving thread handles this queue: the posts that follow are a new burst.
  void new_turn() noexcept UDAPL_REQUIRES(qp_locked) {
    if (burst_ != 0) long_bursts_ = burst_ >= kLongBurst;
    burst_ = 0;
  }
  // Calls new_turn() if the reactor has made a turn since the last call.
  void note_turns() noexcept UDAPL_REQUIRES(qp_locked) {
    const std::uint32_t turns = reactor_.turns();
    if (std::exchange(turns_, turns) != turns) new_turn();
  }
  // Prefetches what a short message in each direction needs besides *this.
  void prepare() noexcept UDAPL_REQUIRES(qp_locked) { receives_.prepare(); }
  // Whether there is something for transmit().
  [[nodiscard]] bool has_unsent() const noexcept UDAPL_REQUIRES(qp_locked) {
    return requests_.unbuilt() != 0 || controls_ != 0 || responder_.owes() ||
           requests_.placement_due() || !shared_.link->all_sent();
  }

  // ---- for the Intake ---------------------------------------------------------------------------
  void offer_receive() noexcept UDAPL_REQUIRES(qp_locked) { receives_.offer_next(); }
  void blame_answer() noexcept UDAPL_REQUIRES(qp_locked) { requests_.blame_answer(); }
  void stop_waiting() noexcept UDAPL_REQUIRES(qp_locked) { receives_.stop_waiting(); }
  [[nodiscard]] bool occupies_srq() const noexcept UDAPL_REQUIRES(qp_locked) {
    return receives_.occupies_srq();
  }
  [[nodiscard]] std::uint64_t messages_received() const noexcept UDAPL_REQUIRES(qp_locked) {
    return receives_.messages();
  }

  // ---- for the Qp -------------------------------------------------------------------------------
  // Exchanges the CQs for the given ones.
  void exchange_cqs(Cq*& recv_cq, Cq*& request_cq) noexcept UDAPL_REQUIRES(qp_locked) {
    recv_cq = receives_.exchange_cq(recv_cq);
    request_cq = requests_.exchange_cq(request_cq);
  }
  // Posts a request: `post` is called with the SendQueue.
  template <class Post>
  DAT_RETURN post(Post post) noexcept UDAPL_REQUIRES(qp_locked) {
    return post(requests_);
  }
  // Fast path of post(), send_now() and send_posted(): see SendQueue::post_at_once().
  [[nodiscard]] bool post_at_once(RequestKind kind, transport::WorkId id,
                                  const DAT_LMR_TRIPLET& segment, const DAT_RMR_TRIPLET& remote,
                                  transport::WorkFlags flags) noexcept UDAPL_REQUIRES(qp_locked) {
    note_turns();
    if (burst_ >= kPostsInPlace || long_bursts_ || !transmits_ || blocked_ || controls_ != 0 ||
        current_ != Current::kNone || responder_.owes() ||
        !requests_.post_at_once(kind, id, segment, remote, flags))
      return false;
    ++burst_;
    if (answered_alone_) note_post();
    if (!shared_.link->all_sent()) [[unlikely]]
      transmit(kPostBudget);
    return true;
  }
  // Called after a post. Returns whether to send now; otherwise the request waits to be sent
  // together with later ones.
  [[nodiscard]] bool send_now() noexcept UDAPL_REQUIRES(qp_locked);
  void send_posted() noexcept UDAPL_REQUIRES(qp_locked) {
    transmit(kPostBudget);
    if (requests_.unbuilt() != 0) [[unlikely]]  // it waits for a Read, a bind or room
      requests_.copy_last();
  }
  // Called first when the requests that wait are to be sent.
  void begin_gathered() noexcept UDAPL_REQUIRES(qp_locked) {
    call_pending_ = false;
    new_turn();
  }
  // Called by the timer of confirmations that were put off.
  void answer_late() noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] bool blocked() const noexcept UDAPL_REQUIRES(qp_locked) { return blocked_; }

  // Implements transport::Qp::post_recv.
  DAT_RETURN post_receive(transport::WorkId id, std::span<const DAT_LMR_TRIPLET> list,
                          transport::WorkFlags flags) noexcept UDAPL_REQUIRES(qp_locked) {
    if (uses_srq()) [[unlikely]]
      return dat_error(DAT_INVALID_STATE);
    return receives_.post(id, list, flags);
  }
  [[nodiscard]] bool uses_srq() const noexcept UDAPL_REQUIRES(qp_locked) {
    return receives_.shared();
  }
  [[nodiscard]] int receives_held() const noexcept UDAPL_REQUIRES(qp_locked) {
    return receives_.held();
  }
  void set_watermarks(int soft, int hard) noexcept UDAPL_REQUIRES(qp_locked) {
    receives_.set_watermarks(soft, hard);
  }
  // Returns whether watermarks are set.
  bool check_watermarks() noexcept UDAPL_REQUIRES(qp_locked) {
    if (!receives_.watched()) [[likely]]
      return false;
    receives_.check_watermarks();
    return true;
  }

  // ---- iwarp::Inbound, called by the link -------------------------------------------------------
  iwarp::Verdict place_write(std::uint32_t stag, std::uint64_t to,
                             std::span<const std::byte> payload) override
      UDAPL_REQUIRES(qp_locked) {
    return responder_.place_write(stag, to, payload);
  }
  iwarp::Verdict place_send(const iwarp::SendSegment& segment) override UDAPL_REQUIRES(qp_locked) {
    return receives_.place_send(segment);
  }
  bool take_whole_send(std::span<const std::byte> payload, bool solicited) override
      UDAPL_REQUIRES(qp_locked) {
    complete_returned();
    return receives_.take_whole_send(payload, solicited);
  }
  iwarp::Verdict fill_write(std::uint32_t stag, std::uint64_t to, std::uint32_t length,
                            iwarp::Payload& payload) override UDAPL_REQUIRES(qp_locked) {
    return responder_.fill_write(stag, to, length, payload);
  }
  iwarp::Verdict fill_send(const iwarp::SendSegment& segment, std::uint32_t length,
                           iwarp::Payload& payload) override UDAPL_REQUIRES(qp_locked) {
    return receives_.fill_send(segment, length, payload);
  }
  iwarp::Verdict fill_read(std::uint32_t, std::uint32_t, iwarp::Payload& payload) override
      UDAPL_REQUIRES(qp_locked) {
    return requests_.fill_read(payload);
  }
  iwarp::Verdict invalidate(std::uint32_t stag) override UDAPL_REQUIRES(qp_locked) {
    return responder_.invalidate(stag);
  }
  void send_done(const iwarp::SendDone& done) override UDAPL_REQUIRES(qp_locked) {
    complete_returned();
    receives_.send_done(done);
  }
  iwarp::Verdict immediate(const iwarp::ImmediateBytes& data, bool solicited) override
      UDAPL_REQUIRES(qp_locked) {
    complete_returned();
    return receives_.immediate(data, solicited);
  }
  iwarp::Verdict read_request(const iwarp::ReadRequest& request, std::uint32_t msn) override
      UDAPL_REQUIRES(qp_locked) {
    return responder_.read_request(request, msn);
  }
  bool oldest_read(iwarp::ReadSink& sink) override UDAPL_REQUIRES(qp_locked) {
    return requests_.oldest_read(sink);
  }
  iwarp::Verdict place_read(std::uint32_t, std::span<const std::byte> payload) override
      UDAPL_REQUIRES(qp_locked) {
    return requests_.place_read(payload);
  }
  void read_done() override UDAPL_REQUIRES(qp_locked) { requests_.read_done(); }
  iwarp::Verdict atomic_request(const iwarp::AtomicRequest& request) override
      UDAPL_REQUIRES(qp_locked) {
    return responder_.atomic_request(request);
  }
  iwarp::Verdict atomic_response(const iwarp::AtomicResponse& response) override
      UDAPL_REQUIRES(qp_locked) {
    return requests_.atomic_response(response);
  }
  void terminated(const iwarp::Terminate& reason) override UDAPL_REQUIRES(qp_locked);

 private:
  // The message that is being built.
  enum class Current : std::uint8_t { kNone, kControl, kRequest, kResponse, kDone };

  // While the application polls, only the first kPostsInPlace posts of a burst send at once. The
  // others are gathered, at most kGatheredRequests or kGatheredBytes, and sent together at the next
  // poll. If the last burst had kLongBurst posts or more, all are gathered (adr 0047).
  static constexpr std::uint32_t kPostsInPlace = 2;
  static constexpr std::uint32_t kLongBurst = 4;
  static constexpr std::uint64_t kGatheredRequests = 64;
  static constexpr std::uint64_t kGatheredBytes = 64 * 1024;

  // Called before a message is delivered. The message may answer a request of ours, so the request
  // is completed first if it is done.
  void complete_returned() noexcept UDAPL_REQUIRES(qp_locked) {
    if (shared_.link->waits_for_loans()) [[unlikely]] {
      shared_.link->collect_returned();
      requests_.sent(shared_.link->sent());
      responder_.sent(shared_.link->sent());
    }
    requests_.collect_answered();
  }
  [[nodiscard]] bool send_short() noexcept UDAPL_REQUIRES(qp_locked);
  void fill(std::size_t budget) noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] bool begin_message() noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] bool shares() const noexcept UDAPL_REQUIRES(qp_locked);
  void assist() noexcept UDAPL_REQUIRES(qp_locked);
  void stop_sending(Link::Flushed why) noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] bool only_confirms() noexcept UDAPL_REQUIRES(qp_locked);
  void put_off_answers() noexcept UDAPL_REQUIRES(qp_locked);
  void answer_alone() noexcept UDAPL_REQUIRES(qp_locked);
  void note_post() noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] bool build_confirmations() noexcept UDAPL_REQUIRES(qp_locked);
  void ask_for_placement() noexcept UDAPL_REQUIRES(qp_locked);
  void begin_control() noexcept UDAPL_REQUIRES(qp_locked);
  void end_message(std::uint64_t end) noexcept UDAPL_REQUIRES(qp_locked);

  QpShared& shared_;
  Reactor& reactor_;
  SendQueue requests_ UDAPL_GUARDED_BY(qp_locked);
  ReceiveQueue receives_;  // its functions tell whether they need the lock
  Responder responder_ UDAPL_GUARDED_BY(qp_locked);

  // May be changed by modify().
  std::uint32_t max_read_in_ UDAPL_GUARDED_BY(qp_locked);
  std::uint32_t max_read_out_ UDAPL_GUARDED_BY(qp_locked);
  bool delayed_ack_ UDAPL_GUARDED_BY(qp_locked);
  const bool confirms_writes_;

  bool transmits_ UDAPL_GUARDED_BY(qp_locked) = false;
  bool posts_ UDAPL_GUARDED_BY(qp_locked) = false;  // requests can be posted
  Outgoing out_ UDAPL_GUARDED_BY(qp_locked);
  Current current_ UDAPL_GUARDED_BY(qp_locked) = Current::kNone;
  std::uint8_t controls_ UDAPL_GUARDED_BY(qp_locked) = 0;  // a set of Control: not begun yet
  int responses_in_a_row_ UDAPL_GUARDED_BY(qp_locked) = 0;
  bool blocked_ UDAPL_GUARDED_BY(qp_locked) = false;     // waits until the link has room
  bool puts_off_ UDAPL_GUARDED_BY(qp_locked) = false;    // for loans, to begin a Send
  std::uint32_t burst_ UDAPL_GUARDED_BY(qp_locked) = 0;  // posts since the last turn; may wrap
  std::uint32_t turns_ UDAPL_GUARDED_BY(qp_locked) = 0;  // Reactor::turns() at the last post
  bool long_bursts_ UDAPL_GUARDED_BY(qp_locked) = false;
  bool settles_ UDAPL_GUARDED_BY(qp_locked) = false;  // DirectAccess::settle() is due
  std::uint64_t gathered_bytes_ UDAPL_GUARDED_BY(qp_locked) = 0;
  Deferred send_gathered_;
  // Answers that only confirm to the peer that its messages are placed; see transmit_after_input().
  // posts_follow_: after input, the application usually posts before its next poll.
  // answered_alone_: the last such answer was sent alone.
  Timer late_answers_;
  bool late_call_pending_ UDAPL_GUARDED_BY(qp_locked) = false;
  bool answers_put_off_ UDAPL_GUARDED_BY(qp_locked) = false;
  bool posts_follow_ UDAPL_GUARDED_BY(qp_locked) = false;
  bool answered_alone_ UDAPL_GUARDED_BY(qp_locked) = false;
  // Reactor::turns() when the last answer was sent alone, or put off.
  std::uint32_t answered_at_ UDAPL_GUARDED_BY(qp_locked) = 0;
  // send_gathered_ is posted, and its call has not acquired the lock yet. Posting it again would
  // only cost the lock of the reactor.
  bool call_pending_ UDAPL_GUARDED_BY(qp_locked) = false;
};

}  // namespace udapl::soft
