/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * The types that the calls of several objects share.
 */
#pragma once

#include <dat/dat_error.h>
#include <dat/dat_platform_specific.h>

DAT_BEGIN_DECLS

typedef enum dat_boolean { DAT_FALSE = 0, DAT_TRUE = 1 } DAT_BOOLEAN;

/** Room for a name in bytes, the terminating NUL included. */
#define DAT_NAME_MAX_LENGTH 256

/** A NUL-terminated name. DAT only reads it, although the type does not say so. */
typedef char* DAT_NAME_PTR;

/** An attribute by name. Both strings are NUL-terminated and belong to the owner of the array. */
typedef struct dat_named_attr {
  const char* name;
  const char* value;
} DAT_NAMED_ATTR;

/** Eight bytes of the application that DAT returns unchanged and never interprets. */
typedef union dat_context {
  DAT_PVOID as_ptr;
  DAT_UINT64 as_64;
  DAT_UVERYLONG as_index;
} DAT_CONTEXT;

typedef DAT_CONTEXT DAT_DTO_COOKIE; /**< Of a posted transfer, in its completion event. */
typedef DAT_CONTEXT DAT_RMR_COOKIE; /**< Of an RMR bind, in its completion event. */

/** @name Handles. Opaque; only DAT_HANDLE_NULL has a meaning to an application. @{ */
typedef DAT_PVOID DAT_HANDLE;
typedef DAT_HANDLE DAT_CNO_HANDLE; /**< Consumer notification object: dat/api/cno.h. */
typedef DAT_HANDLE DAT_CR_HANDLE;  /**< Connection request: dat/api/cr.h. */
typedef DAT_HANDLE DAT_CSP_HANDLE; /**< Common service point: dat/api/service_point.h. */
typedef DAT_HANDLE DAT_EP_HANDLE;  /**< Endpoint: dat/api/ep.h. */
typedef DAT_HANDLE DAT_EVD_HANDLE; /**< Event dispatcher: dat/api/evd.h. */
typedef DAT_HANDLE DAT_IA_HANDLE;  /**< Interface adapter: dat/api/ia.h. */
typedef DAT_HANDLE DAT_LMR_HANDLE; /**< Local memory region: dat/api/lmr.h. */
typedef DAT_HANDLE DAT_PSP_HANDLE; /**< Public service point: dat/api/service_point.h. */
typedef DAT_HANDLE DAT_PZ_HANDLE;  /**< Protection zone: dat/api/pz.h. */
typedef DAT_HANDLE DAT_RMR_HANDLE; /**< Remote memory region: dat/api/rmr.h. */
typedef DAT_HANDLE DAT_RSP_HANDLE; /**< Reserved service point: dat/api/service_point.h. */
typedef DAT_HANDLE DAT_SRQ_HANDLE; /**< Shared receive queue: dat/api/srq.h. */

#define DAT_HANDLE_NULL ((DAT_HANDLE)NULL)
/** @} */

/** A time span in microseconds. */
typedef DAT_UINT32 DAT_TIMEOUT;

/** Wait for ever. */
#define DAT_TIMEOUT_INFINITE ((DAT_TIMEOUT)~0u)

/** @name Addresses. @{ */
typedef DAT_SOCK_ADDR* DAT_IA_ADDRESS_PTR; /**< A struct sockaddr_in or sockaddr_in6. */
typedef DAT_UINT64 DAT_CONN_QUAL; /**< What a service point listens on, host order: a port number
                                       on IP transports, a service id on InfiniBand. */
typedef DAT_UINT64 DAT_PORT_QUAL; /**< Port of one end of a connection, host order. */
/** @} */

/** @name Memory. @{ */
typedef DAT_UINT64 DAT_VADDR;       /**< A virtual address, or an offset (DAT_VA_TYPE_ZB). */
typedef DAT_UINT64 DAT_VLEN;        /**< A length of memory in bytes. */
typedef DAT_UINT32 DAT_SEG_LENGTH;  /**< The length of a segment or transfer in bytes. */
typedef DAT_UINT32 DAT_LMR_CONTEXT; /**< Names an LMR in a local segment of this process. */
typedef DAT_UINT32 DAT_RMR_CONTEXT; /**< Names memory for a peer. Host order: an application that
                                         sends it to a peer takes care of the byte order. */

/** A piece of registered local memory. Same layout as the scatter-gather entry of verbs. */
typedef struct dat_lmr_triplet {
  DAT_VADDR virtual_address;
  DAT_SEG_LENGTH segment_length; /**< In bytes. If 0, the segment is skipped unread. */
  DAT_LMR_CONTEXT lmr_context;   /**< From dat_lmr_create(). */
} DAT_LMR_TRIPLET;

