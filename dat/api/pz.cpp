// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dat/api/forward.h"

using namespace udapl::dat;

extern "C" {

UDAPL_API DAT_RETURN dat_pz_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE* pz_handle) {
  return forward_ia<&DAT_PROVIDER::pz_create_func>(__func__, ia_handle, pz_handle);
}

UDAPL_API DAT_RETURN dat_pz_query(DAT_PZ_HANDLE pz_handle, DAT_PZ_PARAM_MASK pz_param_mask,
                                  DAT_PZ_PARAM* pz_param) {
  return forward<&DAT_PROVIDER::pz_query_func, DAT_INVALID_HANDLE_PZ>(__func__, pz_handle,
                                                                      pz_param_mask, pz_param);
}

UDAPL_API DAT_RETURN dat_pz_free(DAT_PZ_HANDLE pz_handle) {
  return forward<&DAT_PROVIDER::pz_free_func, DAT_INVALID_HANDLE_PZ>(__func__, pz_handle);
}

}  // extern "C"
