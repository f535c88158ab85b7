// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/call.h"
#include "common/mutex.h"
#include "dapl/endpoint/ep_config.h"
#include "dapl/endpoint/ep_connection.h"
#include "dapl/objects/ep_state.h"
#include "dapl/posted/discard_cq.h"
#include "dapl/posted/ep_queues.h"
#include "dapl/transport/adapter.h"

#include <memory>

namespace udapl::dapl {

// An endpoint: one end of a reliable connection, connected or not.
//
// EpQueues has what posts and completions use, and EpConnection what is recorded of a connection.
// This class has the control calls, the transport's reports, and the configuration.
//
// Thread safety: any thread may call any function. `mutex_` serialises control calls and the
// transport's reports. Posts acquire the queue's lock only and read the state as an atomic. The
// state is changed under mutex_; a change after which no request may be posted is made under
// requests.lock as well. Lock order: Ia -> mutex_ -> requests.lock, receives.lock -> Evd. None of
// these is held while an application's upcall runs or a transport object is destroyed or reset.
// Owned by its Ia.
class Ep : public EpQueues {
 public:
  // Use make(). `state` is UNCONNECTED, or TENTATIVE if the provider creates the EP for a request.
  Ep(Ia& owner, const EpConfig& config, DAT_EP_STATE state);
  // Aborts connection and work, without an event. Drops the EP's completions from the EVDs, except
  // that those of buffers from an SRQ become events first. Waits for a running report of the
  // transport unless called from inside it.
  ~Ep();

  // Makes an EP and enters it in the Ia's list. Checks the configuration: codes of dat_ep_create.
  [[nodiscard]] static Result<Ep*> make(Ia& ia, const EpConfig& config,
                                        DAT_EP_STATE state = DAT_EP_STATE_UNCONNECTED);

  // ---- control calls, with checked arguments
  // Starts connecting. INVALID_STATE (also without PZ or connect EVD), or the transport's error.
  [[nodiscard]] Status connect(const transport::ConnectRequest& request, ConnectKind kind);
  // Like connect, to the peer that `like` connected to; `request`'s address and qualifier are
  // ignored.
  [[nodiscard]] Status dup_connect(Ep& like, transport::ConnectRequest request);
  // INVALID_STATE: not connected or connecting. Abrupt: posts DISCONNECTED now; graceful: the
  // transport ends the connection later.
  [[nodiscard]] Status disconnect(DAT_CLOSE_FLAGS flags);
  // Blocks until the device has flushed posted work (for a limited time), and for the transport's
  // clean-up.
  [[nodiscard]] Status reset();
  // Changes all fields in `mask`, or on failure none.
  [[nodiscard]] Status modify(DAT_EP_PARAM_MASK mask, const DAT_EP_PARAM& param);
  // Fills in everything but ia_handle.
  void query(DAT_EP_PARAM* param);
  // Sets both marks; DAT_WATERMARK_INFINITE disarms a mark.
  [[nodiscard]] Status set_watermarks(DAT_COUNT soft, DAT_COUNT hard);
  [[nodiscard]] transport::ReceiveCounts receive_counts();
  // Tells the adapter that a consumer has read the state, since it may be polling for a change.
  // Call it without a lock; the EP may be freed meanwhile.
  void polled() const noexcept { idle_poll_.function(idle_poll_.object); }
  // The state as the consumer sees it: DISCONNECTED as soon as the connection has failed, since the
  // consumer may have dequeued a failed completion before the transport reports the end.
  [[nodiscard]] DAT_EP_STATE shown_state() noexcept;
  // Whether nothing is outstanding in this direction.
  [[nodiscard]] bool requests_idle() noexcept;
  [[nodiscard]] bool receives_idle() noexcept;
  // Marks the handle dead. INVALID_STATE: the state forbids freeing; INVALID_HANDLE: another thread
  // freed it first. The caller destroys the EP after success.
  [[nodiscard]] Status begin_free();

  // ---- for service points and CRs
  // Steps the state for an input that concerns neither the transport nor an event (kReserve,
  // kRelease, kRequest, kRequestLost, kReject).
  [[nodiscard]] Status apply(EpInput input);
  // Accepts `incoming` into this EP. `how` is kAccept or kAcceptOwn; queries show `ends`. On
  // failure nothing has changed.
  [[nodiscard]] Status accept(transport::IncomingConnection& incoming,
                              const transport::Endpoints& ends, EpInput how,
                              transport::PrivateData data);
  // Sets both ends, which queries show while a CR of this EP is pending.
  void set_endpoints(const transport::Endpoints& ends);

