/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file Events. */
#pragma once

#include <dat/api/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum dat_event_number {
  DAT_DTO_COMPLETION_EVENT = 0x1,
  DAT_RMR_BIND_COMPLETION_EVENT = 0x1001,
  DAT_CONNECTION_REQUEST_EVENT = 0x2001,
  DAT_CONNECTION_EVENT_ESTABLISHED = 0x4001,
  DAT_CONNECTION_EVENT_PEER_REJECTED = 0x4002,
  DAT_CONNECTION_EVENT_NON_PEER_REJECTED = 0x4003,
  DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR = 0x4004,
  DAT_CONNECTION_EVENT_DISCONNECTED = 0x4005,
  DAT_CONNECTION_EVENT_BROKEN = 0x4006,
  DAT_CONNECTION_EVENT_TIMED_OUT = 0x4007,
  DAT_CONNECTION_EVENT_UNREACHABLE = 0x4008,
  DAT_ASYNC_ERROR_EVD_OVERFLOW = 0x8001,
  DAT_ASYNC_ERROR_IA_CATASTROPHIC = 0x8002,
  DAT_ASYNC_ERROR_EP_BROKEN = 0x8003,
  DAT_ASYNC_ERROR_TIMED_OUT = 0x8004,
  DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR = 0x8005,
  DAT_HA_DOWN_TO_1 = 0x8101,
  DAT_HA_UP_TO_MULTI_PATH = 0x8102,
  DAT_SOFTWARE_EVENT = 0x00010001,
  DAT_EXTENSION_EVENT = 0x00020000,
  DAT_IB_EXTENSION_RANGE_BASE = 0x00040000,
  DAT_IW_EXTENSION_RANGE_BASE = 0x00080000
} DAT_EVENT_NUMBER;

typedef enum dat_dto_completion_status {
  DAT_DTO_SUCCESS = 0,
  DAT_DTO_ERR_FLUSHED = 1,
  DAT_DTO_ERR_LOCAL_LENGTH = 2,
  DAT_DTO_ERR_LOCAL_EP = 3,
  DAT_DTO_ERR_LOCAL_PROTECTION = 4,
  DAT_DTO_ERR_BAD_RESPONSE = 5,
  DAT_DTO_ERR_REMOTE_ACCESS = 6,
  DAT_DTO_ERR_REMOTE_RESPONDER = 7,
  DAT_DTO_ERR_TRANSPORT = 8,
  DAT_DTO_ERR_RECEIVER_NOT_READY = 9,
  DAT_DTO_ERR_PARTIAL_PACKET = 10,
  DAT_RMR_OPERATION_FAILED = 11,
  DAT_DTO_ERR_LOCAL_MM_ERROR = 12
} DAT_DTO_COMPLETION_STATUS;

#define DAT_DTO_LENGTH_ERROR DAT_DTO_ERR_LOCAL_LENGTH
#define DAT_DTO_FAILURE DAT_DTO_ERR_FLUSHED

typedef struct dat_dto_completion_event_data {
  DAT_EP_HANDLE ep_handle;
  DAT_DTO_COOKIE user_cookie;
  DAT_DTO_COMPLETION_STATUS status;
  DAT_SEG_LENGTH transfered_length;
  DAT_DTOS operation;
  DAT_RMR_CONTEXT rmr_context;
} DAT_DTO_COMPLETION_EVENT_DATA;

#define DAT_RMR_BIND_COMPLETION_STATUS DAT_DTO_COMPLETION_STATUS
#define DAT_RMR_BIND_SUCCESS DAT_DTO_SUCCESS
#define DAT_RMR_BIND_FAILURE DAT_DTO_ERR_FLUSHED

typedef struct dat_rmr_bind_completion_event_data {
  DAT_RMR_HANDLE rmr_handle;
  DAT_RMR_COOKIE user_cookie;
  DAT_DTO_COMPLETION_STATUS status;
} DAT_RMR_BIND_COMPLETION_EVENT_DATA;

typedef union dat_sp_handle {
  DAT_RSP_HANDLE rsp_handle;
  DAT_PSP_HANDLE psp_handle;
  DAT_CSP_HANDLE csp_handle;
} DAT_SP_HANDLE;

typedef struct dat_cr_arrival_event_data {
  DAT_SP_HANDLE sp_handle;
  DAT_IA_ADDRESS_PTR local_ia_address_ptr;
  DAT_CONN_QUAL conn_qual;
  DAT_CR_HANDLE cr_handle;
  DAT_BOOLEAN truncate_flag;
} DAT_CR_ARRIVAL_EVENT_DATA;

typedef struct dat_connection_event_data {
  DAT_EP_HANDLE ep_handle;
  DAT_COUNT private_data_size;
  DAT_PVOID private_data;
} DAT_CONNECTION_EVENT_DATA;

typedef enum ia_async_error_reason {
  DAT_IA_CATASTROPHIC_ERROR = 0,
  DAT_IA_OTHER_ERROR = 1
} DAT_IA_ASYNC_ERROR_REASON;

typedef enum ep_async_error_reason {
  DAT_EP_TRANSFER_TO_ERROR = 0,
  DAT_EP_OTHER_ERROR = 1,
  DAT_SRQ_SOFT_HIGH_WATERMARK_EVENT = 2
} DAT_EP_ASYNC_ERROR_REASON;

typedef enum evd_async_error_reason {
  DAT_EVD_OVERFLOW_ERROR = 0,
  DAT_EVD_OTHER_ERROR = 1
} DAT_EVD_ASYNC_ERROR_REASON;

typedef enum srq_async_error_reason {
  DAT_SRQ_TRANSFER_TO_ERROR = 0,
  DAT_SRQ_OTHER_ERROR = 1,
  DAT_SRQ_LOW_WATERMARK_EVENT = 2
} DAT_SRQ_ASYNC_ERROR_REASON;

typedef enum lmr_async_error_reason { DAT_LMR_OTHER_ERROR = 0 } DAT_LMR_ASYNC_ERROR_REASON;

typedef enum rmr_async_error_reason { DAT_RMR_OTHER_ERROR = 0 } DAT_RMR_ASYNC_ERROR_REASON;

typedef enum pz_async_error_reason { DAT_PZ_OTHER_ERROR = 0 } DAT_PZ_ASYNC_ERROR_REASON;

typedef struct dat_asynch_error_event_data {
  DAT_HANDLE dat_handle;
  DAT_COUNT reason;
} DAT_ASYNCH_ERROR_EVENT_DATA;

typedef struct dat_software_event_data {
  DAT_PVOID pointer;
} DAT_SOFTWARE_EVENT_DATA;

typedef union dat_event_data {
  DAT_DTO_COMPLETION_EVENT_DATA dto_completion_event_data;
  DAT_RMR_BIND_COMPLETION_EVENT_DATA rmr_completion_event_data;
  DAT_CR_ARRIVAL_EVENT_DATA cr_arrival_event_data;
  DAT_CONNECTION_EVENT_DATA connect_event_data;
  DAT_ASYNCH_ERROR_EVENT_DATA asynch_error_event_data;
  DAT_SOFTWARE_EVENT_DATA software_event_data;
} DAT_EVENT_DATA;

typedef struct dat_event {
  DAT_EVENT_NUMBER event_number;
  DAT_EVD_HANDLE evd_handle;
  DAT_EVENT_DATA event_data;
  DAT_UINT64 event_extension_data[8];
} DAT_EVENT;

#ifdef __cplusplus
}
#endif
