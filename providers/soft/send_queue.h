// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/transport/qp.h"
#include "providers/soft/iwarp/inbound.h"
#include "providers/soft/outgoing.h"
#include "providers/soft/placement_reads.h"
#include "providers/soft/qp_shared.h"
#include "providers/soft/work_queue.h"

#include <cstdint>
#include <span>
#include <utility>

namespace udapl::soft {

class Cq;

// The requests of a Qp: posting them, starting them, the peer's answers, and their completion. Used
// under the lock of the Qp. Owned by a Queue.
//
// send_queue.cpp: posting and starting. send_queue_at_once.cpp: requests that are sent, or
// performed without the peer, in one step. send_queue_placed.cpp: confirmations that the peer has
// placed data. send_queue_done.cpp: answers and completions.
class SendQueue {
 public:
  // `confirms_writes`: RDMA Writes complete when the peer has placed their data, even over a link
  // without Confirmations, where Reads find that out. Throws std::bad_alloc.
  SendQueue(QpShared& shared, const transport::QpInit& init, bool confirms_writes);

  // For modify(): takes over the settings in `init`, and a ring that ring_for() allocated.
  static WorkRing<Request> ring_for(const transport::QpInit& init);
  void change(const transport::QpInit& init, WorkRing<Request> requests) noexcept
      UDAPL_REQUIRES(qp_locked);
  Cq* exchange_cq(Cq* cq) noexcept UDAPL_REQUIRES(qp_locked) { return std::exchange(cq_, cq); }
  [[nodiscard]] Cq* cq() const noexcept UDAPL_REQUIRES(qp_locked) { return cq_; }

  void clear() noexcept UDAPL_REQUIRES(qp_locked);
  // Called for a new connection, which allows the consumer `ord` outgoing Reads in flight.
  // `can_ask`: the peer serves Reads.
  void start(std::uint32_t ord, bool can_ask) noexcept UDAPL_REQUIRES(qp_locked);
  void set_posts(Posts posts) noexcept UDAPL_REQUIRES(qp_locked) { posts_ = posts; }

  // ---- posting: as in transport::Qp -------------------------------------------------------------
  using Triplets = std::span<const DAT_LMR_TRIPLET>;
  DAT_RETURN post_message(RequestKind kind, transport::WorkId id, Triplets list,
                          const DAT_RMR_TRIPLET& remote, std::uint32_t immediate,
                          transport::WorkFlags flags) noexcept UDAPL_REQUIRES(qp_locked);
  DAT_RETURN post_send_invalidate(transport::WorkId id, Triplets list, DAT_RMR_CONTEXT context,
                                  transport::WorkFlags flags) noexcept UDAPL_REQUIRES(qp_locked);
  DAT_RETURN post_read_to_rmr(transport::WorkId id, const DAT_RMR_TRIPLET& sink,
                              const DAT_RMR_TRIPLET& remote, transport::WorkFlags flags) noexcept
      UDAPL_REQUIRES(qp_locked);
  DAT_RETURN post_bind(transport::WorkId id, const transport::BindRequest& bind,
                       transport::WorkFlags flags, DAT_RMR_CONTEXT* context) noexcept
      UDAPL_REQUIRES(qp_locked);
  DAT_RETURN post_atomic(RequestKind kind, transport::WorkId id, const DAT_LMR_TRIPLET& local,
                         const DAT_RMR_TRIPLET& remote, std::uint64_t first, std::uint64_t second,
                         transport::WorkFlags flags) noexcept UDAPL_REQUIRES(qp_locked);

  // Fast path of post_message(), send_short() and sent() for a short Send or RDMA Write of one
  // segment, if nothing has to be sent before it. Returns false, with nothing done, if the other
  // functions are needed.
  [[nodiscard]] bool post_at_once(RequestKind kind, transport::WorkId id,
                                  const DAT_LMR_TRIPLET& segment, const DAT_RMR_TRIPLET& remote,
                                  transport::WorkFlags flags) noexcept UDAPL_REQUIRES(qp_locked);

