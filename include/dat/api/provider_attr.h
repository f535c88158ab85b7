/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * What dat_ia_query() returns about the provider of an IA.
 */
#pragma once

#include <dat/api/lmr.h>
#include <dat/api/rmr.h>
#include <dat/api/types.h>

DAT_BEGIN_DECLS

/** Who owns the array of segments after a post has returned. */
typedef enum dat_iov_ownership {
  DAT_IOV_CONSUMER = 0,       /**< The application's; it may reuse it at once. */
  DAT_IOV_PROVIDER_NOMOD = 1, /**< The provider's until the completion; it will not change it. */
  DAT_IOV_PROVIDER_MOD = 2    /**< The provider's until the completion; it may change it. */
} DAT_IOV_OWNERSHIP;

/** Which DAT_PSP_FLAGS a PSP may have. */
typedef enum dat_ep_creator_for_psp {
  DAT_PSP_CREATES_EP_NEVER = 0,   /**< DAT_PSP_CONSUMER_FLAG only. */
  DAT_PSP_CREATES_EP_IFASKED = 1, /**< Both. */
  DAT_PSP_CREATES_EP_ALWAYS = 2   /**< DAT_PSP_PROVIDER_FLAG only. */
} DAT_EP_CREATOR_FOR_PSP;

typedef enum dat_pz_support {
  DAT_PZ_UNIQUE = 0,   /**< A PZ belongs to one open IA. */
  DAT_PZ_SHAREABLE = 1 /**< Processes may share one. */
} DAT_PZ_SUPPORT;

/** How a provider spreads load over the paths of a high-availability group; a set. */
typedef DAT_UINT32 DAT_HA_LB;
#define DAT_HA_LB_NONE ((DAT_HA_LB)0)      /**< Not at all. */
#define DAT_HA_LB_INTERCOMM ((DAT_HA_LB)1) /**< Connection by connection. */
#define DAT_HA_LB_INTRACOMM ((DAT_HA_LB)2) /**< Within a connection. */

/**
 * Attributes of a provider, for one open IA.
 *
 * In C++ the const member makes `DAT_PROVIDER_ATTR attr;` an error: write `DAT_PROVIDER_ATTR
 * attr{}` or allocate it.
 */
typedef struct dat_provider_attr {
  char provider_name[DAT_NAME_MAX_LENGTH]; /**< NUL-terminated. */
  DAT_UINT32 provider_version_major;
  DAT_UINT32 provider_version_minor;
  DAT_UINT32 dapl_version_major; /**< Of the DAT interface, as registered. */
  DAT_UINT32 dapl_version_minor;
  DAT_MEM_TYPE lmr_mem_types_supported; /**< A set; VIRTUAL, being 0, is always included. */
  DAT_IOV_OWNERSHIP iov_ownership_on_return;
  DAT_QOS dat_qos_supported;                       /**< A set. */
  DAT_COMPLETION_FLAGS completion_flags_supported; /**< A set. */
  DAT_BOOLEAN is_thread_safe;      /**< Whether the application need not serialize its calls. */
  DAT_COUNT max_private_data_size; /**< Bytes for connect, accept and reject; at least 64. */
  DAT_BOOLEAN supports_multipath;
  DAT_EP_CREATOR_FOR_PSP ep_creator;
  DAT_PZ_SUPPORT pz_support;
  DAT_UINT32 optimal_buffer_alignment; /**< In bytes; divides DAT_OPTIMAL_ALIGNMENT. */
  /** Which pairs of event kinds may share an EVD. Indices of both dimensions: 0 software, 1
   * connection requests, 2 transfers, 3 connections, 4 binds, 5 asynchronous. */
  const DAT_BOOLEAN evd_stream_merging_supported[6][6];
  DAT_BOOLEAN srq_supported;
  DAT_COUNT srq_watermarks_supported;         /**< Bits: 1 low, 2 soft high, 4 hard high. */
  DAT_BOOLEAN srq_ep_pz_difference_supported; /**< Whether EP and SRQ may differ in PZ. */
  DAT_COUNT srq_info_supported;     /**< Bits: 1 available_dto_count, 2 outstanding_dto_count. */
  DAT_COUNT ep_recv_info_supported; /**< Of dat_ep_recv_query(); bits: 1 number, 2 span. */
  DAT_BOOLEAN lmr_sync_req;         /**< Whether the dat_lmr_sync_ calls are needed. */
  DAT_BOOLEAN dto_async_return_guaranteed;  /**< Whether posts return before the work is done. */
  DAT_BOOLEAN rdma_write_for_rdma_read_req; /**< Whether the sink of an RDMA read needs
                                                 DAT_MEM_PRIV_REMOTE_WRITE_FLAG. */
  DAT_BOOLEAN rdma_read_lmr_rmr_context_exposure; /**< Whether an RDMA read exposes the context of
                                                       the sink to the peer. */
  DAT_RMR_SCOPE rmr_scope_supported;
  DAT_BOOLEAN is_signal_safe; /**< Whether signal handlers may call DAT functions. */
  DAT_BOOLEAN ha_supported;   /**< Whether the provider offers high availability. */
  DAT_HA_LB ha_loadbalancing;
  DAT_COUNT num_provider_specific_attr;
  DAT_NAMED_ATTR* provider_specific_attr; /**< Array. */
} DAT_PROVIDER_ATTR;

