// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dat/api/forward.h"

using namespace udapl::dat;

extern "C" {

UDAPL_API DAT_RETURN dat_cr_query(DAT_CR_HANDLE cr_handle, DAT_CR_PARAM_MASK cr_param_mask,
                                  DAT_CR_PARAM* cr_param) {
  return forward<&DAT_PROVIDER::cr_query_func, DAT_INVALID_HANDLE_CR>(__func__, cr_handle,
                                                                      cr_param_mask, cr_param);
}

UDAPL_API DAT_RETURN dat_cr_accept(DAT_CR_HANDLE cr_handle, DAT_EP_HANDLE ep_handle,
                                   DAT_COUNT private_data_size, DAT_PVOID private_data) {
  return forward<&DAT_PROVIDER::cr_accept_func, DAT_INVALID_HANDLE_CR>(
      __func__, cr_handle, ep_handle, private_data_size, private_data);
}

UDAPL_API DAT_RETURN dat_cr_reject(DAT_CR_HANDLE cr_handle, DAT_COUNT private_data_size,
                                   DAT_PVOID private_data) {
  return forward<&DAT_PROVIDER::cr_reject_func, DAT_INVALID_HANDLE_CR>(
      __func__, cr_handle, private_data_size, private_data);
}

UDAPL_API DAT_RETURN dat_cr_handoff(DAT_CR_HANDLE cr_handle, DAT_CONN_QUAL handoff) {
  return forward<&DAT_PROVIDER::cr_handoff_func, DAT_INVALID_HANDLE_CR>(__func__, cr_handle,
                                                                        handoff);
}

}  // extern "C"
