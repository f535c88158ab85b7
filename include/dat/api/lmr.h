/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * LMR, the local memory region: memory of the process registered for transfers.
 */
#pragma once

#include <dat/api/types.h>

DAT_BEGIN_DECLS

/** What an LMR is made from. */
typedef enum dat_mem_type {
  DAT_MEM_TYPE_VIRTUAL = 0,       /**< Memory of the process. */
  DAT_MEM_TYPE_LMR = 1,           /**< The memory of another LMR; PZ and rights may differ. */
  DAT_MEM_TYPE_SHARED_VIRTUAL = 2 /**< Memory shared between processes of the machine. */
} DAT_MEM_TYPE;

/** Identity of shared memory: all bytes are significant, it is not a string. */
#define DAT_LMR_COOKIE_SIZE 40
typedef char (*DAT_LMR_COOKIE)[DAT_LMR_COOKIE_SIZE];

typedef struct dat_shared_memory {
  DAT_PVOID virtual_address;       /**< Where this process has mapped it. */
  DAT_LMR_COOKIE shared_memory_id; /**< The same in all processes that share it. */
} DAT_SHARED_MEMORY;

/** The memory to register; the memory type determines which member is used. */
typedef union dat_region_description {
  DAT_PVOID for_va;
  DAT_LMR_HANDLE for_lmr_handle;
  DAT_SHARED_MEMORY for_shared_memory;
} DAT_REGION_DESCRIPTION;

/** What dat_lmr_query() returns. */
typedef struct dat_lmr_param {
  DAT_IA_HANDLE ia_handle;
  DAT_MEM_TYPE mem_type;
  DAT_REGION_DESCRIPTION region_desc;
  DAT_VLEN length; /**< In bytes, as requested. */
  DAT_PZ_HANDLE pz_handle;
  DAT_MEM_PRIV_FLAGS mem_priv;
  DAT_VA_TYPE va_type;
  DAT_LMR_CONTEXT lmr_context;
  DAT_RMR_CONTEXT rmr_context;  /**< Of no use to peers without remote privileges. */
  DAT_VLEN registered_size;     /**< In bytes, as registered. */
  DAT_VADDR registered_address; /**< As registered. */
} DAT_LMR_PARAM;

/** Fields of DAT_LMR_PARAM; a set. */
typedef enum dat_lmr_param_mask {
  DAT_LMR_FIELD_IA_HANDLE = 0x001,
  DAT_LMR_FIELD_MEM_TYPE = 0x002,
  DAT_LMR_FIELD_REGION_DESC = 0x004,
  DAT_LMR_FIELD_LENGTH = 0x008,
  DAT_LMR_FIELD_PZ_HANDLE = 0x010,
  DAT_LMR_FIELD_MEM_PRIV = 0x020,
  DAT_LMR_FIELD_VA_TYPE = 0x040,
  DAT_LMR_FIELD_LMR_CONTEXT = 0x080,
  DAT_LMR_FIELD_RMR_CONTEXT = 0x100,
  DAT_LMR_FIELD_REGISTERED_SIZE = 0x200,
  DAT_LMR_FIELD_REGISTERED_ADDRESS = 0x400,
  DAT_LMR_FIELD_ALL = 0x7ff
} DAT_LMR_PARAM_MASK;

/**
 * Register memory, and pin it if the adapter needs that.
 *
 * The memory still belongs to the application, and must stay mapped, with the rights that the
 * privileges need, until dat_lmr_free(). The software RNIC pins nothing: if a peer or a request
 * uses memory that was unmapped or protected meanwhile, the process gets SIGSEGV or SIGBUS.
 *
 * @param[in]  ia_handle
 * @param[in]  mem_type            what `region_description` describes
 * @param[in]  region_description  the memory
 * @param[in]  length              in bytes, up to max_lmr_block_size; 0, for DAT_MEM_TYPE_VIRTUAL
 *                                 only, creates an empty LMR; ignored for DAT_MEM_TYPE_LMR
 * @param[in]  pz_handle           zone of the region
 * @param[in]  privileges          what the region may be used for; unknown bits are ignored
 * @param[in]  va_type             what addresses in triplets will mean; any value other than
 *                                 DAT_VA_TYPE_ZB means DAT_VA_TYPE_VA
 * @param[out] lmr_handle          receives the LMR; owned by the application
 * @param[out] lmr_context         receives the name for local segments; may be null
 * @param[out] rmr_context         receives the name to give to peers; may be null. It is valid
 *                                 until dat_lmr_free(). Without remote privileges it is of no use
 *                                 to them; some providers then set it to 0.
 * @param[out] registered_length   receives the length registered in bytes, which covers at least
 *                                 what was requested; may be null
 * @param[out] registered_address  receives the start of what is registered; may be null
 *
 * @retval DAT_INVALID_HANDLE          `ia_handle`, `pz_handle`, or the LMR to start from
 * @retval DAT_INVALID_PARAMETER       unknown memory type; length beyond the limit;
 *                                     address null or wrapping around; `lmr_handle` is null
 * @retval DAT_INVALID_STATE           shared memory type, and the memory is not a shared mapping
 * @retval DAT_PRIVILEGES_VIOLATION    the memory is not mapped, or cannot be written although a
 *                                     privilege to write is requested
 * @retval DAT_MODEL_NOT_SUPPORTED     no such memory type, or no DAT_VA_TYPE_ZB
 * @retval DAT_NOT_IMPLEMENTED         the same, from some providers
 * @retval DAT_INSUFFICIENT_RESOURCES  out of memory, lockable memory or device regions; from some
 *                                     providers any failure of the registration
 *
 * Blocking: may wait for the adapter and for pages. Threads: safe. Spec: uDAPL 2.0 dat_lmr_create
 */
