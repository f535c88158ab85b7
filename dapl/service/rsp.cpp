// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/service/rsp.h"

#include "common/backoff.h"
#include "dapl/endpoint/ep.h"
#include "dapl/events/async_evds.h"
#include "dapl/objects/boundary.h"
#include "dapl/objects/ending.h"
#include "dapl/objects/ep_calls.h"
#include "dapl/objects/ia.h"
#include "dapl/objects/refuse.h"
#include "dapl/objects/require.h"

#include <mutex>

namespace udapl::dapl {

bool Rsp::begin_delivery() noexcept {
  for (Backoff backoff;; backoff.wait()) {
    const Phase seen = claim_delivery();
    if (seen != Phase::kStarting) return seen == Phase::kListening;
  }
}

bool Rsp::begin_free() noexcept {
  for (Backoff backoff;; backoff.wait()) {
    Phase seen = phase_.load(std::memory_order_acquire);
    if (seen == Phase::kGone) return false;
    if (seen != Phase::kDelivering &&
        phase_.compare_exchange_strong(seen, Phase::kGone, std::memory_order_acq_rel))
      return true;
  }
}

// The EP for the request: the reserved one, whose state is changed, or a new one.
Result<OwnEp> Rsp::take_ep(const transport::IncomingConnection& request) noexcept {
  if (ep_ == nullptr) {
    Result<Ep*> made = make_provider_ep(*ia, request);
    if (!made.ok()) return made.status();
    return OwnEp{.ep = *made, .made_by_provider = true};
  }
  if (const Status status = ep_->apply(EpInput::kRequest); !status.ok()) return status;
  return OwnEp{.ep = ep_};
}

// Called if the request could not be delivered: undoes take_ep() and listens again.
void Rsp::resume(const OwnEp& own) noexcept {
  if (own.made_by_provider)
    ia->destroy(*own.ep);
  else
    static_cast<void>(own.ep->apply(EpInput::kRequestLost));
  const bool listens = listen({conn_qual(), nullptr}).ok();
  Ia& owner = *ia;
  phase_.store(Phase::kListening, std::memory_order_release);
  if (listens) return;
  // The consumer may free the RSP now: only its address is used from here on.
  UDAPL_TRACE(kError, "rsp %p no longer listens", static_cast<void*>(this));
  report_async(owner, DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR, this, DAT_IA_OTHER_ERROR);
}

Status Rsp::receive(std::unique_ptr<transport::IncomingConnection>& request,
                    Upcall& upcall) noexcept {
  Result<OwnEp> own = take_ep(*request);
  if (!own.ok()) {
    phase_.store(Phase::kListening, std::memory_order_release);
    return own.status();
  }
  Arrival arrival{.request = request, .place = {}, .conn_qual = conn_qual(), .own = *own};
  arrival.place.rsp_handle = this;  // identifies the RSP, which is about to be freed

  const Ending ending;  // destroyed after `last`
  close();              // the port is free before the consumer can learn of the request
  if (const Status status = deliver(*ia, evd(), arrival, upcall); !status.ok()) {
    resume(*own);
    return status;
  }
  // Null if ~Ia has already taken the RSP: ~Rsp then waits for kGone.
  const Owned<Rsp> last = ia->release(*this);
  // Existing programs free the RSP when they are done with the connection (docs/compatibility.md
  // C4).
  tag.store(ObjectHeader::kConsumed, std::memory_order_relaxed);
  phase_.store(Phase::kGone, std::memory_order_release);
  return Status();
}

void Rsp::Sink::on_request(std::unique_ptr<transport::IncomingConnection> request) noexcept {
  Upcall upcall;  // runs last, when the RSP is freed
  if (rsp.begin_delivery())
    static_cast<void>(rsp.receive(request, upcall));  // on failure ~request refuses the peer
}

namespace calls {

DAT_RETURN rsp_create(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL conn_qual, DAT_EP_HANDLE ep_handle,
                      DAT_EVD_HANDLE evd_handle, DAT_RSP_HANDLE* rsp) noexcept {
  return boundary([&]() -> Status {
    const auto ia = require<Ia>(ia_handle);
    if (ia == nullptr) return ia.refusal();
    Result<Ep*> reserved = require_of_or_null<Ep>(*ia, ep_handle);
    if (!reserved.ok()) return reserved.status();
    Ep* const ep = *reserved;
    const auto evd = require_cr_evd(*ia, evd_handle);
    if (evd == nullptr) return evd.refusal();
    if (rsp == nullptr)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG5, "null pointer for the RSP");
    // The RSP is in the list before it listens, because its request removes it.
    Owned<Rsp> made = make_object<Rsp>(*ia, *evd, ep);
    if (ep != nullptr)
      if (const Status status = ep->apply(EpInput::kReserve); !status.ok()) return status;
    // Undoes all of this on failure, also if listen() throws because memory has run out.
    struct Attempt {
      ~Attempt() {
        if (rsp == nullptr) return;
        rsp->ia->destroy(*rsp);
        if (ep != nullptr) static_cast<void>(ep->apply(EpInput::kRelease));
      }
      Rsp* rsp;
      Ep* ep;
    } attempt{&ia->adopt(std::move(made)), ep};
    if (const Status status = attempt.rsp->listen({conn_qual, nullptr}); !status.ok())
      return status;
    *rsp = std::exchange(attempt.rsp, nullptr);
    static_cast<Rsp*>(*rsp)->start();
    return Status();
  });
}

DAT_RETURN rsp_query(DAT_RSP_HANDLE handle, DAT_RSP_PARAM_MASK, DAT_RSP_PARAM* param) noexcept {
  return boundary([&]() -> Status {
    const auto rsp = require<Rsp>(handle);
    if (rsp == nullptr) return rsp.refusal();
    if (param == nullptr) UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3, "null parameters");
    param->ia_handle = rsp->ia->handle();
    param->conn_qual = rsp->conn_qual();
    param->evd_handle = &rsp->evd();
    param->ep_handle = rsp->ep();
    return Status();
  });
}

DAT_RETURN rsp_free(DAT_RSP_HANDLE handle) noexcept {
  return boundary([&]() -> Status {
    Rsp* rsp = nullptr;
    {
      // The delivery of the request may free the RSP meanwhile, but Dispose waits for this lock.
      const std::scoped_lock lock(consumed_lock());
      rsp = handle_cast<Rsp>(handle);
      if (rsp == nullptr || !rsp->begin_free()) {
        if (free_consumed(handle)) return Status();  // the request arrived first
        UDAPL_REFUSE(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_RSP, "%p is not a valid RSP handle",
                     handle);
      }
    }
    Ep* const ep = rsp->ep();
    rsp->ia->destroy(*rsp);
    if (ep != nullptr) static_cast<void>(ep->apply(EpInput::kRelease));
    return Status();
  });
}

}  // namespace calls
}  // namespace udapl::dapl
