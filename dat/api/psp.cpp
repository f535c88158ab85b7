// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dat/api/forward.h"

using namespace udapl::dat;

extern "C" {

UDAPL_API DAT_RETURN dat_psp_create(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL conn_qual,
                                    DAT_EVD_HANDLE evd_handle, DAT_PSP_FLAGS psp_flags,
                                    DAT_PSP_HANDLE* psp_handle) {
  return forward_ia<&DAT_PROVIDER::psp_create_func>(__func__, ia_handle, conn_qual, evd_handle,
                                                    psp_flags, psp_handle);
}

UDAPL_API DAT_RETURN dat_psp_create_any(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL* conn_qual,
                                        DAT_EVD_HANDLE evd_handle, DAT_PSP_FLAGS psp_flags,
                                        DAT_PSP_HANDLE* psp_handle) {
  return forward_ia<&DAT_PROVIDER::psp_create_any_func>(__func__, ia_handle, conn_qual, evd_handle,
                                                        psp_flags, psp_handle);
}

UDAPL_API DAT_RETURN dat_psp_query(DAT_PSP_HANDLE psp_handle, DAT_PSP_PARAM_MASK psp_param_mask,
                                   DAT_PSP_PARAM* psp_param) {
  return forward<&DAT_PROVIDER::psp_query_func, DAT_INVALID_HANDLE_PSP>(__func__, psp_handle,
                                                                        psp_param_mask, psp_param);
}

UDAPL_API DAT_RETURN dat_psp_free(DAT_PSP_HANDLE psp_handle) {
  return forward<&DAT_PROVIDER::psp_free_func, DAT_INVALID_HANDLE_PSP>(__func__, psp_handle);
}

}  // extern "C"
