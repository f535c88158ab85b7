// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dat/api/forward.h"

using namespace udapl::dat;

extern "C" {

UDAPL_API DAT_RETURN dat_ep_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle,
                                   DAT_EVD_HANDLE recv_completion_evd_handle,
                                   DAT_EVD_HANDLE request_completion_evd_handle,
                                   DAT_EVD_HANDLE connect_evd_handle,
                                   const DAT_EP_ATTR* ep_attributes, DAT_EP_HANDLE* ep_handle) {
  return forward_ia<&DAT_PROVIDER::ep_create_func>(
      __func__, ia_handle, pz_handle, recv_completion_evd_handle, request_completion_evd_handle,
      connect_evd_handle, ep_attributes, ep_handle);
}

UDAPL_API DAT_RETURN dat_ep_create_with_srq(
    DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle, DAT_EVD_HANDLE recv_evd_handle,
    DAT_EVD_HANDLE request_evd_handle, DAT_EVD_HANDLE connect_evd_handle, DAT_SRQ_HANDLE srq_handle,
    const DAT_EP_ATTR* ep_attributes, DAT_EP_HANDLE* ep_handle) {
  return forward_ia<&DAT_PROVIDER::ep_create_with_srq_func>(
      __func__, ia_handle, pz_handle, recv_evd_handle, request_evd_handle, connect_evd_handle,
      srq_handle, ep_attributes, ep_handle);
}

UDAPL_API DAT_RETURN dat_ep_query(DAT_EP_HANDLE ep_handle, DAT_EP_PARAM_MASK ep_param_mask,
                                  DAT_EP_PARAM* ep_param) {
  return forward<&DAT_PROVIDER::ep_query_func, DAT_INVALID_HANDLE_EP>(__func__, ep_handle,
                                                                      ep_param_mask, ep_param);
}

UDAPL_API DAT_RETURN dat_ep_modify(DAT_EP_HANDLE ep_handle, DAT_EP_PARAM_MASK ep_param_mask,
                                   const DAT_EP_PARAM* ep_param) {
  return forward<&DAT_PROVIDER::ep_modify_func, DAT_INVALID_HANDLE_EP>(__func__, ep_handle,
                                                                       ep_param_mask, ep_param);
}

UDAPL_API DAT_RETURN dat_ep_connect(DAT_EP_HANDLE ep_handle, DAT_IA_ADDRESS_PTR remote_ia_address,
                                    DAT_CONN_QUAL remote_conn_qual, DAT_TIMEOUT timeout,
                                    DAT_COUNT private_data_size, const DAT_PVOID private_data,
                                    DAT_QOS quality_of_service, DAT_CONNECT_FLAGS connect_flags) {
  return forward<&DAT_PROVIDER::ep_connect_func, DAT_INVALID_HANDLE_EP>(
      __func__, ep_handle, remote_ia_address, remote_conn_qual, timeout, private_data_size,
      private_data, quality_of_service, connect_flags);
}

UDAPL_API DAT_RETURN dat_ep_dup_connect(DAT_EP_HANDLE ep_handle, DAT_EP_HANDLE ep_dup_handle,
                                        DAT_TIMEOUT timeout, DAT_COUNT private_data_size,
                                        const DAT_PVOID private_data, DAT_QOS quality_of_service) {
  return forward<&DAT_PROVIDER::ep_dup_connect_func, DAT_INVALID_HANDLE_EP>(
      __func__, ep_handle, ep_dup_handle, timeout, private_data_size, private_data,
      quality_of_service);
}

UDAPL_API DAT_RETURN dat_ep_common_connect(DAT_EP_HANDLE ep_handle,
                                           DAT_IA_ADDRESS_PTR remote_ia_address,
                                           DAT_TIMEOUT timeout, DAT_COUNT private_data_size,
                                           const DAT_PVOID private_data) {
  return forward<&DAT_PROVIDER::ep_common_connect_func, DAT_INVALID_HANDLE_EP>(
      __func__, ep_handle, remote_ia_address, timeout, private_data_size, private_data);
}

UDAPL_API DAT_RETURN dat_ep_disconnect(DAT_EP_HANDLE ep_handle, DAT_CLOSE_FLAGS close_flags) {
  return forward<&DAT_PROVIDER::ep_disconnect_func, DAT_INVALID_HANDLE_EP>(__func__, ep_handle,
                                                                           close_flags);
}

UDAPL_API DAT_RETURN dat_ep_get_status(DAT_EP_HANDLE ep_handle, DAT_EP_STATE* ep_state,
                                       DAT_BOOLEAN* recv_idle, DAT_BOOLEAN* request_idle) {
  return forward<&DAT_PROVIDER::ep_get_status_func, DAT_INVALID_HANDLE_EP>(
      __func__, ep_handle, ep_state, recv_idle, request_idle);
}

UDAPL_API DAT_RETURN dat_ep_recv_query(DAT_EP_HANDLE ep_handle, DAT_COUNT* nbufs_allocated,
                                       DAT_COUNT* bufs_alloc_span) {
  return forward<&DAT_PROVIDER::ep_recv_query_func, DAT_INVALID_HANDLE_EP>(
      __func__, ep_handle, nbufs_allocated, bufs_alloc_span);
}

UDAPL_API DAT_RETURN dat_ep_set_watermark(DAT_EP_HANDLE ep_handle, DAT_COUNT soft_high_watermark,
                                          DAT_COUNT hard_high_watermark) {
  return forward<&DAT_PROVIDER::ep_set_watermark_func, DAT_INVALID_HANDLE_EP>(
      __func__, ep_handle, soft_high_watermark, hard_high_watermark);
}

UDAPL_API DAT_RETURN dat_ep_reset(DAT_EP_HANDLE ep_handle) {
  return forward<&DAT_PROVIDER::ep_reset_func, DAT_INVALID_HANDLE_EP>(__func__, ep_handle);
}

UDAPL_API DAT_RETURN dat_ep_free(DAT_EP_HANDLE ep_handle) {
  return forward<&DAT_PROVIDER::ep_free_func, DAT_INVALID_HANDLE_EP>(__func__, ep_handle);
}

}  // extern "C"
