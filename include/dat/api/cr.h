/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * CR, the connection request: a peer that waits for an answer. It is delivered with
 * DAT_CONNECTION_REQUEST_EVENT and exists until it is accepted, rejected or handed off, or until
 * the IA is closed. If a CR is ignored, the peer times out.
 */
#pragma once

#include <dat/api/types.h>

DAT_BEGIN_DECLS

/** What dat_cr_query() returns. The pointers are valid while the CR exists. */
typedef struct dat_cr_param {
  DAT_IA_ADDRESS_PTR remote_ia_address_ptr; /**< Address of the peer. */
  DAT_PORT_QUAL remote_port_qual;           /**< Port of the peer. */
  DAT_COUNT private_data_size;              /**< In bytes. */
  DAT_PVOID private_data; /**< What the peer passed to its connect call; zeros follow. Never null
                               here, other providers may report null if the size is 0. */
  DAT_EP_HANDLE local_ep_handle; /**< EP that comes with the CR (RSP, DAT_PSP_PROVIDER_FLAG); null
                                      if the application has to supply one. */
} DAT_CR_PARAM;

/** Fields of DAT_CR_PARAM; a set. */
typedef enum dat_cr_param_mask {
  DAT_CR_FIELD_REMOTE_IA_ADDRESS_PTR = 0x01,
  DAT_CR_FIELD_REMOTE_PORT_QUAL = 0x02,
  DAT_CR_FIELD_PRIVATE_DATA_SIZE = 0x04,
  DAT_CR_FIELD_PRIVATE_DATA = 0x08,
  DAT_CR_FIELD_LOCAL_EP_HANDLE = 0x10,
  DAT_CR_FIELD_ALL = 0x1f
} DAT_CR_PARAM_MASK;

/**
 * Get the address and the private data of the peer that requests a connection.
 *
 * @param[in]  cr_handle
 * @param[in]  cr_param_mask  fields wanted; others may be filled as well, unknown bits are ignored
 * @param[out] cr_param       structure to fill
 *
 * @retval DAT_INVALID_HANDLE     `cr_handle`
 * @retval DAT_INVALID_PARAMETER  `cr_param` is null
 *
 * Blocking: no. Threads: safe. Spec: uDAPL 2.0 dat_cr_query
 */
DAT_EXPORT DAT_RETURN DAT_API dat_cr_query(DAT_CR_HANDLE cr_handle, DAT_CR_PARAM_MASK cr_param_mask,
                                           DAT_CR_PARAM* cr_param);

/**
 * Accept: begin to establish the connection. On success the CR is destroyed and the EP is
 * COMPLETION_PENDING. Post receives before this call: the peer may send as soon as it is connected.
 * Requests may be posted after it; they are sent as soon as the peer is connected.
 * If the call fails, nothing changes for the CR, the EP or the peer.
 *
 * @param[in] cr_handle
 * @param[in] ep_handle          EP in state UNCONNECTED with PZ and connect EVD; null if the CR has
 *                               a local EP, which then must have PZ and connect EVD
 * @param[in] private_data_size  in bytes, up to max_private_data_size; providers may allow
 *                               more
 * @param[in] private_data       for the peer, in its ESTABLISHED event; may be null if the size
 *                               is 0; not kept
 *
 * Events, on the connect EVD of the EP: ESTABLISHED, and the EP is CONNECTED; or
 * ACCEPT_COMPLETION_ERROR, and the EP is DISCONNECTED and its receives and requests are flushed.
 *
 * @retval DAT_INVALID_HANDLE          `cr_handle`; `ep_handle`, or it is null and the CR has no EP,
 *                                     or not null and the CR has one
 * @retval DAT_INVALID_PARAMETER       size negative or too large (DAT_INVALID_ARG3), null data with
 *                                     a size (DAT_INVALID_ARG4)
 * @retval DAT_INVALID_STATE           the EP is in another state, or lacks PZ or connect EVD
 * @retval DAT_INSUFFICIENT_RESOURCES  out of memory or transport resources
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_cr_accept
 */
DAT_EXPORT DAT_RETURN DAT_API dat_cr_accept(DAT_CR_HANDLE cr_handle, DAT_EP_HANDLE ep_handle,
                                            DAT_COUNT private_data_size, DAT_PVOID private_data);

/**
 * Refuse the connection and destroy the CR. The EP of an RSP is UNCONNECTED again and keeps its
 * receives; an EP that the provider made is destroyed. If the peer has already given up, the call
 * succeeds.
 *
 * @param[in] cr_handle
 * @param[in] private_data_size  in bytes, up to max_private_data_size; providers may allow
 *                               more
 * @param[in] private_data       for the peer, in its PEER_REJECTED event; may be null if the size
 *                               is 0; not kept
 *
 * @retval DAT_INVALID_HANDLE     `cr_handle`
 * @retval DAT_INVALID_PARAMETER  size negative or too large (DAT_INVALID_ARG2), null data with a
 *                                size (DAT_INVALID_ARG3)
 *
 * Blocking: may wait for the transport. Threads: serialize. Spec: uDAPL 2.0 dat_cr_reject
 */
DAT_EXPORT DAT_RETURN DAT_API dat_cr_reject(DAT_CR_HANDLE cr_handle, DAT_COUNT private_data_size,
                                            DAT_PVOID private_data);

/**
 * Pass the request on to another service point of the same IA, and destroy the CR.
 *
 * @param[in] cr_handle
 * @param[in] handoff    connection qualifier of the other service point
 *
 * @retval DAT_INVALID_HANDLE       `cr_handle`
 * @retval DAT_INVALID_PARAMETER    nothing listens there
 * @retval DAT_MODEL_NOT_SUPPORTED  the provider cannot do it
 * @retval DAT_NOT_IMPLEMENTED      the same, from some providers
 *
 * Blocking: may wait for the transport. Threads: serialize. Spec: uDAPL 2.0 dat_cr_handoff
 */
DAT_EXPORT DAT_RETURN DAT_API dat_cr_handoff(DAT_CR_HANDLE cr_handle, DAT_CONN_QUAL handoff);

DAT_END_DECLS