DAT_EXPORT DAT_RETURN DAT_API dat_lmr_create(
    DAT_IA_HANDLE ia_handle, DAT_MEM_TYPE mem_type, DAT_REGION_DESCRIPTION region_description,
    DAT_VLEN length, DAT_PZ_HANDLE pz_handle, DAT_MEM_PRIV_FLAGS privileges, DAT_VA_TYPE va_type,
    DAT_LMR_HANDLE* lmr_handle, DAT_LMR_CONTEXT* lmr_context, DAT_RMR_CONTEXT* rmr_context,
    DAT_VLEN* registered_length, DAT_VADDR* registered_address);

/**
 * Get the parameters of an LMR.
 *
 * @param[in]  lmr_handle
 * @param[in]  lmr_param_mask  fields wanted; others may be filled as well, unknown bits are ignored
 * @param[out] lmr_param       structure to fill
 *
 * @retval DAT_INVALID_HANDLE     `lmr_handle`
 * @retval DAT_INVALID_PARAMETER  `lmr_param` is null
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_lmr_query
 */
DAT_EXPORT DAT_RETURN DAT_API dat_lmr_query(DAT_LMR_HANDLE lmr_handle,
                                            DAT_LMR_PARAM_MASK lmr_param_mask,
                                            DAT_LMR_PARAM* lmr_param);

/**
 * Make local changes visible to RDMA reads that peers start afterwards. Needed only where
 * lmr_sync_req is DAT_TRUE; elsewhere the call does nothing and ignores the segments.
 *
 * @param[in] ia_handle
 * @param[in] local_segments  array of pieces of LMRs, of any zone
 * @param[in] num_segments    number of elements
 *
 * @retval DAT_INVALID_HANDLE     `ia_handle`
 * @retval DAT_INVALID_PARAMETER  null array, unknown lmr_context, or a piece outside its LMR, where
 *                                lmr_sync_req is DAT_TRUE
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_lmr_sync_rdma_read
 */
DAT_EXPORT DAT_RETURN DAT_API dat_lmr_sync_rdma_read(DAT_IA_HANDLE ia_handle,
                                                     const DAT_LMR_TRIPLET* local_segments,
                                                     DAT_VLEN num_segments);

/**
 * Make what peers have written by RDMA visible to local reads. Also needed around local writes to
 * memory that peers write. Otherwise as dat_lmr_sync_rdma_read().
 *
 * @param[in] ia_handle
 * @param[in] local_segments  array of pieces of LMRs, of any zone
 * @param[in] num_segments    number of elements
 *
 * @retval DAT_INVALID_HANDLE     `ia_handle`
 * @retval DAT_INVALID_PARAMETER  null array, unknown lmr_context, or a piece outside its LMR, where
 *                                lmr_sync_req is DAT_TRUE
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_lmr_sync_rdma_write
 */
DAT_EXPORT DAT_RETURN DAT_API dat_lmr_sync_rdma_write(DAT_IA_HANDLE ia_handle,
                                                      const DAT_LMR_TRIPLET* local_segments,
                                                      DAT_VLEN num_segments);

/**
 * End a registration. The memory itself is not touched.
 *
 * Transfers that still use the region fail and break their connections: local ones complete with
 * LOCAL_PROTECTION, a peer's with REMOTE_ACCESS.
 *
 * @param[in] lmr_handle
 *
 * @retval DAT_INVALID_HANDLE  `lmr_handle`
 * @retval DAT_INVALID_STATE   an RMR is bound to it (DAT_INVALID_STATE_LMR_IN_USE)
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_lmr_free
 */
DAT_EXPORT DAT_RETURN DAT_API dat_lmr_free(DAT_LMR_HANDLE lmr_handle);

DAT_END_DECLS
