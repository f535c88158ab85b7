// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/backoff.h"
#include "common/result.h"
#include "dapl/transport/cm.h"
#include "dapl/transport/mr.h"
#include "dapl/transport/sink.h"
#include "dapl/transport/types.h"

#include <concepts>

namespace udapl::transport {

class Cq;
class Srq;

// The parameters of a QP. Pointers are borrowed; the objects outlive the QP.
struct QpInit {
  void* context;  // returned in Completion::qp_context
  ConnectionSink* sink;
  Pd* pd;
  Cq* recv_cq;  // may be the same as request_cq
  Cq* request_cq;
  Srq* srq;      // null: the QP has its own receive queue
  int max_recv;  // receives posted at a time; 0 with an SRQ
  int max_request;
  int max_recv_segments;
  int max_request_segments;
  int max_rdma_read_in;      // reads that the peer may have in flight to this QP
  int max_rdma_read_out;     // reads that this QP keeps in flight, fewer if the peer serves fewer;
                             // further ones wait in the queue
  int max_unseen;            // completions of kUnseen requests in request_cq, beyond its depth
  bool solicited_only;       // of the QP's successful receives, only solicited ones notify
  bool delayed_ack = false;  // Sends and RDMA Writes complete when the peer has placed their
                             // data; false unless Attributes::delayed_ack
};

enum class DisconnectMode { kAbrupt, kGraceful };

// What dat_ep_recv_query reports; both values are from one consistent snapshot.
struct ReceiveCounts {
  int held;  // buffers assigned to the QP whose completion has not been generated
  int span;  // highest assigned message number - last completed one
};

// One end of a reliable connection. States: idle (work may be received into posted buffers once
// connected; requests are refused by the core) -> connecting -> ready -> draining -> error; reset()
// leads back to idle. A QP that was accepted takes requests while it is connecting; they are sent
// as soon as the peer may receive them. In error every post completes at once as FLUSHED, in order,
// behind what was flushed before.
//
// Thread safety: the caller serialises posts of one direction; everything else may run concurrently
// with anything. Owned by an Ep. The destructor aborts work in flight (the peer sees a broken
// connection) and removes the QP's completions from its CQs.
class Qp {
 public:
  virtual ~Qp() = default;

  // Hot functions: they copy the segment list, check segments where the transport can (the order of
  // docs/semantics.md#local-memory), queue, start the work if they can do so without blocking, and
  // return. No allocation. A refused post leaves nothing behind. Zero-length segments are skipped.
  virtual DAT_RETURN post_recv(WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT, WorkFlags) noexcept = 0;
  virtual DAT_RETURN post_send(WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT, WorkFlags) noexcept = 0;
  virtual DAT_RETURN post_send_invalidate(WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT,
                                          DAT_RMR_CONTEXT, WorkFlags) noexcept = 0;
  // The core has checked that the local total fits the remote range; exactly the local total is
  // written.
  virtual DAT_RETURN post_rdma_write(WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT,
                                     const DAT_RMR_TRIPLET& remote, WorkFlags) noexcept = 0;
  // remote.segment_length bytes are read; the core has checked that the local segments hold them.
  virtual DAT_RETURN post_rdma_read(WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT,
                                    const DAT_RMR_TRIPLET& remote, WorkFlags) noexcept = 0;
  // Like post_rdma_read, but the sink is a window or remotely writable MR of this process.
  virtual DAT_RETURN post_rdma_read_to_rmr(WorkId, const DAT_RMR_TRIPLET& sink,
                                           const DAT_RMR_TRIPLET& remote, WorkFlags) noexcept = 0;
  // *context gets the new context (0 for an unbind). Later work of this QP starts after the bind.
  virtual DAT_RETURN post_bind(WorkId, const BindRequest&, WorkFlags,
                               DAT_RMR_CONTEXT* context) noexcept = 0;
  // The IB extensions. MODEL_NOT_SUPPORTED where Attributes::extension is not IB. `local` is 8
  // bytes, gets the old value.
  virtual DAT_RETURN post_write_immediate(WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT,
                                          const DAT_RMR_TRIPLET& remote, std::uint32_t immediate,
                                          WorkFlags) noexcept = 0;
  virtual DAT_RETURN post_fetch_add(WorkId, const DAT_LMR_TRIPLET& local,
                                    const DAT_RMR_TRIPLET& remote, std::uint64_t add,
                                    WorkFlags) noexcept = 0;
  virtual DAT_RETURN post_compare_swap(WorkId, const DAT_LMR_TRIPLET& local,
                                       const DAT_RMR_TRIPLET& remote, std::uint64_t compare,
                                       std::uint64_t swap, WorkFlags) noexcept = 0;

