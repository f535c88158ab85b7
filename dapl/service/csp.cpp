// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/service/csp.h"

#include "dapl/endpoint/ep_config.h"
#include "dapl/objects/boundary.h"
#include "dapl/objects/ep_calls.h"
#include "dapl/objects/ia.h"
#include "dapl/objects/refuse.h"
#include "dapl/objects/require.h"

namespace udapl::dapl {

Status Csp::receive(std::unique_ptr<transport::IncomingConnection>& request,
                    Upcall& upcall) noexcept {
  Arrival arrival{.request = request, .place = {}, .conn_qual = conn_qual(), .own = {}};
  arrival.place.csp_handle = this;
  return deliver(*ia, evd(), arrival, upcall);
}

namespace calls {
namespace {

bool is_wildcard(const transport::SocketAddress& address) noexcept {
  if (address.family() == AF_INET6)
    return IN6_IS_ADDR_UNSPECIFIED(
        &reinterpret_cast<const sockaddr_in6*>(address.get())->sin6_addr);
  return reinterpret_cast<const sockaddr_in*>(address.get())->sin_addr.s_addr == INADDR_ANY;
}

// PORT_IN_USE is the CSP's name for CONN_QUAL_IN_USE.
Status as_port(Status status) noexcept {
  if (status.type() == DAT_CONN_QUAL_IN_USE)
    UDAPL_REFUSE(DAT_PORT_IN_USE, DAT_NO_SUBTYPE, "a program listens on that port already");
  if (status.type() == DAT_CONN_QUAL_UNAVAILABLE) return failure(DAT_INSUFFICIENT_RESOURCES);
  return status;
}

}  // namespace

DAT_RETURN csp_create(DAT_IA_HANDLE ia_handle, DAT_COMM* comm, DAT_IA_ADDRESS_PTR address,
                      DAT_EVD_HANDLE evd_handle, DAT_CSP_HANDLE* csp) noexcept {
  return boundary([&]() -> Status {
    const auto ia = require<Ia>(ia_handle);
    if (ia == nullptr) return ia.refusal();
    const auto evd = require_cr_evd(*ia, evd_handle);
    if (evd == nullptr) return evd.refusal();
    if (comm == nullptr) UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2, "null communicator");
    if (!is_supported(*comm))
      UDAPL_REFUSE(DAT_COMM_NOT_SUPPORTED, DAT_NO_SUBTYPE, "communicator {%d, %d, %d}",
                   comm->domain, comm->type, comm->protocol);
    if (address != nullptr && address->sa_family != comm->domain)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3, "address family %d, communicator's %d",
                   address->sa_family, comm->domain);
    if (csp == nullptr)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG5, "null pointer for the CSP");
    transport::SocketAddress place;
    if (address != nullptr) place = transport::SocketAddress::from(address);
    const bool anywhere = address == nullptr || is_wildcard(place);
    const int family = ia->attributes().address.family();
    if (anywhere && comm->domain != family)  // "anywhere" is the adapter's own address
      UDAPL_REFUSE(DAT_COMM_NOT_SUPPORTED, DAT_NO_SUBTYPE,
                   "address family %d, that of the adapter's address is %d", comm->domain, family);
    Owned<Csp> made = make_object<Csp>(*ia, *evd, *comm);
    const Status status = made->listen(
        {address != nullptr ? place.port() : DAT_CONN_QUAL{0}, anywhere ? nullptr : &place});
    if (!status.ok()) return as_port(status);
    *csp = &ia->adopt(std::move(made));
    return Status();
  });
}

DAT_RETURN csp_query(DAT_CSP_HANDLE handle, DAT_CSP_PARAM_MASK, DAT_CSP_PARAM* param) noexcept {
  return boundary([&]() -> Status {
    const auto csp = require<Csp>(handle);
    if (csp == nullptr) return csp.refusal();
    if (param == nullptr) UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3, "null parameters");
    param->ia_handle = csp->ia->handle();
    param->comm = const_cast<DAT_COMM*>(&csp->comm());  // the consumer does not write through it
    param->address_ptr = csp->address().get();
    param->evd_handle = &csp->evd();
    return Status();
  });
}

DAT_RETURN csp_free(DAT_CSP_HANDLE handle) noexcept {
  return boundary([&] { return free_service_point<Csp>(handle); });
}

}  // namespace calls
}  // namespace udapl::dapl
