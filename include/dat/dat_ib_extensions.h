/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * InfiniBand extensions: atomic operations, immediate data, datagrams, queries without an open IA,
 * counters and collectives.
 *
 * An IA has them if extension_supported of DAT_IA_ATTR is DAT_EXTENSION_IB; the named provider
 * attributes below say which of them. All are macros around dat_extension_op() that convert their
 * arguments, except cookies, which must be of type DAT_DTO_COOKIE. They yield a DAT_RETURN.
 */
#pragma once

#include <netinet/in.h>

#include <dat/api/ib_collective.h>
#include <dat/api/ib_counters.h>
#include <dat/api/ib_operation.h>
#include <dat/udat.h>

DAT_BEGIN_DECLS

/** Version of this interface: extension_version of DAT_IA_ATTR. */
#define DAT_IB_EXTENSION_VERSION 209

/** @name Provider attributes that say which extensions there are ("TRUE"). @{ */
#define DAT_IB_ATTR_FETCH_AND_ADD "DAT_IB_FETCH_AND_ADD"
#define DAT_IB_ATTR_CMP_AND_SWAP "DAT_IB_CMP_AND_SWAP"
#define DAT_IB_ATTR_IMMED_DATA "DAT_IB_IMMED_DATA"
#define DAT_IB_ATTR_UD "DAT_IB_UD"
#define DAT_IB_ATTR_COUNTERS "DAT_COUNTERS"
/** @} */

/** @name More values for enumerations of DAT. @{ */

/** For DAT_EVD_FLAGS: the EVD receives extension events. */
typedef enum dat_ib_evd_extension_flags {
  DAT_IB_EVD_EXTENSION_FLAG = 0x200
} DAT_IB_EVD_EXTENSION_FLAGS;

/** For DAT_MEM_PRIV_FLAGS: peers may use atomic operations. */
typedef enum dat_ib_mem_priv_flags { DAT_IB_MEM_PRIV_REMOTE_ATOMIC = 0x40 } DAT_IB_MEM_PRIV_FLAGS;

/** For DAT_SERVICE_TYPE: an EP for datagrams, which reaches many peers without a connection. */
typedef enum dat_ib_service_type { DAT_IB_SERVICE_TYPE_UD = 1 } DAT_IB_SERVICE_TYPE;

/** For DAT_HANDLE_TYPE. */
typedef enum dat_ib_handle_type {
  DAT_IB_HANDLE_TYPE_EXT = 12,
  DAT_IB_HANDLE_TYPE_COLLECTIVE = 13
} DAT_IB_HANDLE_TYPE;

/** For DAT_DTOS: the operation of a completion. */
typedef enum dat_ib_dtos {
  DAT_IB_DTO_RDMA_WRITE_IMMED = 8, /**< Local RDMA write with immediate data. */
  DAT_IB_DTO_RECV_IMMED = 9,       /**< The peer's write with immediate data used a receive. */
  DAT_IB_DTO_FETCH_ADD = 10,
  DAT_IB_DTO_CMP_SWAP = 11,
  DAT_IB_DTO_RECV_MSG_IMMED = 12, /**< A send with immediate data. */
  DAT_IB_DTO_SEND_UD = 13,
  DAT_IB_DTO_RECV_UD = 14,
  DAT_IB_DTO_RECV_UD_IMMED = 15,
  DAT_IB_DTO_COLLECTIVES = 16
} DAT_IB_DTOS;

/** For DAT_RETURN_TYPE. */
typedef enum dat_ib_return {
  DAT_IB_ERR = 0x10000000,
  DAT_IB_COLLECTIVE_ERR = 0x10000001
} DAT_IB_RETURN;
/** @} */

/** Events of extensions. Their event_extension_data is a DAT_IB_EXTENSION_EVENT_DATA. */
typedef enum dat_ib_event_number {
  DAT_IB_DTO_EVENT = 0x40000,                       /**< dto_completion_event_data. */
  DAT_IB_UD_CONNECTION_REQUEST_EVENT = 0x40001,     /**< cr_arrival_event_data. */
  DAT_IB_UD_CONNECTION_EVENT_ESTABLISHED = 0x40002, /**< connect_event_data. */
  DAT_IB_UD_CONNECTION_REJECT_EVENT = 0x40003,      /**< connect_event_data. */
  DAT_IB_UD_CONNECTION_ERROR_EVENT = 0x40004,       /**< connect_event_data. */
  DAT_IB_COLLECTIVE_EVENT = 0x40005                 /**< Only event_extension_data. */
} DAT_IB_EVENT_NUMBER;

