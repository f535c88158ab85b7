// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dat/api/forward.h"

using namespace udapl::dat;

extern "C" {

UDAPL_API DAT_RETURN dat_lmr_create(DAT_IA_HANDLE ia_handle, DAT_MEM_TYPE mem_type,
                                    DAT_REGION_DESCRIPTION region_description, DAT_VLEN length,
                                    DAT_PZ_HANDLE pz_handle, DAT_MEM_PRIV_FLAGS privileges,
                                    DAT_VA_TYPE va_type, DAT_LMR_HANDLE* lmr_handle,
                                    DAT_LMR_CONTEXT* lmr_context, DAT_RMR_CONTEXT* rmr_context,
                                    DAT_VLEN* registered_length, DAT_VADDR* registered_address) {
  return forward_ia<&DAT_PROVIDER::lmr_create_func>(
      __func__, ia_handle, mem_type, region_description, length, pz_handle, privileges, va_type,
      lmr_handle, lmr_context, rmr_context, registered_length, registered_address);
}

UDAPL_API DAT_RETURN dat_lmr_query(DAT_LMR_HANDLE lmr_handle, DAT_LMR_PARAM_MASK lmr_param_mask,
                                   DAT_LMR_PARAM* lmr_param) {
  return forward<&DAT_PROVIDER::lmr_query_func, DAT_INVALID_HANDLE_LMR>(__func__, lmr_handle,
                                                                        lmr_param_mask, lmr_param);
}

UDAPL_API DAT_RETURN dat_lmr_sync_rdma_read(DAT_IA_HANDLE ia_handle,
                                            const DAT_LMR_TRIPLET* local_segments,
                                            DAT_VLEN num_segments) {
  return forward_ia<&DAT_PROVIDER::lmr_sync_rdma_read_func>(__func__, ia_handle, local_segments,
                                                            num_segments);
}

UDAPL_API DAT_RETURN dat_lmr_sync_rdma_write(DAT_IA_HANDLE ia_handle,
                                             const DAT_LMR_TRIPLET* local_segments,
                                             DAT_VLEN num_segments) {
  return forward_ia<&DAT_PROVIDER::lmr_sync_rdma_write_func>(__func__, ia_handle, local_segments,
                                                             num_segments);
}

UDAPL_API DAT_RETURN dat_lmr_free(DAT_LMR_HANDLE lmr_handle) {
  return forward<&DAT_PROVIDER::lmr_free_func, DAT_INVALID_HANDLE_LMR>(__func__, lmr_handle);
}

}  // extern "C"
