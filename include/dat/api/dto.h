/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * DTO, data transfer operations: posting sends, receives, RDMA reads and writes on an EP.
 *
 * All posts:
 *
 * - A post returns at once. The end comes as DAT_DTO_COMPLETION_EVENT on the receive or request EVD
 *   of the EP, in the order of posting per direction; DAT_COMPLETION_FLAGS say whether it comes and
 *   whether it notifies. An EP without such an EVD makes no events.
 * - Buffers may not be touched until the completion. What happens with the array of segments is
 *   told by iov_ownership_on_return; usually it is free again when the post returns.
 * - Segments of length 0 are skipped. 0 segments, with a null array, make a message of length 0.
 * - Segments must lie in LMRs of the EP's zone, with the right for local reading or writing. A
 *   provider may find that out at the post or later (LOCAL_PROTECTION).
 *
 * - Completion flags that a post does not know, or that the EP's attributes do not allow, do not
 *   matter.
 * - An EP takes at least 4 segments, where the adapter can, whatever its attributes say.
 *
 * Requests, that is everything but receives, need an EP that is CONNECTED. If it is DISCONNECTED
 * they are taken and complete with FLUSHED. A request that fails breaks the connection. One that
 * was suppressed and succeeded keeps its place in the queue until a later one completes.
 *
 * On iWARP a Send or RDMA Write completes when the transport has it, and may be refused by the peer
 * afterwards: a Write with a wrong key completes with success, then comes
 * DAT_CONNECTION_EVENT_BROKEN. On InfiniBand the completion waits for the peer's adapter, and has
 * the status of the failure. The software RNIC is iWARP; with the EP attribute delayed_ack, or
 * delayed_ack=on in the entry of dat.conf (dat.conf(5)), its completions wait for the peer too.
 */
#pragma once

#include <dat/api/types.h>

DAT_BEGIN_DECLS

/**
 * Send a message. It goes into the next receive buffer of the peer, which must be large enough.
 *
 * @param[in] ep_handle
 * @param[in] num_segments      number of segments, up to max_request_iov
 * @param[in] local_iov         segments; together up to max_message_size bytes
 * @param[in] user_cookie       for the completion event
 * @param[in] completion_flags  SUPPRESS, SOLICITED_WAIT, UNSIGNALLED, BARRIER_FENCE
 *
 * Events: completion with operation DAT_DTO_SEND.
 *
 * @retval DAT_INVALID_HANDLE          `ep_handle`
 * @retval DAT_INVALID_PARAMETER       number of segments, null array, a segment outside its LMR,
 *                                     longer than max_message_size of the IA
 * @retval DAT_INVALID_STATE           the EP is neither CONNECTED nor DISCONNECTED
 * @retval DAT_PROTECTION_VIOLATION    an LMR of another zone
 * @retval DAT_PRIVILEGES_VIOLATION    no such LMR, or one that may not be read locally
 * @retval DAT_INSUFFICIENT_RESOURCES  max_request_dtos requests are outstanding
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_ep_post_send
 */
DAT_EXPORT DAT_RETURN DAT_API dat_ep_post_send(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments,
                                               DAT_LMR_TRIPLET* local_iov,
                                               DAT_DTO_COOKIE user_cookie,
                                               DAT_COMPLETION_FLAGS completion_flags);

/**
 * Send a message that ends an RMR of the peer: when the peer's receive completes its context is
 * dead. A context that is not bound for this connection breaks the connection.
 *
 * @param[in] ep_handle
 * @param[in] num_segments      number of segments, up to max_request_iov
 * @param[in] local_iov         segments; together up to max_message_size bytes
 * @param[in] user_cookie       for the completion event
 * @param[in] completion_flags  SUPPRESS, SOLICITED_WAIT, UNSIGNALLED, BARRIER_FENCE
 * @param[in] invalidate_flag   DAT_FALSE makes this dat_ep_post_send()
 * @param[in] rmr_context       context that the peer gave us, of an RMR of scope EP
 *
 * Events: completion with operation DAT_DTO_SEND; at the peer DAT_DTO_RECEIVE_WITH_INVALIDATE.
 *
 * @retval DAT_MODEL_NOT_SUPPORTED  the provider cannot do it
 * @return Anything else as dat_ep_post_send().
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_ep_post_send_with_invalidate
 */
