/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * EP, the endpoint: one end of a connection. Its attributes, states, creation and destruction;
 * connecting it is described in dat/api/connection.h, moving data in dat/api/dto.h.
 */
#pragma once

#include <dat/api/srq.h>
#include <dat/api/types.h>

DAT_BEGIN_DECLS

typedef enum dat_service_type {
  DAT_SERVICE_TYPE_RC = 0,            /**< Reliable connection; the only one of DAT itself. */
  DAT_SERVICE_TYPE_EXTENSION_BASE = 1 /**< First value that belongs to extensions. */
} DAT_SERVICE_TYPE;

/**
 * Attributes of an EP. A provider changes none that the application has set; if the choice was left
 * to the provider (null attributes at creation), connecting may lower a read depth.
 */
typedef struct dat_ep_attr {
  DAT_SERVICE_TYPE service_type;              /**< RC; any value but datagrams means RC. */
  DAT_SEG_LENGTH max_message_size;            /**< Longest message in bytes, either direction. */
  DAT_SEG_LENGTH max_rdma_size;               /**< Longest RDMA read or write in bytes. */
  DAT_QOS qos;                                /**< Ignored: dat_ep_connect() has its own. */
  DAT_COMPLETION_FLAGS recv_completion_flags; /**< How receives notify: UNSIGNALLED, SOLICITED_WAIT,
                                                   EVD_THRESHOLD. EPs sharing an EVD may differ. */
  DAT_COMPLETION_FLAGS request_completion_flags; /**< Requests: UNSIGNALLED or EVD_THRESHOLD. Other
                                                      bits of both are ignored, but SUPPRESS is
                                                      refused for receives. */
  DAT_COUNT max_recv_dtos;      /**< Receives outstanding; 0 if, and only if, no receive EVD. */
  DAT_COUNT max_request_dtos;   /**< Requests outstanding; 0 if, and only if, no request EVD. */
  DAT_COUNT max_recv_iov;       /**< Segments of a receive; less than 4 counts as 4. */
  DAT_COUNT max_request_iov;    /**< Segments of a send; less than 4 counts as 4. */
  DAT_COUNT max_rdma_read_in;   /**< RDMA reads of the peer in progress at a time; further ones
                                     wait. If 0, the peer's reads fail. */
  DAT_COUNT max_rdma_read_out;  /**< Local RDMA reads in progress at a time; further ones wait.
                                     A negative depth, in or out, means the adapter's maximum. */
  DAT_COUNT srq_soft_hw;        /**< Soft high watermark: dat_ep_set_watermark(). */
  DAT_COUNT max_rdma_read_iov;  /**< Segments of an RDMA read; if 0 or less, as max_request_iov.
                                     More than the adapter allows counts as its limit. */
  DAT_COUNT max_rdma_write_iov; /**< Segments of an RDMA write, likewise. */
  DAT_COUNT ep_transport_specific_count;
  DAT_NAMED_ATTR* ep_transport_specific; /**< Array, defined by the transport. */
  DAT_COUNT ep_provider_specific_count;
  DAT_NAMED_ATTR* ep_provider_specific; /**< Array, defined by the provider. */
} DAT_EP_ATTR;

typedef enum dat_ep_state {
  DAT_EP_STATE_UNCONNECTED = 0,                /**< Idle. Receives may be posted. */
  DAT_EP_STATE_UNCONFIGURED_UNCONNECTED = 1,   /**< The same, PZ or EVDs missing; not used here. */
  DAT_EP_STATE_RESERVED = 2,                   /**< An RSP listens for it. */
  DAT_EP_STATE_UNCONFIGURED_RESERVED = 3,      /**< The same, PZ or EVDs missing; not used here. */
  DAT_EP_STATE_PASSIVE_CONNECTION_PENDING = 4, /**< Its RSP has the request. */
  DAT_EP_STATE_UNCONFIGURED_PASSIVE = 5,       /**< The same, PZ or EVDs missing; not used here. */
  DAT_EP_STATE_ACTIVE_CONNECTION_PENDING = 6,  /**< Connecting. */
  DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING = 7, /**< Made by the provider for a CR. */
  DAT_EP_STATE_UNCONFIGURED_TENTATIVE = 8, /**< The same, PZ or EVDs missing; not used here. */
  DAT_EP_STATE_CONNECTED = 9,              /**< Requests may be posted. */
  DAT_EP_STATE_DISCONNECT_PENDING = 10,    /**< Graceful disconnect: requests are in progress. */
  DAT_EP_STATE_DISCONNECTED = 11, /**< The connection has ended or failed; posts are flushed. */
  DAT_EP_STATE_COMPLETION_PENDING = 12,    /**< Accepted, not established yet. */
  DAT_EP_STATE_CONNECTED_SINGLE_PATH = 13, /**< Multipath: connected over one path. */
  DAT_EP_STATE_CONNECTED_MULTI_PATH = 14   /**< Multipath: connected over several. */
} DAT_EP_STATE;