/** What an extension event reports. */
typedef enum dat_ib_ext_type {
  DAT_IB_FETCH_AND_ADD = 0,
  DAT_IB_CMP_AND_SWAP = 1,
  DAT_IB_RDMA_WRITE_IMMED = 2,      /**< Local RDMA write with immediate data. */
  DAT_IB_RDMA_WRITE_IMMED_DATA = 3, /**< RDMA write of the peer; val.immed is valid. */
  DAT_IB_RECV_IMMED_DATA = 4,       /**< A send with immediate data; val.immed is valid. */
  DAT_IB_UD_CONNECT_REQUEST = 5,    /**< Carries the CR of a datagram peer. */
  DAT_IB_UD_REMOTE_AH = 6,          /**< Resolved by us; remote_ah is valid. */
  DAT_IB_UD_PASSIVE_REMOTE_AH = 7,  /**< Accepted by us; remote_ah is valid. */
  DAT_IB_UD_SEND = 8,
  DAT_IB_UD_RECV = 9, /**< transfered_length includes 40 bytes for the network header. */
  DAT_IB_UD_CONNECT_REJECT = 10,
  DAT_IB_UD_CONNECT_ERROR = 11,

  /* Collectives. */
  DAT_IB_COLLECTIVE_CREATE_STATUS = 12,
  DAT_IB_COLLECTIVE_CREATE_DATA = 13,
  DAT_IB_COLLECTIVE_CLOCK_SET_STATUS = 14,
  DAT_IB_COLLECTIVE_SCATTER_STATUS = 15,
  DAT_IB_COLLECTIVE_SCATTERV_STATUS = 16,
  DAT_IB_COLLECTIVE_GATHER_STATUS = 17,
  DAT_IB_COLLECTIVE_GATHERV_STATUS = 18,
  DAT_IB_COLLECTIVE_ALLGATHER_STATUS = 19,
  DAT_IB_COLLECTIVE_ALLGATHERV_STATUS = 20,
  DAT_IB_COLLECTIVE_ALLTOALL_STATUS = 21,
  DAT_IB_COLLECTIVE_ALLTOALLV_STATUS = 22,
  DAT_IB_COLLECTIVE_REDUCE_STATUS = 23,
  DAT_IB_COLLECTIVE_ALLREDUCE_STATUS = 24,
  DAT_IB_COLLECTIVE_REDUCE_SCATTER_STATUS = 25,
  DAT_IB_COLLECTIVE_SCAN_STATUS = 26,
  DAT_IB_COLLECTIVE_BROADCAST_STATUS = 27,
  DAT_IB_COLLECTIVE_BARRIER_STATUS = 28
} DAT_IB_EXT_TYPE;

/** How an extended operation ended; the completion status of a transfer gives more detail. */
typedef enum dat_ib_status {
  DAT_OP_SUCCESS = 0,
  DAT_IB_OP_ERR = 1,
  DAT_IB_COLL_COMP_ERR = 2 /**< A collective operation failed. */
} DAT_IB_STATUS;

struct ibv_ah; /* from infiniband/verbs.h */

/** Where to send datagrams. */
typedef struct dat_ib_addr_handle {
  struct ibv_ah* ah;      /**< Address handle of verbs. */
  DAT_UINT32 qpn;         /**< Queue pair of the peer, host order. */
  DAT_SOCK_ADDR6 ia_addr; /**< Address of the peer. */
} DAT_IB_ADDR_HANDLE;

typedef struct dat_ib_immed_data {
  DAT_UINT32 data; /**< As in the completion of the device, without byte order conversion. */
} DAT_IB_IMMED_DATA;

typedef struct dat_ib_collective_event_data {
  DAT_HANDLE handle; /**< The group. */
  DAT_CONTEXT context;
} DAT_IB_COLLECTIVE_EVENT_DATA;

