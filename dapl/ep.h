// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/mutex.h"
#include "common/spin_lock.h"
#include "dapl/cookie_ring.h"
#include "dapl/ep_state.h"
#include "dapl/object.h"
#include "dapl/transport/adapter.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace udapl::dapl {

class DiscardCq;
class Evd;
class Pz;
class Srq;
struct EpBindings;

// What the consumer configured; what dat_ep_query returns and dat_ep_modify changes.
struct EpConfig {
  Pz* pz = nullptr;
  Evd* recv_evd = nullptr;
  Evd* request_evd = nullptr;
  Evd* connect_evd = nullptr;
  Srq* srq = nullptr;
  DAT_COMM comm{};  // domain 0: not set
  DAT_EP_ATTR attr{};
  bool default_read_depths = true;  // negotiation may lower them
};

// One direction of an EP as the posts see it (datapath.h). Posts hold `lock` through their Guard;
// whoever changes a member takes it for real.
struct alignas(64) RequestQueue {
  SpinLock lock;
  // Completion flags that a send may carry; other requests: these without SOLICITED_WAIT.
  std::uint32_t legal_flags UDAPL_GUARDED_BY(lock) = 0;
  std::uint32_t max_segments UDAPL_GUARDED_BY(lock) = 0;
  std::uint32_t max_read_segments UDAPL_GUARDED_BY(lock) = 0;
  std::uint32_t max_write_segments UDAPL_GUARDED_BY(lock) = 0;
  std::uint32_t max_message UDAPL_GUARDED_BY(lock) = 0;
  std::uint32_t max_rdma UDAPL_GUARDED_BY(lock) = 0;
  std::uint32_t silent UDAPL_GUARDED_BY(lock) = 0;  // suppressed posts since the last signalled one
  std::uint32_t max_silent UDAPL_GUARDED_BY(lock) = 0;
  bool discard UDAPL_GUARDED_BY(lock) = false;  // no request EVD: as if all were suppressed
  bool can_invalidate UDAPL_GUARDED_BY(lock) = false;
  bool can_read_to_rmr UDAPL_GUARDED_BY(lock) = false;
  transport::Qp* qp UDAPL_GUARDED_BY(lock) = nullptr;
  const Pz* pz UDAPL_GUARDED_BY(lock) = nullptr;
  CookieRing cookies{0};
};
struct alignas(64) ReceiveQueue {
  SpinLock lock;
  std::uint32_t legal_flags UDAPL_GUARDED_BY(lock) = 0;
  std::uint32_t max_segments UDAPL_GUARDED_BY(lock) = 0;
  // Null: nothing can be posted (no PZ yet, an SRQ, or a reset is running).
  transport::Qp* qp UDAPL_GUARDED_BY(lock) = nullptr;
  CookieRing cookies{0};
};

// An endpoint: one end of a reliable connection, or the place for one.
//
// Thread safety: everything may be called from any thread. `mutex_` serialises control calls and
// the transport's reports; posts take the queue's lock only and read the state as an atomic, which
// is changed under mutex_ and, where a post must not slip through, under the request lock too.
// Locks: Ia -> mutex_ -> requests.lock, receives.lock -> Evd. Never held while an application's
// upcall runs or a transport object is destroyed or reset.
// Owned by its Ia.
class Ep : public ObjectHeader {
 public:
  static constexpr DAT_HANDLE_TYPE kType = DAT_HANDLE_TYPE_EP;

  // Use make(). `state` is UNCONNECTED, or TENTATIVE for one that the provider makes for a request.
  Ep(Ia& owner, const EpConfig& config, DAT_EP_STATE state);
  // Aborts what runs, without an event. Nothing that EVDs hold refers to it afterwards. Waits for a
  // running report of the transport unless called from inside it.
  ~Ep();

  // Makes an EP and enters it in the Ia's list. Checks the configuration: codes of dat_ep_create.
  [[nodiscard]] static Result<Ep*> make(Ia& ia, const EpConfig& config,
                                        DAT_EP_STATE state = DAT_EP_STATE_UNCONNECTED);

  // ---- used by posts and completions
  RequestQueue requests;
  ReceiveQueue receives;

  [[nodiscard]] DAT_EP_STATE state() const noexcept {
    const DAT_EP_STATE now = state_.load(std::memory_order_acquire);
    return now == kResetting ? DAT_EP_STATE_DISCONNECTED : now;
  }
  // As posts read it: also kResetting, in which nothing may be posted.
  [[nodiscard]] DAT_EP_STATE posting_state() const noexcept {
    return state_.load(std::memory_order_relaxed);
  }
  // Frees the slot of a completed work request, and of suppressed ones before it. Caller holds the
  // poll lock of the EVD.
  void retire(const Cookie& cookie) noexcept {
    if (cookie.operation == DAT_DTO_RECEIVE)
      receives.cookies.retire(&cookie);
    else
      requests.cookies.retire(&cookie);
  }
  // The ring is full: collects completions that make no event. Out of line, cold.
  void reclaim_requests() noexcept UDAPL_REQUIRES(requests.lock);
  void reclaim_receives() noexcept UDAPL_REQUIRES(receives.lock);

