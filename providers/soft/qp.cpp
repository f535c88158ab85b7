// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/qp.h"

#include "providers/soft/cq.h"
#include "providers/soft/mr.h"

#include <atomic>
#include <span>
#include <utility>

namespace udapl::soft {

using transport::WorkFlags;
using transport::WorkId;

namespace {

ScopeId next_id() noexcept {
  static std::atomic<ScopeId> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

ScopeId pd_of(const transport::QpInit& init) noexcept {
  return static_cast<const Pd*>(init.pd)->id();
}

std::span<const DAT_LMR_TRIPLET> list_of(const DAT_LMR_TRIPLET* segments,
                                         DAT_COUNT count) noexcept {
  return {segments, static_cast<std::size_t>(count)};
}

}  // namespace

Qp::Qp(const QpEnvironment& environment, const transport::QpInit& init)
    : shared_(*this, environment.memory, next_id(), init.context, pd_of(init)),
      queue_(shared_, init, environment.reactor,
             {environment.no_receive_limit != Clock::duration::zero(), environment.confirms_writes},
             *this,
             {udapl::Call::to<&Qp::send_gathered>(this), udapl::Call::to<&Qp::answer_late>(this),
              udapl::Call::to<&Qp::on_srq_buffer>(this)}),
      connection_(environment, *init.sink, *this, shared_, lock_, queue_) {
  if (init.recv_cq != nullptr) static_cast<Cq*>(init.recv_cq)->attach(*this);
  if (init.request_cq != nullptr) static_cast<Cq*>(init.request_cq)->attach(*this, init.max_unseen);
  shared_.memory.add(*this);
}

Qp::~Qp() {
  Cq* recv_cq = nullptr;
  Cq* request_cq = nullptr;
  {
    const QpGuard guard(lock_);
    queue_.exchange_cqs(recv_cq, request_cq);  // drops the completions of the flush
  }
  connection_.shut_down();
  shared_.memory.wait_ended(shared_.id);
  for (Cq* const cq : {recv_cq, request_cq}) {
    if (cq == nullptr) continue;
    cq->detach(*this);
    cq->purge(*this);
  }
  queue_.close();
  shared_.memory.remove(*this);
}

// Waits until no peer of an earlier connection accesses memory.
Status Qp::reset() {
  const Status status = connection_.reset();
  if (status.ok()) shared_.memory.wait_ended(shared_.id);
  return status;
}

Status Qp::modify(const transport::QpInit& init) {
  auto* recv_cq = static_cast<Cq*>(init.recv_cq);
  auto* request_cq = static_cast<Cq*>(init.request_cq);
  if (recv_cq != nullptr) recv_cq->attach(*this);
  if (request_cq != nullptr) request_cq->attach(*this, init.max_unseen);
  const Status changed = exchange_resources(init, recv_cq, request_cq);
  // Detach the CQs that are not used: the old ones, or after a failure the new ones.
  if (recv_cq != nullptr) recv_cq->detach(*this);
  if (request_cq != nullptr) request_cq->detach(*this);
  return changed;
}

Status Qp::exchange_resources(const transport::QpInit& init, Cq*& recv_cq, Cq*& request_cq) {
  const QpGuard guard(lock_);
  if (!connection_.idle()) return failure(DAT_INVALID_STATE);
  const Status changed = queue_.modify(init, pd_of(init));
  if (!changed.ok()) return changed;
  queue_.exchange_cqs(recv_cq, request_cq);
  return changed;
}

// ---- posting ------------------------------------------------------------------------------------

template <class Post>
DAT_RETURN Qp::post(Post post) noexcept {
  const QpGuard guard(lock_);
  return post_locked(post);
}

template <class Post>
DAT_RETURN Qp::post_locked(Post post) noexcept {
  const DAT_RETURN posted = queue_.post(post);
  if (posted != DAT_SUCCESS) [[unlikely]]
    return posted;
  if (queue_.send_now()) {
    queue_.send_posted();
    connection_.settle();
  }
  return DAT_SUCCESS;
}

void Qp::send_gathered() noexcept {
  const QpGuard guard(lock_);
  queue_.begin_gathered();
  if (queue_.blocked()) return;
  queue_.transmit(Queue::kPassBudget);
  connection_.settle();
}

void Qp::answer_late() noexcept {
  const QpGuard guard(lock_);
  if (shared_.link == nullptr) return;
  queue_.answer_late();
  connection_.settle();
}

void Qp::complete_requests() noexcept {
  const QpGuard guard(lock_);
  if (shared_.link == nullptr) return;
  queue_.collect_placed();
  connection_.look_for_confirmations();
  if (shared_.link == nullptr || queue_.blocked()) return;
  queue_.transmit(Queue::kPostBudget);
  connection_.settle();
}

// Called by a post that finds the queue full. A program may know from the peer's reaction that its
// RDMA Writes are placed, and post the next ones, before the answer to our Read has arrived. The
// answer usually follows within moments, but not while the peer's host stands still. So after one
// wait in vain, no post waits again until something is confirmed.
bool Qp::await_answer(Backoff& backoff) noexcept {
  if (connection_.driven_here()) return false;
  {
    const QpGuard guard(lock_);
    if (shared_.link == nullptr || !queue_.worth_waiting()) return false;
    if (backoff.waited_long()) {
      queue_.note_waited_in_vain();
      return false;
    }
  }
  backoff.wait();
  complete_requests();
  return true;
}

// A short message of one segment takes the fast path if nothing has to be sent before it. At link
// time, gnu::flatten inlines everything that the most frequent posts call (docs/adr/0038), down to
// Queue::transmit and Connection::settle.
template <RequestKind kKind>
DAT_RETURN Qp::post_message(WorkId id, const DAT_LMR_TRIPLET* segments, DAT_COUNT count,
                            const DAT_RMR_TRIPLET& remote, WorkFlags flags) noexcept {
  const QpGuard guard(lock_);
  if (count != 1 || !queue_.post_at_once(kKind, id, *segments, remote, flags)) [[unlikely]]
    return post_any_message(kKind, id, list_of(segments, count), remote, flags);
  if (shared_.fault.raised) [[unlikely]]
    connection_.settle();
  return DAT_SUCCESS;
}

[[gnu::noinline, gnu::flatten]] DAT_RETURN Qp::post_any_message(
    RequestKind kind, WorkId id, std::span<const DAT_LMR_TRIPLET> list,
    const DAT_RMR_TRIPLET& remote, WorkFlags flags) noexcept {
  return post_locked([&](SendQueue& requests) UDAPL_REQUIRES(qp_locked) {
    return requests.post_message(kind, id, list, remote, 0, flags);
  });
}

[[gnu::flatten]] DAT_RETURN Qp::post_send(WorkId id, const DAT_LMR_TRIPLET* segments,
                                          DAT_COUNT count, WorkFlags flags) noexcept {
  return post_message<RequestKind::kSend>(id, segments, count, {}, flags);
}

DAT_RETURN Qp::post_send_invalidate(WorkId id, const DAT_LMR_TRIPLET* segments, DAT_COUNT count,
                                    DAT_RMR_CONTEXT context, WorkFlags flags) noexcept {
  return post([&](SendQueue& requests) UDAPL_REQUIRES(qp_locked) {
    return requests.post_send_invalidate(id, list_of(segments, count), context, flags);
  });
}

[[gnu::flatten]] DAT_RETURN Qp::post_rdma_write(WorkId id, const DAT_LMR_TRIPLET* segments,
                                                DAT_COUNT count, const DAT_RMR_TRIPLET& remote,
                                                WorkFlags flags) noexcept {
  return post_message<RequestKind::kWrite>(id, segments, count, remote, flags);
}

DAT_RETURN Qp::post_write_immediate(WorkId id, const DAT_LMR_TRIPLET* segments, DAT_COUNT count,
                                    const DAT_RMR_TRIPLET& remote, std::uint32_t immediate,
                                    WorkFlags flags) noexcept {
  return post([&](SendQueue& requests) UDAPL_REQUIRES(qp_locked) {
    return requests.post_message(RequestKind::kWriteImmediate, id, list_of(segments, count), remote,
                                 immediate, flags);
  });
}

DAT_RETURN Qp::post_rdma_read(WorkId id, const DAT_LMR_TRIPLET* segments, DAT_COUNT count,
                              const DAT_RMR_TRIPLET& remote, WorkFlags flags) noexcept {
  return post([&](SendQueue& requests) UDAPL_REQUIRES(qp_locked) {
    return requests.post_message(RequestKind::kRead, id, list_of(segments, count), remote, 0,
                                 flags);
  });
}

DAT_RETURN Qp::post_rdma_read_to_rmr(WorkId id, const DAT_RMR_TRIPLET& sink,
                                     const DAT_RMR_TRIPLET& remote, WorkFlags flags) noexcept {
  return post([&](SendQueue& requests) UDAPL_REQUIRES(qp_locked) {
    return requests.post_read_to_rmr(id, sink, remote, flags);
  });
}

DAT_RETURN Qp::post_bind(WorkId id, const transport::BindRequest& bind, WorkFlags flags,
                         DAT_RMR_CONTEXT* context) noexcept {
  return post([&](SendQueue& requests) UDAPL_REQUIRES(qp_locked) {
    return requests.post_bind(id, bind, flags, context);
  });
}

DAT_RETURN Qp::post_fetch_add(WorkId id, const DAT_LMR_TRIPLET& local,
                              const DAT_RMR_TRIPLET& remote, std::uint64_t add,
                              WorkFlags flags) noexcept {
  return post([&](SendQueue& requests) UDAPL_REQUIRES(qp_locked) {
    return requests.post_atomic(RequestKind::kFetchAdd, id, local, remote, add, 0, flags);
  });
}

DAT_RETURN Qp::post_compare_swap(WorkId id, const DAT_LMR_TRIPLET& local,
                                 const DAT_RMR_TRIPLET& remote, std::uint64_t compare,
                                 std::uint64_t swap, WorkFlags flags) noexcept {
  return post([&](SendQueue& requests) UDAPL_REQUIRES(qp_locked) {
    return requests.post_atomic(RequestKind::kCompareSwap, id, local, remote, compare, swap, flags);
  });
}

DAT_RETURN Qp::post_recv(WorkId id, const DAT_LMR_TRIPLET* segments, DAT_COUNT count,
                         WorkFlags flags) noexcept {
  const QpGuard guard(lock_);
  const DAT_RETURN posted = queue_.post_receive(id, list_of(segments, count), flags);
  if (posted != DAT_SUCCESS) [[unlikely]]
    return posted;
  connection_.receive_posted();
  if (queue_.check_watermarks()) [[unlikely]]
    connection_.settle();
  return DAT_SUCCESS;
}

// ---- the rest -----------------------------------------------------------------------------------

bool Qp::failed() const noexcept {
  const QpGuard guard(lock_);
  return !connection_.connected();
}

transport::Endpoints Qp::endpoints() const noexcept {
  const QpGuard guard(lock_);
  return connection_.endpoints();
}

void Qp::set_watermarks(int soft, int hard) noexcept {
  const QpGuard guard(lock_);
  queue_.set_watermarks(soft, hard);
  connection_.settle();
}

// Messages of a connection end in the order in which they take buffers. So there are no gaps, and
// the span of the buffers equals their number.
transport::ReceiveCounts Qp::receive_counts() const noexcept {
  const QpGuard guard(lock_);
  return {queue_.receives_held(), queue_.receives_held()};
}

iwarp::MpaConfig Qp::mpa_config() const noexcept {
  const QpGuard guard(lock_);
  return queue_.depths();
}

void Qp::let_go(MrRef ref) noexcept {
  const QpGuard guard(lock_);
  queue_.let_go(ref);
}

void Qp::on_completion_wanted() noexcept {
  const QpGuard guard(lock_);
  if (shared_.link == nullptr || shared_.link->confirmations() == nullptr) return;
  shared_.link->confirmations()->completion_wanted();
}

void Qp::on_cq_overflow() noexcept {
  const QpGuard guard(lock_);
  if (!connection_.connected()) return;
  shared_.lose_completion();
  connection_.settle();
}

}  // namespace udapl::soft