/** event_extension_data of an event; cast its address to a pointer to this. */
typedef struct dat_ib_extension_event_data {
  DAT_IB_EXT_TYPE type; /**< Determines which members are valid. */
  DAT_IB_STATUS status;
  union {
    DAT_IB_IMMED_DATA immed;
  } val;
  __extension__ union {
    DAT_IB_ADDR_HANDLE remote_ah;
    DAT_IB_COLLECTIVE_EVENT_DATA coll;
  };
  DAT_CONTEXT context; /**< Datagrams: for dat_ib_ud_cm_free(). Collectives: the user context. */
} DAT_IB_EXTENSION_EVENT_DATA;

/**
 * @name Atomic operations on 8 bytes of the peer's memory. The old value is stored in `lbuf`.
 *
 * ep       in: connected EP, as for RDMA
 * add_val  in, DAT_UINT64: value to add
 * cmp_val  in, DAT_UINT64: value to compare with
 * swap_val in, DAT_UINT64: value to store if they are equal
 * lbuf     in, DAT_LMR_TRIPLET*: 8 bytes, locally writable
 * cookie   in, DAT_DTO_COOKIE: for the completion event
 * rbuf     in, DAT_RMR_TRIPLET*: 8 bytes, aligned, with DAT_IB_MEM_PRIV_REMOTE_ATOMIC
 * flgs     in, DAT_COMPLETION_FLAGS: as for RDMA
 *
 * Event: DAT_IB_DTO_EVENT. Results and blocking as dat_ep_post_rdma_read(). Threads: serialize.
 * @{
 */
#define dat_ib_post_fetch_and_add(ep, add_val, lbuf, cookie, rbuf, flgs)       \
  dat_extension_op((DAT_HANDLE)(ep), (DAT_EXTENDED_OP)DAT_IB_FETCH_AND_ADD_OP, \
                   (DAT_UINT64)(add_val), (DAT_LMR_TRIPLET*)(lbuf), (cookie),  \
                   (DAT_RMR_TRIPLET*)(rbuf), (DAT_COMPLETION_FLAGS)(flgs))
#define dat_ib_post_cmp_and_swap(ep, cmp_val, swap_val, lbuf, cookie, rbuf, flgs)           \
  dat_extension_op((DAT_HANDLE)(ep), (DAT_EXTENDED_OP)DAT_IB_CMP_AND_SWAP_OP,               \
                   (DAT_UINT64)(cmp_val), (DAT_UINT64)(swap_val), (DAT_LMR_TRIPLET*)(lbuf), \
                   (cookie), (DAT_RMR_TRIPLET*)(rbuf), (DAT_COMPLETION_FLAGS)(flgs))
/** @} */

/**
 * RDMA write that also consumes a receive of the peer and delivers a number with it.
 *
 * ep, lbuf, cookie, rbuf, flgs  as in dat_ep_post_rdma_write()
 * size                          in: number of segments in lbuf
 * idata                         in, DAT_UINT32: the number
 *
 * Events: DAT_IB_DTO_EVENT here, and at the peer with operation DAT_IB_DTO_RECV_IMMED. Results and
 * blocking as dat_ep_post_rdma_write(). Threads: serialize.
 */
#define dat_ib_post_rdma_write_immed(ep, size, lbuf, cookie, rbuf, idata, flgs)   \
  dat_extension_op((DAT_HANDLE)(ep), (DAT_EXTENDED_OP)DAT_IB_RDMA_WRITE_IMMED_OP, \
                   (DAT_COUNT)(size), (DAT_LMR_TRIPLET*)(lbuf), (cookie),         \
                   (DAT_RMR_TRIPLET*)(rbuf), (DAT_UINT32)(idata), (DAT_COMPLETION_FLAGS)(flgs))

/**
 * @name Datagrams, on an EP of service type DAT_IB_SERVICE_TYPE_UD. dat_ep_connect(), which may be
 * called any number of times, resolves a peer: its ESTABLISHED event carries the address for sends.
 * Receive buffers begin with 40 bytes for the network header.
 *
 * ah_ptr, ah  in, DAT_IB_ADDR_HANDLE*: from that event; free when no longer used
 * cm          in, DAT_CONTEXT: context of that event; free when no more events can follow
 * others      as in dat_ep_post_send(), with events DAT_IB_DTO_EVENT
 *
 * Blocking: no. Threads: serialize.
 * @{
 */
