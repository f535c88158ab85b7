// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/mutex.h"
#include "dapl/transport/qp.h"
#include "providers/reactor/reactor.h"
#include "providers/reactor/sink_gate.h"
#include "providers/soft/io/tcp_stream.h"
#include "providers/soft/iwarp/inbound.h"
#include "providers/soft/iwarp/receiver.h"
#include "providers/soft/iwarp/sender.h"
#include "providers/soft/mr_table.h"
#include "providers/soft/negotiated.h"
#include "providers/soft/pin_set.h"
#include "providers/soft/settings.h"
#include "providers/soft/staging.h"
#include "providers/soft/work_queue.h"

#include <array>
#include <memory>
#include <optional>
#include <vector>

namespace udapl::soft {

class Cq;
class Pd;
class Srq;

// The parts of an adapter that a Qp works with, which outlive it, and what it is set to.
struct QpEnvironment {
  Reactor& reactor;
  MrTable& memory;
  Connector& connector;
  Clock::duration drain_limit = Settings{}.drain_limit;
};

// One end of an iWARP connection: send queue, receive queue, and the epoll handler of the socket
// once one is attached. One lock protects all of it; a post sends in place as much as the socket
// takes, the reactor's driver does the rest. Sink calls go through the gate. Thread-safe as
// transport::Qp says. Owned by an Ep.
//
// qp.cpp: resources, states. qp_connect.cpp: how a connection begins, time. qp_end.cpp: how it
// ends. qp_post.cpp: posting. qp_tx.cpp: sending. qp_complete.cpp: what becomes of requests.
// qp_rx.cpp: receiving, the iwarp::Inbound part.
class Qp final : public transport::Qp,
                 public ConnectionEnd,
                 private Handler,
                 private iwarp::Inbound {
 public:
  // Allocates everything that posting and transferring need. Throws std::bad_alloc.
  Qp(const QpEnvironment& environment, const transport::QpInit& init);
  ~Qp() override;
  Qp(const Qp&) = delete;
  Qp& operator=(const Qp&) = delete;

  // ---- transport::Qp: hot ----------------------------------------------------------------------
  DAT_RETURN post_recv(transport::WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT,
                       transport::WorkFlags) noexcept override;
  DAT_RETURN post_send(transport::WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT,
                       transport::WorkFlags) noexcept override;
  DAT_RETURN post_send_invalidate(transport::WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT,
                                  DAT_RMR_CONTEXT, transport::WorkFlags) noexcept override;
  DAT_RETURN post_rdma_write(transport::WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT,
                             const DAT_RMR_TRIPLET& remote, transport::WorkFlags) noexcept override;
  DAT_RETURN post_rdma_read(transport::WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT,
                            const DAT_RMR_TRIPLET& remote, transport::WorkFlags) noexcept override;
  DAT_RETURN post_rdma_read_to_rmr(transport::WorkId, const DAT_RMR_TRIPLET& sink,
                                   const DAT_RMR_TRIPLET& remote,
                                   transport::WorkFlags) noexcept override;
  DAT_RETURN post_bind(transport::WorkId, const transport::BindRequest&, transport::WorkFlags,
                       DAT_RMR_CONTEXT* context) noexcept override;
  DAT_RETURN post_write_immediate(transport::WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT,
                                  const DAT_RMR_TRIPLET& remote, std::uint32_t immediate,
                                  transport::WorkFlags) noexcept override;
  DAT_RETURN post_fetch_add(transport::WorkId, const DAT_LMR_TRIPLET& local,
                            const DAT_RMR_TRIPLET& remote, std::uint64_t add,
                            transport::WorkFlags) noexcept override;
  DAT_RETURN post_compare_swap(transport::WorkId, const DAT_LMR_TRIPLET& local,
                               const DAT_RMR_TRIPLET& remote, std::uint64_t compare,
                               std::uint64_t swap, transport::WorkFlags) noexcept override;

  // ---- transport::Qp: control ------------------------------------------------------------------
  Status modify(const transport::QpInit& init) override;
  Status connect(const transport::ConnectRequest& request) override;
  void disconnect(transport::DisconnectMode mode) noexcept override;
  Status reset() override;
  [[nodiscard]] transport::Endpoints endpoints() const noexcept override;
  void set_watermarks(int soft, int hard) noexcept override;
  [[nodiscard]] transport::ReceiveCounts receive_counts() const noexcept override;

  // ---- ConnectionEnd: for the connection manager -----------------------------------------------
  [[nodiscard]] iwarp::MpaConfig mpa_config() const noexcept override;
  Status attach(std::unique_ptr<TcpStream>& stream, const Negotiated& negotiated) noexcept override;
  void connect_failed(ConnectFailure why, transport::PrivateData from_peer) noexcept override;

  // For Cq: a queue that this QP feeds has lost a completion. No lock held.
  void on_cq_overflow() noexcept UDAPL_EXCLUDES(lock_);

 private:
  enum class State : std::uint8_t {
    kIdle,
    kConnecting,   // a Handshake runs
    kAccepted,     // responder: waits for the peer's first FPDU, until then nothing may be sent
    kReady,        //
    kDraining,     // graceful disconnect: finishing the requests
    kHalfClosed,   // FIN is sent, waiting for the peer's
    kTerminating,  // a Terminate is on its way out, input is ignored
    kError
  };
  // Sink calls, in the order in which they are made.
  enum Call : unsigned {
    kEstablished,
    kRejected,
    kRefused,
    kUnreachable,
    kTimedOut,
    kAcceptFailed,
    kDisconnected,
    kBroken,
    kSoftWatermark,
    kSrqReleased
  };
  static constexpr std::uint32_t kConnectionCalls = (1U << kSoftWatermark) - 1;
  // What the one timer is for.
  enum class Timing : std::uint8_t {
    kNothing,
    kFirstFpdu,
    kGrace,
    kKick,
    kDrain,       // does anything move on a connection that drains?
    kHalfClosed,  // for the peer's FIN
    kTerminate
  };
  // Changes with whatever goes out, is acknowledged or comes in.
  struct Movement {
    std::uint64_t sent = 0;
    std::size_t unacknowledged = 0;
    std::uint64_t fpdus = 0;
    std::size_t staged = 0;
    bool operator==(const Movement&) const = default;
  };
  // Why the connection has to end; found somewhere below, acted upon by settle().
  struct Fault {
    bool raised = false;
    bool terminate = false;  // tell the peer with `message`; else close at once
    transport::BreakReason why = transport::BreakReason::kTransportLost;
    iwarp::Terminate message;
  };
  enum class Close { kGently, kReset };
  // The message that the Sender is at.
  enum class Current : std::uint8_t { kNone, kControl, kRequest, kResponse };
  enum Control : std::uint8_t {
    kRtrSend = 1,
    kRtrWrite = 2,
    kRtrRead = 4,
    kKickWrite = 8,
    kPlacedRead = 16  // delayed acknowledgement: the answer says that what was sent is placed
  };

  // One pass sends or receives about this much, bytes.
  static constexpr std::size_t kPassBudget = 256 * 1024;
  static constexpr std::size_t kPostBudget = 1024 * 1024;
  // While the application polls, a burst of posts is sent in one piece when it polls next; all but
  // the first few, and never more than this many requests or bytes.
  static constexpr int kPostsInPlace = 2;
  static constexpr std::uint64_t kGatheredRequests = 32;
  static constexpr std::uint64_t kGatheredBytes = 16 * 1024;
  // Delayed acknowledgement: while there is more to send, ask for one after so many requests.
  static constexpr std::uint64_t kUnacknowledged = 16;
  // What zero-length RDMA Writes and Reads say; it names no memory and is not looked at.
  static constexpr std::uint32_t kNoStag = 1;

  // qp.cpp
  Status exchange_resources(const transport::QpInit& init, Cq*& recv_cq, Cq*& request_cq)
      UDAPL_EXCLUDES(lock_);
  [[nodiscard]] bool connected() const noexcept UDAPL_REQUIRES(lock_) {
    return state_ >= State::kReady && state_ <= State::kTerminating;
  }
  void set_state(State next) noexcept UDAPL_REQUIRES(lock_);
  void clear_connection() noexcept UDAPL_REQUIRES(lock_);
  void start_responder(const Negotiated& negotiated) noexcept UDAPL_REQUIRES(lock_);
  void start_initiator(const Negotiated& negotiated) noexcept UDAPL_REQUIRES(lock_);
  void established() noexcept UDAPL_REQUIRES(lock_);
  void open_receive() noexcept UDAPL_EXCLUDES(lock_);
  void on_timer() noexcept UDAPL_EXCLUDES(lock_);
  void start_timer(Timing timing, Clock::duration delay) noexcept UDAPL_REQUIRES(lock_);
  void deliver(unsigned call) noexcept UDAPL_EXCLUDES(lock_);
  void check_watermarks() noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] int held() const noexcept UDAPL_REQUIRES(lock_);

