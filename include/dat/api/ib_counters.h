/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * InfiniBand extensions: counters of an IA, an EP or an EVD. Part of dat/dat_ib_extensions.h.
 *
 * All counters are 64 bits wide and start at 0 with their object. A provider without them returns
 * DAT_NOT_IMPLEMENTED.
 */
#pragma once

#include <dat/api/handle.h>
#include <dat/api/ib_operation.h>

DAT_BEGIN_DECLS

/** Counters of an IA. */
typedef enum dat_ia_counters {
  /* Calls of the API. */
  DCNT_IA_PZ_CREATE = 0,
  DCNT_IA_PZ_FREE = 1,
  DCNT_IA_LMR_CREATE = 2,
  DCNT_IA_LMR_FREE = 3,
  DCNT_IA_RMR_CREATE = 4,
  DCNT_IA_RMR_FREE = 5,
  DCNT_IA_PSP_CREATE = 6,
  DCNT_IA_PSP_CREATE_ANY = 7,
  DCNT_IA_PSP_FREE = 8,
  DCNT_IA_RSP_CREATE = 9,
  DCNT_IA_RSP_FREE = 10,
  DCNT_IA_EVD_CREATE = 11,
  DCNT_IA_EVD_FREE = 12,
  DCNT_IA_EP_CREATE = 13,
  DCNT_IA_EP_FREE = 14,
  DCNT_IA_SRQ_CREATE = 15,
  DCNT_IA_SRQ_FREE = 16,

  /* Connection requests and their outcomes. */
  DCNT_IA_SP_CR = 17,
  DCNT_IA_SP_CR_ACCEPTED = 18,
  DCNT_IA_SP_CR_REJECTED = 19,

  /* Memory of the provider: allocations, bytes allocated, frees. */
  DCNT_IA_MEM_ALLOC = 20,
  DCNT_IA_MEM_ALLOC_DATA = 21,
  DCNT_IA_MEM_FREE = 22,

  /* Asynchronous errors, in total and by object. */
  DCNT_IA_ASYNC_ERROR = 23,
  DCNT_IA_ASYNC_QP_ERROR = 24,
  DCNT_IA_ASYNC_CQ_ERROR = 25,

  /* Messages of the connection manager (DCNT_IA_CM): TX sent, RX received. */
  DCNT_IA_CM_LISTEN = 26,
  DCNT_IA_CM_REQ_TX = 27,
  DCNT_IA_CM_REQ_RX = 28,
  DCNT_IA_CM_REP_TX = 29,
  DCNT_IA_CM_REP_RX = 30,
  DCNT_IA_CM_RTU_TX = 31,
  DCNT_IA_CM_RTU_RX = 32,
  DCNT_IA_CM_USER_REJ_TX = 33,
  DCNT_IA_CM_USER_REJ_RX = 34,
  DCNT_IA_CM_ACTIVE_EST = 35,
  DCNT_IA_CM_PASSIVE_EST = 36,
  DCNT_IA_CM_AH_REQ_TX = 37,
  DCNT_IA_CM_AH_REQ_RX = 38,
  DCNT_IA_CM_AH_RESOLVED = 39,
  DCNT_IA_CM_DREQ_TX = 40,
  DCNT_IA_CM_DREQ_RX = 41,
  DCNT_IA_CM_DREP_TX = 42,
  DCNT_IA_CM_DREP_RX = 43,
  DCNT_IA_CM_MRA_TX = 44,
  DCNT_IA_CM_MRA_RX = 45,
  DCNT_IA_CM_REQ_FULLQ_POLL = 46,

  /* Errors of the connection manager: DUP received twice, RETRY sent again. */
  DCNT_IA_CM_ERR = 47,
  DCNT_IA_CM_ERR_REQ_FULLQ = 48,
  DCNT_IA_CM_ERR_REQ_DUP = 49,
  DCNT_IA_CM_ERR_REQ_RETRY = 50,
  DCNT_IA_CM_ERR_REP_DUP = 51,
  DCNT_IA_CM_ERR_REP_RETRY = 52,
  DCNT_IA_CM_ERR_RTU_DUP = 53,
  DCNT_IA_CM_ERR_RTU_RETRY = 54,
  DCNT_IA_CM_ERR_REFUSED = 55,
  DCNT_IA_CM_ERR_RESET = 56,
  DCNT_IA_CM_ERR_TIMEOUT = 57,
  DCNT_IA_CM_ERR_REJ_TX = 58,
  DCNT_IA_CM_ERR_REJ_RX = 59,
  DCNT_IA_CM_ERR_DREQ_DUP = 60,
  DCNT_IA_CM_ERR_DREQ_RETRY = 61,
  DCNT_IA_CM_ERR_DREP_DUP = 62,
  DCNT_IA_CM_ERR_DREP_RETRY = 63,
  DCNT_IA_CM_ERR_MRA_DUP = 64,
  DCNT_IA_CM_ERR_MRA_RETRY = 65,
  DCNT_IA_CM_ERR_UNEXPECTED = 66,

  /* Errors of the link, as the port counts them (DCNT_IA_LNK). */
  DCNT_IA_LNK_ERR_RCV = 67,
  DCNT_IA_LNK_ERR_RCV_REM_PHYS = 68,
  DCNT_IA_LNK_ERR_RCV_CONSTRAINT = 69,
  DCNT_IA_LNK_ERR_XMT_DISCARDS = 70,
  DCNT_IA_LNK_ERR_XMT_CONTRAINT = 71,
  DCNT_IA_LNK_ERR_INTEGRITY = 72,
  DCNT_IA_LNK_ERR_EXC_BUF_OVERRUN = 73,
  DCNT_IA_LNK_WARN_RCV_SW_RELAY = 74,
  DCNT_IA_LNK_WARN_XMT_WAIT = 75,

  /* Diagnostic counters of the device (DCNT_IA_DIAG): RQ responder, SQ requester. */
  DCNT_IA_DIAG_ERR_RQ_RAE = 76,
  DCNT_IA_DIAG_ERR_RQ_OOS = 77,
  DCNT_IA_DIAG_ERR_RQ_RIRE = 78,
  DCNT_IA_DIAG_ERR_RQ_UDSDPRD = 79,
  DCNT_IA_DIAG_ERR_SQ_RAE = 80,
  DCNT_IA_DIAG_ERR_SQ_OOS = 81,
  DCNT_IA_DIAG_ERR_SQ_RIRE = 82,
  DCNT_IA_DIAG_ERR_SQ_RREE = 83,
  DCNT_IA_DIAG_ERR_SQ_TREE = 84,

  /* Selects all; also their number. */
  DCNT_IA_ALL_COUNTERS = 85
} DAT_IA_COUNTERS;

