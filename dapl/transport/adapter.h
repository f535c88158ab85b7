// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/call.h"
#include "common/result.h"
#include "common/wait_word.h"
#include "dapl/transport/cm.h"
#include "dapl/transport/cq.h"
#include "dapl/transport/event_descriptor.h"
#include "dapl/transport/mr.h"
#include "dapl/transport/qp.h"
#include "dapl/transport/sink.h"
#include "dapl/transport/srq.h"
#include "dapl/transport/wait_place.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace udapl::transport {

// The most bytes of private data in the messages that set up a connection. Replies and rejections
// have room for at least as much as requests.
struct PrivateDataRoom {
  int request = 0;
  int reply = 0;
  int rejection = 0;
};

// Limits and properties of an adapter; fixed while it is open. The core builds DAT_IA_ATTR and
// DAT_PROVIDER_ATTR from it and rejects requests beyond a limit before it calls the transport.
struct Attributes {
  std::string device_name;
  std::string vendor_name;
  int hardware_version[2] = {0, 0};
  int firmware_version[2] = {0, 0};
  SocketAddress address;

  int max_eps = 0;
  int max_dto_per_ep = 0;
  int max_rdma_read_in = 0;   // per EP
  int max_rdma_read_out = 0;  // per EP
  int max_rdma_read_in_total = 0;
  int max_rdma_read_out_total = 0;
  int max_evds = 0;
  int max_evd_qlen = 0;
  int max_segments = 0;  // per send or receive
  int max_read_segments = 0;
  int max_write_segments = 0;
  int max_lmrs = 0;
  DAT_VLEN max_lmr_size = 0;
  DAT_VADDR max_lmr_address = 0;
  int max_pzs = 0;
  std::uint32_t max_message_size = 0;
  std::uint32_t max_rdma_size = 0;
  int max_rmrs = 0;  // 0: no windows
  DAT_VADDR max_rmr_address = 0;
  int max_srqs = 0;  // 0: no SRQs
  int max_eps_per_srq = 0;
  int max_recv_per_srq = 0;
  PrivateDataRoom private_data;
  bool zero_based_va = false;
  bool shared_memory_lmr = false;  // DAT_MEM_TYPE_SHARED_VIRTUAL
  bool srq_pz_may_differ = false;
  bool read_sink_needs_remote_write = false;
  bool read_sink_context_exposed = false;
  bool dto_and_connection_mergeable = true;
  bool posts_return_before_work = false;  // dto_async_return_guaranteed
  // A completed request needs nothing more from this side: an abrupt disconnect cannot lose it.
  bool completed_is_delivered = false;
  bool send_invalidate = false;
  bool read_to_rmr = false;
  bool delayed_ack = false;             // QpInit::delayed_ack may be set
  bool delayed_ack_by_default = false;  // the default of delayed_ack where the consumer sets none
  DAT_RMR_SCOPE rmr_scope = DAT_RMR_SCOPE_ANY;
  DAT_EXTENSION extension = DAT_EXTENSION_NONE;
  int extension_version = 0;
  std::vector<std::pair<std::string, std::string>> provider_specific;  // named attributes
};

// An open interface adapter: the factory of everything below and the owner of the service thread,
// which turns events from peers and the kernel into sink calls. Thread-safe. Owned by an Ia. All
// objects it created are destroyed before it; the destructor joins the service thread.
class Adapter {
 public:
  virtual ~Adapter() = default;

  [[nodiscard]] virtual const Attributes& attributes() const noexcept = 0;

  // Each fails with INSUFFICIENT_RESOURCES, or as documented at its request type. Sinks are
  // borrowed and outlive the object.
  virtual Result<std::unique_ptr<Pd>> create_pd() = 0;
  virtual Result<std::unique_ptr<Mr>> register_memory(Pd& pd, const MrInit& init) = 0;
  virtual Result<std::unique_ptr<Window>> create_window(Pd& pd, WindowScope scope) = 0;
  virtual Result<std::unique_ptr<Cq>> create_cq(int depth, CqSink& sink) = 0;
  // Like create_cq(), for a consumer that is likely to sleep in Cq::block().
  virtual Result<std::unique_ptr<Cq>> create_cq_to_block(int depth, CqSink& sink) {
    return create_cq(depth, sink);
  }
  // Creates the descriptor of a CNO whose consumer sleeps outside of the library: readable while
  // the descriptor `signal` is, and while events of CQs are waiting. Null if the transport cannot
  // show CQ events in a descriptor; the consumer then gets `signal`. Throws std::bad_alloc.
  virtual std::unique_ptr<EventDescriptor> create_event_descriptor(int signal) {
    (void)signal;
    return nullptr;
  }
  // Like create_cq(); the CQ can be armed for this descriptor.
  virtual Result<std::unique_ptr<Cq>> create_cq_for(EventDescriptor& descriptor, int depth,
                                                    CqSink& sink) {
    (void)descriptor;
    return create_cq(depth, sink);
  }
  // Creates the place in which the only waiter of a CNO sleeps. Null if it is to sleep in block().
  // Throws std::bad_alloc.
  virtual std::unique_ptr<WaitPlace> create_wait_place() { return nullptr; }
  // Like create_cq(); the CQ can be armed for this place.
  virtual Result<std::unique_ptr<Cq>> create_cq_for(WaitPlace& place, int depth, CqSink& sink) {
    (void)place;
    return create_cq(depth, sink);
  }
  virtual Result<std::unique_ptr<Srq>> create_srq(Pd& pd, int depth, int max_segments,
                                                  SrqSink& sink) = 0;
  virtual Result<std::unique_ptr<Qp>> create_qp(const QpInit& init) = 0;

  // CONN_QUAL_IN_USE: the port is in use. CONN_QUAL_UNAVAILABLE: no port is free (conn_qual 0).
  // INVALID_PARAMETER: a qualifier that the transport does not have. INVALID_ADDRESS: not an
  // address of this machine.
  virtual Result<std::unique_ptr<Listener>> listen(const ListenRequest& request,
                                                   ListenSink& sink) = 0;

  // Sleeps until `word` differs from `seen`, the deadline passes or a signal arrives; returns
  // kSleptLong every few seconds at the latest, and may return kChanged spuriously. A transport
  // that needs its callers' threads drives progress here.
  virtual WaitResult block(WaitWord& word, std::uint32_t seen,
                           const Deadline& deadline) noexcept = 0;

  // The function that a consumer calls, with no lock held, when it has polled in vain and does not
  // call Cq::progress(). It makes no sink calls, but makes sure that the service thread makes them
  // unless another thread drives. Like Cq::progress(), it can be called for some time after the
  // destruction of the adapter.
  [[nodiscard]] virtual Call idle_poll() noexcept = 0;
};

}  // namespace udapl::transport
