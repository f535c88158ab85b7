// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <infiniband/verbs.h>

#include "common/annotations.h"
#include "common/mutex.h"
#include "common/spin_lock.h"
#include "dapl/transport/qp.h"
#include "providers/reactor/sink_gate.h"
#include "providers/reactor/watch.h"
#include "providers/verbs/connection_state.h"
#include "providers/verbs/connector.h"
#include "providers/verbs/mr.h"
#include "providers/verbs/work_tag.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace udapl::verbs {

class Adapter;
class Cq;

// One end of a reliable connection: a verbs RC QP, moved through its states by us, and the
// Connection that a Connector has made. Posts go straight to the device; `lock_` guards set-up and
// end only. A QP that is reset takes a new ibv_qp, so that no completion or packet of the old one
// is taken for one of the new (docs/adr/0009). Sink calls go through the gate. Thread-safe as
// transport::Qp says. Owned by an Ep.
//
// qp_post.h: posting (hot). qp_post.cpp: its cold paths. qp_bind.cpp: windows. qp.cpp: resources.
// qp_connect.cpp: set-up. qp_end.cpp: how a connection ends.
class Qp final : public transport::Qp, private ConnectionEnd {
 public:
  // INSUFFICIENT_RESOURCES, INVALID_PARAMETER: beyond a limit of the device. Throws std::bad_alloc.
  static Result<std::unique_ptr<transport::Qp>> create(Adapter& adapter,
                                                       const transport::QpInit& init);
  Qp(Adapter& adapter, const transport::QpInit& init);  // use create()
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

  // For dapl::post::PostsSegments.
  DAT_RETURN post_one_send(transport::WorkId, const DAT_LMR_TRIPLET&, std::uint32_t length,
                           transport::WorkFlags) noexcept;
  DAT_RETURN post_one_write(transport::WorkId, const DAT_LMR_TRIPLET&, std::uint32_t length,
                            const DAT_RMR_TRIPLET& remote, transport::WorkFlags) noexcept;
  DAT_RETURN post_one_read(transport::WorkId, const DAT_LMR_TRIPLET&, std::uint32_t length,
                           const DAT_RMR_TRIPLET& remote, transport::WorkFlags) noexcept;
  // For dapl::post::PostsLists.
  DAT_RETURN post_list_send(transport::WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT,
                            std::uint64_t length, transport::WorkFlags) noexcept;
  DAT_RETURN post_list_write(transport::WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT,
                             std::uint64_t length, const DAT_RMR_TRIPLET& remote,
                             transport::WorkFlags) noexcept;
  DAT_RETURN post_list_recv(transport::WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT,
                            transport::WorkFlags) noexcept;

  // ---- transport::Qp: control ------------------------------------------------------------------
  Status modify(const transport::QpInit& init) override UDAPL_EXCLUDES(lock_);
  Status connect(const transport::ConnectRequest& request) override UDAPL_EXCLUDES(lock_);
  void disconnect(transport::DisconnectMode mode) noexcept override UDAPL_EXCLUDES(lock_);
  [[nodiscard]] bool flushing() const noexcept override;
  Status reset() override UDAPL_EXCLUDES(lock_);
  [[nodiscard]] transport::Endpoints endpoints() const noexcept override UDAPL_EXCLUDES(lock_);
  // Both count a buffer as held until the consumer has taken its completion.
  void set_watermarks(int soft, int hard) noexcept override UDAPL_EXCLUDES(lock_);
  [[nodiscard]] transport::ReceiveCounts receive_counts() const noexcept override;

  // ---- for a transport::IncomingConnection -----------------------------------------------------
  // Its accept(). Takes `offered`, but for an error.
  Status accept(std::unique_ptr<Connection>& offered, transport::PrivateData private_data)
      UDAPL_EXCLUDES(lock_);