/** Older name. */
#define DAT_EP_STATE_ERROR DAT_EP_STATE_DISCONNECTED

/** What dat_ep_query() returns and dat_ep_modify() changes. */
typedef struct dat_ep_param {
  DAT_IA_HANDLE ia_handle;
  DAT_EP_STATE ep_state;
  DAT_COMM comm; /**< Protocol for dat_ep_common_connect(). */
  DAT_IA_ADDRESS_PTR local_ia_address_ptr;
  DAT_PORT_QUAL local_port_qual;            /**< Valid while connecting or connected. */
  DAT_IA_ADDRESS_PTR remote_ia_address_ptr; /**< Valid while connecting or connected. */
  DAT_PORT_QUAL remote_port_qual;           /**< Valid while connecting or connected. */
  DAT_PZ_HANDLE pz_handle;
  DAT_EVD_HANDLE recv_evd_handle;
  DAT_EVD_HANDLE request_evd_handle;
  DAT_EVD_HANDLE connect_evd_handle;
  DAT_SRQ_HANDLE srq_handle; /**< Null if the EP has its own receive queue. */
  DAT_EP_ATTR ep_attr;
} DAT_EP_PARAM;

/** Fields of DAT_EP_PARAM; a set. */
typedef DAT_UINT64 DAT_EP_PARAM_MASK;
#define DAT_EP_FIELD_IA_HANDLE UINT64_C(0x00000001)
#define DAT_EP_FIELD_EP_STATE UINT64_C(0x00000002)
#define DAT_EP_FIELD_COMM UINT64_C(0x00000004)
#define DAT_EP_FIELD_LOCAL_IA_ADDRESS_PTR UINT64_C(0x00000008)
#define DAT_EP_FIELD_LOCAL_PORT_QUAL UINT64_C(0x00000010)
#define DAT_EP_FIELD_REMOTE_IA_ADDRESS_PTR UINT64_C(0x00000020)
#define DAT_EP_FIELD_REMOTE_PORT_QUAL UINT64_C(0x00000040)
#define DAT_EP_FIELD_PZ_HANDLE UINT64_C(0x00000080)
#define DAT_EP_FIELD_RECV_EVD_HANDLE UINT64_C(0x00000100)
#define DAT_EP_FIELD_REQUEST_EVD_HANDLE UINT64_C(0x00000200)
#define DAT_EP_FIELD_CONNECT_EVD_HANDLE UINT64_C(0x00000400)
#define DAT_EP_FIELD_SRQ_HANDLE UINT64_C(0x00000800)
#define DAT_EP_FIELD_EP_ATTR_SERVICE_TYPE UINT64_C(0x00001000)
#define DAT_EP_FIELD_EP_ATTR_MAX_MESSAGE_SIZE UINT64_C(0x00002000)
#define DAT_EP_FIELD_EP_ATTR_MAX_RDMA_SIZE UINT64_C(0x00004000)
#define DAT_EP_FIELD_EP_ATTR_QOS UINT64_C(0x00008000)
#define DAT_EP_FIELD_EP_ATTR_RECV_COMPLETION_FLAGS UINT64_C(0x00010000)
#define DAT_EP_FIELD_EP_ATTR_REQUEST_COMPLETION_FLAGS UINT64_C(0x00020000)
#define DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS UINT64_C(0x00040000)
#define DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS UINT64_C(0x00080000)
#define DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV UINT64_C(0x00100000)
#define DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_IOV UINT64_C(0x00200000)
#define DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IN UINT64_C(0x00400000)
#define DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_OUT UINT64_C(0x00800000)
#define DAT_EP_FIELD_EP_ATTR_SRQ_SOFT_HW UINT64_C(0x01000000)
#define DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IOV UINT64_C(0x02000000)
#define DAT_EP_FIELD_EP_ATTR_MAX_RDMA_WRITE_IOV UINT64_C(0x04000000)
#define DAT_EP_FIELD_EP_ATTR_NUM_TRANSPORT_ATTR UINT64_C(0x08000000)
#define DAT_EP_FIELD_EP_ATTR_TRANSPORT_SPECIFIC_ATTR UINT64_C(0x10000000)
#define DAT_EP_FIELD_EP_ATTR_NUM_PROVIDER_ATTR UINT64_C(0x20000000)
#define DAT_EP_FIELD_EP_ATTR_PROVIDER_SPECIFIC_ATTR UINT64_C(0x40000000)
#define DAT_EP_FIELD_EP_ATTR_ALL UINT64_C(0x7ffff000) /**< All of ep_attr. */
#define DAT_EP_FIELD_ALL UINT64_C(0x7fffffff)