/** Counters of an EP. */
typedef enum dat_ep_counters {
  DCNT_EP_CONNECT = 0,
  DCNT_EP_DISCONNECT = 1,

  /* Posts; _DATA: their bytes. */
  DCNT_EP_POST_SEND = 2,
  DCNT_EP_POST_SEND_DATA = 3,
  DCNT_EP_POST_SEND_UD = 4,
  DCNT_EP_POST_SEND_UD_DATA = 5,
  DCNT_EP_POST_RECV = 6,
  DCNT_EP_POST_RECV_DATA = 7,
  DCNT_EP_POST_WRITE = 8,
  DCNT_EP_POST_WRITE_DATA = 9,
  DCNT_EP_POST_WRITE_IMM = 10,
  DCNT_EP_POST_WRITE_IMM_DATA = 11,
  DCNT_EP_POST_READ = 12,
  DCNT_EP_POST_READ_DATA = 13,
  DCNT_EP_POST_CMP_SWAP = 14,
  DCNT_EP_POST_FETCH_ADD = 15,

  /* Completed receives; _DATA: their bytes. */
  DCNT_EP_RECV = 16,
  DCNT_EP_RECV_DATA = 17,
  DCNT_EP_RECV_UD = 18,
  DCNT_EP_RECV_UD_DATA = 19,
  DCNT_EP_RECV_IMM = 20,
  DCNT_EP_RECV_IMM_DATA = 21,
  DCNT_EP_RECV_RDMA_IMM = 22,
  DCNT_EP_RECV_RDMA_IMM_DATA = 23,

  /* Selects all; also their number. */
  DCNT_EP_ALL_COUNTERS = 24
} DAT_EP_COUNTERS;

