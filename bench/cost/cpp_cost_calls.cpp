// SPDX-License-Identifier: MIT OR GPL-2.0-only
// DAT functions that succeed and do nothing, for cpp_cost: only the code of the program remains.
#include <dat/dat_diagnosis_extensions.h>
#include <dat/udat.h>

extern "C" {

DAT_RETURN dat_ep_post_send(DAT_EP_HANDLE, DAT_COUNT, DAT_LMR_TRIPLET*, DAT_DTO_COOKIE,
                            DAT_COMPLETION_FLAGS) {
  return DAT_SUCCESS;
}
DAT_RETURN dat_ep_post_recv(DAT_EP_HANDLE, DAT_COUNT, DAT_LMR_TRIPLET*, DAT_DTO_COOKIE,
                            DAT_COMPLETION_FLAGS) {
  return DAT_SUCCESS;
}
DAT_RETURN dat_ep_post_rdma_write(DAT_EP_HANDLE, DAT_COUNT, DAT_LMR_TRIPLET*, DAT_DTO_COOKIE,
                                  const DAT_RMR_TRIPLET*, DAT_COMPLETION_FLAGS) {
  return DAT_SUCCESS;
}
DAT_RETURN dat_evd_dequeue(DAT_EVD_HANDLE, DAT_EVENT*) { return DAT_SUCCESS; }
DAT_RETURN dat_ep_free(DAT_EP_HANDLE) { return DAT_SUCCESS; }
DAT_RETURN dat_evd_free(DAT_EVD_HANDLE) { return DAT_SUCCESS; }
DAT_RETURN dat_last_cause(DAT_RETURN, const char** cause) {
  *cause = "";
  return DAT_SUCCESS;
}

}  // extern "C"