/**
 * Create an EP in state UNCONNECTED.
 *
 * If an EVD is null, the EP makes no events of that kind. PZ and connect EVD can be set later by
 * dat_ep_modify(), but must be set before the EP is connected.
 *
 * @param[in]  ia_handle
 * @param[in]  pz_handle                      zone of the memory it may access, or null
 * @param[in]  recv_completion_evd_handle     EVD with DAT_EVD_DTO_FLAG for receives, or null
 * @param[in]  request_completion_evd_handle  EVD with DAT_EVD_DTO_FLAG for requests, and
 *                                            DAT_EVD_RMR_BIND_FLAG for binds, or null
 * @param[in]  connect_evd_handle             EVD with DAT_EVD_CONNECTION_FLAG, or null
 * @param[in]  ep_attributes                  attributes, not kept; null for the provider's defaults
 *                                            (see dat_ep_query())
 * @param[out] ep_handle                      receives the EP; owned by the application
 *
 * @retval DAT_INVALID_HANDLE          `ia_handle`, `pz_handle`; an EVD, also if it lacks the flag
 *                                     (DAT_INVALID_HANDLE_EVD_RECV, _REQUEST, _CONN)
 * @retval DAT_INVALID_PARAMETER       an attribute beyond the limits of the IA or inconsistent with
 *                                     the EVDs (DAT_INVALID_ARG6); `ep_handle` is null
 * @retval DAT_INSUFFICIENT_RESOURCES  out of memory or device objects
 *
 * Blocking: no. Threads: safe. Spec: uDAPL 2.0 dat_ep_create
 */
DAT_EXPORT DAT_RETURN DAT_API dat_ep_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle,
                                            DAT_EVD_HANDLE recv_completion_evd_handle,
                                            DAT_EVD_HANDLE request_completion_evd_handle,
                                            DAT_EVD_HANDLE connect_evd_handle,
                                            const DAT_EP_ATTR* ep_attributes,
                                            DAT_EP_HANDLE* ep_handle);

