// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/block_cache.h"
#include "dapl/transport/qp.h"
#include "providers/verbs/connection.h"
#include "providers/verbs/connector.h"
#include "providers/verbs/qp_shared.h"
#include "providers/verbs/queue.h"

#include <memory>

namespace udapl::verbs {

class Adapter;

// One end of a reliable connection: a Queue of work on a verbs RC QP, and the Connection that moves
// it through its states. Posts go straight to the device; the lock guards set-up and end only. A QP
// that is reset gets a new ibv_qp, so that no completion or packet of the old one is mistaken for
// one of the new (docs/adr/0009). Thread-safe as described at transport::Qp. Owned by an Ep.
class Qp final : public transport::Qp {
 public:
  // INSUFFICIENT_RESOURCES; INVALID_PARAMETER: a limit of the device is exceeded. Throws
  // std::bad_alloc.
  static Result<std::unique_ptr<transport::Qp>> create(Adapter& adapter,
                                                       const transport::QpInit& init);
  Qp(Adapter& adapter, const transport::QpInit& init);  // use create()
  ~Qp() override;
  Qp(const Qp&) = delete;
  Qp& operator=(const Qp&) = delete;
  static void* operator new(std::size_t) { return BlockCache<Qp>::allocate(); }
  static void operator delete(void* block) noexcept { BlockCache<Qp>::release(block); }

  // ---- transport::Qp: hot ----------------------------------------------------------------------
  [[gnu::always_inline]] DAT_RETURN post_recv(transport::WorkId id, const DAT_LMR_TRIPLET* list,
                                              DAT_COUNT count,
                                              transport::WorkFlags flags) noexcept override {
    if (!queue_.is_primed_for(list, count, flags)) [[unlikely]]
      return post_any_recv(id, list, count, flags);
    return queue_.submit_receive<true>(id, list, 1);
  }
  DAT_RETURN post_send(transport::WorkId id, const DAT_LMR_TRIPLET* list, DAT_COUNT count,
                       transport::WorkFlags flags) noexcept override;
  DAT_RETURN post_send_invalidate(transport::WorkId id, const DAT_LMR_TRIPLET* list,
                                  DAT_COUNT count, DAT_RMR_CONTEXT context,
                                  transport::WorkFlags flags) noexcept override;
  DAT_RETURN post_rdma_write(transport::WorkId id, const DAT_LMR_TRIPLET* list, DAT_COUNT count,
                             const DAT_RMR_TRIPLET& remote,
                             transport::WorkFlags flags) noexcept override;
  DAT_RETURN post_rdma_read(transport::WorkId id, const DAT_LMR_TRIPLET* list, DAT_COUNT count,
                            const DAT_RMR_TRIPLET& remote,
                            transport::WorkFlags flags) noexcept override;
  // Not supported: the local buffer of a verbs read is named by a local key only.
  DAT_RETURN post_rdma_read_to_rmr(transport::WorkId, const DAT_RMR_TRIPLET&,
                                   const DAT_RMR_TRIPLET&, transport::WorkFlags) noexcept override {
    return dat_error(DAT_MODEL_NOT_SUPPORTED);
  }
  DAT_RETURN post_bind(transport::WorkId id, const transport::BindRequest& bind,
                       transport::WorkFlags flags, DAT_RMR_CONTEXT* context) noexcept override;
  DAT_RETURN post_write_immediate(transport::WorkId id, const DAT_LMR_TRIPLET* list,
                                  DAT_COUNT count, const DAT_RMR_TRIPLET& remote,
                                  std::uint32_t immediate,
                                  transport::WorkFlags flags) noexcept override;
  DAT_RETURN post_fetch_add(transport::WorkId id, const DAT_LMR_TRIPLET& local,
                            const DAT_RMR_TRIPLET& remote, std::uint64_t add,
                            transport::WorkFlags flags) noexcept override;
  DAT_RETURN post_compare_swap(transport::WorkId id, const DAT_LMR_TRIPLET& local,
                               const DAT_RMR_TRIPLET& remote, std::uint64_t compare,
                               std::uint64_t swap, transport::WorkFlags flags) noexcept override;

  // For dapl::post::PostsGated. Calls the general function if the queue has no prepared request.
  template <transport::Operation kOperation, bool kOneSegment>
  [[gnu::always_inline]] DAT_RETURN post_gated(const transport::Transfer& transfer) noexcept {
    Queue::PreparedRequest* const prepared = queue_.prepare<kOperation, kOneSegment>(transfer);
    if (prepared == nullptr) [[unlikely]]
      return transport::post<kOperation>(*this, transfer);
    return queue_.submit<kOneSegment>(*prepared, transfer);
  }
  [[gnu::always_inline]] DAT_RETURN post_list_recv(transport::WorkId id,
                                                   const DAT_LMR_TRIPLET* list,
                                                   DAT_COUNT count) noexcept {
    if (!queue_.may_receive(list, count)) [[unlikely]]
      return post_any_recv(id, list, count, transport::kSignalled);
    return queue_.submit_receive<false>(id, list, count);
  }

  // ---- transport::Qp: control ------------------------------------------------------------------
  Status modify(const transport::QpInit& init) override UDAPL_EXCLUDES(qp_locked);
  Status connect(const transport::ConnectRequest& request) override {
    return connection_.connect(request);
  }
  void disconnect(transport::DisconnectMode mode) noexcept override {
    connection_.disconnect(mode);
  }
  [[nodiscard]] bool failed() const noexcept override;
  [[nodiscard]] bool flushing() const noexcept override;
  Status reset() override UDAPL_EXCLUDES(qp_locked);
  [[nodiscard]] transport::Endpoints endpoints() const noexcept override UDAPL_EXCLUDES(qp_locked);
  // Both count a buffer as held until the consumer has dequeued its completion.
  void set_watermarks(int soft, int hard) noexcept override UDAPL_EXCLUDES(qp_locked);
  [[nodiscard]] transport::ReceiveCounts receive_counts() const noexcept override;

  // ---- for the accept() of a transport::IncomingConnection; takes `offered` on success ---------
  Status accept(std::unique_ptr<CmConnection>& offered, transport::PrivateData private_data) {
    return connection_.accept(offered, private_data);
  }
  // ---- for Adapter: called by the driving thread before it acknowledges the event --------------
  void on_async_event(ibv_event_type event) noexcept { connection_.on_async_event(event); }

 private:
  DAT_RETURN post_any_recv(transport::WorkId id, const DAT_LMR_TRIPLET* list, DAT_COUNT count,
                           transport::WorkFlags flags) noexcept;

  mutable QpLock lock_;
  QpShared shared_;
  Queue queue_;
  Connection connection_;  // uses the queue, so it is destroyed first
};

}  // namespace udapl::verbs
