// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <infiniband/verbs.h>

#include "common/annotations.h"
#include "common/call.h"
#include "common/spin_lock.h"
#include "dapl/transport/qp.h"
#include "providers/reactor/reactor.h"
#include "providers/verbs/memory_table.h"
#include "providers/verbs/mr.h"
#include "providers/verbs/qp_shared.h"
#include "providers/verbs/work_tag.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace udapl::verbs {

class Adapter;
class Cq;

// What a Qp does without regard to connections: the ibv_qp, what is posted to it, what its CQs say
// of work that failed. Posts go straight to the device, under the core's locks of requests and of
// receives; the rest is under the lock of the Qp. What polls and posts find that concerns the
// connection is a report: the connection is called, by the driver. Owned by a Qp.
//
// queue_post.h: posting (hot). queue_post.cpp: its cold paths. queue_bind.cpp: windows. queue.cpp:
// resources, states of the ibv_qp, reports.
class Queue {
 public:
  struct DestroyQp {
    void operator()(ibv_qp* qp) const noexcept;
  };
  using Handle = std::unique_ptr<ibv_qp, DestroyQp>;

  // `report`: Connection::handle_reports. Throws std::bad_alloc.
  Queue(QpShared& shared, const transport::QpInit& init, const Call& report);
  ~Queue() = default;  // REQUIRES: close()
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // ---- posting, as transport::Qp ---------------------------------------------------------------
  // Inline in queue_post.cpp, with the Qp's, but for post_bind.
  DAT_RETURN post_recv(transport::WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT,
                       transport::WorkFlags) noexcept;
  DAT_RETURN post_send(transport::WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT,
                       transport::WorkFlags) noexcept;
  DAT_RETURN post_send_invalidate(transport::WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT,
                                  DAT_RMR_CONTEXT, transport::WorkFlags) noexcept;
  DAT_RETURN post_rdma_write(transport::WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT,
                             const DAT_RMR_TRIPLET& remote, transport::WorkFlags) noexcept;
  DAT_RETURN post_rdma_read(transport::WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT,
                            const DAT_RMR_TRIPLET& remote, transport::WorkFlags) noexcept;
  DAT_RETURN post_bind(transport::WorkId, const transport::BindRequest&, transport::WorkFlags,
                       DAT_RMR_CONTEXT* context) noexcept;
  DAT_RETURN post_write_immediate(transport::WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT,
                                  const DAT_RMR_TRIPLET& remote, std::uint32_t immediate,
                                  transport::WorkFlags) noexcept;
  // Fetch and add: `first` is added. Compare and swap: with `first`, by `second`.
  DAT_RETURN post_atomic(ibv_wr_opcode operation, transport::WorkId id,
                         const DAT_LMR_TRIPLET& local, const DAT_RMR_TRIPLET& remote,
                         std::uint64_t first, std::uint64_t second,
                         transport::WorkFlags flags) noexcept;
  // The hot ones: dapl::post::PostsSegments and PostsLists. What is not that plain, they leave to
  // `otherwise`: the Qp's function, since for ours its address would take up a register here.
  template <class Otherwise>
  DAT_RETURN post_one_recv(transport::WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT,
                           transport::WorkFlags, const Otherwise& otherwise) noexcept;
  template <class Otherwise>
  DAT_RETURN post_one_send(transport::WorkId, const DAT_LMR_TRIPLET&, std::uint32_t length,
                           transport::WorkFlags, const Otherwise& otherwise) noexcept;
  template <class Otherwise>
  DAT_RETURN post_one_write(transport::WorkId, const DAT_LMR_TRIPLET&, std::uint32_t length,
                            const DAT_RMR_TRIPLET& remote, transport::WorkFlags,
                            const Otherwise& otherwise) noexcept;
  template <class Otherwise>
  DAT_RETURN post_one_read(transport::WorkId, const DAT_LMR_TRIPLET&, std::uint32_t length,
                           const DAT_RMR_TRIPLET& remote, transport::WorkFlags,
                           const Otherwise& otherwise) noexcept;
  template <class Otherwise>
  DAT_RETURN post_list_send(transport::WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT,
                            std::uint64_t length, transport::WorkFlags,
                            const Otherwise& otherwise) noexcept;
  template <class Otherwise>
  DAT_RETURN post_list_write(transport::WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT,
                             std::uint64_t length, const DAT_RMR_TRIPLET& remote,
                             transport::WorkFlags, const Otherwise& otherwise) noexcept;
  template <class Otherwise>
  DAT_RETURN post_list_recv(transport::WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT,
                            const Otherwise& otherwise) noexcept;

