// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/pz.h"

#include "dapl/boundary.h"
#include "dapl/calls.h"
#include "dapl/ia.h"
#include "dapl/refuse.h"

namespace udapl::dapl::calls {

DAT_RETURN pz_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE* pz) {
  return boundary([&]() -> Status {
    Ia* const ia = handle_cast<Ia>(ia_handle);
    if (ia == nullptr)
      UDAPL_REFUSE(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA, "%p is no IA", ia_handle);
    if (pz == nullptr)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2, "null PZ handle pointer");
    if (ia->full<Pz>(ia->attributes().max_pzs))
      UDAPL_REFUSE(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_PROTECTION_DOMAIN, "already %d PZs",
                   ia->attributes().max_pzs);
    auto pd = ia->adapter().create_pd();
    if (!pd.ok())
      UDAPL_REFUSE(pd.status().type(), DAT_RESOURCE_PROTECTION_DOMAIN, "no protection domain");
    *pz = &ia->adopt(make_object<Pz>(ia->provider, *ia, *std::move(pd)));
    return Status();
  });
}

DAT_RETURN pz_query(DAT_PZ_HANDLE handle, DAT_PZ_PARAM_MASK mask, DAT_PZ_PARAM* param) {
  return boundary([&]() -> Status {
    const Pz* const pz = handle_cast<Pz>(handle);
    if (pz == nullptr)
      UDAPL_REFUSE(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_PZ, "%p is no PZ", handle);
    if ((mask & ~static_cast<unsigned>(DAT_PZ_FIELD_ALL)) != 0)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2, "PZ mask 0x%x",
                   static_cast<unsigned>(mask));
    if (param == nullptr) UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3, "null parameters");
    param->ia_handle = pz->ia->handle();
    return Status();
  });
}

DAT_RETURN pz_free(DAT_PZ_HANDLE handle) {
  return boundary([&]() -> Status {
    Pz* const pz = handle_cast<Pz>(handle);
    if (pz == nullptr)
      UDAPL_REFUSE(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_PZ, "%p is no PZ", handle);
    if (pz->uses.load(std::memory_order_acquire) != 0)
      UDAPL_REFUSE(DAT_INVALID_STATE, DAT_INVALID_STATE_PZ_IN_USE, "PZ %p is in use", handle);
    pz->ia->destroy(*pz);
    return Status();
  });
}

}  // namespace udapl::dapl::calls
