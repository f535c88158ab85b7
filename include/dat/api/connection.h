/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * The active side of connections: connecting an EP, and ending a connection from either side.
 *
 * Each connect call that succeeds is followed by exactly one event on the connect EVD of the EP:
 *
 *     ESTABLISHED        the EP is CONNECTED; the event may carry data of the peer
 *     PEER_REJECTED      the peer's application refused; the event may carry data of the peer
 *     NON_PEER_REJECTED  no listener, backlog full, service not supported by the peer
 *     TIMED_OUT          no answer in the time given
 *     UNREACHABLE        no route, no such host
 *     DISCONNECTED       dat_ep_disconnect() was called meanwhile
 *
 * After all but the first the EP is DISCONNECTED, its receives are flushed, and it needs
 * dat_ep_reset() before it can be connected again. After the first, one DISCONNECTED or BROKEN
 * event ends the connection.
 */
#pragma once

#include <dat/api/types.h>

DAT_BEGIN_DECLS

/** Whether a connection uses several paths. */
typedef enum dat_connect_flags {
  DAT_CONNECT_DEFAULT_FLAG = 0x00,           /**< One path. */
  DAT_CONNECT_MULTIPATH_FLAG = 0x01,         /**< Several if possible. */
  DAT_CONNECT_MULTIPATH_REQUIRED_FLAG = 0x02 /**< Several, or fail. */
} DAT_CONNECT_FLAGS;

/** Newer name of DAT_CONNECT_MULTIPATH_FLAG. */
#define DAT_CONNECT_MULTIPATH_REQUESTED_FLAG DAT_CONNECT_MULTIPATH_FLAG

/**
 * Connect to a PSP or RSP. On success the EP is ACTIVE_CONNECTION_PENDING.
 *
 * @param[in] ep_handle           EP in state UNCONNECTED with PZ and connect EVD
 * @param[in] remote_ia_address   address of the peer (sockaddr_in, sockaddr_in6, sockaddr_ib), its
 *                                port is ignored; not kept
 * @param[in] remote_conn_qual    where the peer listens; 64 bits, as for dat_psp_create()
 * @param[in] timeout             microseconds until TIMED_OUT, including the time that the peer
 *                                takes to decide; not 0; or DAT_TIMEOUT_INFINITE
 * @param[in] private_data_size   in bytes, up to max_private_data_size
 * @param[in] private_data        for the peer, in its CR; may be null if the size is 0; not kept
 * @param[in] quality_of_service  one of dat_qos_supported
 * @param[in] connect_flags
 *
 * Events: see the top of this file.
 *
 * @retval DAT_INVALID_HANDLE          `ep_handle`
 * @retval DAT_INVALID_PARAMETER       null address (DAT_INVALID_ARG2), timeout 0 (ARG4), size
 *                                     negative or too large (ARG5), null data with a size (ARG6),
 *                                     unknown flag (ARG8)
 * @retval DAT_INVALID_ADDRESS         an address that cannot be connected to
 * @retval DAT_INVALID_STATE           the EP is in another state, or lacks PZ or connect EVD
 *                                     (DAT_INVALID_STATE_EP_NOTREADY)
 * @retval DAT_MODEL_NOT_SUPPORTED     quality of service, or several paths
 * @retval DAT_INSUFFICIENT_RESOURCES  out of memory or transport resources
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_ep_connect
 */
DAT_EXPORT DAT_RETURN DAT_API dat_ep_connect(DAT_EP_HANDLE ep_handle,
                                             DAT_IA_ADDRESS_PTR remote_ia_address,
                                             DAT_CONN_QUAL remote_conn_qual, DAT_TIMEOUT timeout,
                                             DAT_COUNT private_data_size, DAT_PVOID private_data,
                                             DAT_QOS quality_of_service,
                                             DAT_CONNECT_FLAGS connect_flags);