  // ---- control calls; each returns what its DAT function does
  [[nodiscard]] Status connect(const transport::ConnectRequest& request, DAT_CONNECT_FLAGS flags,
                               bool common);
  [[nodiscard]] Status dup_connect(Ep& like, transport::ConnectRequest request);
  [[nodiscard]] Status disconnect(DAT_CLOSE_FLAGS flags);
  [[nodiscard]] Status reset();
  [[nodiscard]] Status modify(DAT_EP_PARAM_MASK mask, const DAT_EP_PARAM& param);
  void query(DAT_EP_PARAM_MASK mask, DAT_EP_PARAM& param);
  [[nodiscard]] Status set_watermarks(DAT_COUNT soft, DAT_COUNT hard);
  [[nodiscard]] transport::ReceiveCounts receive_counts();

  // ---- for service points and CRs
  // Steps the state for an input that involves no transport (reserve, release, request, reject).
  [[nodiscard]] Status apply(EpInput input);
  // Takes the request: accept of `incoming` into this EP. On failure nothing has changed.
  [[nodiscard]] Status accept(transport::IncomingConnection& incoming, EpInput how,
                              transport::PrivateData data);
  // Remembers both ends while a CR of this EP is pending.
  void set_endpoints(const transport::Endpoints& ends);

  // May the consumer free it now? Steps to a state in which nothing else is legal.
  [[nodiscard]] Status begin_free();

 private:
  friend class EpModifier;
  // Between reset's start and end; callers of state() see DISCONNECTED.
  static constexpr auto kResetting = static_cast<DAT_EP_STATE>(15);

  // What the transport reports. Each steps the state under mutex_, then posts without it.
  class Sink final : public transport::ConnectionSink {
   public:
    explicit Sink(Ep& ep) noexcept : ep_(ep) {}
    void on_established(transport::PrivateData from_peer) noexcept override;
    void on_rejected(transport::PrivateData from_peer) noexcept override;
    void on_refused() noexcept override;
    void on_unreachable() noexcept override;
    void on_timed_out() noexcept override;
    void on_accept_failed() noexcept override;
    void on_disconnected() noexcept override;
    void on_broken(transport::BreakReason why) noexcept override;
    void on_soft_watermark() noexcept override;
    void on_async_error() noexcept override;

   private:
    Ep& ep_;
  };

  // Where a connect went, for dup_connect.
  struct Target {
    transport::SocketAddress address;
    DAT_CONN_QUAL conn_qual;
    DAT_CONNECT_FLAGS flags;
    bool common;
  };

  void report(EpInput input, transport::PrivateData data) noexcept;
  void post_async(DAT_COUNT reason) noexcept;
  void set_state(DAT_EP_STATE next, const char* why) noexcept UDAPL_REQUIRES(mutex_);
  [[nodiscard]] Status check_ready() const UDAPL_REQUIRES(mutex_);
  [[nodiscard]] DAT_EVENT connection_event(DAT_EVENT_NUMBER number) UDAPL_REQUIRES(mutex_);
  [[nodiscard]] transport::QpInit qp_init(const EpConfig& config, DiscardCq* discard);
  void publish() UDAPL_REQUIRES(mutex_);  // configuration and QP -> requests, receives
  void negotiate_read_depths(const transport::IncomingConnection& peer) UDAPL_REQUIRES(mutex_);

  std::atomic<DAT_EP_STATE> state_;  // first: in the cache line that handle_cast reads

  Mutex mutex_;
  Sink sink_{*this};
  EpConfig config_ UDAPL_GUARDED_BY(mutex_);
  std::unique_ptr<EpBindings> bindings_ UDAPL_GUARDED_BY(mutex_);  // uses of PZ, EVDs, SRQ
  std::unique_ptr<DiscardCq> discard_;  // completions of a direction without EVD
  std::unique_ptr<transport::Qp> qp_;   // none until there is a PZ
  transport::Endpoints ends_ UDAPL_GUARDED_BY(mutex_);
  std::optional<Target> target_ UDAPL_GUARDED_BY(mutex_);                 // active side only
  std::vector<std::byte> peer_data_ UDAPL_GUARDED_BY(mutex_);             // reserved at connect
  int soft_watermark_ UDAPL_GUARDED_BY(mutex_) = DAT_WATERMARK_INFINITE;  // armed
  int hard_watermark_ UDAPL_GUARDED_BY(mutex_) = DAT_WATERMARK_INFINITE;
};

}  // namespace udapl::dapl
