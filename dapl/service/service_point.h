// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/events/evd.h"
#include "dapl/events/upcall.h"
#include "dapl/objects/ia.h"
#include "dapl/objects/object.h"
#include "dapl/objects/require.h"
#include "dapl/service/cr.h"
#include "dapl/transport/adapter.h"

#include <atomic>

namespace udapl::dapl {

// The base of PSP, RSP and CSP: a listener whose requests become CRs and events on a CR EVD.
//
// Thread safety: the driving thread, or dat_cr_handoff, delivers requests; the consumer makes all
// other calls. Owned, as a PSP, RSP or CSP, by an Ia.
class ServicePoint : public ObjectHeader {
 public:
  [[nodiscard]] Evd& evd() const noexcept { return *evd_.get(); }
  // 0 before the transport has picked the qualifier, if it is to pick one.
  [[nodiscard]] DAT_CONN_QUAL conn_qual() const noexcept {
    return conn_qual_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] transport::SocketAddress& address() noexcept { return address_; }

  // Listens. CONN_QUAL_IN_USE, CONN_QUAL_UNAVAILABLE, INVALID_PARAMETER, INVALID_ADDRESS,
  // INSUFFICIENT_RESOURCES. May block. Requests may arrive before it returns.
  [[nodiscard]] Status listen(const transport::ListenRequest& request) noexcept;
  // Stops listening and frees the port. Waits for a running request unless called from inside it.
  void close() noexcept { listener_.reset(); }
  // Waits until no handoff uses the service point. REQUIRES: it is not in the Ia's list any more.
  void wait_for_users() const noexcept;

 protected:
  ServicePoint(Ia& owner, DAT_HANDLE_TYPE type, Evd& evd, transport::ListenSink& sink) noexcept;
  ~ServicePoint() = default;

 private:
  [[nodiscard]] Status in_use(DAT_CONN_QUAL conn_qual) const noexcept;

  Use<Evd> evd_;
  transport::ListenSink& sink_;
  std::atomic<DAT_CONN_QUAL> conn_qual_{0};
  transport::SocketAddress address_;
  std::unique_ptr<transport::Listener> listener_;
};

// The sink of a listener whose requests P::receive() delivers.
template <class P>
class RequestSink final : public transport::ListenSink {
 public:
  explicit RequestSink(P& place) noexcept : place_(place) {}
  void on_request(std::unique_ptr<transport::IncomingConnection> request) noexcept override {
    Upcall upcall;  // runs last, when the service point may be freed
    static_cast<void>(place_.receive(request, upcall));  // on failure ~request refuses the peer
  }

 private:
  P& place_;
};

// The body of dat_psp_free and dat_csp_free.
template <class P>
[[nodiscard]] Status free_service_point(DAT_HANDLE handle) {
  const auto place = require<P>(handle);
  if (place == nullptr) return place.refusal();
  if (!invalidate(*place)) return handles::refuse_handle(handles::kind_of(P::kType), handle);
  const Owned<P> last = place->ia->release(*place);
  place->close();
  place->wait_for_users();
  return Status();
}

// The EVD of `ia` to which a new service point is to report. INVALID_HANDLE if that EVD accepts no
// connection requests.
[[nodiscard]] Required<Evd> require_cr_evd(const Ia& ia, DAT_EVD_HANDLE handle) noexcept;

// A request on its way to the consumer.
struct Arrival {
  std::unique_ptr<transport::IncomingConnection>& request;
  DAT_SP_HANDLE place;  // as the event reports it
  DAT_CONN_QUAL conn_qual;
  OwnEp own;
};

// Makes a TENTATIVE EP for `request`, without PZ and EVDs; the read depths are what the peer
// proposes.
[[nodiscard]] Result<Ep*> make_provider_ep(Ia& ia,
                                           const transport::IncomingConnection& request) noexcept;

// Makes a CR of the arrival and posts its event to `evd`. On failure (the EVD is full, no memory)
// nothing has changed, and the arrival still has the request. `upcall` gets the work to run without
// locks.
[[nodiscard]] Status deliver(Ia& ia, Evd& evd, Arrival& arrival, Upcall& upcall) noexcept;

// Delivers the request to the service point that listens on `conn_qual` (dat_cr_handoff).
// INVALID_PARAMETER: there is none; INSUFFICIENT_RESOURCES: its EVD is full, and `request` is still
// set.
[[nodiscard]] Status hand_over(Ia& ia, DAT_CONN_QUAL conn_qual,
                               std::unique_ptr<transport::IncomingConnection>& request,
                               Upcall& upcall) noexcept;

}  // namespace udapl::dapl
