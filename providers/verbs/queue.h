// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <infiniband/verbs.h>

#include "common/annotations.h"
#include "common/call.h"
#include "dapl/transport/qp.h"
#include "providers/reactor/reactor.h"
#include "providers/verbs/findings.h"
#include "providers/verbs/memory_table.h"
#include "providers/verbs/mr.h"
#include "providers/verbs/posted_binds.h"
#include "providers/verbs/qp_handle.h"
#include "providers/verbs/qp_shared.h"
#include "providers/verbs/queue_regions.h"
#include "providers/verbs/unserved_reads.h"
#include "providers/verbs/watermarks.h"

#include <atomic>
#include <cstdint>
#include <memory>

namespace udapl::verbs {

class Adapter;
class Cq;

// The part of a Qp that does not depend on connections: the ibv_qp, the posts to it, and failed
// work that its CQs report. Posts go straight to the device, under the core's locks for requests
// and for receives; everything else is under the lock of the Qp. A poll or post that finds
// something that concerns the connection posts a report, and the driving thread then calls the
// connection. Owned by a Qp.
//
// queue_post.h: posting (hot). queue_post.cpp: its cold paths. queue_bind.cpp: windows. queue.cpp:
// resources, states of the ibv_qp, reports.
class Queue {
 public:
  // `report`: Connection::handle_reports. Throws std::bad_alloc.
  Queue(QpShared& shared, const transport::QpInit& init, const Call& report);
  ~Queue() = default;  // REQUIRES: close()
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // ---- posting, as in transport::Qp ------------------------------------------------------------
  // Except for post_bind, inlined into the functions of Qp in queue_post.cpp.
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

  // ---- posting what the core's gate allows (queue_post.h) --------------------------------------
  // Inlined into the functions of the Qp, which call the Qp's general functions if there is no
  // prepared request. A call of the Queue's functions would need a register for the Queue's
  // address.

  // A signalled request of one segment, of which all fields but wr_id, segment and remote address
  // are filled in only once, since they are the same in all posts.
  struct PreparedRequest {
    ibv_send_wr request;
    ibv_send_wr* refused;
  };
  // The prepared request for a transfer, with the remote address filled in; null if the transfer
  // needs further checks.
  template <transport::Operation kOperation, bool kOneSegment>
  [[nodiscard]] PreparedRequest* prepare(const transport::Transfer& transfer) noexcept;
  template <bool kOneSegment>
  DAT_RETURN submit(PreparedRequest& prepared, const transport::Transfer& transfer) noexcept;
  // Whether a receive is like the primed one; whether a list of segments needs no further checks.
  [[nodiscard]] bool is_primed_for(const DAT_LMR_TRIPLET* list, DAT_COUNT count,
                                   transport::WorkFlags flags) const noexcept;
  [[nodiscard]] bool may_receive(const DAT_LMR_TRIPLET* list, DAT_COUNT count) const noexcept;
  template <bool kOneSegment>
  DAT_RETURN submit_receive(transport::WorkId id, const DAT_LMR_TRIPLET* list,
                            DAT_COUNT count) noexcept;

  // ---- for the Qp ------------------------------------------------------------------------------
  // Switches to `fresh` and returns the former ibv_qp in *former; retire it without the lock.
  // Throws std::bad_alloc, in which case nothing has changed.
  void exchange(QpHandle fresh, const transport::QpInit& init, QpHandle* former)
      UDAPL_REQUIRES(qp_locked);
  // Adopts which receives notify: the only part of `init` that is changed without a new ibv_qp.
  void change_notifications(const transport::QpInit& init) noexcept UDAPL_REQUIRES(qp_locked);
  // Returns the last ibv_qp; the caller retires it.
  [[nodiscard]] QpHandle take() noexcept UDAPL_REQUIRES(qp_locked) { return std::move(handle_); }
  // Destroys `former` (may be null). After that, none of its completions and asynchronous events
  // reach this queue.
  void retire(QpHandle former, const transport::QpInit& init) noexcept UDAPL_EXCLUDES(qp_locked);
  // Waits until another thread has handled a report. Call it with no lock held.
  void close() noexcept { reports_.close(); }
  void set_watermarks(int soft, int hard) noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] int held() const noexcept;  // receive buffers

