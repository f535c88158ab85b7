// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/memory/pz.h"

#include "dapl/objects/boundary.h"
#include "dapl/objects/calls.h"
#include "dapl/objects/ia.h"
#include "dapl/objects/refuse.h"
#include "dapl/objects/require.h"

namespace udapl::dapl::calls {

DAT_RETURN pz_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE* pz) {
  return boundary([&]() -> Status {
    const auto ia = require<Ia>(ia_handle);
    if (ia == nullptr) return ia.refusal();
    if (pz == nullptr)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2, "null PZ handle pointer");
    if (ia->full<Pz>(ia->attributes().max_pzs))
      UDAPL_REFUSE(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_PROTECTION_DOMAIN, "already %d PZs",
                   ia->attributes().max_pzs);
    auto pd = ia->adapter().create_pd();
    if (!pd.ok()) return pd.status();
    *pz = &ia->adopt(make_object<Pz>(ia->provider, *ia, *std::move(pd)));
    return Status();
  });
}

DAT_RETURN pz_query(DAT_PZ_HANDLE handle, DAT_PZ_PARAM_MASK, DAT_PZ_PARAM* param) {
  return boundary([&]() -> Status {
    const auto pz = require<Pz>(handle);
    if (pz == nullptr) return pz.refusal();
    if (param == nullptr) UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3, "null parameters");
    param->ia_handle = pz->ia->handle();
    return Status();
  });
}

DAT_RETURN pz_free(DAT_PZ_HANDLE handle) {
  return boundary([&]() -> Status {
    const auto pz = require<Pz>(handle);
    if (pz == nullptr) return pz.refusal();
    if (pz->uses.load(std::memory_order_acquire) != 0)
      UDAPL_REFUSE(DAT_INVALID_STATE, DAT_INVALID_STATE_PZ_IN_USE, "PZ %p is in use", handle);
    pz->ia->destroy(*pz);
    return Status();
  });
}

}  // namespace udapl::dapl::calls
