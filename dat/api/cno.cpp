// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dat/api/forward.h"

using namespace udapl::dat;

extern "C" {

UDAPL_API DAT_RETURN dat_cno_create(DAT_IA_HANDLE ia_handle, DAT_OS_WAIT_PROXY_AGENT agent,
                                    DAT_CNO_HANDLE* cno_handle) {
  return forward_ia<&DAT_PROVIDER::cno_create_func>(__func__, ia_handle, agent, cno_handle);
}

UDAPL_API DAT_RETURN dat_cno_fd_create(DAT_IA_HANDLE ia_handle, DAT_FD* fd,
                                       DAT_CNO_HANDLE* cno_handle) {
  return forward_ia<&DAT_PROVIDER::cno_fd_create_func>(__func__, ia_handle, fd, cno_handle);
}

UDAPL_API DAT_RETURN dat_cno_modify_agent(DAT_CNO_HANDLE cno_handle,
                                          DAT_OS_WAIT_PROXY_AGENT agent) {
  return forward<&DAT_PROVIDER::cno_modify_agent_func, DAT_INVALID_HANDLE_CNO>(__func__, cno_handle,
                                                                               agent);
}

UDAPL_API DAT_RETURN dat_cno_query(DAT_CNO_HANDLE cno_handle, DAT_CNO_PARAM_MASK cno_param_mask,
                                   DAT_CNO_PARAM* cno_param) {
  return forward<&DAT_PROVIDER::cno_query_func, DAT_INVALID_HANDLE_CNO>(__func__, cno_handle,
                                                                        cno_param_mask, cno_param);
}

UDAPL_API DAT_RETURN dat_cno_wait(DAT_CNO_HANDLE cno_handle, DAT_TIMEOUT timeout,
                                  DAT_EVD_HANDLE* evd_handle) {
  return forward<&DAT_PROVIDER::cno_wait_func, DAT_INVALID_HANDLE_CNO>(__func__, cno_handle,
                                                                       timeout, evd_handle);
}

UDAPL_API DAT_RETURN dat_cno_trigger(DAT_CNO_HANDLE cno_handle, DAT_EVD_HANDLE* evd_handle) {
  return forward<&DAT_PROVIDER::cno_trigger_func, DAT_INVALID_HANDLE_CNO>(__func__, cno_handle,
                                                                          evd_handle);
}

UDAPL_API DAT_RETURN dat_cno_free(DAT_CNO_HANDLE cno_handle) {
  return forward<&DAT_PROVIDER::cno_free_func, DAT_INVALID_HANDLE_CNO>(__func__, cno_handle);
}

}  // extern "C"
