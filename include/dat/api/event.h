/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * Events: what dat_evd_wait() and dat_evd_dequeue() return.
 *
 * Order. Events of one stream are delivered in the order in which they happened. A stream is the
 * receive completions of an EP, its request completions, its connection events, the requests of one
 * service point, the software events of one EVD, or the asynchronous events of an IA. There is no
 * order between streams, with one exception: if both go to one EVD, an EP's successful completions
 * precede its DISCONNECTED event, and its ESTABLISHED event precedes its completions.
 */
#pragma once

#include <dat/api/types.h>

DAT_BEGIN_DECLS

/**
 * What happened. One of the bits 0x1, 0x1000, 0x2000, 0x4000, 0x8000, 0x10000 identifies the kind
 * and with it the member of DAT_EVENT_DATA that is valid.
 */
typedef enum dat_event_number {
  /** A transfer is complete: dto_completion_event_data, on the receive or request EVD. */
  DAT_DTO_COMPLETION_EVENT = 0x00001,

  /** A bind is complete: rmr_completion_event_data, on the request EVD. */
  DAT_RMR_BIND_COMPLETION_EVENT = 0x01001,

  /** A peer wants a connection: cr_arrival_event_data, on the EVD of the service point. */
  DAT_CONNECTION_REQUEST_EVENT = 0x02001,

  /* Connections: connect_event_data, on the connect EVD of the EP. */
  DAT_CONNECTION_EVENT_ESTABLISHED = 0x04001, /**< Connected. The active side may get data. */
  /** The peer's application refused. The active side may get data. */
  DAT_CONNECTION_EVENT_PEER_REJECTED = 0x04002,
  /** Refused without the peer's application: no listener, backlog full, or the transport. */
  DAT_CONNECTION_EVENT_NON_PEER_REJECTED = 0x04003,
  /** dat_cr_accept() could not be completed: the active side is gone. */
  DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR = 0x04004,
  DAT_CONNECTION_EVENT_DISCONNECTED = 0x04005, /**< One of the sides ended it. */
  DAT_CONNECTION_EVENT_BROKEN = 0x04006,       /**< An error ended it. */
  DAT_CONNECTION_EVENT_TIMED_OUT = 0x04007,    /**< The timeout of the connect call passed. */
  DAT_CONNECTION_EVENT_UNREACHABLE = 0x04008,  /**< No route, no such host, or no answer. */

  /* Asynchronous: asynch_error_event_data, on the asynchronous EVD of the IA. */
  DAT_ASYNC_ERROR_EVD_OVERFLOW = 0x08001,    /**< An EVD had no room; an event is lost. */
  DAT_ASYNC_ERROR_IA_CATASTROPHIC = 0x08002, /**< The adapter failed; the IA can only be closed. */
  DAT_ASYNC_ERROR_EP_BROKEN = 0x08003,       /**< An EP or SRQ: see the reason. */
  DAT_ASYNC_ERROR_TIMED_OUT = 0x08004,
  DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR = 0x08005,
  DAT_HA_DOWN_TO_1 = 0x08101,        /**< Multipath: one path is left. */
  DAT_HA_UP_TO_MULTI_PATH = 0x08102, /**< Multipath: several paths again. */

  /** From dat_evd_post_se(): software_event_data. */
  DAT_SOFTWARE_EVENT = 0x10001,

  /* Extensions: event_extension_data describes the event too. */
  DAT_EXTENSION_EVENT = 0x20000,
  DAT_IB_EXTENSION_RANGE_BASE = 0x40000, /**< First of DAT_IB_EVENT_NUMBER. */
  DAT_IW_EXTENSION_RANGE_BASE = 0x80000  /**< First of iWARP. */
} DAT_EVENT_NUMBER;

/** The operation that has completed. */
typedef enum dat_dtos {
  DAT_DTO_SEND = 0,
  DAT_DTO_RDMA_WRITE = 1,
  DAT_DTO_RDMA_READ = 2,
  DAT_DTO_RECEIVE = 3,
  DAT_DTO_RECEIVE_WITH_INVALIDATE = 4, /**< A receive; the message invalidated a local RMR. */
  DAT_DTO_BIND_MW = 5,                 /**< Not used: binds have an event of their own. */
  DAT_DTO_LMR_FMR = 6,                 /**< Kernel level only. */
  DAT_DTO_LMR_INVALIDATE = 7,          /**< Kernel level only. */
  DAT_DTO_EXTENSION_BASE = 8           /**< First value that belongs to extensions. */
} DAT_DTOS;