  // ---- for Cq: by whoever polls, any lock of the core may be held ------------------------------
  // A request or receive of this QP did not succeed.
  void on_failed_work(std::uint64_t wr_id, ibv_wc_status status) noexcept;
  // What the failure says; another status than the device's for a Read that the peer does not
  // serve.
  [[nodiscard]] ibv_wc_status meaning_of(std::uint64_t wr_id, ibv_wc_status status) const noexcept;
  // Is this flushed request the oldest of those that were outstanding when the peer was lost?
  [[nodiscard]] bool takes_loss() noexcept {
    return lost_.load(std::memory_order_acquire) && lost_.exchange(false);
  }
  // kInternalWork has succeeded: the marker behind the last request of a graceful disconnect.
  void on_marker() noexcept;
  // A CQ that this QP feeds has lost a completion. By the driver.
  void on_cq_overflow() noexcept UDAPL_EXCLUDES(lock_);

  // ---- for Adapter: by the driver, the event not acknowledged yet ------------------------------
  void on_async_event(ibv_event_type event) noexcept UDAPL_EXCLUDES(lock_);

 private:
  static constexpr std::uint32_t kConnectionCalls =
      ((1U << kSoftWatermark) - 1) & ~(1U << kAsyncError);
  // What the one timer is for.
  enum class Timing : std::uint8_t { kNothing, kConnect, kAccept, kDrain, kSrqRelease };

  // Of the partition table; until the Connection knows which one it uses.
  static constexpr std::uint16_t kFirstPkey = 0;

  struct DestroyQp {
    void operator()(ibv_qp* qp) const noexcept;
  };
  using QpHandle = std::unique_ptr<ibv_qp, DestroyQp>;
  // A signalled request of one segment, but for wr_id, segment and remote place: what stays the
  // same from post to post is written once.
  struct PreparedRequest {
    ibv_send_wr request;
    ibv_send_wr* refused;
  };
  struct Prepared {
    PreparedRequest inlined;
    PreparedRequest plain;
  };
  struct PreparedReceive {
    ibv_recv_wr receive;
    ibv_recv_wr* refused;
  };
  struct PostedBind {
    std::uint64_t wr_id;
    std::uint32_t key;  // that it makes
  };

  // qp_post.h
  // Null: not without a further look at the segment.
  [[nodiscard]] PreparedRequest* prepare(Prepared& prepared, const DAT_LMR_TRIPLET& segment,
                                         std::uint32_t length) noexcept;
  DAT_RETURN submit(PreparedRequest& prepared, transport::WorkId id, const DAT_LMR_TRIPLET& segment,
                    transport::WorkFlags flags) noexcept;
  DAT_RETURN submit_list(Prepared& prepared, transport::WorkId id, const DAT_LMR_TRIPLET* list,
                         DAT_COUNT count, std::uint64_t length,
                         transport::WorkFlags flags) noexcept;
  // qp_post.cpp
  DAT_RETURN submit(ibv_send_wr& request) noexcept;
  void prepare_requests() noexcept;
  // May the device be given the segment? Its length is not 0.
  DAT_RETURN check(RegionCache& known, const DAT_LMR_TRIPLET& segment, bool write) noexcept;
  [[gnu::noinline]] DAT_RETURN check_in_table(RegionCache& known, const DAT_LMR_TRIPLET& segment,
                                              bool write) noexcept;
  // The segments of a request: the first code that is no success, else how much they are.
  struct CheckedList {
    DAT_RETURN code = DAT_SUCCESS;
    bool has_empty = false;
    std::uint64_t total = 0;
  };
  CheckedList check_all(const DAT_LMR_TRIPLET* list, DAT_COUNT count, bool write) noexcept;
  void expect_requests_like(const DAT_LMR_TRIPLET& segment) noexcept;
  void expect_receives_like(const DAT_LMR_TRIPLET& segment) noexcept;
  DAT_RETURN post_message(ibv_send_wr& request, transport::WorkId id, const DAT_LMR_TRIPLET* list,
                          DAT_COUNT count, transport::WorkFlags flags) noexcept;
  DAT_RETURN post_unserved(transport::WorkId id, transport::WorkFlags flags) noexcept;
  DAT_RETURN post_any_recv(transport::WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT,
                           transport::WorkFlags) noexcept;
  DAT_RETURN post_without_empty(ibv_send_wr& request) noexcept;
  DAT_RETURN post_nothing(std::uint64_t wr_id, transport::WorkFlags flags) noexcept;
  DAT_RETURN post_recv_without_empty(ibv_recv_wr& receive) noexcept;
  DAT_RETURN post_trimmed_read(ibv_send_wr& request, std::uint32_t length) noexcept;
  DAT_RETURN post_recv_slowly(ibv_recv_wr& receive) noexcept;
  DAT_RETURN post_atomic(ibv_wr_opcode operation, transport::WorkId id,
                         const DAT_LMR_TRIPLET& local, const DAT_RMR_TRIPLET& remote,
                         std::uint64_t first, std::uint64_t second,
                         transport::WorkFlags flags) noexcept;

