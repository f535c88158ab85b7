/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file iWARP extensions. */
#pragma once

#include <dat/udat.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum dat_handle_iw_ext_type { DAT_IW_HANDLE_TYPE_SSP = 12 } DAT_HANDLE_IW_EXT_TYPE;

typedef enum dat_iw_ssp_state {
  DAT_IW_SSP_STATE_OPERATIONAL = 0,
  DAT_IW_SSP_STATE_NON_OPERATIONAL = 1
} DAT_IW_SSP_STATE;

typedef enum dat_iw_ssp_param_mask {
  DAT_IW_SSP_FIELD_IA_HANDLE = 0x1,
  DAT_IW_SSP_FIELD_SOCKET_ID = 0x2,
  DAT_IW_SSP_FIELD_EVD_HANDLE = 0x4,
  DAT_IW_SSP_FIELD_EP_HANDLE = 0x8,
  DAT_IW_SSP_FIELD_SSP_STATE = 0x10,
  DAT_IW_SSP_FIELD_ALL = 0x1f
} DAT_IW_SSP_PARAM_MASK;

typedef enum dat_iw_op {
  DAT_IW_SSP_CREATE_OP = 0,
  DAT_IW_SSP_FREE_OP = 1,
  DAT_IW_SSP_QUERY_OP = 2,
  DAT_IW_SOCKET_CONNECT_OP = 3
} DAT_IW_OP;

typedef DAT_HANDLE DAT_IW_SSP_HANDLE;
typedef int DAT_IW_SOCKET;

typedef struct dat_iw_ssp_param {
  DAT_IA_HANDLE ia_handle;
  DAT_IW_SOCKET socket_id;
  DAT_EVD_HANDLE evd_handle;
  DAT_EP_HANDLE ep_handle;
  DAT_IW_SSP_STATE ssp_state;
} DAT_IW_SSP_PARAM;

#define DAT_EXTENSION_ATTR "DAT_EXTENSION_INTERFACE"
#define DAT_EXTENSION_ATTR_VERSION "DAT_EXTENSION_VERSION"
#define DAT_EXTENSION_ATTR_VERSION_VALUE "2.0.1"
#define DAT_IW_ATTR_SSP "DAT_IW_ATTR_SSP"
#define dat_iw_ssp_create(ia, socket_id, ep_handle, evd_handle, final_sm_msg, final_sm_msg_len, \
                          ssp_handle)                                                           \
  dat_extension_op((DAT_HANDLE)(ia), (DAT_EXTENDED_OP)DAT_IW_SSP_CREATE_OP, (socket_id),        \
                   (ep_handle), (evd_handle), (final_sm_msg), (final_sm_msg_len), (ssp_handle))
#define dat_iw_ssp_free(ssp_handle) \
  dat_extension_op((DAT_HANDLE)(ssp_handle), (DAT_EXTENDED_OP)DAT_IW_SSP_FREE_OP)
#define dat_iw_ssp_query(ssp_handle, ssp_param_mask, ssp_param)                    \
  dat_extension_op((DAT_HANDLE)(ssp_handle), (DAT_EXTENDED_OP)DAT_IW_SSP_QUERY_OP, \
                   (ssp_param_mask), (ssp_param))
#define dat_iw_socket_connect(ep_handle, socket_id, timeout, private_data_size, private_data) \
  dat_extension_op((DAT_HANDLE)(ep_handle), (DAT_EXTENDED_OP)DAT_IW_SOCKET_CONNECT_OP,        \
                   (socket_id), (timeout), (private_data_size), (private_data))

#ifdef __cplusplus
}
#endif
