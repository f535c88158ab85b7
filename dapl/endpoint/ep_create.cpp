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

Status create(Ia& ia, const EpHandles& handles, EpConfig& config, const DAT_EP_ATTR* attributes,
              DAT_EP_HANDLE* ep) {
  if (const Status status = read_handles(handles, DAT_EP_FIELD_ALL, &config); !status.ok())
    return status;
  config.default_read_depths = attributes == nullptr;
  // A direction without an EVD has DTOs by default as well: OpenFabrics accepts its posts.
  config.attr =
      attributes != nullptr ? *attributes : default_attributes(ia.attributes(), kDefaultDtos);
  // Programs leave fields that they do not know uninitialised, so wrong named attributes are not
  // refused here. dat_ep_modify checks them if its mask selects them.
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