/**
 * Create an EP that takes its receive buffers from an SRQ for its whole lifetime.
 *
 * @param[in]  ia_handle
 * @param[in]  pz_handle           zone; must be that of the SRQ unless
 *                                 srq_ep_pz_difference_supported
 * @param[in]  recv_evd_handle     EVD with DAT_EVD_DTO_FLAG for receives, or null
 * @param[in]  request_evd_handle  EVD with DAT_EVD_DTO_FLAG for requests, or null
 * @param[in]  connect_evd_handle  EVD with DAT_EVD_CONNECTION_FLAG, or null
 * @param[in]  srq_handle
 * @param[in]  ep_attributes       attributes, not kept; max_recv_dtos and max_recv_iov are ignored;
 *                                 null for the provider's defaults
 * @param[out] ep_handle           receives the EP; owned by the application
 *
 * @retval DAT_INVALID_HANDLE          `ia_handle`, `pz_handle`, `srq_handle`; an EVD, also if it
 *                                     lacks the flag
 * @retval DAT_INVALID_PARAMETER       null pointer, an attribute beyond the limits of the IA or
 *                                     inconsistent with the EVDs, or another zone than that of the
 *                                     SRQ
 * @retval DAT_MODEL_NOT_SUPPORTED     the provider has no SRQs
 * @retval DAT_INSUFFICIENT_RESOURCES  out of memory or device objects, or max_ep_per_srq reached
 *
 * Blocking: no. Threads: safe. Spec: uDAPL 2.0 dat_ep_create_with_srq
 */
DAT_EXPORT DAT_RETURN DAT_API dat_ep_create_with_srq(
    DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle, DAT_EVD_HANDLE recv_evd_handle,
    DAT_EVD_HANDLE request_evd_handle, DAT_EVD_HANDLE connect_evd_handle, DAT_SRQ_HANDLE srq_handle,
    const DAT_EP_ATTR* ep_attributes, DAT_EP_HANDLE* ep_handle);

/**
 * Get the parameters, the attributes and the state of an EP.
 *
 * @param[in]  ep_handle
 * @param[in]  ep_param_mask  fields wanted; others may be filled as well, unknown bits are ignored
 * @param[out] ep_param       structure to fill
 *
 * @retval DAT_INVALID_HANDLE     `ep_handle`
 * @retval DAT_INVALID_PARAMETER  `ep_param` is null
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_ep_query
 */
DAT_EXPORT DAT_RETURN DAT_API dat_ep_query(DAT_EP_HANDLE ep_handle, DAT_EP_PARAM_MASK ep_param_mask,
                                           DAT_EP_PARAM* ep_param);

/**
 * Change an EP before it is connected: all fields of the mask, or none if the call fails.
 *
 *     state                      what may be changed
 *     UNCONNECTED, TENTATIVE     everything but the next line
 *     never                      ia_handle, ep_state, addresses and ports, another srq_handle
 *     RESERVED, PASSIVE          EVDs and attributes
 *     others                     named attributes, if the provider allows it
 *
 * recv_completion_flags may be changed while receives are posted.
 *
 * @param[in] ep_handle
 * @param[in] ep_param_mask  fields to change
 * @param[in] ep_param       their new values; not kept. Arrays of named attributes contain only
 *                           those to change; with DAT_EP_FIELD_EP_ATTR_ALL errors there are ignored
 *
 * @retval DAT_INVALID_HANDLE     `ep_handle`, or a handle in `ep_param`
 * @retval DAT_INVALID_PARAMETER  unknown bit or a field that never changes (DAT_INVALID_ARG2); a
 *                                value beyond the limits of the IA or inconsistent with the others,
 *                                another SRQ, an unknown name, null pointer (DAT_INVALID_ARG3)
 * @retval DAT_INVALID_STATE      not allowed in the present state of the EP
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_ep_modify
 */
DAT_EXPORT DAT_RETURN DAT_API dat_ep_modify(DAT_EP_HANDLE ep_handle,
                                            DAT_EP_PARAM_MASK ep_param_mask,
                                            const DAT_EP_PARAM* ep_param);

/**
 * Get the state of an EP and whether it has outstanding work; cheaper than dat_ep_query().
 *
 * @param[in]  ep_handle
 * @param[out] ep_state      receives the state; may be null
 * @param[out] recv_idle     receives DAT_TRUE if no receive is outstanding; may be null
 * @param[out] request_idle  receives DAT_TRUE if no request is outstanding; may be null
 *
 * @retval DAT_INVALID_HANDLE  `ep_handle`
 *
 * Blocking: no. Threads: safe. Spec: uDAPL 2.0 dat_ep_get_status
 */
DAT_EXPORT DAT_RETURN DAT_API dat_ep_get_status(DAT_EP_HANDLE ep_handle, DAT_EP_STATE* ep_state,
                                                DAT_BOOLEAN* recv_idle, DAT_BOOLEAN* request_idle);

