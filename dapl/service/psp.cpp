// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/service/psp.h"

#include "dapl/endpoint/ep.h"
#include "dapl/objects/boundary.h"
#include "dapl/objects/ep_calls.h"
#include "dapl/objects/ia.h"
#include "dapl/objects/refuse.h"
#include "dapl/objects/require.h"

namespace udapl::dapl {

Status Psp::receive(std::unique_ptr<transport::IncomingConnection>& request,
                    Upcall& upcall) noexcept {
  Arrival arrival{.request = request, .place = {}, .conn_qual = conn_qual(), .own = {}};
  arrival.place.psp_handle = this;
  if (flags_ == DAT_PSP_PROVIDER_FLAG) {
    Result<Ep*> ep = make_provider_ep(*ia, *request);
    if (!ep.ok()) return ep.status();
    arrival.own = {.ep = *ep, .made_by_provider = true};
  }
  const Status status = deliver(*ia, evd(), arrival, upcall);
  if (!status.ok() && arrival.own.ep != nullptr) ia->destroy(*arrival.own.ep);
  return status;
}

namespace calls {
namespace {

Status create(Ia& ia, DAT_CONN_QUAL conn_qual, DAT_EVD_HANDLE evd_handle, DAT_PSP_FLAGS flags,
              Psp** psp) {
  const auto evd = require_cr_evd(ia, evd_handle);
  if (evd == nullptr) return evd.refusal();
  if (flags != DAT_PSP_CONSUMER_FLAG && flags != DAT_PSP_PROVIDER_FLAG)
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG4, "PSP flags 0x%x",
                 static_cast<unsigned>(flags));
  Owned<Psp> made = make_object<Psp>(ia, *evd, flags);
  if (const Status status = made->listen({conn_qual, nullptr}); !status.ok()) return status;
  *psp = &ia.adopt(std::move(made));
  return Status();
}

}  // namespace

DAT_RETURN psp_create(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL conn_qual, DAT_EVD_HANDLE evd,
                      DAT_PSP_FLAGS flags, DAT_PSP_HANDLE* psp) noexcept {
  return boundary([&]() -> Status {
    const auto ia = require<Ia>(ia_handle);
    if (ia == nullptr) return ia.refusal();
    if (psp == nullptr)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG5, "null pointer for the PSP");
    Psp* made = nullptr;
    if (const Status status = create(*ia, conn_qual, evd, flags, &made); !status.ok())
      return status;
    *psp = made;
    return Status();
  });
}

DAT_RETURN psp_create_any(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL* conn_qual, DAT_EVD_HANDLE evd,
                          DAT_PSP_FLAGS flags, DAT_PSP_HANDLE* psp) noexcept {
  return boundary([&]() -> Status {
    const auto ia = require<Ia>(ia_handle);
    if (ia == nullptr) return ia.refusal();
    if (conn_qual == nullptr)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2, "null pointer for the qualifier");
    if (psp == nullptr)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG5, "null pointer for the PSP");
    Psp* made = nullptr;
    if (const Status status = create(*ia, 0, evd, flags, &made); !status.ok()) return status;
    *conn_qual = made->conn_qual();
    *psp = made;
    return Status();
  });
}

DAT_RETURN psp_query(DAT_PSP_HANDLE handle, DAT_PSP_PARAM_MASK, DAT_PSP_PARAM* param) noexcept {
  return boundary([&]() -> Status {
    const auto psp = require<Psp>(handle);
    if (psp == nullptr) return psp.refusal();
    if (param == nullptr) UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3, "null parameters");
    param->ia_handle = psp->ia->handle();
    param->conn_qual = psp->conn_qual();
    param->evd_handle = &psp->evd();
    param->psp_flags = psp->flags();
    return Status();
  });
}

DAT_RETURN psp_free(DAT_PSP_HANDLE handle) noexcept {
  return boundary([&] { return free_service_point<Psp>(handle); });
}

}  // namespace calls
}  // namespace udapl::dapl