/** Fields of DAT_PROVIDER_ATTR; a set. */
typedef DAT_UINT64 DAT_PROVIDER_ATTR_MASK;
#define DAT_PROVIDER_FIELD_NONE UINT64_C(0x0)
#define DAT_PROVIDER_FIELD_PROVIDER_NAME UINT64_C(0x1)
#define DAT_PROVIDER_FIELD_PROVIDER_VERSION_MAJOR UINT64_C(0x2)
#define DAT_PROVIDER_FIELD_PROVIDER_VERSION_MINOR UINT64_C(0x4)
#define DAT_PROVIDER_FIELD_DAPL_VERSION_MAJOR UINT64_C(0x8)
#define DAT_PROVIDER_FIELD_DAPL_VERSION_MINOR UINT64_C(0x10)
#define DAT_PROVIDER_FIELD_LMR_MEM_TYPE_SUPPORTED UINT64_C(0x20)
#define DAT_PROVIDER_FIELD_IOV_OWNERSHIP UINT64_C(0x40)
#define DAT_PROVIDER_FIELD_DAT_QOS_SUPPORTED UINT64_C(0x80)
#define DAT_PROVIDER_FIELD_COMPLETION_FLAGS_SUPPORTED UINT64_C(0x100)
#define DAT_PROVIDER_FIELD_IS_THREAD_SAFE UINT64_C(0x200)
#define DAT_PROVIDER_FIELD_MAX_PRIVATE_DATA_SIZE UINT64_C(0x400)
#define DAT_PROVIDER_FIELD_SUPPORTS_MULTIPATH UINT64_C(0x800)
#define DAT_PROVIDER_FIELD_EP_CREATOR UINT64_C(0x1000)
#define DAT_PROVIDER_FIELD_PZ_SUPPORT UINT64_C(0x2000)
#define DAT_PROVIDER_FIELD_OPTIMAL_BUFFER_ALIGNMENT UINT64_C(0x4000)
#define DAT_PROVIDER_FIELD_EVD_STREAM_MERGING_SUPPORTED UINT64_C(0x8000)
#define DAT_PROVIDER_FIELD_SRQ_SUPPORTED UINT64_C(0x10000)
#define DAT_PROVIDER_FIELD_SRQ_WATERMARKS_SUPPORTED UINT64_C(0x20000)
#define DAT_PROVIDER_FIELD_SRQ_EP_PZ_DIFFERENCE_SUPPORTED UINT64_C(0x40000)
#define DAT_PROVIDER_FIELD_SRQ_INFO_SUPPORTED UINT64_C(0x80000)
#define DAT_PROVIDER_FIELD_EP_RECV_INFO_SUPPORTED UINT64_C(0x100000)
#define DAT_PROVIDER_FIELD_LMR_SYNC_REQ UINT64_C(0x200000)
#define DAT_PROVIDER_FIELD_DTO_ASYNC_RETURN_GUARANTEED UINT64_C(0x400000)
#define DAT_PROVIDER_FIELD_RDMA_WRITE_FOR_RDMA_READ_REQ UINT64_C(0x800000)
#define DAT_PROVIDER_FIELD_RDMA_READ_LMR_RMR_CONTEXT_EXPOSURE UINT64_C(0x1000000)
#define DAT_PROVIDER_FIELD_RMR_SCOPE_SUPPORTED UINT64_C(0x2000000)
#define DAT_PROVIDER_FIELD_IS_SIGNAL_SAFE UINT64_C(0x4000000)
#define DAT_PROVIDER_FIELD_HA_SUPPORTED UINT64_C(0x8000000)
#define DAT_PROVIDER_FIELD_HA_LB UINT64_C(0x10000000)
#define DAT_PROVIDER_FIELD_NUM_PROVIDER_SPECIFIC_ATTR UINT64_C(0x20000000)
#define DAT_PROVIDER_FIELD_PROVIDER_SPECIFIC_ATTR UINT64_C(0x40000000)
#define DAT_PROVIDER_FIELD_ALL UINT64_C(0x7fffffff)

DAT_END_DECLS