  // qp_bind.cpp
  DAT_RETURN post_bind_type2(std::uint64_t wr_id, const transport::BindRequest& bind,
                             transport::WorkFlags flags, Window& window,
                             std::uint32_t* key) noexcept UDAPL_REQUIRES(window.lock());
  DAT_RETURN post_bind_type1(std::uint64_t wr_id, const transport::BindRequest& bind,
                             transport::WorkFlags flags, Window& window,
                             std::uint32_t* key) noexcept UDAPL_REQUIRES(window.lock());
  void remember_bind(std::uint64_t wr_id, std::uint32_t key) noexcept;
  void bind_failed(std::uint64_t wr_id) noexcept UDAPL_EXCLUDES(binds_lock_);

  // qp.cpp
  static QpHandle create_with_inline(Adapter& adapter, ibv_pd* pd, const ibv_qp_init_attr& wanted);
  [[nodiscard]] Result<QpHandle> make_queue(const transport::QpInit& init);
  void attach(const ibv_qp& qp, const transport::QpInit& init);
  void detach(std::uint32_t number, const transport::QpInit& init) noexcept;
  // Goes over to `fresh`; the former queue is in *former, to be destroyed without the lock.
  void exchange_queue(QpHandle fresh, const transport::QpInit& init, QpHandle* former)
      UDAPL_REQUIRES(lock_);
  void retire_queue(QpHandle former, const transport::QpInit& init) noexcept;
  void clear_connection() noexcept UDAPL_REQUIRES(lock_);
  // After in_error_ or watermarked_ has changed.
  void update_receives() noexcept UDAPL_REQUIRES(lock_) {
    receive_regions_.block(special_receives());
  }
  // Have posted receives more to do than to be given to the device?
  [[nodiscard]] bool special_receives() const noexcept {
    return in_error_.load(std::memory_order_relaxed) ||
           watermarked_.load(std::memory_order_relaxed) || !own_receives_;
  }
  void set_state(QpState next) noexcept UDAPL_REQUIRES(lock_);
  void start_timer(Timing timing, Clock::duration delay) noexcept UDAPL_REQUIRES(lock_);
  void on_timer() noexcept UDAPL_EXCLUDES(lock_);
  void deliver(unsigned call) noexcept UDAPL_EXCLUDES(lock_);
  [[nodiscard]] int held() const noexcept;