  // ---- for Window ------------------------------------------------------------------------------
  // Whether the device flushes requests; known before their completions are polled.
  [[nodiscard]] bool in_error() const noexcept {
    return in_error_.load(std::memory_order_relaxed) || findings_.has_failure();
  }
  [[nodiscard]] int requests_held() const noexcept { return shared_.sink.requests_held(); }
  // For posts, which are under the core's request lock.
  [[nodiscard]] ibv_qp* qp() const noexcept { return qp_; }

  // ---- for the connection ----------------------------------------------------------------------
  [[nodiscard]] std::uint32_t number() const noexcept { return qp_->qp_num; }
  [[nodiscard]] bool own_receives() const noexcept { return own_receives_; }  // no SRQ
  [[nodiscard]] Cq& request_cq() const noexcept { return *request_cq_; }
  [[nodiscard]] Cq& recv_cq() const noexcept { return *recv_cq_; }
  // What posts and polls have found since the last clear().
  [[nodiscard]] Findings& findings() noexcept { return findings_; }
  // Called when a set-up begins: discards earlier findings.
  void clear() noexcept UDAPL_REQUIRES(qp_locked);
  // Moves the ibv_qp to `state`, with the attributes that the two ends have agreed upon, the limits
  // of the QP and the settings of the environment. Returns false, traced and with errno set, if
  // that fails.
  [[nodiscard]] bool change_state(ibv_qp_state state, ibv_qp_attr& attr, int mask) noexcept
      UDAPL_REQUIRES(qp_locked);
  void set_serves_reads(bool serves) noexcept { unserved_reads_.set_served(serves); }
  // Makes all posted work, and all that will be posted, complete as flushed.
  void enter_error() noexcept UDAPL_REQUIRES(qp_locked);
  void leave_error() noexcept UDAPL_REQUIRES(qp_locked);
  // Called when the ibv_qp is in error: some devices flush receives posted in that state only after
  // another transition to ERR.
  void flush() noexcept;
  // Posts the marker of a graceful disconnect behind the last request (docs/adr/0010).
  void post_marker() noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] bool marked() const noexcept UDAPL_REQUIRES(qp_locked) { return marked_; }
  // As Watermarks::check(), for the buffers that are held now.
  [[nodiscard]] Watermarks::Exceeded check_watermarks() noexcept UDAPL_REQUIRES(qp_locked);
  void report() noexcept { reports_.post(); }

  // ---- for Cq: called by the polling thread, with any lock of the core held --------------------
  // Called when a request or receive of this queue has failed.
  void on_failed_work(std::uint64_t wr_id, ibv_wc_status status) noexcept;
  // The status to report for a failure. Differs from the device's status for a Read that the peer
  // does not serve.
  [[nodiscard]] ibv_wc_status meaning_of(std::uint64_t wr_id, ibv_wc_status status) const noexcept {
    return unserved_reads_.meaning_of(wr_id, status);
  }
  // As Findings::take_loss().
  [[nodiscard]] bool takes_loss() noexcept { return findings_.take_loss(); }
  // Called when the marker (kMarker) has completed successfully.
  void on_marker() noexcept;

 private:
  struct Prepared {
    PreparedRequest inlined;
    PreparedRequest plain;
  };
  struct PreparedReceive {
    ibv_recv_wr receive;
    ibv_recv_wr* refused;
  };

  // queue_post.h
  [[nodiscard]] PreparedRequest* prepare_segment(Prepared& prepared, const DAT_LMR_TRIPLET& segment,
                                                 std::uint32_t length) noexcept;
  [[nodiscard]] PreparedRequest* prepare_list(Prepared& prepared,
                                              const transport::Transfer& transfer) noexcept;
  [[nodiscard]] PreparedRequest* prepare_read(const DAT_LMR_TRIPLET& segment,
                                              std::uint32_t length) noexcept;
  // queue_post.cpp
  DAT_RETURN submit(ibv_send_wr& request) noexcept;
  DAT_RETURN submit(ibv_recv_wr& receive) noexcept;
  void prepare_requests() noexcept;
  // The result of checking the segments of a request: the first error, otherwise their total
  // length.
  struct CheckedList {
    DAT_RETURN code = DAT_SUCCESS;
    bool has_empty = false;
    std::uint64_t total = 0;
  };
  CheckedList check_all(const DAT_LMR_TRIPLET* list, DAT_COUNT count, SegmentUse use) noexcept;
  void expect_requests_like(const DAT_LMR_TRIPLET& segment) noexcept;
  void expect_receives_like(const DAT_LMR_TRIPLET& segment) noexcept;
  DAT_RETURN post_message(ibv_send_wr& request, transport::WorkId id, const DAT_LMR_TRIPLET* list,
                          DAT_COUNT count, transport::WorkFlags flags) noexcept;
  DAT_RETURN post_invalid(transport::WorkId id, transport::WorkFlags flags,
                          DAT_RETURN why) noexcept;
  DAT_RETURN post_unserved(transport::WorkId id, transport::WorkFlags flags) noexcept;
  // Posts the request without empty segments, and without what is beyond the first `limit` bytes.
  DAT_RETURN post_compact(ibv_send_wr& request, std::uint64_t limit) noexcept;
  DAT_RETURN post_nothing(std::uint64_t wr_id, transport::WorkFlags flags) noexcept;
  DAT_RETURN post_recv_slow_path(ibv_recv_wr& receive) noexcept;

  // queue_bind.cpp
  DAT_RETURN post_bind_type2(std::uint64_t wr_id, const transport::BindRequest& bind,
                             transport::WorkFlags flags, Window& window, std::uint64_t number,
                             std::uint32_t* key) noexcept UDAPL_REQUIRES(window.lock());
  DAT_RETURN post_bind_type1(std::uint64_t wr_id, const transport::BindRequest& bind,
                             transport::WorkFlags flags, Window& window,
                             std::uint32_t* key) noexcept UDAPL_REQUIRES(window.lock());

  // queue.cpp
  void attach(const ibv_qp& qp, const transport::QpInit& init);
  void detach(std::uint32_t number, const transport::QpInit& init) noexcept;
  // Called after in_error_ or the watermarks have changed.
  void update_receives() noexcept { receive_regions_.block(special_receives()); }
  // Returns whether a post of a receive has more to do than to pass it to the device.
  [[nodiscard]] bool special_receives() const noexcept {
    return in_error_.load(std::memory_order_relaxed) || watermarks_.armed() || !own_receives_;
  }

  // Used by posts; changed only while nothing can be posted.
  ibv_qp* qp_ = nullptr;
  decltype(ibv_context_ops::post_send) post_send_ = nullptr;  // what ibv_post_send calls
  decltype(ibv_context_ops::post_recv) post_recv_ = nullptr;  // what ibv_post_recv calls
  std::uint32_t max_inline_ = 0;
  Prepared send_{};  // under the core's request lock, like write_ and read_
  Prepared write_{};
  PreparedRequest read_{};
  PreparedReceive receive_{};          // under the core's receive lock
  const bool own_receives_;            // no SRQ
  const bool extensions_;              // the adapter has the InfiniBand extensions
  std::atomic<bool> in_error_{false};  // a posted receive needs flush() in order to be flushed
  Watermarks watermarks_;
  QueueRegions request_regions_;  // under the core's request lock
  QueueRegions receive_regions_;  // under the core's receive lock; all are writable
  Cq* request_cq_ = nullptr;
  Cq* recv_cq_ = nullptr;

  QpShared& shared_;
  MemoryTable& memory_;
  QpHandle handle_ UDAPL_GUARDED_BY(qp_locked);      // owns qp_
  bool marked_ UDAPL_GUARDED_BY(qp_locked) = false;  // the marker is posted

  Findings findings_;
  UnservedReads unserved_reads_;
  PostedBinds binds_;
  Deferred reports_;
};

}  // namespace udapl::verbs

#include "providers/verbs/queue_post.h"
