// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dat/api/forward.h"

using namespace udapl::dat;

extern "C" {

UDAPL_API DAT_RETURN dat_srq_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle,
                                    DAT_SRQ_ATTR* srq_attr, DAT_SRQ_HANDLE* srq_handle) {
  return forward_ia<&DAT_PROVIDER::srq_create_func>(__func__, ia_handle, pz_handle, srq_attr,
                                                    srq_handle);
}

UDAPL_API DAT_RETURN dat_srq_query(DAT_SRQ_HANDLE srq_handle, DAT_SRQ_PARAM_MASK srq_param_mask,
                                   DAT_SRQ_PARAM* srq_param) {
  return forward<&DAT_PROVIDER::srq_query_func, DAT_INVALID_HANDLE_SRQ>(__func__, srq_handle,
                                                                        srq_param_mask, srq_param);
}

UDAPL_API DAT_RETURN dat_srq_resize(DAT_SRQ_HANDLE srq_handle, DAT_COUNT srq_max_recv_dto) {
  return forward<&DAT_PROVIDER::srq_resize_func, DAT_INVALID_HANDLE_SRQ>(__func__, srq_handle,
                                                                         srq_max_recv_dto);
}

UDAPL_API DAT_RETURN dat_srq_set_lw(DAT_SRQ_HANDLE srq_handle, DAT_COUNT low_watermark) {
  return forward<&DAT_PROVIDER::srq_set_lw_func, DAT_INVALID_HANDLE_SRQ>(__func__, srq_handle,
                                                                         low_watermark);
}

UDAPL_API DAT_RETURN dat_srq_post_recv(DAT_SRQ_HANDLE srq_handle, DAT_COUNT num_segments,
                                       DAT_LMR_TRIPLET* local_iov, DAT_DTO_COOKIE user_cookie) {
  return forward<&DAT_PROVIDER::srq_post_recv_func, DAT_INVALID_HANDLE_SRQ>(
      __func__, srq_handle, num_segments, local_iov, user_cookie);
}

UDAPL_API DAT_RETURN dat_srq_free(DAT_SRQ_HANDLE srq_handle) {
  return forward<&DAT_PROVIDER::srq_free_func, DAT_INVALID_HANDLE_SRQ>(__func__, srq_handle);
}

}  // extern "C"
