/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * What dat_ia_query() returns about an adapter. Limits are upper bounds, not reservations: a call
 * beyond one fails, and a call below it may still fail for lack of resources.
 */
#pragma once

#include <dat/api/types.h>

DAT_BEGIN_DECLS

/** Family of the extended operations that an IA has. */
typedef enum dat_extension {
  DAT_EXTENSION_NONE = 0,
  DAT_EXTENSION_IB = 1, /**< dat/dat_ib_extensions.h. */
  DAT_EXTENSION_IW = 2  /**< dat/dat_iw_extensions.h. */
} DAT_EXTENSION;

/** @name Macros that show that these headers have the families. @{ */
#define DAT_IB_EXTENSION 1
#define DAT_IW_EXTENSION 2
/** @} */

/** Attributes of an adapter; the same for all IAs opened on it. */
typedef struct dat_ia_attr {
  char adapter_name[DAT_NAME_MAX_LENGTH]; /**< NUL-terminated. */
  char vendor_name[DAT_NAME_MAX_LENGTH];  /**< NUL-terminated. */
  DAT_UINT32 hardware_version_major;
  DAT_UINT32 hardware_version_minor;
  DAT_UINT32 firmware_version_major;
  DAT_UINT32 firmware_version_minor;
  DAT_IA_ADDRESS_PTR ia_address_ptr;  /**< Address of the port; valid while the IA is open. */
  DAT_COUNT max_eps;                  /**< EPs. */
  DAT_COUNT max_dto_per_ep;           /**< Posts outstanding per EP and direction. */
  DAT_COUNT max_rdma_read_per_ep_in;  /**< RDMA reads of the peer in progress per EP. */
  DAT_COUNT max_rdma_read_per_ep_out; /**< Local RDMA reads in progress per EP. */
  DAT_COUNT max_evds;                 /**< EVDs. */
  DAT_COUNT max_evd_qlen;             /**< Events per EVD. */
  DAT_COUNT max_iov_segments_per_dto; /**< Segments of a send or receive. */
  DAT_COUNT max_lmrs;                 /**< LMRs. */
  DAT_SEG_LENGTH max_lmr_block_size;  /**< Length of an LMR in bytes. */
  DAT_VADDR max_lmr_virtual_address;  /**< Highest address an LMR may reach. */
  DAT_COUNT max_pzs;                  /**< PZs. */
  DAT_SEG_LENGTH max_message_size;    /**< Bytes of a send. */
  DAT_SEG_LENGTH max_rdma_size;       /**< Bytes of an RDMA read or write. */
  DAT_COUNT max_rmrs;                 /**< RMRs; 0 if there are none. */
  DAT_VADDR max_rmr_target_address;   /**< Highest address an RMR may reach. */
  DAT_COUNT max_srqs;                 /**< SRQs; 0 if there are none. */
  DAT_COUNT max_ep_per_srq;           /**< EPs that share an SRQ. */
  DAT_COUNT max_recv_per_srq;         /**< Buffers of an SRQ. */
  DAT_COUNT max_iov_segments_per_rdma_read;
  DAT_COUNT max_iov_segments_per_rdma_write;
  DAT_COUNT max_rdma_read_in;  /**< RDMA reads of peers in progress, all EPs together. */
  DAT_COUNT max_rdma_read_out; /**< Local RDMA reads in progress, all EPs together. */
  DAT_BOOLEAN max_rdma_read_per_ep_in_guaranteed;  /**< Whether every EP can have that many. */
  DAT_BOOLEAN max_rdma_read_per_ep_out_guaranteed; /**< Whether every EP can have that many. */
  DAT_BOOLEAN zb_supported;          /**< Whether LMRs and RMRs may be DAT_VA_TYPE_ZB. */
  DAT_EXTENSION extension_supported; /**< The family of extended operations. */
  DAT_COUNT extension_version;       /**< Its version, such as DAT_IB_EXTENSION_VERSION. */
  DAT_COUNT num_transport_attr;
  DAT_NAMED_ATTR* transport_attr; /**< Array, defined by the transport. */
  DAT_COUNT num_vendor_attr;
  DAT_NAMED_ATTR* vendor_attr; /**< Array, defined by the vendor. */
} DAT_IA_ATTR;

/** @name Field names of DAT 1.x. @{ */
#define max_rdma_read_per_ep max_rdma_read_per_ep_in
#define max_mtu_size max_message_size
/** @} */

