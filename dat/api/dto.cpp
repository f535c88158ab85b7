// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dat/api/forward.h"

using namespace udapl::dat;

extern "C" {

UDAPL_API DAT_RETURN dat_ep_post_send(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments,
                                      DAT_LMR_TRIPLET* local_iov, DAT_DTO_COOKIE user_cookie,
                                      DAT_COMPLETION_FLAGS completion_flags) {
  return forward<&DAT_PROVIDER::ep_post_send_func, DAT_INVALID_HANDLE_EP>(
      __func__, ep_handle, num_segments, local_iov, user_cookie, completion_flags);
}

UDAPL_API DAT_RETURN dat_ep_post_send_with_invalidate(
    DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, DAT_LMR_TRIPLET* local_iov,
    DAT_DTO_COOKIE user_cookie, DAT_COMPLETION_FLAGS completion_flags, DAT_BOOLEAN invalidate_flag,
    DAT_RMR_CONTEXT rmr_context) {
  return forward<&DAT_PROVIDER::ep_post_send_with_invalidate_func, DAT_INVALID_HANDLE_EP>(
      __func__, ep_handle, num_segments, local_iov, user_cookie, completion_flags, invalidate_flag,
      rmr_context);
}

UDAPL_API DAT_RETURN dat_ep_post_recv(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments,
                                      DAT_LMR_TRIPLET* local_iov, DAT_DTO_COOKIE user_cookie,
                                      DAT_COMPLETION_FLAGS completion_flags) {
  return forward<&DAT_PROVIDER::ep_post_recv_func, DAT_INVALID_HANDLE_EP>(
      __func__, ep_handle, num_segments, local_iov, user_cookie, completion_flags);
}

UDAPL_API DAT_RETURN dat_ep_post_rdma_read(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments,
                                           DAT_LMR_TRIPLET* local_iov, DAT_DTO_COOKIE user_cookie,
                                           const DAT_RMR_TRIPLET* remote_iov,
                                           DAT_COMPLETION_FLAGS completion_flags) {
  return forward<&DAT_PROVIDER::ep_post_rdma_read_func, DAT_INVALID_HANDLE_EP>(
      __func__, ep_handle, num_segments, local_iov, user_cookie, remote_iov, completion_flags);
}

UDAPL_API DAT_RETURN dat_ep_post_rdma_read_to_rmr(DAT_EP_HANDLE ep_handle,
                                                  const DAT_RMR_TRIPLET* local_iov,
                                                  DAT_DTO_COOKIE user_cookie,
                                                  const DAT_RMR_TRIPLET* remote_iov,
                                                  DAT_COMPLETION_FLAGS completion_flags) {
  return forward<&DAT_PROVIDER::ep_post_rdma_read_to_rmr_func, DAT_INVALID_HANDLE_EP>(
      __func__, ep_handle, local_iov, user_cookie, remote_iov, completion_flags);
}

UDAPL_API DAT_RETURN dat_ep_post_rdma_write(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments,
                                            DAT_LMR_TRIPLET* local_iov, DAT_DTO_COOKIE user_cookie,
                                            const DAT_RMR_TRIPLET* remote_iov,
                                            DAT_COMPLETION_FLAGS completion_flags) {
  return forward<&DAT_PROVIDER::ep_post_rdma_write_func, DAT_INVALID_HANDLE_EP>(
      __func__, ep_handle, num_segments, local_iov, user_cookie, remote_iov, completion_flags);
}

}  // extern "C"