#define dat_ib_post_send_ud(ep, segments, lbuf, ah_ptr, cookie, flgs)                           \
  dat_extension_op((DAT_HANDLE)(ep), (DAT_EXTENDED_OP)DAT_IB_UD_SEND_OP, (DAT_COUNT)(segments), \
                   (DAT_LMR_TRIPLET*)(lbuf), (DAT_IB_ADDR_HANDLE*)(ah_ptr), (cookie),           \
                   (DAT_COMPLETION_FLAGS)(flgs))
#define dat_ib_post_recv_ud dat_ep_post_recv
#define dat_ib_ud_cm_free(ep, cm) \
  dat_extension_op((DAT_HANDLE)(ep), (DAT_EXTENDED_OP)DAT_IB_UD_CM_FREE_OP, DAT_IB_AS_CONTEXT(cm))
#define dat_ib_ud_ah_free(ep, ah)                                           \
  dat_extension_op((DAT_HANDLE)(ep), (DAT_EXTENDED_OP)DAT_IB_UD_AH_FREE_OP, \
                   (DAT_IB_ADDR_HANDLE*)(ah))
/** @} */

/**
 * Get the attributes of an IA without opening it.
 *
 * name                  in, DAT_NAME_PTR: IA name; version 2.0, not thread safe
 * ia_handle             out, DAT_HANDLE*: for dat_ib_close_query() only; not an IA handle
 * ia_mask, ia_attr      as in dat_ia_query()
 * prov_mask, prov_attr  as in dat_ia_query()
 *
 * Results: DAT_INVALID_HANDLE (null name), DAT_INVALID_PARAMETER (another null pointer),
 * DAT_PROVIDER_NOT_FOUND; others as dat_ia_openv(). Blocking: as dat_ia_openv(). Threads: safe.
 */
#define dat_ib_open_query(name, ia_handle, ia_mask, ia_attr, prov_mask, prov_attr)                 \
  dat_extension_op(DAT_HANDLE_NULL, (DAT_EXTENDED_OP)DAT_IB_OPEN_QUERY_OP, (DAT_NAME_PTR)(name),   \
                   (DAT_HANDLE*)(ia_handle), (DAT_IA_ATTR_MASK)(ia_mask), (DAT_IA_ATTR*)(ia_attr), \
                   (DAT_PROVIDER_ATTR_MASK)(prov_mask), (DAT_PROVIDER_ATTR*)(prov_attr))

/** End the query that dat_ib_open_query() began. Its attributes are no longer valid. */
#define dat_ib_close_query(ia_handle) \
  dat_extension_op((DAT_HANDLE)(ia_handle), (DAT_EXTENDED_OP)DAT_IB_CLOSE_QUERY_OP)

/**
 * Name the type of a result of an extended operation: "DAT_IB_ERR", or as dat_strerror().
 *
 * @param[in]  value
 * @param[out] message  receives a constant string
 */
static __inline__ DAT_RETURN dat_strerror_extension(DAT_IB_RETURN value, const char** message) {
  if (DAT_GET_TYPE(value) == (DAT_UINT32)DAT_IB_ERR) {
    *message = "DAT_IB_ERR";
    return DAT_SUCCESS;
  }
  return dat_strerror((DAT_RETURN)value, message, NULL);
}

/**
 * Name the status of an extension event: a space for success, or "DAT_IB_OP_ERR".
 *
 * @param[in]  value
 * @param[out] message  receives a constant string, even if the call fails
 *
 * @retval DAT_INVALID_PARAMETER  any other status; returned without class bits
 */
static __inline__ DAT_RETURN dat_strerror_ext_status(DAT_IB_STATUS value, const char** message) {
  switch ((int)value) {
    case DAT_OP_SUCCESS:
      *message = " ";
      return DAT_SUCCESS;
    case DAT_IB_OP_ERR:
      *message = "DAT_IB_OP_ERR";
      return DAT_SUCCESS;
    default:
      *message = "unknown extension status";
      return DAT_INVALID_PARAMETER;
  }
}

DAT_END_DECLS
