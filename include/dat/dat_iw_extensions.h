/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * iWARP extensions: turning a TCP connection that the application has made into a DAT connection.
 *
 * An IA has them if extension_supported of DAT_IA_ATTR is DAT_EXTENSION_IW. A provider without
 * them returns DAT_NOT_IMPLEMENTED. All are macros around dat_extension_op() that convert their
 * arguments and yield a DAT_RETURN.
 */
#pragma once

#include <dat/udat.h>

DAT_BEGIN_DECLS

/** @name Provider attributes that say which extensions there are. @{ */
#define DAT_EXTENSION_ATTR "DAT_EXTENSION_INTERFACE"
#define DAT_EXTENSION_ATTR_VERSION "DAT_EXTENSION_VERSION"
#define DAT_EXTENSION_ATTR_VERSION_VALUE "2.0.1"
#define DAT_IW_ATTR_SSP "DAT_IW_ATTR_SSP"
/** @} */

/** Operations of dat_extension_op(). */
typedef enum dat_iw_op {
  DAT_IW_SSP_CREATE_OP = 0,
  DAT_IW_SSP_FREE_OP = 1,
  DAT_IW_SSP_QUERY_OP = 2,
  DAT_IW_SOCKET_CONNECT_OP = 3
} DAT_IW_OP;

/** For DAT_HANDLE_TYPE. */
typedef enum dat_handle_iw_ext_type { DAT_IW_HANDLE_TYPE_SSP = 12 } DAT_HANDLE_IW_EXT_TYPE;

typedef DAT_HANDLE DAT_IW_SSP_HANDLE; /**< Socket service point: waits on a connected socket. */
typedef int DAT_IW_SOCKET;            /**< File descriptor of a connected TCP socket. */

typedef enum dat_iw_ssp_state {
  DAT_IW_SSP_STATE_OPERATIONAL = 0,
  DAT_IW_SSP_STATE_NON_OPERATIONAL = 1
} DAT_IW_SSP_STATE;

/** What dat_iw_ssp_query() returns. */
typedef struct dat_iw_ssp_param {
  DAT_IA_HANDLE ia_handle;
  DAT_IW_SOCKET socket_id;
  DAT_EVD_HANDLE evd_handle;
  DAT_EP_HANDLE ep_handle;
  DAT_IW_SSP_STATE ssp_state;
} DAT_IW_SSP_PARAM;

/** Fields of DAT_IW_SSP_PARAM; a set. */
typedef enum dat_iw_ssp_param_mask {
  DAT_IW_SSP_FIELD_IA_HANDLE = 0x01,
  DAT_IW_SSP_FIELD_SOCKET_ID = 0x02,
  DAT_IW_SSP_FIELD_EVD_HANDLE = 0x04,
  DAT_IW_SSP_FIELD_EP_HANDLE = 0x08,
  DAT_IW_SSP_FIELD_SSP_STATE = 0x10,
  DAT_IW_SSP_FIELD_ALL = 0x1f
} DAT_IW_SSP_PARAM_MASK;

/**
 * @name The passive side: a service point for one request, on a socket.
 *
 * ia                in: the IA
 * socket_id         in, DAT_IW_SOCKET: the socket
 * ep_handle         in: EP in state UNCONNECTED, as for dat_rsp_create()
 * evd_handle        in: EVD with DAT_EVD_CR_FLAG
 * final_sm_msg      in: last message to send on the socket as a plain stream, or null
 * final_sm_msg_len  in, DAT_COUNT: its length in bytes
 * ssp_handle        create: out, DAT_IW_SSP_HANDLE*; others: in
 * ssp_param_mask    in, DAT_IW_SSP_PARAM_MASK: fields wanted
 * ssp_param         out, DAT_IW_SSP_PARAM*: structure to fill
 * @{
 */
#define dat_iw_ssp_create(ia, socket_id, ep_handle, evd_handle, final_sm_msg, final_sm_msg_len, \
                          ssp_handle)                                                           \
  dat_extension_op((DAT_HANDLE)(ia), (DAT_EXTENDED_OP)DAT_IW_SSP_CREATE_OP,                     \
                   (DAT_IW_SOCKET)(socket_id), (DAT_EP_HANDLE)(ep_handle),                      \
                   (DAT_EVD_HANDLE)(evd_handle), (DAT_PVOID)(final_sm_msg),                     \
                   (DAT_COUNT)(final_sm_msg_len), (DAT_IW_SSP_HANDLE*)(ssp_handle))
#define dat_iw_ssp_free(ssp_handle) \
  dat_extension_op((DAT_HANDLE)(ssp_handle), (DAT_EXTENDED_OP)DAT_IW_SSP_FREE_OP)
#define dat_iw_ssp_query(ssp_handle, ssp_param_mask, ssp_param)                    \
  dat_extension_op((DAT_HANDLE)(ssp_handle), (DAT_EXTENDED_OP)DAT_IW_SSP_QUERY_OP, \
                   (DAT_IW_SSP_PARAM_MASK)(ssp_param_mask), (DAT_IW_SSP_PARAM*)(ssp_param))
/** @} */

/**
 * The active side: connect an EP over a socket; otherwise as dat_ep_connect().
 *
 * ep_handle          in: EP in state UNCONNECTED
 * socket_id          in, DAT_IW_SOCKET: the socket
 * timeout            in, DAT_TIMEOUT: microseconds
 * private_data_size  in, DAT_COUNT: bytes
 * private_data       in: for the peer, in its CR
 */
#define dat_iw_socket_connect(ep_handle, socket_id, timeout, private_data_size, private_data) \
  dat_extension_op((DAT_HANDLE)(ep_handle), (DAT_EXTENDED_OP)DAT_IW_SOCKET_CONNECT_OP,        \
                   (DAT_IW_SOCKET)(socket_id), (DAT_TIMEOUT)(timeout),                        \
                   (DAT_COUNT)(private_data_size), (DAT_PVOID)(private_data))

DAT_END_DECLS