DAT_EXPORT DAT_RETURN DAT_API dat_ep_post_send_with_invalidate(
    DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, DAT_LMR_TRIPLET* local_iov,
    DAT_DTO_COOKIE user_cookie, DAT_COMPLETION_FLAGS completion_flags, DAT_BOOLEAN invalidate_flag,
    DAT_RMR_CONTEXT rmr_context);

/**
 * Post a receive buffer. Buffers are used in the order of posting, one per message; a message that
 * is longer than its buffer completes with LOCAL_LENGTH and breaks the connection.
 *
 * @param[in] ep_handle         in any state, without SRQ; if DISCONNECTED the buffer is flushed
 * @param[in] num_segments      number of segments, up to max_recv_iov
 * @param[in] local_iov         segments, filled front to back
 * @param[in] user_cookie       for the completion event
 * @param[in] completion_flags  UNSIGNALLED
 *
 * Events: completion with operation DAT_DTO_RECEIVE or DAT_DTO_RECEIVE_WITH_INVALIDATE.
 *
 * @retval DAT_INVALID_HANDLE          `ep_handle`
 * @retval DAT_INVALID_PARAMETER       number of segments, null array, a segment outside its LMR
 * @retval DAT_INVALID_STATE           the EP receives from an SRQ
 * @retval DAT_PROTECTION_VIOLATION    an LMR of another zone
 * @retval DAT_PRIVILEGES_VIOLATION    no such LMR, or one that may not be written locally
 * @retval DAT_INSUFFICIENT_RESOURCES  max_recv_dtos receives are outstanding
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_ep_post_recv
 */
DAT_EXPORT DAT_RETURN DAT_API dat_ep_post_recv(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments,
                                               DAT_LMR_TRIPLET* local_iov,
                                               DAT_DTO_COOKIE user_cookie,
                                               DAT_COMPLETION_FLAGS completion_flags);

/**
 * Read memory of the peer. The data is there when the read completes; the peer's application does
 * not notice. Connecting agrees on how many are under way at a time, the smaller of our
 * max_rdma_read_out and the peer's max_rdma_read_in; more wait in the queue. If that is 0 a read
 * fails with DAT_DTO_ERR_REMOTE_RESPONDER and the connection is broken.
 *
 * @param[in] ep_handle
 * @param[in] num_segments      number of segments, up to max_rdma_read_iov
 * @param[in] local_iov         segments, filled front to back; they say how much is read
 * @param[in] user_cookie       for the completion event
 * @param[in] remote_iov        where in the peer's memory, with a context that allows remote
 *                              reading; its length does not matter; not kept
 * @param[in] completion_flags  SUPPRESS, UNSIGNALLED, BARRIER_FENCE
 *
 * Events: completion with operation DAT_DTO_RDMA_READ.
 *
 * @retval DAT_INVALID_HANDLE          `ep_handle`
 * @retval DAT_INVALID_PARAMETER       number of segments, null pointer, a segment outside its LMR,
 *                                     over max_rdma_size
 * @retval DAT_INVALID_STATE           the EP is neither CONNECTED nor DISCONNECTED
 * @retval DAT_PROTECTION_VIOLATION    an LMR of another zone
 * @retval DAT_PRIVILEGES_VIOLATION    no such LMR, or one that may not be written locally; on iWARP
 *                                     remote writing is needed too (rdma_write_for_rdma_read_req)
 * @retval DAT_INSUFFICIENT_RESOURCES  max_request_dtos requests are outstanding
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_ep_post_rdma_read
 */
