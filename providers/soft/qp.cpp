// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/qp.h"

#include "common/trace.h"
#include "providers/soft/cq.h"
#include "providers/soft/mr.h"
#include "providers/soft/srq.h"

#include <algorithm>
#include <atomic>

namespace udapl::soft {
namespace {

using transport::BreakReason;

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
