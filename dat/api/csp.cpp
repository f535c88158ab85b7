// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dat/api/forward.h"

using namespace udapl::dat;

extern "C" {

UDAPL_API DAT_RETURN dat_csp_create(DAT_IA_HANDLE ia_handle, DAT_COMM* communicator,
                                    DAT_IA_ADDRESS_PTR address, DAT_EVD_HANDLE evd_handle,
                                    DAT_CSP_HANDLE* csp_handle) {
  return forward_ia<&DAT_PROVIDER::csp_create_func>(__func__, ia_handle, communicator, address,
                                                    evd_handle, csp_handle);
}

UDAPL_API DAT_RETURN dat_csp_query(DAT_CSP_HANDLE csp_handle, DAT_CSP_PARAM_MASK csp_param_mask,
                                   DAT_CSP_PARAM* csp_param) {
  return forward<&DAT_PROVIDER::csp_query_func, DAT_INVALID_HANDLE_CSP>(__func__, csp_handle,
                                                                        csp_param_mask, csp_param);
}

UDAPL_API DAT_RETURN dat_csp_free(DAT_CSP_HANDLE csp_handle) {
  return forward<&DAT_PROVIDER::csp_free_func, DAT_INVALID_HANDLE_CSP>(__func__, csp_handle);
}

}  // extern "C"