/** A piece of memory of the peer, as the peer described it. */
typedef struct dat_rmr_triplet {
  DAT_VADDR virtual_address;
  DAT_SEG_LENGTH segment_length; /**< In bytes. */
  DAT_RMR_CONTEXT rmr_context;   /**< From the peer's dat_lmr_create() or dat_rmr_bind(). */
} DAT_RMR_TRIPLET;

/** Access rights to memory; a set. */
typedef enum dat_mem_priv_flags {
  DAT_MEM_PRIV_NONE_FLAG = 0x00,
  DAT_MEM_PRIV_LOCAL_READ_FLAG = 0x01,   /**< Source of sends and RDMA writes. */
  DAT_MEM_PRIV_REMOTE_READ_FLAG = 0x02,  /**< Peers may read it by RDMA. */
  DAT_MEM_PRIV_LOCAL_WRITE_FLAG = 0x10,  /**< Sink of receives and RDMA reads. */
  DAT_MEM_PRIV_REMOTE_WRITE_FLAG = 0x20, /**< Peers may write it by RDMA. */
  DAT_MEM_PRIV_ALL_FLAG = 0x33,          /**< All four. */
  DAT_MEM_PRIV_EXTENSION_BASE = 0x40     /**< First bit that belongs to extensions. */
} DAT_MEM_PRIV_FLAGS;

#define DAT_MEM_PRIV_READ_FLAG (DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_REMOTE_READ_FLAG)
#define DAT_MEM_PRIV_WRITE_FLAG (DAT_MEM_PRIV_LOCAL_WRITE_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG)

/** What the addresses in triplets of a region mean. */
typedef enum dat_va_type {
  DAT_VA_TYPE_VA = 0, /**< Virtual addresses of the process. */
  DAT_VA_TYPE_ZB = 1  /**< Zero based: offsets from the start of the region. Needs zb_supported. */
} DAT_VA_TYPE;
/** @} */

/**
 * How a transfer completes; a set. As an argument of a post it applies to that transfer; as an EP
 * attribute it sets the mode of one direction of the EP. EPs of different modes may share an EVD.
 *
 * A completion is an *event* if it can be dequeued. It is a *notification* if it can also wake a
 * thread in dat_evd_wait() or trigger a CNO.
 */
typedef enum dat_completion_flags {
  /** Post: event and notification. Attribute: as EVD_THRESHOLD. */
  DAT_COMPLETION_DEFAULT_FLAG = 0x00,
  /** Post of a request: no event if it succeeds. A failure always produces one. */
  DAT_COMPLETION_SUPPRESS_FLAG = 0x01,
  /** Post of a send: the matching receive notifies the peer, if the peer's EP has this attribute.
   *  Receive attribute: only receives that the sender marked this way notify. */
  DAT_COMPLETION_SOLICITED_WAIT_FLAG = 0x02,
  /** Post: an event, not a notification. Allowed only if the direction has this attribute. */
  DAT_COMPLETION_UNSIGNALLED_FLAG = 0x04,
  /** Post of a request: start only when all RDMA reads posted before on the EP are complete. */
  DAT_COMPLETION_BARRIER_FENCE_FLAG = 0x08,
  /** Attribute: every completion notifies, and dat_evd_wait() may wait for several at once. */
  DAT_COMPLETION_EVD_THRESHOLD_FLAG = 0x10,
  /** Kernel level only. */
  DAT_COMPLETION_LMR_INVALIDATE_FENCE_FLAG = 0x20
} DAT_COMPLETION_FLAGS;

/** Quality of service. One value for a connection, a set where support is reported. */
typedef enum dat_qos {
  DAT_QOS_BEST_EFFORT = 0x00, /**< Always supported. */
  DAT_QOS_HIGH_THROUGHPUT = 0x01,
  DAT_QOS_LOW_LATENCY = 0x02,
  DAT_QOS_ECONOMY = 0x04, /**< Neither throughput nor latency matters. */
  DAT_QOS_PREMIUM = 0x08  /**< Both matter. */
} DAT_QOS;

/** How dat_ia_close() and dat_ep_disconnect() end their object. */
typedef enum dat_close_flags {
  DAT_CLOSE_ABRUPT_FLAG = 0,  /**< At once, whatever is in progress. */
  DAT_CLOSE_GRACEFUL_FLAG = 1 /**< Only when nothing is left (IA), or after draining (EP). */
} DAT_CLOSE_FLAGS;

#define DAT_CLOSE_DEFAULT DAT_CLOSE_ABRUPT_FLAG

DAT_END_DECLS
