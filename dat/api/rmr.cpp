// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dat/api/forward.h"

using namespace udapl::dat;

extern "C" {

UDAPL_API DAT_RETURN dat_rmr_create(DAT_PZ_HANDLE pz_handle, DAT_RMR_HANDLE* rmr_handle) {
  return forward<&DAT_PROVIDER::rmr_create_func, DAT_INVALID_HANDLE_PZ>(__func__, pz_handle,
                                                                        rmr_handle);
}

UDAPL_API DAT_RETURN dat_rmr_create_for_ep(DAT_PZ_HANDLE pz_handle, DAT_RMR_HANDLE* rmr_handle) {
  return forward<&DAT_PROVIDER::rmr_create_for_ep_func, DAT_INVALID_HANDLE_PZ>(__func__, pz_handle,
                                                                               rmr_handle);
}

UDAPL_API DAT_RETURN dat_rmr_query(DAT_RMR_HANDLE rmr_handle, DAT_RMR_PARAM_MASK rmr_param_mask,
                                   DAT_RMR_PARAM* rmr_param) {
  return forward<&DAT_PROVIDER::rmr_query_func, DAT_INVALID_HANDLE_RMR>(__func__, rmr_handle,
                                                                        rmr_param_mask, rmr_param);
}

UDAPL_API DAT_RETURN dat_rmr_bind(DAT_RMR_HANDLE rmr_handle, DAT_LMR_HANDLE lmr_handle,
                                  const DAT_LMR_TRIPLET* lmr_triplet, DAT_MEM_PRIV_FLAGS mem_priv,
                                  DAT_VA_TYPE va_type, DAT_EP_HANDLE ep_handle,
                                  DAT_RMR_COOKIE user_cookie, DAT_COMPLETION_FLAGS completion_flags,
                                  DAT_RMR_CONTEXT* context) {
  return forward<&DAT_PROVIDER::rmr_bind_func, DAT_INVALID_HANDLE_RMR>(
      __func__, rmr_handle, lmr_handle, lmr_triplet, mem_priv, va_type, ep_handle, user_cookie,
      completion_flags, context);
}

UDAPL_API DAT_RETURN dat_rmr_free(DAT_RMR_HANDLE rmr_handle) {
  return forward<&DAT_PROVIDER::rmr_free_func, DAT_INVALID_HANDLE_RMR>(__func__, rmr_handle);
}

}  // extern "C"