 private:
  // The transport's reports. Each steps the state and posts the event under mutex_, then runs the
  // upcall without it, after which the EP may have been freed.
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
    void on_broken(transport::BreakCause cause) noexcept override;
    void on_soft_watermark() noexcept override;
    void on_async_error() noexcept override;
    void on_srq_released() noexcept override;
    [[nodiscard]] int receives_held() const noexcept override {
      return static_cast<int>(ep_.receives.cookies.outstanding());
    }
    [[nodiscard]] int requests_held() const noexcept override {
      return static_cast<int>(ep_.requests.cookies.outstanding());
    }
    void prepare() const noexcept override { ep_.prefetch(); }

   private:
    Ep& ep_;
  };

  // All parts of an EP that dat_ep_modify replaces. Retired parts are destroyed without a lock.
  struct Parts {
    std::unique_ptr<EpBindings> bindings;
    std::unique_ptr<DiscardCq> discard;
    std::unique_ptr<transport::Qp> qp;
  };

  void report(EpInput input, transport::PrivateData data) noexcept;
  Upcall post_event(DAT_EVENT_NUMBER number) noexcept UDAPL_REQUIRES(mutex_);
  void set_state(DAT_EP_STATE to, EpInput why) noexcept UDAPL_REQUIRES(mutex_);
  void store_state(DAT_EP_STATE to) noexcept UDAPL_REQUIRES(mutex_);
  void await_established(bool awaits) noexcept UDAPL_REQUIRES(mutex_) {
    await_established_on(awaits ? config_.connect_evd : nullptr);
  }
  [[nodiscard]] Status check_ready() const UDAPL_REQUIRES(mutex_);
  [[nodiscard]] Status set_up() UDAPL_REQUIRES(mutex_);
  // Switches to configuration `wanted`. On failure nothing has changed.
  [[nodiscard]] Status configure(const EpConfig& wanted, Parts& retired) UDAPL_REQUIRES(mutex_);
  [[nodiscard]] Status check_posted(const EpConfig& wanted) UDAPL_REQUIRES(mutex_);
  [[nodiscard]] Status exchange_queues(const EpConfig& wanted, Parts& fresh) UDAPL_REQUIRES(mutex_);
  [[nodiscard]] Status make_discard(const EpConfig& config, std::unique_ptr<DiscardCq>* discard)
      UDAPL_REQUIRES(mutex_);
  [[nodiscard]] transport::QpInit qp_init(const EpConfig& config, DiscardCq* discard) noexcept;
  // Waits for posts in progress; all later ones are refused.
  void end_posts() noexcept UDAPL_EXCLUDES(mutex_);
  // Makes configuration and QP visible to posts.
  void publish() noexcept UDAPL_REQUIRES(mutex_);
  // Sets soft_watermark_ from the attributes.
  void preset_soft_watermark() noexcept UDAPL_REQUIRES(mutex_);
  void arm_watermarks() noexcept UDAPL_REQUIRES(mutex_);
  void forget_completions() noexcept UDAPL_REQUIRES(mutex_);
  void keep_peer_data() noexcept UDAPL_REQUIRES(mutex_);
  [[nodiscard]] bool reap_for_reset() noexcept UDAPL_EXCLUDES(mutex_);
  void await_flush(const transport::Qp& qp) noexcept UDAPL_EXCLUDES(mutex_);
  // Whether the connection has failed or ended and the transport has not reported this yet.
  [[nodiscard]] bool has_failed() const noexcept UDAPL_REQUIRES(mutex_);
  [[nodiscard]] bool failure_unreported() noexcept UDAPL_EXCLUDES(mutex_);
  void await_failure() noexcept UDAPL_EXCLUDES(mutex_);

  const Call idle_poll_;  // Adapter::idle_poll()
  Mutex mutex_;
  Sink sink_{*this};
  EpConfig config_ UDAPL_GUARDED_BY(mutex_);
  std::unique_ptr<EpBindings> bindings_ UDAPL_GUARDED_BY(mutex_);  // uses of PZ, EVDs, SRQ
  std::unique_ptr<DiscardCq> discard_ UDAPL_GUARDED_BY(mutex_);    // for a direction without EVD
  std::unique_ptr<transport::Qp> qp_ UDAPL_GUARDED_BY(mutex_);     // null while the EP has no PZ
  EpConnection connection_ UDAPL_GUARDED_BY(mutex_);
  int soft_watermark_ UDAPL_GUARDED_BY(mutex_) = DAT_WATERMARK_INFINITE;  // armed
  int hard_watermark_ UDAPL_GUARDED_BY(mutex_) = DAT_WATERMARK_INFINITE;
};

// Returns INVALID_STATE and records that `input` is illegal in the state of `ep`.
[[nodiscard]] Status illegal(const Ep& ep, EpInput input) noexcept;

}  // namespace udapl::dapl