  // qp_end.cpp
  void raise(transport::BreakReason why) noexcept UDAPL_REQUIRES(lock_);
  void raise(transport::BreakReason why, const iwarp::Terminate& message) noexcept
      UDAPL_REQUIRES(lock_);
  void settle() noexcept UDAPL_REQUIRES(lock_);
  void watch_drain() noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] Movement movement() const noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] bool drain_stands_still() noexcept UDAPL_REQUIRES(lock_);
  void start_terminate() noexcept UDAPL_REQUIRES(lock_);
  void continue_terminate() noexcept UDAPL_REQUIRES(lock_);
  void finish(Close how) noexcept UDAPL_REQUIRES(lock_);
  void finish_broken(transport::BreakReason why, Close how) noexcept UDAPL_REQUIRES(lock_);
  void break_for_cq() noexcept UDAPL_REQUIRES(lock_);

  // qp_post.cpp
  template <class Fill>
  DAT_RETURN post(RequestKind kind, transport::WorkId id, transport::WorkFlags flags,
                  Fill fill) noexcept UDAPL_EXCLUDES(lock_);
  void send_posted(std::uint32_t length) noexcept UDAPL_REQUIRES(lock_);
  void send_gathered() noexcept UDAPL_EXCLUDES(lock_);
  DAT_RETURN post_flushed(RequestKind kind, transport::WorkId id,
                          transport::WorkFlags flags) noexcept UDAPL_REQUIRES(lock_);
  DAT_RETURN post_message(RequestKind kind, transport::WorkId id,
                          std::span<const DAT_LMR_TRIPLET> list, const DAT_RMR_TRIPLET& remote,
                          std::uint32_t immediate, transport::WorkFlags flags) noexcept;
  DAT_RETURN post_atomic(RequestKind kind, transport::WorkId id, const DAT_LMR_TRIPLET& local,
                         const DAT_RMR_TRIPLET& remote, std::uint64_t first, std::uint64_t second,
                         transport::WorkFlags flags) noexcept;

  // qp_tx.cpp
  void transmit(std::size_t budget) noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] bool pin_unsent() noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] bool pin_request(std::uint64_t position) noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] bool pin_response(std::uint64_t position) noexcept UDAPL_REQUIRES(lock_);
  void fill(std::size_t budget) noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] bool begin_message() noexcept UDAPL_REQUIRES(lock_);
  void end_message() noexcept UDAPL_REQUIRES(lock_);
  void begin_control() noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] bool begin_response() noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] bool request_startable() noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] bool begin_request() noexcept UDAPL_REQUIRES(lock_);
  void begin_payload(Request& request) noexcept UDAPL_REQUIRES(lock_);
  void begin_query(Request& request) noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] bool execute_binds() noexcept UDAPL_REQUIRES(lock_);
  void fail_request(std::uint64_t position, DAT_DTO_COMPLETION_STATUS status) noexcept
      UDAPL_REQUIRES(lock_);
  [[nodiscard]] bool placement_due() noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] bool placement_is_next() noexcept UDAPL_REQUIRES(lock_);
  void placed() noexcept UDAPL_REQUIRES(lock_);
  void retire_sent() noexcept UDAPL_REQUIRES(lock_);
  void report_done() noexcept UDAPL_REQUIRES(lock_);
  void report(const Request& request, DAT_DTO_COMPLETION_STATUS status) noexcept
      UDAPL_REQUIRES(lock_);
  void flush_requests() noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] Request* oldest_unanswered() noexcept UDAPL_REQUIRES(lock_);
  void answered(Request& request) noexcept UDAPL_REQUIRES(lock_);
  void blame(const iwarp::Terminate& reason) noexcept UDAPL_REQUIRES(lock_);

  // qp_rx.cpp
  void on_ready(std::uint32_t events) noexcept override;
  void receive() noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] std::size_t needed() const noexcept UDAPL_REQUIRES(lock_);
  void end_of_stream() noexcept UDAPL_REQUIRES(lock_);
  void consume_staged() noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] bool take_receive() noexcept UDAPL_REQUIRES(lock_);
  void complete_receive(const transport::Completion& completion, bool solicited) noexcept
      UDAPL_REQUIRES(lock_);
  void flush_receives() noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] iwarp::Verdict refuse(Refusal refusal) noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] Response* new_response() noexcept UDAPL_REQUIRES(lock_);

  // iwarp::Inbound, called by the Receiver under our lock.
  iwarp::Verdict place_write(std::uint32_t stag, std::uint64_t to,
                             std::span<const std::byte> payload) override UDAPL_REQUIRES(lock_);
  iwarp::Verdict place_send(const iwarp::SendSegment& segment) override UDAPL_REQUIRES(lock_);
  iwarp::Verdict invalidate(std::uint32_t stag) override UDAPL_REQUIRES(lock_);
  void send_done(const iwarp::SendDone& done) override UDAPL_REQUIRES(lock_);
  iwarp::Verdict immediate(const iwarp::ImmediateBytes& data, bool solicited) override
      UDAPL_REQUIRES(lock_);
  iwarp::Verdict read_request(const iwarp::ReadRequest& request, std::uint32_t msn) override
      UDAPL_REQUIRES(lock_);
  bool oldest_read(iwarp::ReadSink& sink) override UDAPL_REQUIRES(lock_);
  iwarp::Verdict place_read(std::uint32_t offset, std::span<const std::byte> payload) override
      UDAPL_REQUIRES(lock_);
  void read_done() override UDAPL_REQUIRES(lock_);
  iwarp::Verdict atomic_request(const iwarp::AtomicRequest& request) override UDAPL_REQUIRES(lock_);
  iwarp::Verdict atomic_response(const iwarp::AtomicResponse& response) override
      UDAPL_REQUIRES(lock_);
  void terminated(const iwarp::Terminate& reason) override UDAPL_REQUIRES(lock_);

  Reactor& reactor_;
  MrTable& memory_;
  Connector& connector_;
  const Clock::duration drain_limit_;  // 0: none
  const ScopeId id_;
  transport::ConnectionSink& sink_;
  void* const context_;
  Srq* const srq_;

  // What modify() may change.
  mutable Mutex lock_;
  ScopeId pd_ UDAPL_GUARDED_BY(lock_);
  Cq* recv_cq_ UDAPL_GUARDED_BY(lock_);
  Cq* request_cq_ UDAPL_GUARDED_BY(lock_);
  bool solicited_only_ UDAPL_GUARDED_BY(lock_);
  std::uint32_t max_read_in_ UDAPL_GUARDED_BY(lock_);
  std::uint32_t max_read_out_ UDAPL_GUARDED_BY(lock_);
  bool delayed_ack_ UDAPL_GUARDED_BY(lock_);

  // The connection.
  State state_ UDAPL_GUARDED_BY(lock_) = State::kIdle;
  Fault fault_ UDAPL_GUARDED_BY(lock_);
  std::unique_ptr<Handshake> handshake_ UDAPL_GUARDED_BY(lock_);
  std::unique_ptr<TcpStream> stream_ UDAPL_GUARDED_BY(lock_);
  transport::Endpoints endpoints_ UDAPL_GUARDED_BY(lock_);
  std::vector<std::byte> private_data_ UDAPL_GUARDED_BY(lock_);  // of the peer; capacity reserved
  transport::BreakReason broken_why_ UDAPL_GUARDED_BY(lock_) =
      transport::BreakReason::kTransportLost;
  Timing timing_ UDAPL_GUARDED_BY(lock_) = Timing::kNothing;
  int kicks_ UDAPL_GUARDED_BY(lock_) = 0;
  Movement moved_ UDAPL_GUARDED_BY(lock_);       // when the drain was looked at last
  int still_looks_ UDAPL_GUARDED_BY(lock_) = 0;  // since anything moved

  // Requests. head <= sent_ <= built_ <= tail: sent_ is the first that TCP has not got all of,
  // built_ the first that is not wholly in the batch.
  WorkRing<Request> requests_ UDAPL_GUARDED_BY(lock_);
  std::uint64_t built_ UDAPL_GUARDED_BY(lock_) = 0;
  std::uint64_t sent_ UDAPL_GUARDED_BY(lock_) = 0;
  std::uint64_t unanswered_ UDAPL_GUARDED_BY(lock_) = 0;  // no unanswered one is before it
  std::uint32_t reads_in_flight_ UDAPL_GUARDED_BY(lock_) = 0;
  std::uint32_t ord_ UDAPL_GUARDED_BY(lock_) = 0;
  std::uint32_t read_stag_ UDAPL_GUARDED_BY(lock_) = 0;  // sink of all our Reads
  bool rtr_read_in_flight_ UDAPL_GUARDED_BY(lock_) = false;
  // Delayed acknowledgement (docs/adr/0013): requests before acknowledged_ are placed; those before
  // asked_ will be when the Read that is in flight is answered.
  bool placed_read_in_flight_ UDAPL_GUARDED_BY(lock_) = false;
  std::uint64_t asked_ UDAPL_GUARDED_BY(lock_) = 0;
  std::uint64_t acknowledged_ UDAPL_GUARDED_BY(lock_) = 0;
  bool has_bound_ UDAPL_GUARDED_BY(lock_) = false;

  // Responses; those before response_built_ are in the batch.
  WorkRing<Response> responses_ UDAPL_GUARDED_BY(lock_);
  std::uint64_t response_built_ UDAPL_GUARDED_BY(lock_) = 0;
  std::uint32_t ird_ UDAPL_GUARDED_BY(lock_) = 0;
  int responses_in_a_row_ UDAPL_GUARDED_BY(lock_) = 0;

  // Transmit.
  std::optional<iwarp::Sender> sender_ UDAPL_GUARDED_BY(lock_);
  iwarp::TxBatch batch_ UDAPL_GUARDED_BY(lock_);
  Current current_ UDAPL_GUARDED_BY(lock_) = Current::kNone;
  std::uint8_t controls_ UDAPL_GUARDED_BY(lock_) = 0;  // messages of our own to be sent
  bool blocked_ UDAPL_GUARDED_BY(lock_) = false;       // EPOLLOUT is awaited
  int posts_in_place_ UDAPL_GUARDED_BY(lock_) = 0;     // sent at once since the last turn
  std::uint64_t gathered_bytes_ UDAPL_GUARDED_BY(lock_) = 0;
  std::vector<iwarp::IoSpan> spans_ UDAPL_GUARDED_BY(lock_);  // payload of the current message
  PinSet pins_ UDAPL_GUARDED_BY(lock_);

  // Receive.
  WorkRing<Receive> receives_ UDAPL_GUARDED_BY(lock_);
  std::optional<iwarp::Receiver> receiver_ UDAPL_GUARDED_BY(lock_);
  Staging staging_ UDAPL_GUARDED_BY(lock_);
  bool receive_open_ UDAPL_GUARDED_BY(lock_) = false;  // the sink knows that we are connected
  bool receiving_ UDAPL_GUARDED_BY(lock_) = false;     // a message is being placed in buffer_
  Receive buffer_ UDAPL_GUARDED_BY(lock_){};
  DAT_DTO_COMPLETION_STATUS buffer_status_ UDAPL_GUARDED_BY(lock_) = DAT_DTO_SUCCESS;
  std::unique_ptr<Segment[]> srq_segments_ UDAPL_GUARDED_BY(lock_);
  Scatter send_scatter_ UDAPL_GUARDED_BY(lock_);
  Scatter read_scatter_ UDAPL_GUARDED_BY(lock_);
  transport::BreakReason receive_why_ UDAPL_GUARDED_BY(lock_) = transport::BreakReason::kProtocol;
  int soft_mark_ UDAPL_GUARDED_BY(lock_) = -1;
  int hard_mark_ UDAPL_GUARDED_BY(lock_) = -1;

  // Last: what calls us goes first.
  Timer timer_;
  Deferred open_receive_;
  Deferred send_gathered_;
  SinkGate gate_;
};

}  // namespace udapl::soft
