// SPDX-License-Identifier: MIT OR GPL-2.0-only
// dat_ep_create and dat_ep_create_with_srq.
#include "dapl/endpoint/ep.h"
#include "dapl/endpoint/named_attributes.h"
#include "dapl/objects/boundary.h"
#include "dapl/objects/ep_calls.h"
#include "dapl/objects/ia.h"
#include "dapl/objects/refuse.h"
#include "dapl/objects/require.h"

namespace udapl::dapl::calls {
namespace {

struct Handles {
  DAT_PZ_HANDLE pz;
  DAT_EVD_HANDLE recv_evd;
  DAT_EVD_HANDLE request_evd;
  DAT_EVD_HANDLE connect_evd;
};

// Stores the object that `handle` names; null for a null handle.
template <class T>
Status resolve(DAT_HANDLE handle, DAT_RETURN subtype, T** object) noexcept {
  *object = handle == DAT_HANDLE_NULL ? nullptr : handle_cast<T>(handle);
  if (*object == nullptr && handle != DAT_HANDLE_NULL)
    UDAPL_REFUSE(DAT_INVALID_HANDLE, subtype, "%p is not a handle of the required type", handle);
  return Status();
}

Status resolve_all(const Handles& handles, EpConfig* config) noexcept {
  if (const Status status = resolve(handles.pz, DAT_INVALID_HANDLE_PZ, &config->pz); !status.ok())
    return status;
  if (const Status status =
          resolve(handles.recv_evd, DAT_INVALID_HANDLE_EVD_RECV, &config->recv_evd);
      !status.ok())
    return status;
  if (const Status status =
          resolve(handles.request_evd, DAT_INVALID_HANDLE_EVD_REQUEST, &config->request_evd);
      !status.ok())
    return status;
  return resolve(handles.connect_evd, DAT_INVALID_HANDLE_EVD_CONN, &config->connect_evd);
}

Status create(Ia& ia, const Handles& handles, EpConfig& config, const DAT_EP_ATTR* attributes,
              DAT_EP_HANDLE* ep) {
  if (const Status status = resolve_all(handles, &config); !status.ok()) return status;
  config.default_read_depths = attributes == nullptr;
  // A direction without an EVD has DTOs by default as well: OpenFabrics accepts posts there.
  config.attr =
      attributes != nullptr ? *attributes : default_attributes(ia.attributes(), kDefaultDtos);
  // Programs leave fields that they do not know uninitialised, so nothing in the named attributes
  // is an error. dat_ep_modify checks them if its mask selects them.
  config.attr.ep_transport_specific_count = 0;
  config.attr.ep_transport_specific = nullptr;
  config.delayed_ack = ia.attributes().delayed_ack_by_default;
  adopt_ep_attributes(ia.attributes(), config.attr, &config);
  if (config.srq != nullptr && config.srq->uses.load(std::memory_order_relaxed) >=
                                   static_cast<std::uint32_t>(ia.attributes().max_eps_per_srq))
    UDAPL_REFUSE(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_SRQ, "already %d EPs use the SRQ",
                 ia.attributes().max_eps_per_srq);
  Result<Ep*> made = Ep::make(ia, config);
  if (!made.ok()) return made.status();
  *ep = *made;
  return Status();
}

}  // namespace

DAT_RETURN ep_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv_evd,
                     DAT_EVD_HANDLE request_evd, DAT_EVD_HANDLE connect_evd,
                     const DAT_EP_ATTR* attributes, DAT_EP_HANDLE* ep) noexcept {
  return boundary([&]() -> Status {
    const auto ia = require<Ia>(ia_handle);
    if (ia == nullptr) return ia.refusal();
    if (ep == nullptr)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG7, "null pointer for the EP");
    EpConfig config;
    return create(*ia, {pz, recv_evd, request_evd, connect_evd}, config, attributes, ep);
  });
}

DAT_RETURN ep_create_with_srq(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv_evd,
                              DAT_EVD_HANDLE request_evd, DAT_EVD_HANDLE connect_evd,
                              DAT_SRQ_HANDLE srq, const DAT_EP_ATTR* attributes,
                              DAT_EP_HANDLE* ep) noexcept {
  return boundary([&]() -> Status {
    const auto ia = require<Ia>(ia_handle);
    if (ia == nullptr) return ia.refusal();
    EpConfig config;
    const auto shared = require<Srq>(srq);
    if (shared == nullptr) return shared.refusal();
    config.srq = shared;
    if (ep == nullptr)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG8, "null pointer for the EP");
    return create(*ia, {pz, recv_evd, request_evd, connect_evd}, config, attributes, ep);
  });
}

}  // namespace udapl::dapl::calls