/**
 * How a transfer or a bind ended. After anything but success and FLUSHED the connection is broken;
 * operations posted after the failed one complete with FLUSHED.
 */
typedef enum dat_dto_completion_status {
  DAT_DTO_SUCCESS = 0,
  DAT_DTO_ERR_FLUSHED = 1,            /**< Not executed: the connection had ended. */
  DAT_DTO_ERR_LOCAL_LENGTH = 2,       /**< The message did not fit the receive buffer. */
  DAT_DTO_ERR_LOCAL_EP = 3,           /**< Fault of the local transport endpoint. */
  DAT_DTO_ERR_LOCAL_PROTECTION = 4,   /**< Local segment: PZ, range, right, or freed LMR. */
  DAT_DTO_ERR_BAD_RESPONSE = 5,       /**< The peer's response was not valid. */
  DAT_DTO_ERR_REMOTE_ACCESS = 6,      /**< The peer refused: context, range, right or PZ. */
  DAT_DTO_ERR_REMOTE_RESPONDER = 7,   /**< The peer failed: a buffer too small, for example. */
  DAT_DTO_ERR_TRANSPORT = 8,          /**< Link or peer lost, retries exhausted. */
  DAT_DTO_ERR_RECEIVER_NOT_READY = 9, /**< The peer had no receive buffer. */
  DAT_DTO_ERR_PARTIAL_PACKET = 10,
  DAT_RMR_OPERATION_FAILED = 11,  /**< The bind failed. */
  DAT_DTO_ERR_LOCAL_MM_ERROR = 12 /**< Kernel level only. */
} DAT_DTO_COMPLETION_STATUS;

/** @name Older names. @{ */
#define DAT_DTO_LENGTH_ERROR DAT_DTO_ERR_LOCAL_LENGTH
#define DAT_DTO_FAILURE DAT_DTO_ERR_FLUSHED
#define DAT_RMR_BIND_COMPLETION_STATUS DAT_DTO_COMPLETION_STATUS
#define DAT_RMR_BIND_SUCCESS DAT_DTO_SUCCESS
#define DAT_RMR_BIND_FAILURE DAT_DTO_ERR_FLUSHED
/** @} */

/** Data of DAT_DTO_COMPLETION_EVENT. */
typedef struct dat_dto_completion_event_data {
  DAT_EP_HANDLE ep_handle;    /**< The EP; for an SRQ receive, the EP that took the buffer. */
  DAT_DTO_COOKIE user_cookie; /**< As posted. */
  DAT_DTO_COMPLETION_STATUS status;
  DAT_SEG_LENGTH transfered_length; /**< Bytes moved; valid on success only. */
  DAT_DTOS operation;
  DAT_RMR_CONTEXT rmr_context; /**< RECEIVE_WITH_INVALIDATE, success: the context invalidated. */
} DAT_DTO_COMPLETION_EVENT_DATA;

/** Data of DAT_RMR_BIND_COMPLETION_EVENT. */
typedef struct dat_rmr_bind_completion_event_data {
  DAT_RMR_HANDLE rmr_handle;
  DAT_RMR_COOKIE user_cookie;       /**< As given to dat_rmr_bind(). */
  DAT_DTO_COMPLETION_STATUS status; /**< SUCCESS, FLUSHED or DAT_RMR_OPERATION_FAILED. */
} DAT_RMR_BIND_COMPLETION_EVENT_DATA;

typedef union dat_sp_handle {
  DAT_RSP_HANDLE rsp_handle;
  DAT_PSP_HANDLE psp_handle;
  DAT_CSP_HANDLE csp_handle;
} DAT_SP_HANDLE;

/** Data of DAT_CONNECTION_REQUEST_EVENT. */
typedef struct dat_cr_arrival_event_data {
  DAT_SP_HANDLE sp_handle; /**< Where it arrived. An RSP no longer exists: compare only. */
  DAT_IA_ADDRESS_PTR local_ia_address_ptr; /**< Address it arrived at; valid while the CR exists. */
  DAT_CONN_QUAL conn_qual;                 /**< Of the service point. */
  DAT_CR_HANDLE cr_handle; /**< Owned by the application until accepted, rejected or handed off. */
  DAT_BOOLEAN truncate_flag; /**< DAT_TRUE if part of the private data was cut off. */
} DAT_CR_ARRIVAL_EVENT_DATA;