/**
 * Get the number of receive buffers that the EP holds: those posted to it, or taken from its SRQ,
 * that have not completed yet.
 *
 * @param[in]  ep_handle
 * @param[out] nbufs_allocated  receives their number, or DAT_VALUE_UNKNOWN; may be null
 * @param[out] bufs_alloc_span  receives the number of messages from the first incomplete one to the
 *                              last that has a buffer, or DAT_VALUE_UNKNOWN; may be null
 *
 * @retval DAT_INVALID_HANDLE       `ep_handle`
 * @retval DAT_MODEL_NOT_SUPPORTED  neither number is available (ep_recv_info_supported)
 * @retval DAT_NOT_IMPLEMENTED      the same, from some providers
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_ep_recv_query
 */
DAT_EXPORT DAT_RETURN DAT_API dat_ep_recv_query(DAT_EP_HANDLE ep_handle, DAT_COUNT* nbufs_allocated,
                                                DAT_COUNT* bufs_alloc_span);

/**
 * Limit the number of receive buffers that the EP may hold. A limit that is already exceeded takes
 * effect at once.
 *
 * @param[in] ep_handle
 * @param[in] soft_high_watermark  exceeding this number raises one asynchronous event (reason
 *                                 DAT_SRQ_SOFT_HIGH_WATERMARK_EVENT), then none until set again
 * @param[in] hard_high_watermark  exceeding this number breaks the connection
 *
 * Either may be DAT_WATERMARK_INFINITE for none.
 *
 * @retval DAT_INVALID_HANDLE       `ep_handle`
 * @retval DAT_INVALID_PARAMETER    negative, or beyond max_recv_dtos
 * @retval DAT_MODEL_NOT_SUPPORTED  no high watermarks (srq_watermarks_supported)
 * @retval DAT_NOT_IMPLEMENTED      the same, from some providers
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_ep_set_watermark
 */
DAT_EXPORT DAT_RETURN DAT_API dat_ep_set_watermark(DAT_EP_HANDLE ep_handle,
                                                   DAT_COUNT soft_high_watermark,
                                                   DAT_COUNT hard_high_watermark);

/**
 * Make a DISCONNECTED EP UNCONNECTED, so that it can be connected again. It keeps its handle, EVDs,
 * PZ, SRQ and attributes. Completions that have not been dequeued may be lost: to get them all,
 * first post one more receive and one more request, and dequeue until both have completed with
 * FLUSHED. An UNCONNECTED EP is left unchanged.
 *
 * @param[in] ep_handle
 *
 * @retval DAT_INVALID_HANDLE          `ep_handle`
 * @retval DAT_INVALID_STATE           the EP is in another state
 * @retval DAT_INSUFFICIENT_RESOURCES  out of transport resources; the EP is unchanged
 *
 * Blocking: may wait for the transport. Threads: serialize. Spec: uDAPL 2.0 dat_ep_reset
 */
DAT_EXPORT DAT_RETURN DAT_API dat_ep_reset(DAT_EP_HANDLE ep_handle);

/**
 * Destroy an EP, whatever it is doing: an attempt to connect is abandoned, and a connection is
 * broken without an event on this side (the peer gets one). Completions of the EP may be lost, or
 * may still be dequeued with a handle that is no longer valid. Dequeue from its DTO EVDs until they
 * are empty before freeing it; otherwise messages may be lost that were received and that their
 * senders consider delivered.
 *
 * @param[in] ep_handle
 *
 * @retval DAT_INVALID_HANDLE  `ep_handle`
 * @retval DAT_INVALID_STATE   it belongs to an RSP or a CR: RESERVED, PASSIVE_CONNECTION_PENDING,
 *                             TENTATIVE_CONNECTION_PENDING
 *
 * Blocking: may wait for the transport. Threads: serialize. Spec: uDAPL 2.0 dat_ep_free
 */
DAT_EXPORT DAT_RETURN DAT_API dat_ep_free(DAT_EP_HANDLE ep_handle);

DAT_END_DECLS