  // Called by a post that finds the request queue full. Does for the requests of this QP what a
  // poll would do: sends those that were kept back to be sent together with others, reads the
  // answers that have arrived, and reports finished requests on the CQ. Does not block. The core's
  // lock of the queue may be held.
  virtual void complete_requests() noexcept {}
  // Called by such a post, repeatedly, until a request is complete. If the peer's host is to send
  // an answer on which a request depends, waits briefly and then does what complete_requests()
  // does. Returns false if there is nothing to wait for, or if the post has waited long enough.
  virtual bool await_answer(Backoff&) noexcept { return false; }

  // Changes everything but context, sink and srq. Only while idle. Receives that are posted stay
  // posted. INVALID_STATE where the transport cannot do that with receives posted.
  virtual Status modify(const QpInit& init) = 0;

  // Starts connecting as the active side; the outcome comes through the sink (also when it is known
  // at once). INVALID_ADDRESS: an address that can never be reached; INSUFFICIENT_RESOURCES.
  // Non-blocking. Only while idle.
  virtual Status connect(const ConnectRequest& request) = 0;

  // kAbrupt: aborts setup or connection. When it returns the QP is in error, everything is flushed
  // to the CQs, or will be soon, and no further connection call comes. kGraceful (ready only): no
  // new requests (the core stops posting), posted ones complete, then the connection ends and
  // on_disconnected or on_broken comes. Neither blocks.
  virtual void disconnect(DisconnectMode mode) noexcept = 0;

  // Whether the connection has failed or ended and this is not reported yet: on_broken or
  // on_disconnected is about to be called.
  [[nodiscard]] virtual bool failed() const noexcept { return false; }

  // In the error state: whether flushed work may still arrive at the CQs.
  [[nodiscard]] virtual bool flushing() const noexcept { return false; }

  // error -> idle, with empty queues; completions of the QP that are still on its CQs are dropped,
  // and no sink call for it runs or will run, as after the destructor. May block for the
  // transport's clean-up.
  virtual Status reset() = 0;

  // Addresses of the connection; meaningful from connect/accept on.
  [[nodiscard]] virtual Endpoints endpoints() const noexcept = 0;

  // Exceeding the soft mark causes one on_soft_watermark (at once if already exceeded); exceeding
  // the hard mark breaks the connection. -1 disables a mark. Replaces marks that have not fired.
  virtual void set_watermarks(int soft, int hard) noexcept = 0;
  [[nodiscard]] virtual ReceiveCounts receive_counts() const noexcept = 0;
};

// A Send, RDMA Write or RDMA Read as a whole, for templates that treat them alike.
enum class Operation : std::uint8_t { kSend, kWrite, kRead };
struct Transfer {
  WorkId id;
  const DAT_LMR_TRIPLET* list;
  DAT_COUNT count;
  std::uint64_t length;           // of the list
  const DAT_RMR_TRIPLET* remote;  // not for a Send
  WorkFlags flags;
};
template <Operation kOperation, std::derived_from<Qp> Q>
[[gnu::always_inline]] inline DAT_RETURN post(Q& qp, const Transfer& transfer) noexcept {
  const auto& [id, list, count, length, remote, flags] = transfer;
  if constexpr (kOperation == Operation::kSend)
    return qp.post_send(id, list, count, flags);
  else if constexpr (kOperation == Operation::kWrite)
    return qp.post_rdma_write(id, list, count, *remote, flags);
  else
    return qp.post_rdma_read(id, list, count, *remote, flags);
}

}  // namespace udapl::transport