DAT_EXPORT DAT_RETURN DAT_API dat_ep_post_rdma_read(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments,
                                                    DAT_LMR_TRIPLET* local_iov,
                                                    DAT_DTO_COOKIE user_cookie,
                                                    const DAT_RMR_TRIPLET* remote_iov,
                                                    DAT_COMPLETION_FLAGS completion_flags);

/**
 * Read memory of the peer into memory that an RMR names; for transports that show the context of
 * the sink to the peer (rdma_read_lmr_rmr_context_exposure).
 *
 * @param[in] ep_handle
 * @param[in] local_iov         one piece of own memory, with the context of an RMR that allows
 *                              remote writing; not kept
 * @param[in] user_cookie       for the completion event
 * @param[in] remote_iov        one piece of the peer's memory, as in dat_ep_post_rdma_read()
 * @param[in] completion_flags  SUPPRESS, UNSIGNALLED, BARRIER_FENCE
 *
 * Events: completion with operation DAT_DTO_RDMA_READ.
 *
 * @retval DAT_MODEL_NOT_SUPPORTED  the provider cannot do it
 * @retval DAT_LENGTH_ERROR         local_iov is smaller than remote_iov
 * @return Anything else as dat_ep_post_rdma_read().
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_ep_post_rdma_read_to_rmr
 */
DAT_EXPORT DAT_RETURN DAT_API dat_ep_post_rdma_read_to_rmr(DAT_EP_HANDLE ep_handle,
                                                           const DAT_RMR_TRIPLET* local_iov,
                                                           DAT_DTO_COOKIE user_cookie,
                                                           const DAT_RMR_TRIPLET* remote_iov,
                                                           DAT_COMPLETION_FLAGS completion_flags);

/**
 * Write into memory of the peer, whose application does not notice. The data is there when the peer
 * receives a message that was sent on the same EP afterwards.
 *
 * A peer that polls the memory instead relies on its adapter. The software RNIC stores the last up
 * to 8 bytes after all others, an aligned word at the end in one piece, and Writes of one EP in the
 * order of posting: who sees the end of a Write (an atomic load with acquire order) sees all of it,
 * and what was written before. Receive buffers and the sinks of RDMA Reads are filled in the same
 * way. RDMA hardware usually does likewise; the specification promises none of it.
 *
 * @param[in] ep_handle
 * @param[in] num_segments      number of segments, up to max_rdma_write_iov
 * @param[in] local_iov         segments; together up to max_rdma_size bytes
 * @param[in] user_cookie       for the completion event
 * @param[in] remote_iov        where in the peer's memory, with a context that allows remote
 *                              writing; its length does not matter; not kept
 * @param[in] completion_flags  SUPPRESS, UNSIGNALLED, BARRIER_FENCE
 *
 * Events: completion with operation DAT_DTO_RDMA_WRITE.
 *
 * @retval DAT_INVALID_HANDLE          `ep_handle`
 * @retval DAT_INVALID_PARAMETER       number of segments, null pointer, a segment outside its LMR,
 *                                     over max_rdma_size
 * @retval DAT_INVALID_STATE           the EP is neither CONNECTED nor DISCONNECTED
 * @retval DAT_PROTECTION_VIOLATION    an LMR of another zone
 * @retval DAT_PRIVILEGES_VIOLATION    no such LMR, or one that may not be read locally
 * @retval DAT_INSUFFICIENT_RESOURCES  max_request_dtos requests are outstanding
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_ep_post_rdma_write
 */
DAT_EXPORT DAT_RETURN DAT_API dat_ep_post_rdma_write(DAT_EP_HANDLE ep_handle,
                                                     DAT_COUNT num_segments,
                                                     DAT_LMR_TRIPLET* local_iov,
                                                     DAT_DTO_COOKIE user_cookie,
                                                     const DAT_RMR_TRIPLET* remote_iov,
                                                     DAT_COMPLETION_FLAGS completion_flags);

DAT_END_DECLS