/** Data of the DAT_CONNECTION_EVENT_ numbers. */
typedef struct dat_connection_event_data {
  DAT_EP_HANDLE ep_handle;
  DAT_COUNT private_data_size; /**< In bytes. 0 except on the active side in ESTABLISHED and
                                    PEER_REJECTED. */
  DAT_PVOID private_data;      /**< What the peer passed to accept or reject; zeros follow. Valid
                                    until the EP is reset or freed; if dequeued later, briefly. */
} DAT_CONNECTION_EVENT_DATA;

/** @name Reasons of asynchronous events, by kind of object. @{ */
typedef enum ia_async_error_reason {
  DAT_IA_CATASTROPHIC_ERROR = 0,
  DAT_IA_OTHER_ERROR = 1
} DAT_IA_ASYNC_ERROR_REASON;

typedef enum ep_async_error_reason {
  DAT_EP_TRANSFER_TO_ERROR = 0, /**< The transport endpoint went into its error state. */
  DAT_EP_OTHER_ERROR = 1,
  DAT_SRQ_SOFT_HIGH_WATERMARK_EVENT = 2 /**< More receive buffers in use than the watermark. */
} DAT_EP_ASYNC_ERROR_REASON;

typedef enum evd_async_error_reason {
  DAT_EVD_OVERFLOW_ERROR = 0,
  DAT_EVD_OTHER_ERROR = 1
} DAT_EVD_ASYNC_ERROR_REASON;

typedef enum srq_async_error_reason {
  DAT_SRQ_TRANSFER_TO_ERROR = 0, /**< The SRQ went into DAT_SRQ_STATE_ERROR. */
  DAT_SRQ_OTHER_ERROR = 1,
  DAT_SRQ_LOW_WATERMARK_EVENT = 2 /**< Fewer buffers left than the watermark. */
} DAT_SRQ_ASYNC_ERROR_REASON;

typedef enum lmr_async_error_reason { DAT_LMR_OTHER_ERROR = 0 } DAT_LMR_ASYNC_ERROR_REASON;
typedef enum rmr_async_error_reason { DAT_RMR_OTHER_ERROR = 0 } DAT_RMR_ASYNC_ERROR_REASON;
typedef enum pz_async_error_reason { DAT_PZ_OTHER_ERROR = 0 } DAT_PZ_ASYNC_ERROR_REASON;
/** @} */

/** Data of asynchronous events. */
typedef struct dat_asynch_error_event_data {
  DAT_HANDLE dat_handle; /**< The object concerned; dat_get_handle_type() returns its kind. */
  DAT_COUNT reason;      /**< A value of the enumeration above for that kind. */
} DAT_ASYNCH_ERROR_EVENT_DATA;

/** Data of DAT_SOFTWARE_EVENT. */
typedef struct dat_software_event_data {
  DAT_PVOID pointer; /**< As posted; DAT never dereferences it. */
} DAT_SOFTWARE_EVENT_DATA;

typedef union dat_event_data {
  DAT_DTO_COMPLETION_EVENT_DATA dto_completion_event_data;
  DAT_RMR_BIND_COMPLETION_EVENT_DATA rmr_completion_event_data;
  DAT_CR_ARRIVAL_EVENT_DATA cr_arrival_event_data;
  DAT_CONNECTION_EVENT_DATA connect_event_data;
  DAT_ASYNCH_ERROR_EVENT_DATA asynch_error_event_data;
  DAT_SOFTWARE_EVENT_DATA software_event_data;
} DAT_EVENT_DATA;

/** An event. Bytes that the event number does not make valid are undefined. */
typedef struct dat_event {
  DAT_EVENT_NUMBER event_number;
  DAT_EVD_HANDLE evd_handle; /**< The EVD it was dequeued from. */
  DAT_EVENT_DATA event_data;
  DAT_UINT64 event_extension_data[8]; /**< For extensions, such as DAT_IB_EXTENSION_EVENT_DATA. */
} DAT_EVENT;

DAT_END_DECLS