  // ---- sending ----------------------------------------------------------------------------------
  [[nodiscard]] bool empty() const noexcept UDAPL_REQUIRES(qp_locked) { return requests_.empty(); }
  [[nodiscard]] std::uint64_t unbuilt() const noexcept UDAPL_REQUIRES(qp_locked) {
    return requests_.tail() - built_;
  }
  [[nodiscard]] std::uint32_t last_length() noexcept UDAPL_REQUIRES(qp_locked) {
    return requests_.at(requests_.tail() - 1).length;
  }
  // Called after a post whose request was not sent: copies the payload of a short message. Does
  // nothing if the post has flushed the request.
  void copy_last() noexcept UDAPL_REQUIRES(qp_locked);
  // Whether the next request, the first that has not been built, may start now.
  [[nodiscard]] bool startable() noexcept UDAPL_REQUIRES(qp_locked) {
    return built_ != requests_.tail() && startable(requests_.at(built_));
  }
  // Whether the next request is a large Send that should wait until the peer has returned some
  // loans. REQUIRES: startable().
  [[nodiscard]] bool puts_off_send() noexcept UDAPL_REQUIRES(qp_locked) {
    const Request& request = requests_.at(built_);
    return request.kind == RequestKind::kSend && shared_.link->puts_off_send(request.length);
  }
  // Builds the next request in one step if it is short; Link::flush_short() and sent() must follow.
  // Returns false if begin() must start it. The caller may clear `pins` after any number of
  // messages.
  [[nodiscard]] bool send_short(PinSet& pins) noexcept UDAPL_REQUIRES(qp_locked);
  // Performs the next request without the peer, if it is an RDMA Write or Read and this is
  // possible. Returns false if begin() must start it.
  [[nodiscard]] bool reach(Outgoing& out) noexcept UDAPL_REQUIRES(qp_locked);
  // Starts the next request. Returns false if it failed, or has to wait for room for its pins.
  [[nodiscard]] bool begin(Outgoing& out) noexcept UDAPL_REQUIRES(qp_locked);
  // Called when a message of the started request is complete.
  void message_built(std::uint64_t end) noexcept UDAPL_REQUIRES(qp_locked);
  // Executes the next requests if they are binds. Returns false if a bind cannot be executed now.
  [[nodiscard]] bool execute_binds(Outgoing& out) noexcept UDAPL_REQUIRES(qp_locked);
  // Called when the link has sent everything up to `end`.
  void sent(std::uint64_t end) noexcept UDAPL_REQUIRES(qp_locked);
  // Complete the requests that the peer has confirmed through the link's Confirmations: by now, or
  // with its last input, which costs less.
  void collect_placed() noexcept UDAPL_REQUIRES(qp_locked) {
    if (some_unplaced() && !asks_for_placement_) [[unlikely]]
      placed(shared_.link->confirmations()->peer_placed());
  }
  void collect_answered() noexcept UDAPL_REQUIRES(qp_locked) {
    if (some_unplaced() && !asks_for_placement_) [[unlikely]]
      placed(shared_.link->confirmations()->answered());
  }
  // Whether all requests are sent, and those that expect an answer are answered. Placement may not
  // be confirmed yet, unless the consumer has asked for that (delayed_ack_).
  [[nodiscard]] bool drained() const noexcept UDAPL_REQUIRES(qp_locked) {
    return requests_.empty() || (some_unplaced() && !(asks_for_placement_ && delayed_ack_) &&
                                 sent_ == requests_.tail() && reads_in_flight_ == asked_.size());
  }
  // Called when the peer ends the connection in order, or cannot answer for now. RDMA Writes up to
  // the position `end`, which have reached the peer's host, are then done without an answer, unless
  // the consumer has asked for confirmation (delayed_ack_).
  void settle_for(std::uint64_t end) noexcept UDAPL_REQUIRES(qp_locked) {
    if (asks_for_placement_ && !delayed_ack_) placed(end);
  }
  void set_unanswered(bool unanswered) noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] bool pin_unsent(PinSet& pins) noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] bool pin_current(PinSet& pins) noexcept UDAPL_REQUIRES(qp_locked) {
    return pin(built_, pins);
  }

  // Reads without a request of the consumer: the Read that opens a connection, and, over a link
  // without Confirmations, the Reads whose answers confirm what the peer has placed
  // (docs/adr/0084).
  [[nodiscard]] bool placement_due() const noexcept UDAPL_REQUIRES(qp_locked) {
    return is_unasked(needed_end_) && !asked_.full() && reads_in_flight_ < std::max(ord_, 1U) &&
           asks_now();
  }
  [[nodiscard]] bool awaits_placement_answer() const noexcept UDAPL_REQUIRES(qp_locked) {
    return !asked_.empty();
  }
  [[nodiscard]] bool worth_waiting() const noexcept UDAPL_REQUIRES(qp_locked) {
    return awaits_placement_answer() && waited_in_vain_ != placed_;
  }
  void note_waited_in_vain() noexcept UDAPL_REQUIRES(qp_locked) { waited_in_vain_ = placed_; }
  void opening_read_begun() noexcept UDAPL_REQUIRES(qp_locked);
  void placement_read_begun() noexcept UDAPL_REQUIRES(qp_locked);

  // ---- answers: as in iwarp::Inbound ------------------------------------------------------------
  bool oldest_read(iwarp::ReadSink& sink) noexcept UDAPL_REQUIRES(qp_locked);
  iwarp::Verdict fill_read(iwarp::Payload& payload) noexcept UDAPL_REQUIRES(qp_locked);
  iwarp::Verdict place_read(std::span<const std::byte> payload) noexcept UDAPL_REQUIRES(qp_locked);
  void read_done() noexcept UDAPL_REQUIRES(qp_locked);
  iwarp::Verdict atomic_response(const iwarp::AtomicResponse& response) noexcept
      UDAPL_REQUIRES(qp_locked);

  void let_go(MrRef ref) noexcept UDAPL_REQUIRES(qp_locked) {
    sources_.let_go(ref);
    sinks_.let_go(ref);
  }

  // ---- the end ----------------------------------------------------------------------------------
  // Called when the peer's answer to a request was invalid.
  void blame_answer() noexcept UDAPL_REQUIRES(qp_locked);
  // Called when the peer has ended the stream with a Terminate. `building`: a request is being
  // built.
  void blame(const iwarp::Terminate& reason, bool building) noexcept UDAPL_REQUIRES(qp_locked);
  // Called when the connection is lost: it is unknown whether what was in flight has arrived.
  void blame_transport(bool building) noexcept UDAPL_REQUIRES(qp_locked);
  void flush() noexcept UDAPL_REQUIRES(qp_locked);   // completes all remaining requests
  void unbind() noexcept UDAPL_REQUIRES(qp_locked);  // unbinds the windows bound through this Qp

 private:
  // While there is more to send, a Read asks the peer what it has placed once this much was sent
  // since the last one.
  static constexpr std::uint64_t kUnaskedRequests = 64;
  static constexpr std::uint64_t kUnaskedBytes = 256 * 1024;
  static constexpr std::uint64_t kNeverInVain = ~std::uint64_t{0};
  // The segments of a message are gathered into one piece if they have at most this many bytes.
  static constexpr std::size_t kMaxGathered = 64;

  template <class Fill>
  DAT_RETURN post(RequestKind kind, transport::WorkId id, transport::WorkFlags flags,
                  Fill fill) noexcept UDAPL_REQUIRES(qp_locked);
  // Whether the next request has two messages, and the first is built.
  [[nodiscard]] bool half_built() noexcept UDAPL_REQUIRES(qp_locked) {
    return built_ != requests_.tail() && requests_.at(built_).write_sent;
  }
  [[nodiscard]] bool is_numbered(std::uint64_t position, bool building) noexcept
      UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] bool copy(std::uint64_t position) noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] bool pin_for_copy(PinSet& pins, const Segment& segment) noexcept
      UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] bool gather(std::span<const Segment> segments, PinSet& pins,
                            std::span<std::byte> room,
                            std::span<const std::byte>& gathered) noexcept
      UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] iwarp::Verdict check_read_placed(bool placed) noexcept UDAPL_REQUIRES(qp_locked);
  DAT_RETURN post_unconnected(RequestKind kind, transport::WorkId id,
                              transport::WorkFlags flags) noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] bool pin(std::uint64_t position, PinSet& pins) noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] bool prefers_message(const Request& request) noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] bool begin_shared(const Request& request, Outgoing& out) noexcept
      UDAPL_REQUIRES(qp_locked);
  void begin_payload(Request& request, std::size_t spans, const Outgoing& out) noexcept
      UDAPL_REQUIRES(qp_locked);
  void begin_query(Request& request) noexcept UDAPL_REQUIRES(qp_locked);
  void fail(std::uint64_t position, DAT_DTO_COMPLETION_STATUS status) noexcept
      UDAPL_REQUIRES(qp_locked);
  void count_built(const Request& request) noexcept UDAPL_REQUIRES(qp_locked) {
    ++built_;
    if (!asks_for_placement_) return;
    if (waits_for_placement(request.kind)) waiting_end_ = request.end;
    if (is_seen(request)) needed_end_ = waiting_end_;
  }
  // Whether no Read has asked yet whether the peer has placed everything up to `end`.
  [[nodiscard]] bool is_unasked(std::uint64_t end) const noexcept UDAPL_REQUIRES(qp_locked) {
    return end > asked_.last().end && end > placed_;
  }
  [[nodiscard]] bool startable(const Request& request) const noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] bool asks_now() const noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] bool placement_is_next() noexcept UDAPL_REQUIRES(qp_locked);
  void placement_read_done() noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] bool waits_for_placement(RequestKind kind) const noexcept
      UDAPL_REQUIRES(qp_locked) {
    return (kinds_placed_ >> static_cast<unsigned>(kind) & 1U) != 0;
  }
  [[nodiscard]] bool some_unplaced() const noexcept UDAPL_REQUIRES(qp_locked) {
    return unplaced_end_ > placed_;
  }
  void placed(std::uint64_t position) noexcept UDAPL_REQUIRES(qp_locked);
  void await_placed(std::uint64_t position) noexcept UDAPL_REQUIRES(qp_locked);
  void await_next_seen() noexcept UDAPL_REQUIRES(qp_locked);
  void release_unseen() noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] Request* oldest_unanswered() noexcept UDAPL_REQUIRES(qp_locked);
  void answered(Request& request) noexcept UDAPL_REQUIRES(qp_locked);
  void report_done() noexcept UDAPL_REQUIRES(qp_locked);
  void report_success(RequestKind kind, transport::WorkId id, transport::WorkFlags flags,
                      std::uint32_t length) noexcept UDAPL_REQUIRES(qp_locked);
  void report(const Request& request, DAT_DTO_COMPLETION_STATUS status) noexcept
      UDAPL_REQUIRES(qp_locked);

  QpShared& shared_;
  Cq* cq_ UDAPL_GUARDED_BY(qp_locked);
  const bool confirms_writes_;
  bool delayed_ack_ UDAPL_GUARDED_BY(qp_locked);
  Posts posts_ UDAPL_GUARDED_BY(qp_locked) = Posts::kRefused;

  // head <= sent_ <= built_ <= tail. sent_: the position of the first request that the link has not
  // sent completely. built_: the position of the first request that is not completely built.
  WorkRing<Request> requests_ UDAPL_GUARDED_BY(qp_locked);
  std::uint64_t built_ UDAPL_GUARDED_BY(qp_locked) = 0;
  std::uint64_t sent_ UDAPL_GUARDED_BY(qp_locked) = 0;
  // The kinds of requests (a bit for each) that are done when the peer has placed their data, not
  // when they are sent.
  std::uint8_t kinds_placed_ UDAPL_GUARDED_BY(qp_locked) = 0;
  bool asks_for_placement_ UDAPL_GUARDED_BY(qp_locked) = false;  // by Reads: no Confirmations
  // Positions in the outgoing stream. placed_: the peer has confirmed that everything before is
  // placed. unplaced_end_: the end of the last request that waits for that. released_end_: the end
  // of the last request that release_unseen() has completed without it. awaited_: with
  // Confirmations, what must be placed for the next completion that the consumer sees (0: none is
  // due). confirmed_: the position in requests_ up to which placed() has processed the requests.
  std::uint64_t placed_ UDAPL_GUARDED_BY(qp_locked) = 0;
  std::uint64_t unplaced_end_ UDAPL_GUARDED_BY(qp_locked) = 0;
  std::uint64_t released_end_ UDAPL_GUARDED_BY(qp_locked) = 0;
  std::uint64_t awaited_ UDAPL_GUARDED_BY(qp_locked) = 0;
  std::uint64_t confirmed_ UDAPL_GUARDED_BY(qp_locked) = 0;
  std::uint64_t waited_in_vain_ UDAPL_GUARDED_BY(qp_locked) = kNeverInVain;  // placed_ at that time
  std::uint64_t unanswered_ UDAPL_GUARDED_BY(qp_locked) = 0;  // all requests before are answered
  std::uint32_t reads_in_flight_ UDAPL_GUARDED_BY(qp_locked) = 0;
  std::uint32_t ord_ UDAPL_GUARDED_BY(qp_locked) = 0;
  std::uint32_t read_stag_ UDAPL_GUARDED_BY(qp_locked) = 0;  // sink of all our Reads
  bool opening_read_in_flight_ UDAPL_GUARDED_BY(qp_locked) = false;
  // If asks_for_placement_: asked_: the Reads in flight that ask. waiting_end_: the end of the last
  // built request that waits for placement. needed_end_: the end of the last such request that a
  // completion seen by the consumer depends on.
  PlacementReads asked_ UDAPL_GUARDED_BY(qp_locked);
  std::uint64_t waiting_end_ UDAPL_GUARDED_BY(qp_locked) = 0;
  std::uint64_t needed_end_ UDAPL_GUARDED_BY(qp_locked) = 0;
  bool unanswered_for_now_ UDAPL_GUARDED_BY(qp_locked) = false;
  bool has_bound_ UDAPL_GUARDED_BY(qp_locked) = false;
  Scatter scatter_ UDAPL_GUARDED_BY(qp_locked);  // places the answer that is arriving
  KeptPin sources_ UDAPL_GUARDED_BY(qp_locked);  // of short messages
  KeptPin sinks_ UDAPL_GUARDED_BY(qp_locked);    // of answers
};

}  // namespace udapl::soft
