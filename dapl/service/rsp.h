// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/service/service_point.h"

namespace udapl::dapl {

// A reserved service point: listens for one request, delivers it with the reserved EP, and ends.
//
// Thread safety: a request and dat_rsp_free may race; the one that moves the phase away from
// kListening wins. Owned by an Ia; destroys itself when its request has been delivered.
class Rsp : public ServicePoint {
 public:
  static constexpr DAT_HANDLE_TYPE kType = DAT_HANDLE_TYPE_RSP;

  // If `ep` is null, the provider creates an EP for the request.
  Rsp(Ia& owner, Evd& evd, Ep* ep) noexcept : ServicePoint(owner, kType, evd, sink_), ep_(ep) {}
  // Waits for a running delivery to finish; there can be one only when the Ia is closed.
  ~Rsp() {
    static_cast<void>(begin_free());
    close();  // before the sink goes
  }

  [[nodiscard]] Ep* ep() const noexcept { return ep_; }

  // Called when listening has begun. From now on a request may be delivered, and thus the RSP
  // freed, at any time.
  void start() noexcept { phase_.store(Phase::kListening, std::memory_order_release); }
  // Claims the right to deliver the one request. Returns false if the RSP has ended, or another
  // thread delivers, or start() has not been called.
  [[nodiscard]] bool try_begin_delivery() noexcept { return claim_delivery() == Phase::kListening; }
  // Like try_begin_delivery(), but waits for start(); the thread that is to call it may need the
  // lock of the IA.
  [[nodiscard]] bool begin_delivery() noexcept;
  // Delivers the request, after begin_delivery(). On success the RSP is freed: the caller must not
  // touch it. On failure it keeps listening, and the caller still owns the request; if listening
  // has failed as well, the async EVDs get an event that names the RSP.
  [[nodiscard]] Status receive(std::unique_ptr<transport::IncomingConnection>& request,
                               Upcall& upcall) noexcept;
  // Claims the right to free the RSP. Returns false if its request has been delivered. Waits for a
  // running delivery to finish, which does not take long.
  [[nodiscard]] bool begin_free() noexcept;

 private:
  enum class Phase : int { kStarting, kListening, kDelivering, kGone };
  // Returns the phase; if that is kListening, changes it to kDelivering.
  [[nodiscard]] Phase claim_delivery() noexcept {
    Phase seen = Phase::kListening;
    phase_.compare_exchange_strong(seen, Phase::kDelivering, std::memory_order_acq_rel);
    return seen;
  }

  [[nodiscard]] Result<OwnEp> take_ep(const transport::IncomingConnection& request) noexcept;
  void resume(const OwnEp& own) noexcept;

  struct Sink final : transport::ListenSink {
    explicit Sink(Rsp& owner) noexcept : rsp(owner) {}
    void on_request(std::unique_ptr<transport::IncomingConnection> request) noexcept override;
    Rsp& rsp;
  };

  Ep* const ep_;
  std::atomic<Phase> phase_{Phase::kStarting};
  Sink sink_{*this};
};

}  // namespace udapl::dapl