  // qp_connect.cpp
  // ---- ConnectionEnd
  void on_reply(Connection& connection, transport::PrivateData from_peer) noexcept override
      UDAPL_EXCLUDES(lock_);
  void on_established(Connection& connection, transport::PrivateData reply) noexcept override
      UDAPL_EXCLUDES(lock_);
  void on_failed(Connection& connection, SetupFailure why,
                 transport::PrivateData from_peer) noexcept override UDAPL_EXCLUDES(lock_);
  void on_lost(Connection& connection, Loss why) noexcept override UDAPL_EXCLUDES(lock_);
  // ----
  void established() noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] QpTerms terms() const noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] bool to_ready() noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] bool change_state(ibv_qp_state state) noexcept UDAPL_REQUIRES(lock_);
  void keep(transport::PrivateData from_peer) noexcept UDAPL_REQUIRES(lock_);

  // qp_end.cpp
  void enter_error() noexcept UDAPL_REQUIRES(lock_);
  void flush() noexcept;
  // Does what the state table says of `event`. By the driver, unless the Connection goes on: it may
  // be destroyed.
  void take(QpEvent event) noexcept UDAPL_REQUIRES(lock_);
  void break_connection(transport::BreakCause cause) noexcept UDAPL_REQUIRES(lock_);
  void post_marker() noexcept UDAPL_REQUIRES(lock_);
  void look_for_drain() noexcept UDAPL_EXCLUDES(lock_);
  void handle_reported_failures() noexcept UDAPL_EXCLUDES(lock_);
  void check_watermarks() noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] bool connected() const noexcept UDAPL_REQUIRES(lock_) {
    return state_ == QpState::kReady || state_ == QpState::kDraining;
  }

  // What posts need; changed while nothing can be posted.
  ibv_qp* qp_ = nullptr;
  std::uint32_t max_inline_ = 0;
  Prepared send_{};  // under the core's request lock, as write_ and read_
  Prepared write_{};
  PreparedRequest read_{};
  PreparedReceive receive_{};             // under its receive lock
  std::uint32_t max_binds_ = 0;           // requests that can be outstanding
  bool own_receives_ = true;              // no SRQ
  std::atomic<bool> in_error_{false};     // a receive needs a push to be flushed
  std::atomic<bool> watermarked_{false};  // a mark is armed
  QueueRegions request_regions_;          // under the core's request lock
  QueueRegions receive_regions_;          // under its receive lock; all are writable
  Cq* request_cq_ = nullptr;
  Cq* recv_cq_ = nullptr;

  Adapter& adapter_;
  Reactor& reactor_;
  MemoryTable& memory_;
  transport::ConnectionSink& sink_;

  mutable Mutex lock_;
  transport::QpInit init_ UDAPL_GUARDED_BY(lock_);
  QpHandle queue_ UDAPL_GUARDED_BY(lock_);  // owns qp_
  QpState state_ UDAPL_GUARDED_BY(lock_) = QpState::kIdle;
  // None unless connected, or about to be.
  std::unique_ptr<Connection> connection_ UDAPL_GUARDED_BY(lock_);
  transport::Endpoints endpoints_ UDAPL_GUARDED_BY(lock_);
  DAT_TIMEOUT request_timeout_us_ UDAPL_GUARDED_BY(lock_) = 0;
  transport::BreakCause broken_cause_ UDAPL_GUARDED_BY(lock_);
  std::array<std::byte, 256> peer_data_ UDAPL_GUARDED_BY(lock_);
  std::size_t peer_data_size_ UDAPL_GUARDED_BY(lock_) = 0;
  int soft_mark_ UDAPL_GUARDED_BY(lock_) = -1;
  int hard_mark_ UDAPL_GUARDED_BY(lock_) = -1;
  Timing timing_ UDAPL_GUARDED_BY(lock_) = Timing::kNothing;
  Clock::time_point timer_due_ UDAPL_GUARDED_BY(lock_);
  Clock::duration drain_pause_ UDAPL_GUARDED_BY(lock_){};  // between looks at the CQ
  bool marked_ UDAPL_GUARDED_BY(lock_) = false;            // the marker is posted

  // What posts and polls found; handle_reported_failures() acts upon it.
  static constexpr unsigned kNoTrouble = ~0U;
  std::atomic<unsigned> failed_status_{kNoTrouble};  // ibv_wc_status of the first failure
  std::atomic<bool> drained_{false};                 // the marker has completed
  std::atomic<bool> lost_{false};         // the peer, and the oldest request has not been told yet
  std::atomic<bool> serves_reads_{true};  // the peer, and we may have one under way
  std::atomic<std::uint64_t> unserved_{0};  // the first Read that it does not serve: its wr_id

  SpinLock binds_lock_;
  std::vector<PostedBind> binds_ UDAPL_GUARDED_BY(binds_lock_);  // a ring; empty until the first
  std::size_t next_bind_ UDAPL_GUARDED_BY(binds_lock_) = 0;

  Timer timer_;
  Deferred reported_failures_;
  SinkGate gate_;
};

}  // namespace udapl::verbs

#include "providers/verbs/qp_post.h"
