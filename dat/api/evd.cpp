// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dat/api/forward.h"

using namespace udapl::dat;

extern "C" {

UDAPL_API DAT_RETURN dat_evd_create(DAT_IA_HANDLE ia_handle, DAT_COUNT evd_min_qlen,
                                    DAT_CNO_HANDLE cno_handle, DAT_EVD_FLAGS evd_flags,
                                    DAT_EVD_HANDLE* evd_handle) {
  return forward_ia<&DAT_PROVIDER::evd_create_func>(__func__, ia_handle, evd_min_qlen, cno_handle,
                                                    evd_flags, evd_handle);
}

UDAPL_API DAT_RETURN dat_evd_query(DAT_EVD_HANDLE evd_handle, DAT_EVD_PARAM_MASK evd_param_mask,
                                   DAT_EVD_PARAM* evd_param) {
  return forward<&DAT_PROVIDER::evd_query_func, DAT_INVALID_HANDLE_EVD_REQUEST>(
      __func__, evd_handle, evd_param_mask, evd_param);
}

UDAPL_API DAT_RETURN dat_evd_modify_cno(DAT_EVD_HANDLE evd_handle, DAT_CNO_HANDLE cno_handle) {
  return forward<&DAT_PROVIDER::evd_modify_cno_func, DAT_INVALID_HANDLE_EVD_REQUEST>(
      __func__, evd_handle, cno_handle);
}

UDAPL_API DAT_RETURN dat_evd_enable(DAT_EVD_HANDLE evd_handle) {
  return forward<&DAT_PROVIDER::evd_enable_func, DAT_INVALID_HANDLE_EVD_REQUEST>(__func__,
                                                                                 evd_handle);
}

UDAPL_API DAT_RETURN dat_evd_disable(DAT_EVD_HANDLE evd_handle) {
  return forward<&DAT_PROVIDER::evd_disable_func, DAT_INVALID_HANDLE_EVD_REQUEST>(__func__,
                                                                                  evd_handle);
}

UDAPL_API DAT_RETURN dat_evd_set_unwaitable(DAT_EVD_HANDLE evd_handle) {
  return forward<&DAT_PROVIDER::evd_set_unwaitable_func, DAT_INVALID_HANDLE_EVD_REQUEST>(
      __func__, evd_handle);
}

UDAPL_API DAT_RETURN dat_evd_clear_unwaitable(DAT_EVD_HANDLE evd_handle) {
  return forward<&DAT_PROVIDER::evd_clear_unwaitable_func, DAT_INVALID_HANDLE_EVD_REQUEST>(
      __func__, evd_handle);
}

UDAPL_API DAT_RETURN dat_evd_resize(DAT_EVD_HANDLE evd_handle, DAT_COUNT evd_min_qlen) {
  return forward<&DAT_PROVIDER::evd_resize_func, DAT_INVALID_HANDLE_EVD_REQUEST>(
      __func__, evd_handle, evd_min_qlen);
}

UDAPL_API DAT_RETURN dat_evd_wait(DAT_EVD_HANDLE evd_handle, DAT_TIMEOUT timeout,
                                  DAT_COUNT threshold, DAT_EVENT* event, DAT_COUNT* n_more_events) {
  return forward<&DAT_PROVIDER::evd_wait_func, DAT_INVALID_HANDLE_EVD_REQUEST>(
      __func__, evd_handle, timeout, threshold, event, n_more_events);
}

UDAPL_API DAT_RETURN dat_evd_dequeue(DAT_EVD_HANDLE evd_handle, DAT_EVENT* event) {
  return forward<&DAT_PROVIDER::evd_dequeue_func, DAT_INVALID_HANDLE_EVD_REQUEST>(
      __func__, evd_handle, event);
}

UDAPL_API DAT_RETURN dat_evd_post_se(DAT_EVD_HANDLE evd_handle, const DAT_EVENT* event) {
  return forward<&DAT_PROVIDER::evd_post_se_func, DAT_INVALID_HANDLE_EVD_REQUEST>(
      __func__, evd_handle, event);
}

UDAPL_API DAT_RETURN dat_evd_free(DAT_EVD_HANDLE evd_handle) {
  return forward<&DAT_PROVIDER::evd_free_func, DAT_INVALID_HANDLE_EVD_REQUEST>(__func__,
                                                                               evd_handle);
}

}  // extern "C"