/** Fields of DAT_IA_ATTR; a set. */
typedef DAT_UINT64 DAT_IA_ATTR_MASK;
#define DAT_IA_FIELD_NONE UINT64_C(0x0)
#define DAT_IA_FIELD_IA_ADAPTER_NAME UINT64_C(0x1)
#define DAT_IA_FIELD_IA_VENDOR_NAME UINT64_C(0x2)
#define DAT_IA_FIELD_IA_HARDWARE_MAJOR_VERSION UINT64_C(0x4)
#define DAT_IA_FIELD_IA_HARDWARE_MINOR_VERSION UINT64_C(0x8)
#define DAT_IA_FIELD_IA_FIRMWARE_MAJOR_VERSION UINT64_C(0x10)
#define DAT_IA_FIELD_IA_FIRMWARE_MINOR_VERSION UINT64_C(0x20)
#define DAT_IA_FIELD_IA_ADDRESS_PTR UINT64_C(0x40)
#define DAT_IA_FIELD_IA_MAX_EPS UINT64_C(0x80)
#define DAT_IA_FIELD_IA_MAX_DTO_PER_EP UINT64_C(0x100)
#define DAT_IA_FIELD_IA_MAX_RDMA_READ_PER_EP_IN UINT64_C(0x200)
#define DAT_IA_FIELD_IA_MAX_RDMA_READ_PER_EP_OUT UINT64_C(0x400)
#define DAT_IA_FIELD_IA_MAX_EVDS UINT64_C(0x800)
#define DAT_IA_FIELD_IA_MAX_EVD_QLEN UINT64_C(0x1000)
#define DAT_IA_FIELD_IA_MAX_IOV_SEGMENTS_PER_DTO UINT64_C(0x2000)
#define DAT_IA_FIELD_IA_MAX_LMRS UINT64_C(0x4000)
#define DAT_IA_FIELD_IA_MAX_LMR_BLOCK_SIZE UINT64_C(0x8000)
#define DAT_IA_FIELD_IA_MAX_LMR_VIRTUAL_ADDRESS UINT64_C(0x10000)
#define DAT_IA_FIELD_IA_MAX_PZS UINT64_C(0x20000)
#define DAT_IA_FIELD_IA_MAX_MESSAGE_SIZE UINT64_C(0x40000)
#define DAT_IA_FIELD_IA_MAX_RDMA_SIZE UINT64_C(0x80000)
#define DAT_IA_FIELD_IA_MAX_RMRS UINT64_C(0x100000)
#define DAT_IA_FIELD_IA_MAX_RMR_TARGET_ADDRESS UINT64_C(0x200000)
#define DAT_IA_FIELD_IA_MAX_SRQS UINT64_C(0x400000)
#define DAT_IA_FIELD_IA_MAX_EP_PER_SRQ UINT64_C(0x800000)
#define DAT_IA_FIELD_IA_MAX_RECV_PER_SRQ UINT64_C(0x1000000)
#define DAT_IA_FIELD_IA_MAX_IOV_SEGMENTS_PER_RDMA_READ UINT64_C(0x2000000)
#define DAT_IA_FIELD_IA_MAX_IOV_SEGMENTS_PER_RDMA_WRITE UINT64_C(0x4000000)
#define DAT_IA_FIELD_IA_MAX_RDMA_READ_IN UINT64_C(0x8000000)
#define DAT_IA_FIELD_IA_MAX_RDMA_READ_OUT UINT64_C(0x10000000)
#define DAT_IA_FIELD_IA_MAX_RDMA_READ_PER_EP_IN_GUARANTEED UINT64_C(0x20000000)
#define DAT_IA_FIELD_IA_MAX_RDMA_READ_PER_EP_OUT_GUARANTEED UINT64_C(0x40000000)
#define DAT_IA_FIELD_IA_ZB_SUPPORTED UINT64_C(0x80000000)
#define DAT_IA_FIELD_IA_EXTENSION UINT64_C(0x100000000)
#define DAT_IA_FIELD_IA_EXTENSION_VERSION UINT64_C(0x200000000)
#define DAT_IA_FIELD_IA_NUM_TRANSPORT_ATTR UINT64_C(0x400000000)
#define DAT_IA_FIELD_IA_TRANSPORT_ATTR UINT64_C(0x800000000)
#define DAT_IA_FIELD_IA_NUM_VENDOR_ATTR UINT64_C(0x1000000000)
#define DAT_IA_FIELD_IA_VENDOR_ATTR UINT64_C(0x2000000000)
#define DAT_IA_FIELD_ALL UINT64_C(0x3fffffffff)

/** @name Other names of the same bits. @{ */
#define DAT_IA_ALL DAT_IA_FIELD_ALL
#define DAT_IA_FIELD_IA_EXTENSIONS_SUPPORTED UINT64_C(0x100000000)
#define DAT_IA_FIELD_IA_MAX_DTO_PER_OP DAT_IA_FIELD_IA_MAX_DTO_PER_EP
#define DAT_IA_FIELD_IA_MAX_MTU_SIZE UINT64_C(0x40000)
/** @} */

DAT_END_DECLS