/**
 * Connect with the address, qualifier and flags that another EP has connected with. If a different
 * service point listens there by now, that one answers.
 *
 * @param[in] ep_handle           EP in state UNCONNECTED with PZ and connect EVD
 * @param[in] ep_dup_handle       EP that was connected by dat_ep_connect() and is CONNECTED; one
 *                                that has accepted its connection gets NON_PEER_REJECTED, as its
 *                                peer does not listen where it connected from
 * @param[in] timeout             microseconds as in dat_ep_connect()
 * @param[in] private_data_size   in bytes, up to max_private_data_size
 * @param[in] private_data        for the peer, in its CR; may be null if the size is 0; not kept
 * @param[in] quality_of_service  one of dat_qos_supported
 *
 * Events: see the top of this file.
 *
 * @retval DAT_INVALID_HANDLE          `ep_handle` or `ep_dup_handle`
 * @retval DAT_INVALID_PARAMETER       timeout 0 (DAT_INVALID_ARG3), size negative or too large
 *                                     (ARG4), null data with a size (ARG5)
 * @retval DAT_INVALID_STATE           one of the EPs is in another state, or `ep_handle` lacks PZ
 *                                     or connect EVD
 * @retval DAT_MODEL_NOT_SUPPORTED     quality of service
 * @retval DAT_INSUFFICIENT_RESOURCES  out of memory or transport resources
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_ep_dup_connect
 */
DAT_EXPORT DAT_RETURN DAT_API dat_ep_dup_connect(DAT_EP_HANDLE ep_handle,
                                                 DAT_EP_HANDLE ep_dup_handle, DAT_TIMEOUT timeout,
                                                 DAT_COUNT private_data_size,
                                                 DAT_PVOID private_data,
                                                 DAT_QOS quality_of_service);

/**
 * Connect to a CSP.
 *
 * @param[in] ep_handle          EP in state UNCONNECTED with PZ, connect EVD and `comm`
 * @param[in] remote_ia_address  IP address and port of the CSP; not kept
 * @param[in] timeout            microseconds as in dat_ep_connect()
 * @param[in] private_data_size  in bytes, up to max_private_data_size
 * @param[in] private_data       for the peer, in its CR; may be null if the size is 0; not kept
 *
 * Events: see the top of this file.
 *
 * @retval DAT_INVALID_HANDLE          `ep_handle`
 * @retval DAT_INVALID_PARAMETER       null address, timeout 0, size negative or too large, null
 *                                     data with a size
 * @retval DAT_INVALID_ADDRESS         an address that cannot be connected to
 * @retval DAT_INVALID_STATE           the EP is in another state, or lacks PZ, connect EVD or
 *                                     `comm`
 * @retval DAT_MODEL_NOT_SUPPORTED     the provider has no CSPs
 * @retval DAT_INSUFFICIENT_RESOURCES  out of memory or transport resources
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_ep_common_connect
 */
DAT_EXPORT DAT_RETURN DAT_API dat_ep_common_connect(DAT_EP_HANDLE ep_handle,
                                                    DAT_IA_ADDRESS_PTR remote_ia_address,
                                                    DAT_TIMEOUT timeout,
                                                    DAT_COUNT private_data_size,
                                                    DAT_PVOID private_data);

/**
 * End the connection, or abandon the attempt to establish one.
 *
 * Abrupt: outstanding posts complete with FLUSHED; transfers in progress may succeed or fail.
 * Graceful: no new requests are accepted, and posted ones complete before the connection ends in
 * the same way; while they do, the EP is DISCONNECT_PENDING. While the EP is connecting, both are
 * abrupt. An EP that is already DISCONNECTED is left unchanged, without an event.
 *
 * @param[in] ep_handle
 * @param[in] close_flags  DAT_CLOSE_GRACEFUL_FLAG; any other value means DAT_CLOSE_ABRUPT_FLAG
 *
 * Events, on the connect EVD of both sides: DISCONNECTED. Completions may still arrive after it.
 *
 * @retval DAT_INVALID_HANDLE          `ep_handle`
 * @retval DAT_INVALID_STATE           there is nothing to end: UNCONNECTED, RESERVED, or with an
 *                                     unanswered CR
 * @retval DAT_INSUFFICIENT_RESOURCES  out of transport resources
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_ep_disconnect
 */
DAT_EXPORT DAT_RETURN DAT_API dat_ep_disconnect(DAT_EP_HANDLE ep_handle,
                                                DAT_CLOSE_FLAGS close_flags);

DAT_END_DECLS