/** Counters of an EVD. */
typedef enum dat_evd_counters {
  DCNT_EVD_WAIT = 0,         /**< Calls of dat_evd_wait(). */
  DCNT_EVD_WAIT_BLOCKED = 1, /**< ... that went to sleep. */
  DCNT_EVD_WAIT_NOTIFY = 2,  /**< ... that were woken. */
  DCNT_EVD_DEQUEUE = 3,      /**< Calls of dat_evd_dequeue(). */
  DCNT_EVD_DEQUEUE_FOUND = 4,
  DCNT_EVD_DEQUEUE_NOT_FOUND = 5,
  DCNT_EVD_DEQUEUE_POLL = 6, /**< Polls of the device queue. */
  DCNT_EVD_DEQUEUE_POLL_FOUND = 7,
  DCNT_EVD_CONN_CALLBACK = 8, /**< Connection events that arrived. */
  DCNT_EVD_DTO_CALLBACK = 9,  /**< Notifications of the device queue. */
  DCNT_EVD_ALL_COUNTERS = 10  /**< Selects all; also their number. */
} DAT_EVD_COUNTERS;

/** Groups of IA counters that are collected on demand. */
typedef enum dat_ia_counter_type {
  DCNT_IA_CM = 0,  /**< Connection manager. */
  DCNT_IA_LNK = 1, /**< Link. */
  DCNT_IA_DIAG = 2 /**< Device diagnostics. */
} DAT_IA_COUNTER_TYPE;

/**
 * Read counters.
 *
 * dat_handle   in: IA, EP or EVD
 * cntr         in: a counter of that kind of object, or its _ALL_COUNTERS
 * p_cntrs_out  out, DAT_UINT64*: the value; for _ALL_COUNTERS an array of that many values
 * reset        in: non-zero to set what was read to 0
 */
#define dat_ib_query_counters(dat_handle, cntr, p_cntrs_out, reset)                     \
  dat_extension_op((DAT_HANDLE)(dat_handle), (DAT_EXTENDED_OP)DAT_IB_QUERY_COUNTERS_OP, \
                   (int)(cntr), (DAT_UINT64*)(p_cntrs_out), (int)(reset))

/** Print counters on standard output. Arguments as dat_ib_query_counters(). */
#define dat_ib_print_counters(dat_handle, cntr, reset)                                  \
  dat_extension_op((DAT_HANDLE)(dat_handle), (DAT_EXTENDED_OP)DAT_IB_PRINT_COUNTERS_OP, \
                   (int)(cntr), (int)(reset))

/** Start or stop collecting a group of counters (DAT_IA_COUNTER_TYPE) of an IA. */
#define dat_ib_start_counter(dat_handle, type)                                          \
  dat_extension_op((DAT_HANDLE)(dat_handle), (DAT_EXTENDED_OP)DAT_IB_START_COUNTERS_OP, \
                   (DAT_IA_COUNTER_TYPE)(type))
#define dat_ib_stop_counter(dat_handle, type)                                          \
  dat_extension_op((DAT_HANDLE)(dat_handle), (DAT_EXTENDED_OP)DAT_IB_STOP_COUNTERS_OP, \
                   (DAT_IA_COUNTER_TYPE)(type))

/** @name Older names. @{ */
#define DAT_ATTR_COUNTERS DAT_IB_ATTR_COUNTERS
#define dat_query_counters dat_ib_query_counters
#define dat_print_counters dat_ib_print_counters
#define DAT_QUERY_COUNTERS_OP DAT_IB_QUERY_COUNTERS_OP
#define DAT_PRINT_COUNTERS_OP DAT_IB_PRINT_COUNTERS_OP
/** @} */

DAT_END_DECLS
