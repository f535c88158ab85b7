// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dat/api/forward.h"

using namespace udapl::dat;

extern "C" {

UDAPL_API DAT_RETURN dat_rsp_create(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL conn_qual,
                                    DAT_EP_HANDLE ep_handle, DAT_EVD_HANDLE evd_handle,
                                    DAT_RSP_HANDLE* rsp_handle) {
  return forward_ia<&DAT_PROVIDER::rsp_create_func>(__func__, ia_handle, conn_qual, ep_handle,
                                                    evd_handle, rsp_handle);
}

UDAPL_API DAT_RETURN dat_rsp_query(DAT_RSP_HANDLE rsp_handle, DAT_RSP_PARAM_MASK rsp_param_mask,
                                   DAT_RSP_PARAM* rsp_param) {
  return forward<&DAT_PROVIDER::rsp_query_func, DAT_INVALID_HANDLE_RSP>(__func__, rsp_handle,
                                                                        rsp_param_mask, rsp_param);
}

UDAPL_API DAT_RETURN dat_rsp_free(DAT_RSP_HANDLE rsp_handle) {
  return forward<&DAT_PROVIDER::rsp_free_func, DAT_INVALID_HANDLE_RSP>(__func__, rsp_handle);
}

}  // extern "C"
