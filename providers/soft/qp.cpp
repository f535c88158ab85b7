// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/qp.h"

#include "common/trace.h"
#include "providers/soft/cq.h"
#include "providers/soft/mr.h"
#include "providers/soft/srq.h"

#include <sys/epoll.h>

#include <algorithm>
#include <atomic>
#include <chrono>

namespace udapl::soft {
namespace {

using std::chrono::milliseconds;
using transport::BreakReason;

// soft-transport 1.1, 1.10, 1.12.
constexpr auto kFirstFpduLimit = milliseconds(5000);
constexpr auto kGracePeriod = milliseconds(50);
constexpr auto kFirstKick = milliseconds(5);
constexpr int kMaxKicks = 5;

ScopeId next_id() noexcept {
  static std::atomic<ScopeId> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

std::uint32_t count_of(int value) noexcept {
  return static_cast<std::uint32_t>(std::max(value, 0));
}
ScopeId pd_of(const transport::QpInit& init) noexcept {
  return static_cast<const Pd*>(init.pd)->id();
}

}  // namespace

Qp::Qp(const QpEnvironment& environment, const transport::QpInit& init)
    : reactor_(environment.reactor),
      memory_(environment.memory),
      connector_(environment.connector),
      drain_limit_(environment.drain_limit),
      id_(next_id()),
      sink_(*init.sink),
      context_(init.context),
      srq_(static_cast<Srq*>(init.srq)),
      pd_(pd_of(init)),
      recv_cq_(static_cast<Cq*>(init.recv_cq)),
      request_cq_(static_cast<Cq*>(init.request_cq)),
      solicited_only_(init.solicited_only),
      max_read_in_(count_of(init.max_rdma_read_in)),
      max_read_out_(count_of(init.max_rdma_read_out)),
      delayed_ack_(init.delayed_ack),
      requests_(count_of(init.max_request), std::max(1U, count_of(init.max_request_segments))),
      responses_(max_read_in_ + 1, 0),  // one more for the Read that only opens the connection
      spans_(requests_.max_segments()),
      receives_(srq_ != nullptr ? 0 : count_of(init.max_recv), count_of(init.max_recv_segments)),
      timer_(reactor_, udapl::Call::to<&Qp::on_timer>(this)),
      open_receive_(reactor_, udapl::Call::to<&Qp::open_receive>(this)),
      send_gathered_(reactor_, udapl::Call::to<&Qp::send_gathered>(this)),
      gate_(reactor_, SinkGate::to<&Qp::deliver, Qp>(), this) {
  private_data_.reserve(iwarp::kMpaMaxPrivateData);
  if (srq_ != nullptr)
    srq_segments_ = std::make_unique<Segment[]>(static_cast<std::size_t>(srq_->max_segments()));
  if (recv_cq_ != nullptr) recv_cq_->attach(*this);
  if (request_cq_ != nullptr) request_cq_->attach(*this);
}

Qp::~Qp() {
  std::unique_ptr<Handshake> handshake;
  Cq* recv_cq = nullptr;
  Cq* request_cq = nullptr;
  {
    const ScopedLock lock(lock_);
    recv_cq = std::exchange(recv_cq_, nullptr);  // nobody wants the completions of the flush
    request_cq = std::exchange(request_cq_, nullptr);
    if (state_ != State::kError) finish(Close::kGently);
    handshake = std::move(handshake_);
  }
  handshake.reset();
  for (Cq* const cq : {recv_cq, request_cq}) {
    if (cq == nullptr) continue;
    cq->detach(*this);
    cq->purge(*this);
  }
  reactor_.quiesce(*this);
}

Status Qp::modify(const transport::QpInit& init) {
  auto* recv_cq = static_cast<Cq*>(init.recv_cq);
  auto* request_cq = static_cast<Cq*>(init.request_cq);
  if (recv_cq != nullptr) recv_cq->attach(*this);
  if (request_cq != nullptr) request_cq->attach(*this);
  const Status changed = exchange_resources(init, recv_cq, request_cq);
  // What is not used: the old ones, or after a failure the new ones.
  if (recv_cq != nullptr) recv_cq->detach(*this);
  if (request_cq != nullptr) request_cq->detach(*this);
  return changed;
}

Status Qp::exchange_resources(const transport::QpInit& init, Cq*& recv_cq, Cq*& request_cq) {
  const ScopedLock lock(lock_);
  if (state_ != State::kIdle) return failure(DAT_INVALID_STATE);
  WorkRing<Request> requests(count_of(init.max_request),
                             std::max(1U, count_of(init.max_request_segments)));
  WorkRing<Response> responses(count_of(init.max_rdma_read_in) + 1, 0);
  std::vector<iwarp::IoSpan> spans(requests.max_segments());
  if (srq_ == nullptr) {
    WorkRing<Receive> receives(
        count_of(init.max_recv),
        receives_.empty() ? count_of(init.max_recv_segments)
                          : std::max(receives_.max_segments(), count_of(init.max_recv_segments)));
    if (receives_.size() > receives.depth()) return failure(DAT_INVALID_PARAMETER);
    move_all(receives_, receives);
    receives_ = std::move(receives);
  }
  requests_ = std::move(requests);
  responses_ = std::move(responses);
  spans_ = std::move(spans);
  pd_ = pd_of(init);
  std::swap(recv_cq_, recv_cq);
  std::swap(request_cq_, request_cq);
  solicited_only_ = init.solicited_only;
  max_read_in_ = count_of(init.max_rdma_read_in);
  max_read_out_ = count_of(init.max_rdma_read_out);
  delayed_ack_ = init.delayed_ack;
  return Status();
}

// ---- set-up ------------------------------------------------------------------------------------

namespace {

// Out of memory is a refusal like others here: the QP is idle again.
Result<std::unique_ptr<Handshake>> start_handshake(Connector& connector,
                                                   const transport::ConnectRequest& request,
                                                   ConnectionEnd& end) noexcept {
  try {
    return connector.connect(request, end);
  } catch (const std::bad_alloc&) {
    return failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
  }
}

}  // namespace

Status Qp::connect(const transport::ConnectRequest& request) {
  {
    const ScopedLock lock(lock_);
    if (state_ != State::kIdle) return failure(DAT_INVALID_STATE);
    set_state(State::kConnecting);
  }
  Result<std::unique_ptr<Handshake>> started = start_handshake(connector_, request, *this);
  std::unique_ptr<Handshake> superfluous;  // destroyed without the lock
  const ScopedLock lock(lock_);
  if (!started.ok()) {
    if (state_ == State::kConnecting) set_state(State::kIdle);
    return started.status();
  }
  // It may have ended meanwhile, or a disconnect may have come.
  if (state_ == State::kConnecting)
    handshake_ = *std::move(started);
  else
    superfluous = *std::move(started);
  return Status();
}

iwarp::MpaConfig Qp::mpa_config() const noexcept {
  const ScopedLock lock(lock_);
  iwarp::MpaConfig config;
  config.ird = static_cast<std::uint16_t>(std::min<std::uint32_t>(max_read_in_, iwarp::kDepthMax));
  const std::uint32_t reads = std::max(max_read_out_, delayed_ack_ ? 1U : 0U);
  config.ord = static_cast<std::uint16_t>(std::min<std::uint32_t>(reads, iwarp::kDepthMax));
  return config;
}

Status Qp::attach(std::unique_ptr<TcpStream>& stream, const Negotiated& negotiated) noexcept {
  std::unique_ptr<Handshake> ended;  // destroyed without the lock
  const ScopedLock lock(lock_);
  const bool expected =
      state_ == State::kIdle || (negotiated.initiator && state_ == State::kConnecting);
  if (!expected) return failure(DAT_INVALID_STATE);
  if (delayed_ack_ && negotiated.agreed.ord == 0) {  // less than was promised is no connection
    UDAPL_TRACE(kNormal, "QP %p: the peer serves no RDMA Reads, which delayed_ack needs",
                static_cast<void*>(this));
    if (negotiated.initiator) {
      finish(Close::kReset);
      gate_.post(kRefused);
    }
    return failure(DAT_MODEL_NOT_SUPPORTED);
  }
  // Only errors are reported until the sink knows that we are connected.
  const Status watched = stream->watch(0, *this);
  if (!watched.ok()) {
    if (negotiated.initiator) {
      finish(Close::kReset);
      gate_.post(kRefused);
    }
    return watched;
  }
  ended = std::move(handshake_);
  clear_connection();
  stream_ = std::move(stream);
  stream_->refresh_endpoints();
  endpoints_ = stream_->endpoints();
  const iwarp::Agreed& agreed = negotiated.agreed;
  sender_.emplace(
      iwarp::SenderConfig{agreed.crc, agreed.markers_to_send, stream_->effective_mss(), context_});
  receiver_.emplace(agreed.crc, context_);
  read_stag_ = memory_.ephemeral_stag();
  ord_ = agreed.ord == iwarp::kDepthNotNegotiated
             ? max_read_out_
             : std::min<std::uint32_t>(agreed.ord, max_read_out_);
  // A Read that opens the connection needs a place even where the consumer allows none.
  ird_ = std::max(max_read_in_, (agreed.rtr & iwarp::kRtrRead) != 0 ? 1U : 0U);
  private_data_.assign(negotiated.private_data.begin(), negotiated.private_data.end());
  if (negotiated.initiator)
    start_initiator(negotiated);
  else
    start_responder(negotiated);
  settle();
  return Status();
}

void Qp::start_responder(const Negotiated& negotiated) noexcept {
  set_state(State::kAccepted);
  receive_open_ = true;
  stream_->set_events(EPOLLIN);
  const IoResult sent = stream_->send(negotiated.reply);
  if (sent.kind != IoResult::kDone || sent.bytes != negotiated.reply.size()) {
    raise(BreakReason::kTransportLost);
    return;
  }
  const bool peer_begins = negotiated.agreed.rtr != iwarp::kRtrNone;
  start_timer(peer_begins ? Timing::kFirstFpdu : Timing::kGrace,
              peer_begins ? Clock::duration(kFirstFpduLimit) : Clock::duration(kGracePeriod));
}

void Qp::start_initiator(const Negotiated& negotiated) noexcept {
  switch (negotiated.agreed.rtr) {
    case iwarp::kRtrRead:
      controls_ = kRtrRead;
      break;
    case iwarp::kRtrWrite:
      controls_ = kRtrWrite;
      break;
    case iwarp::kRtrSend:
      controls_ = kRtrSend;
      break;
    case iwarp::kRtrNone:
      break;
  }
  established();
  if (controls_ != 0) start_timer(Timing::kKick, kFirstKick);
  transmit(kPassBudget);
}

// From now on requests may be sent. What arrives stays in the socket until the sink has been told,
// so that no completion is older than the connection (udapl-semantics 4.3).
void Qp::established() noexcept {
  set_state(State::kReady);
  if (timing_ != Timing::kNothing) start_timer(Timing::kNothing, {});
  receive_open_ = false;
  stream_->set_events(0);
  gate_.post(kEstablished);
  check_watermarks();
}

void Qp::open_receive() noexcept {
  const ScopedLock lock(lock_);
  if (stream_ == nullptr || state_ == State::kTerminating || receive_open_) return;
  receive_open_ = true;
  stream_->set_events(blocked_ ? EPOLLIN | EPOLLOUT : EPOLLIN);
  if (!staging_.staged().empty()) consume_staged();
  transmit(kPassBudget);
  settle();
}

void Qp::connect_failed(ConnectFailure why, transport::PrivateData from_peer) noexcept {
  std::unique_ptr<Handshake> ended;  // destroyed without the lock
  const ScopedLock lock(lock_);
  if (state_ != State::kConnecting) return;
  ended = std::move(handshake_);
  private_data_.assign(from_peer.begin(), from_peer.end());
  finish(Close::kReset);
  switch (why) {
    case ConnectFailure::kRejected:
      return gate_.post(kRejected);
    case ConnectFailure::kRefused:
      return gate_.post(kRefused);
    case ConnectFailure::kUnreachable:
      return gate_.post(kUnreachable);
    case ConnectFailure::kTimedOut:
      return gate_.post(kTimedOut);
  }
}

// ---- states ------------------------------------------------------------------------------------

// As after the constructor, but for what may be posted already.
void Qp::clear_connection() noexcept {
  fault_ = Fault{};
  private_data_.clear();
  kicks_ = 0;
  requests_.clear();
  built_ = sent_ = unanswered_ = 0;
  reads_in_flight_ = 0;
  rtr_read_in_flight_ = placed_read_in_flight_ = false;
  asked_ = acknowledged_ = 0;
  responses_.clear();
  response_built_ = 0;
  responses_in_a_row_ = 0;
  sender_.reset();
  receiver_.reset();
  batch_.clear();
  current_ = Current::kNone;
  controls_ = 0;
  blocked_ = false;
  posts_in_place_ = 0;
  gathered_bytes_ = 0;
  staging_.clear();
  receive_open_ = false;
  receiving_ = false;
  buffer_status_ = DAT_DTO_SUCCESS;
  receive_why_ = BreakReason::kProtocol;
}

void Qp::set_state(State next) noexcept {
  static constexpr const char* kNames[] = {"idle",     "connecting",  "accepted",    "ready",
                                           "draining", "half closed", "terminating", "error"};
  UDAPL_TRACE(kDetail, "QP %p: %s -> %s", static_cast<void*>(this),
              kNames[static_cast<int>(state_)], kNames[static_cast<int>(next)]);
  state_ = next;
}

// ---- time --------------------------------------------------------------------------------------

void Qp::start_timer(Timing timing, Clock::duration delay) noexcept {
  timing_ = timing;
  if (timing == Timing::kNothing)
    timer_.stop();
  else
    timer_.start_after(delay);
}

void Qp::on_timer() noexcept {
  const trace::About about(context_);
  const ScopedLock lock(lock_);
  switch (std::exchange(timing_, Timing::kNothing)) {
    case Timing::kNothing:
      return;
    case Timing::kFirstFpdu:
      UDAPL_TRACE(kNormal, "QP %p: the peer's first message did not come",
                  static_cast<void*>(this));
      return finish_broken(BreakReason::kTransportLost, Close::kReset);
    case Timing::kGrace:  // such a peer waits for us
      if (stream_->unacknowledged() != 0) return start_timer(Timing::kGrace, kGracePeriod);
      established();
      break;
    case Timing::kKick:  // cures a wake-up that kernel siw loses (soft-transport 1.12)
      if (receiver_->fpdus() != 0 || !staging_.staged().empty() || kicks_ == kMaxKicks) {
        if (state_ == State::kDraining) watch_drain();
        return;
      }
      ++kicks_;
      controls_ |= kKickWrite;
      start_timer(Timing::kKick, kFirstKick * (1 << kicks_));
      transmit(kPassBudget);
      break;
    case Timing::kDrain:
      if (!drain_stands_still()) return;
      UDAPL_TRACE(kNormal, "QP %p: nothing moves any more while it drains",
                  static_cast<void*>(this));
      return finish_broken(BreakReason::kTransportLost, Close::kReset);
    case Timing::kHalfClosed:  // the peer does not close its side
      finish(Close::kReset);
      gate_.post(kDisconnected);
      return;
    case Timing::kTerminate:
      return finish_broken(fault_.why, Close::kReset);
  }
  settle();
}

// ---- the rest ----------------------------------------------------------------------------------

transport::Endpoints Qp::endpoints() const noexcept {
  const ScopedLock lock(lock_);
  return handshake_ != nullptr ? handshake_->endpoints() : endpoints_;
}

void Qp::set_watermarks(int soft, int hard) noexcept {
  const ScopedLock lock(lock_);
  soft_mark_ = soft;
  hard_mark_ = hard;
  check_watermarks();
  settle();
}

int Qp::held() const noexcept {
  if (srq_ != nullptr) return receiving_ ? 1 : 0;
  return static_cast<int>(receives_.size());
}

void Qp::check_watermarks() noexcept {
  if (soft_mark_ >= 0 && held() > soft_mark_) {
    soft_mark_ = -1;
    gate_.post(kSoftWatermark);
  }
  if (hard_mark_ >= 0 && held() > hard_mark_ && connected())
    raise(BreakReason::kWatermark,
          iwarp::make_terminate(iwarp::TerminateCode::kRdmapLocalCatastrophic));
}

// Messages of a connection end in the order in which they take buffers, so the span is the number.
transport::ReceiveCounts Qp::receive_counts() const noexcept {
  const ScopedLock lock(lock_);
  return {held(), held()};
}

// Called by the driver, without locks; the sink call comes last, it may destroy us.
void Qp::deliver(unsigned call) noexcept {
  std::array<std::byte, iwarp::kMpaMaxPrivateData> data;
  transport::PrivateData from_peer;
  BreakReason why = BreakReason::kTransportLost;
  {
    const ScopedLock lock(lock_);
    from_peer = {data.data(), std::min(private_data_.size(), data.size())};
    std::copy_n(private_data_.begin(), from_peer.size(), data.begin());
    why = broken_why_;
  }
  switch (call) {
    case kEstablished:
      open_receive_.post();  // runs after this call has returned
      return sink_.on_established(from_peer);
    case kRejected:
      return sink_.on_rejected(from_peer);
    case kRefused:
      return sink_.on_refused();
    case kUnreachable:
      return sink_.on_unreachable();
    case kTimedOut:
      return sink_.on_timed_out();
    case kAcceptFailed:
      return sink_.on_accept_failed();
    case kDisconnected:
      return sink_.on_disconnected();
    case kBroken:
      return sink_.on_broken(why);
    case kSoftWatermark:
      return sink_.on_soft_watermark();
    default:
      return sink_.on_srq_released();
  }
}

}  // namespace udapl::soft
