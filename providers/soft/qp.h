// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "dapl/transport/qp.h"
#include "providers/soft/connection.h"
#include "providers/soft/connector.h"
#include "providers/soft/qp_shared.h"
#include "providers/soft/queue.h"

#include <memory>

namespace udapl::soft {

class Cq;
class Pd;

// One end of a connection. It consists of a Queue, which holds posted work, and a Connection, which
// gives the queue a link to the peer. One lock protects both. A post sends as much as the link
// accepts at once; the driving thread sends the remainder. Thread-safe as described at
// transport::Qp. Owned by an Ep.
class Qp final : public transport::Qp,
                 public ConnectionEnd,
                 private QueueEnd,
                 private MrTable::Keeper {
 public:
  // Allocates everything that posting and transferring need, except for the memory of the link.
  // Throws std::bad_alloc.
  Qp(const QpEnvironment& environment, const transport::QpInit& init);
  ~Qp() override;
  Qp(const Qp&) = delete;
  Qp& operator=(const Qp&) = delete;

  // ---- transport::Qp: hot -----------------------------------------------------------------------
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

  void complete_requests() noexcept override;
  bool await_answer(Backoff& backoff) noexcept override;

  // ---- transport::Qp: control -------------------------------------------------------------------
  Status modify(const transport::QpInit& init) override;
  Status connect(const transport::ConnectRequest& request) override {
    return connection_.connect(request);
  }
  void disconnect(transport::DisconnectMode mode) noexcept override {
    connection_.disconnect(mode);
  }
  Status reset() override;
  [[nodiscard]] bool failed() const noexcept override;
  [[nodiscard]] transport::Endpoints endpoints() const noexcept override;
  void set_watermarks(int soft, int hard) noexcept override;
  [[nodiscard]] transport::ReceiveCounts receive_counts() const noexcept override;

  // ---- ConnectionEnd: for the connection manager ------------------------------------------------
  [[nodiscard]] iwarp::MpaConfig mpa_config() const noexcept override;
  Status attach(std::unique_ptr<ByteStream>& stream,
                const Negotiated& negotiated) noexcept override {
    return connection_.attach(stream, negotiated);
  }
  void on_failed(SetupFailure why, transport::PrivateData from_peer) noexcept override {
    connection_.on_failed(why, from_peer);
  }

  // Like attach() above, for a link of any kind.
  Status attach(std::unique_ptr<Link>& link, const Negotiated& negotiated) noexcept {
    return connection_.attach(link, negotiated);
  }

  // Called by a Cq, without the lock of a Qp, when it has overflowed.
  void on_cq_overflow() noexcept UDAPL_EXCLUDES(qp_locked);
  // Called in the same way when a consumer begins to wait for completions (CompletionDemand).
  void on_completion_wanted() noexcept UDAPL_EXCLUDES(qp_locked);

 private:
  Status exchange_resources(const transport::QpInit& init, Cq*& recv_cq, Cq*& request_cq)
      UDAPL_EXCLUDES(qp_locked);
  template <class Post>
  DAT_RETURN post(Post post) noexcept UDAPL_EXCLUDES(qp_locked);
  template <class Post>
  DAT_RETURN post_locked(Post post) noexcept UDAPL_REQUIRES(qp_locked);
  template <RequestKind kKind>
  DAT_RETURN post_message(transport::WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT,
                          const DAT_RMR_TRIPLET& remote, transport::WorkFlags) noexcept
      UDAPL_EXCLUDES(qp_locked);
  DAT_RETURN post_any_message(RequestKind, transport::WorkId, std::span<const DAT_LMR_TRIPLET>,
                              const DAT_RMR_TRIPLET& remote, transport::WorkFlags) noexcept
      UDAPL_REQUIRES(qp_locked);
  void send_gathered() noexcept UDAPL_EXCLUDES(qp_locked);
  void answer_late() noexcept UDAPL_EXCLUDES(qp_locked);
  void on_srq_buffer() noexcept { connection_.on_srq_buffer(); }
  void let_go(MrRef ref) noexcept override UDAPL_EXCLUDES(qp_locked);
  void on_soft_watermark() noexcept override { connection_.report_soft_watermark(); }

  mutable QpLock lock_;
  QpShared shared_;
  Queue queue_ UDAPL_GUARDED_BY(qp_locked);
  Connection connection_;  // the last member, so destroyed first: it uses the queue
};

}  // namespace udapl::soft