  // ---- for the Qp ------------------------------------------------------------------------------
  // An ibv_qp in state INIT, so that receives can be posted.
  [[nodiscard]] Result<Handle> make(const transport::QpInit& init) UDAPL_EXCLUDES(qp_locked);
  // Goes over to `fresh`; the former one is in *former, to be retired without the lock. Throws
  // std::bad_alloc, and nothing has changed.
  void exchange(Handle fresh, const transport::QpInit& init, Handle* former)
      UDAPL_REQUIRES(qp_locked);
  // The last one, to be retired.
  [[nodiscard]] Handle take() noexcept UDAPL_REQUIRES(qp_locked) { return std::move(handle_); }
  // `former` may be null. After this no completion and no asynchronous event of it finds us.
  void retire(Handle former, const transport::QpInit& init) noexcept UDAPL_EXCLUDES(qp_locked);
  // Waits for a report that is handled in another thread. No lock held.
  void close() noexcept { reports_.close(); }
  void set_watermarks(int soft, int hard) noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] int held() const noexcept;  // receives

  // ---- for the connection ----------------------------------------------------------------------
  [[nodiscard]] std::uint32_t number() const noexcept { return qp_->qp_num; }
  [[nodiscard]] bool own_receives() const noexcept { return own_receives_; }  // no SRQ
  [[nodiscard]] Cq& request_cq() const noexcept { return *request_cq_; }
  // A set-up begins: what was found before is forgotten.
  void clear() noexcept UDAPL_REQUIRES(qp_locked);
  // Moves the ibv_qp with what the two ends have agreed upon, our limits and what the administrator
  // wants. False: traced, errno says why.
  [[nodiscard]] bool change_state(ibv_qp_state state, ibv_qp_attr& attr, int mask) noexcept
      UDAPL_REQUIRES(qp_locked);
  void set_serves_reads(bool serves) noexcept {
    serves_reads_.store(serves, std::memory_order_relaxed);
  }
  // Everything that is posted, and will be, completes as flushed.
  void enter_error() noexcept UDAPL_REQUIRES(qp_locked);
  void leave_error() noexcept UDAPL_REQUIRES(qp_locked);
  // The marker of a graceful disconnect goes behind the last request (docs/adr/0010).
  void post_marker() noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] bool marked() const noexcept UDAPL_REQUIRES(qp_locked) { return marked_; }
  [[nodiscard]] bool drained() const noexcept { return drained_.load(std::memory_order_acquire); }
  // The connection is lost before the device gives up. `peer`: with the peer, which the oldest
  // request then fails by.
  void set_lost(bool peer) noexcept { lost_.store(peer, std::memory_order_release); }
  // The first failure since clear().
  [[nodiscard]] std::optional<ibv_wc_status> failed() const noexcept;
  // Which mark is exceeded? The soft one says so once.
  struct Exceeded {
    bool soft;
    bool hard;
  };
  [[nodiscard]] Exceeded check_watermarks() noexcept UDAPL_REQUIRES(qp_locked);
  void report() noexcept { reports_.post(); }

  // ---- for Cq: by whoever polls, any lock of the core may be held ------------------------------
  // A request or receive of this queue did not succeed.
  void on_failed_work(std::uint64_t wr_id, ibv_wc_status status) noexcept;
  // What the failure says; another status than the device's for a Read that the peer does not
  // serve.
  [[nodiscard]] ibv_wc_status meaning_of(std::uint64_t wr_id, ibv_wc_status status) const noexcept;
  // Is this flushed request the oldest of those that were outstanding when the peer was lost?
  [[nodiscard]] bool takes_loss() noexcept {
    return lost_.load(std::memory_order_acquire) && lost_.exchange(false);
  }
  // kInternalWork has succeeded: the marker.
  void on_marker() noexcept;

 private:
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

  // queue_post.h
  // Null: not without a further look at the segment.
  [[nodiscard]] PreparedRequest* prepare(Prepared& prepared, const DAT_LMR_TRIPLET& segment,
                                         std::uint32_t length) noexcept;
  DAT_RETURN submit(PreparedRequest& prepared, transport::WorkId id, const DAT_LMR_TRIPLET& segment,
                    transport::WorkFlags flags) noexcept;
  DAT_RETURN submit_list(Prepared& prepared, transport::WorkId id, const DAT_LMR_TRIPLET* list,
                         DAT_COUNT count, std::uint64_t length,
                         transport::WorkFlags flags) noexcept;
  // queue_post.cpp
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
  DAT_RETURN post_without_empty(ibv_send_wr& request) noexcept;
  DAT_RETURN post_nothing(std::uint64_t wr_id, transport::WorkFlags flags) noexcept;
  DAT_RETURN post_trimmed_read(ibv_send_wr& request, std::uint32_t length) noexcept;
  DAT_RETURN post_recv_slowly(ibv_recv_wr& receive) noexcept;

  // queue_bind.cpp
  DAT_RETURN post_bind_type2(std::uint64_t wr_id, const transport::BindRequest& bind,
                             transport::WorkFlags flags, Window& window,
                             std::uint32_t* key) noexcept UDAPL_REQUIRES(window.lock());
  DAT_RETURN post_bind_type1(std::uint64_t wr_id, const transport::BindRequest& bind,
                             transport::WorkFlags flags, Window& window,
                             std::uint32_t* key) noexcept UDAPL_REQUIRES(window.lock());
  void remember_bind(std::uint64_t wr_id, std::uint32_t key) noexcept UDAPL_EXCLUDES(binds_lock_);
  void bind_failed(std::uint64_t wr_id) noexcept UDAPL_EXCLUDES(binds_lock_);

  // queue.cpp
  void attach(const ibv_qp& qp, const transport::QpInit& init);
  void detach(std::uint32_t number, const transport::QpInit& init) noexcept;
  void flush() noexcept;
  // After in_error_ or watermarked_ has changed.
  void update_receives() noexcept { receive_regions_.block(special_receives()); }
  // Have posted receives more to do than to be given to the device?
  [[nodiscard]] bool special_receives() const noexcept {
    return in_error_.load(std::memory_order_relaxed) ||
           watermarked_.load(std::memory_order_relaxed) || !own_receives_;
  }

  // What posts need; changed while nothing can be posted.
  ibv_qp* qp_ = nullptr;
  std::uint32_t max_inline_ = 0;
  Prepared send_{};  // under the core's request lock, as write_ and read_
  Prepared write_{};
  PreparedRequest read_{};
  PreparedReceive receive_{};             // under its receive lock
  std::uint32_t max_binds_ = 0;           // requests that can be outstanding
  const bool own_receives_;               // no SRQ
  const bool extensions_;                 // the adapter has those of InfiniBand
  std::atomic<bool> in_error_{false};     // a receive needs a push to be flushed
  std::atomic<bool> watermarked_{false};  // a mark is armed
  QueueRegions request_regions_;          // under the core's request lock
  QueueRegions receive_regions_;          // under its receive lock; all are writable
  Cq* request_cq_ = nullptr;
  Cq* recv_cq_ = nullptr;

  QpShared& shared_;
  MemoryTable& memory_;
  Handle handle_ UDAPL_GUARDED_BY(qp_locked);  // owns qp_
  int soft_mark_ UDAPL_GUARDED_BY(qp_locked) = -1;
  int hard_mark_ UDAPL_GUARDED_BY(qp_locked) = -1;
  bool marked_ UDAPL_GUARDED_BY(qp_locked) = false;  // the marker is posted

  // What posts and polls found; Connection::handle_reports() acts upon it.
  static constexpr unsigned kNoTrouble = ~0U;
  std::atomic<unsigned> failed_status_{kNoTrouble};  // ibv_wc_status of the first failure
  std::atomic<bool> drained_{false};                 // the marker has completed
  std::atomic<bool> lost_{false};         // the peer, and the oldest request has not been told yet
  std::atomic<bool> serves_reads_{true};  // the peer, and we may have one under way
  std::atomic<std::uint64_t> unserved_{0};  // the first Read that it does not serve: its wr_id

  SpinLock binds_lock_;
  std::vector<PostedBind> binds_ UDAPL_GUARDED_BY(binds_lock_);  // a ring; empty until the first
  std::size_t next_bind_ UDAPL_GUARDED_BY(binds_lock_) = 0;

  Deferred reports_;
};

}  // namespace udapl::verbs

#include "providers/verbs/queue_post.h"
