// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include <cstring>

#include "common/tracing/cause.h"
#include "dat/api/boundary.h"
#include "dat/api/forward.h"

using namespace udapl;
using namespace udapl::dat;

extern "C" {

UDAPL_API DAT_RETURN dat_ia_openv(const DAT_NAME_PTR provider, DAT_COUNT asynch_evd_min_qlen,
                                  DAT_EVD_HANDLE* asynch_evd_handle, DAT_IA_HANDLE* ia_handle,
                                  DAT_UINT32 dat_major, DAT_UINT32 dat_minor,
                                  DAT_BOOLEAN dat_thread_safety) {
  return boundary([&]() -> DAT_RETURN {
    Registry* reg = registry();
    if (reg == nullptr) return dat_error(DAT_INVALID_STATE);
    if (provider == nullptr || ::strnlen(provider, DAT_NAME_MAX_LENGTH) == DAT_NAME_MAX_LENGTH) {
      UDAPL_EXPLAIN(kError, dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1),
                    "the name is null or longer than 255 characters");
      return dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1);
    }
    if (ia_handle == nullptr) {
      UDAPL_EXPLAIN(kNormal, dat_error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA),
                    "null pointer for the IA handle");
      return dat_error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA);
    }
    Result<OpenedIa> opened = reg->open({provider, asynch_evd_min_qlen, asynch_evd_handle,
                                         dat_major, dat_minor, dat_thread_safety != DAT_FALSE});
    if (!opened.ok()) return opened.status().code();
    known_tables().add(&provider_of(ia_table().pointer_of(opened->ia)));
    *ia_handle = opened->ia;
    if (asynch_evd_handle != nullptr) *asynch_evd_handle = opened->async_evd;
    return DAT_SUCCESS;
  });
}

UDAPL_API DAT_RETURN dat_ia_close(DAT_IA_HANDLE ia_handle, DAT_CLOSE_FLAGS close_flags) {
  return boundary([&]() -> DAT_RETURN {
    Registry* reg = registry();
    if (reg == nullptr) return dat_error(DAT_INVALID_STATE);
    return reg->close(ia_handle, close_flags).code();
  });
}

UDAPL_API DAT_RETURN dat_ia_query(DAT_IA_HANDLE ia_handle, DAT_EVD_HANDLE* async_evd_handle,
                                  DAT_IA_ATTR_MASK ia_attr_mask, DAT_IA_ATTR* ia_attr,
                                  DAT_PROVIDER_ATTR_MASK provider_attr_mask,
                                  DAT_PROVIDER_ATTR* provider_attr) {
  return forward_ia<&DAT_PROVIDER::ia_query_func>(__func__, ia_handle, async_evd_handle,
                                                  ia_attr_mask, ia_attr, provider_attr_mask,
                                                  provider_attr);
}

}  // extern "C"
