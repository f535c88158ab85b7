// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/service/cr.h"

#include "dapl/endpoint/connect_arguments.h"
#include "dapl/endpoint/ep.h"
#include "dapl/objects/boundary.h"
#include "dapl/objects/ep_calls.h"
#include "dapl/objects/ia.h"
#include "dapl/objects/refuse.h"
#include "dapl/objects/require.h"
#include "dapl/service/service_point.h"

#include <algorithm>

namespace udapl::dapl {

Cr::Cr(Ia& owner, std::unique_ptr<transport::IncomingConnection> request,
       const transport::Endpoints& ends, OwnEp own) noexcept
    : ObjectHeader(owner.provider, kType, &owner),
      request_(std::move(request)),
      endpoints_(ends),
      private_data_size_(std::min(request_->private_data().size(), kRoom)),
      own_(own) {
  std::copy_n(request_->private_data().begin(), private_data_size_, private_data_.begin());
}

Cr::~Cr() {
  if (request_ != nullptr) request_->reject({});
}

namespace {

// The exclusive right to decide about a CR. The destructor returns it unless complete() was called.
class Decision {
 public:
  explicit Decision(Cr& cr) noexcept : cr_(cr.claim() ? &cr : nullptr) {}
  ~Decision() {
    if (cr_ != nullptr) cr_->release_claim();
  }
  Decision(const Decision&) = delete;
  Decision& operator=(const Decision&) = delete;
  [[nodiscard]] bool claimed() const noexcept { return cr_ != nullptr; }
  // Destroys the CR.
  void complete() noexcept {
    Cr* const cr = std::exchange(cr_, nullptr);
    cr->request().reset();
    cr->ia->destroy(*cr);
  }

 private:
  Cr* cr_;
};

// Releases the EP of a request that is not accepted: the consumer that reserved it may use it
// again; if the provider has created it, it is destroyed.
void release_ep(const Cr& cr) noexcept {
  const auto [ep, made_by_provider] = cr.own_ep();
  if (ep == nullptr) return;
  if (!made_by_provider)
    static_cast<void>(ep->apply(EpInput::kReject));
  else if (invalidate(*ep))
    cr.ia->destroy(*ep);
}

Status being_decided(DAT_CR_HANDLE handle) noexcept {
  UDAPL_REFUSE(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_CR,
               "cr %p is already being accepted or rejected", handle);
}

// The EP into which to accept: the CR's own, or the one that the consumer passes; not both.
Result<Ep*> choose_ep(const Cr& cr, DAT_EP_HANDLE handle) noexcept {
  if (cr.own_ep().ep != nullptr) {
    if (handle != DAT_HANDLE_NULL)
      UDAPL_REFUSE(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP, "the CR has an EP of its own");
    return cr.own_ep().ep;
  }
  const auto ep = require_of<Ep>(*cr.ia, handle);
  if (ep == nullptr) return ep.refusal();
  return static_cast<Ep*>(ep);
}

void reject(Decision& decision, Cr& cr, transport::PrivateData data) noexcept {
  cr.request()->reject(data);
  release_ep(cr);
  decision.complete();
}

}  // namespace

void reject_lost(DAT_CR_HANDLE handle) noexcept {
  Cr* const cr = handle_cast<Cr>(handle);
  if (cr == nullptr) return;
  Decision decision(*cr);
  if (decision.claimed()) reject(decision, *cr, {});
}

namespace calls {

DAT_RETURN cr_query(DAT_CR_HANDLE handle, DAT_CR_PARAM_MASK, DAT_CR_PARAM* param) noexcept {
  return boundary([&]() -> Status {
    const auto cr = require<Cr>(handle);
    if (cr == nullptr) return cr.refusal();
    if (param == nullptr) UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3, "null parameters");
    const transport::PrivateData data = cr->private_data();
    param->remote_ia_address_ptr = cr->endpoints().remote.get();
    param->remote_port_qual = cr->endpoints().remote_port;
    param->private_data_size = static_cast<DAT_COUNT>(data.size());
    param->private_data = const_cast<std::byte*>(data.data());  // the consumer may write there
    param->local_ep_handle = cr->own_ep().ep;
    return Status();
  });
}

DAT_RETURN cr_accept(DAT_CR_HANDLE handle, DAT_EP_HANDLE ep_handle, DAT_COUNT private_data_size,
                     const DAT_PVOID private_data) noexcept {
  return boundary([&]() -> Status {
    const auto cr = require<Cr>(handle);
    if (cr == nullptr) return cr.refusal();
    Result<Ep*> ep = choose_ep(*cr, ep_handle);
    if (!ep.ok()) return ep.status();
    Result<transport::PrivateData> data =
        check_private_data(cr->ia->attributes().private_data.reply, private_data_size, private_data,
                           DAT_INVALID_ARG3, DAT_INVALID_ARG4);
    if (!data.ok()) return data.status();
    Decision decision(*cr);
    if (!decision.claimed()) return being_decided(handle);
    const EpInput how = cr->own_ep().ep != nullptr ? EpInput::kAcceptOwn : EpInput::kAccept;
    if (const Status status = (*ep)->accept(*cr->request(), cr->endpoints(), how, *data);
        !status.ok())
      return status;
    decision.complete();
    return Status();
  });
}

DAT_RETURN cr_reject(DAT_CR_HANDLE handle, DAT_COUNT private_data_size,
                     const DAT_PVOID private_data) noexcept {
  return boundary([&]() -> Status {
    const auto cr = require<Cr>(handle);
    if (cr == nullptr) return cr.refusal();
    Result<transport::PrivateData> data =
        check_private_data(cr->ia->attributes().private_data.rejection, private_data_size,
                           private_data, DAT_INVALID_ARG2, DAT_INVALID_ARG3);
    if (!data.ok()) return data.status();
    Decision decision(*cr);
    if (!decision.claimed()) return being_decided(handle);
    reject(decision, *cr, *data);
    return Status();
  });
}

DAT_RETURN cr_handoff(DAT_CR_HANDLE handle, DAT_CONN_QUAL conn_qual) noexcept {
  return boundary([&]() -> Status {
    const auto cr = require<Cr>(handle);
    if (cr == nullptr) return cr.refusal();
    if (conn_qual == 0)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2, "connection qualifier 0");
    Upcall upcall;  // runs last
    Decision decision(*cr);
    if (!decision.claimed()) return being_decided(handle);
    if (const Status status = hand_over(*cr->ia, conn_qual, cr->request(), upcall); !status.ok())
      return status;
    release_ep(*cr);
    decision.complete();
    return Status();
  });
}

}  // namespace calls
}  // namespace udapl::dapl
