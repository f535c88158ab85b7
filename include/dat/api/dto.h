/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * DTO, data transfer operations: posting sends, receives, RDMA reads and writes on an EP.
 *
 * All posts:
 *
 * - A post returns at once, with one exception: on the software RNIC over TCP, a request may find
 *   its queue full (max_request_dtos) while the peer has not yet confirmed earlier RDMA Writes. The
 *   post then waits for the confirmation, some 0.4 s at most.
 * - A DAT_DTO_COMPLETION_EVENT on the receive or request EVD of the EP reports the completion, in
 *   the order of posting per direction; DAT_COMPLETION_FLAGS determine whether there is an event
 *   and whether it notifies. An EP without such an EVD makes no events.
 * - Buffers must not be accessed before the completion. iov_ownership_on_return tells when the
 *   application may reuse the array of segments; usually it may when the post has returned.
 * - Segments of length 0 are skipped. 0 segments, with a null array, make a message of length 0.
 * - Segments must lie in LMRs of the EP's zone that have the local read or write privilege. A
 *   provider may check this at the post or later (LOCAL_PROTECTION).
 *
 * - Completion flags that a post does not support, or that the EP's attributes do not allow, are
 *   ignored.
 * - An EP accepts at least 4 segments, if the adapter can, whatever its attributes say.
 *
 * Requests, that is all posts but receives, need an EP that is CONNECTED, or was accepted and is
 * COMPLETION_PENDING: then they are sent as soon as the peer is connected. If it is DISCONNECTED,
 * they are accepted and complete with FLUSHED. A request that fails breaks the connection. One that
 * succeeds with its event suppressed occupies its queue slot until a later request completes.
 *
 * On iWARP a Send or RDMA Write completes when the transport has accepted it, and the peer may
 * refuse it afterwards: a Write with a wrong key completes with success, and then
 * DAT_CONNECTION_EVENT_BROKEN arrives. On InfiniBand the completion waits for the peer's adapter
 * and has the status of the failure. The software RNIC is iWARP, but its RDMA Writes complete as on
 * InfiniBand, unless the dat.conf entry has delayed_ack=off and the peer is on another host; with
 * the EP attribute delayed_ack, or delayed_ack=on in the entry (dat.conf(5)), so do its Sends.
 */
#pragma once

#include <dat/api/types.h>

DAT_BEGIN_DECLS

/**
 * Send a message. It is placed in the peer's next receive buffer, which must be large enough.
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
 * @retval DAT_INVALID_STATE           the EP is not COMPLETION_PENDING, CONNECTED or
 *                                     DISCONNECTED
 * @retval DAT_PROTECTION_VIOLATION    an LMR of another zone
 * @retval DAT_PRIVILEGES_VIOLATION    no such LMR, or one that may not be read locally
 * @retval DAT_INSUFFICIENT_RESOURCES  max_request_dtos requests are outstanding
 *
 * Blocking: no, except over TCP on a full queue: some 0.4 s at most. Threads: serialize.
 * Spec: uDAPL 2.0 dat_ep_post_send
 */
DAT_EXPORT DAT_RETURN DAT_API dat_ep_post_send(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments,
                                               DAT_LMR_TRIPLET* local_iov,
                                               DAT_DTO_COOKIE user_cookie,
                                               DAT_COMPLETION_FLAGS completion_flags);

/**
 * Send a message that invalidates an RMR of the peer: when the peer's receive completes, the
 * context of the RMR is no longer valid. A context that is not bound for this connection breaks the
 * connection. So may an RDMA Read through the RMR that was posted before and is not yet answered:
 * pass DAT_COMPLETION_BARRIER_FENCE_FLAG, or wait for the completion of the Read.
 *
 * @param[in] ep_handle
 * @param[in] num_segments      number of segments, up to max_request_iov
 * @param[in] local_iov         segments; together up to max_message_size bytes
 * @param[in] user_cookie       for the completion event
 * @param[in] completion_flags  SUPPRESS, SOLICITED_WAIT, UNSIGNALLED, BARRIER_FENCE
 * @param[in] invalidate_flag   DAT_FALSE makes this dat_ep_post_send()
 * @param[in] rmr_context       context received from the peer, of an RMR of scope EP
 *
 * Events: completion with operation DAT_DTO_SEND; at the peer DAT_DTO_RECEIVE_WITH_INVALIDATE.
 *
 * @retval DAT_MODEL_NOT_SUPPORTED  the provider cannot do it
 * @return Anything else as dat_ep_post_send().
 *
 * Blocking: no, except over TCP on a full queue: some 0.4 s at most. Threads: serialize.
 * Spec: uDAPL 2.0 dat_ep_post_send_with_invalidate
 */
DAT_EXPORT DAT_RETURN DAT_API dat_ep_post_send_with_invalidate(
    DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments, DAT_LMR_TRIPLET* local_iov,
    DAT_DTO_COOKIE user_cookie, DAT_COMPLETION_FLAGS completion_flags, DAT_BOOLEAN invalidate_flag,
    DAT_RMR_CONTEXT rmr_context);

/**
 * Post a receive buffer. Buffers are used in the order of posting, one per message; if a message is
 * longer than its buffer, the receive completes with LOCAL_LENGTH and the connection breaks.
 *
 * @param[in] ep_handle         in any state, without SRQ; if DISCONNECTED the buffer is flushed
 * @param[in] num_segments      number of segments, up to max_recv_iov
 * @param[in] local_iov         segments, filled front to back; a segment may reach beyond its LMR,
 *                              but a message that does fails
 * @param[in] user_cookie       for the completion event
 * @param[in] completion_flags  UNSIGNALLED
 *
 * Events: completion with operation DAT_DTO_RECEIVE or DAT_DTO_RECEIVE_WITH_INVALIDATE.
 *
 * @retval DAT_INVALID_HANDLE          `ep_handle`
 * @retval DAT_INVALID_PARAMETER       number of segments, null array, a segment that begins outside
 *                                     its LMR
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
 * Read memory of the peer. The data is in place when the read completes; the peer's application is
 * not notified. How many reads can be in progress at a time is negotiated when connecting: the
 * smaller of the local max_rdma_read_out and the peer's max_rdma_read_in; further reads wait in the
 * queue. If that number is 0, a read fails with DAT_DTO_ERR_REMOTE_RESPONDER and the connection is
 * broken.
 *
 * @param[in] ep_handle
 * @param[in] num_segments      number of segments, up to max_rdma_read_iov
 * @param[in] local_iov         segments, filled front to back; their total length is what is read
 * @param[in] user_cookie       for the completion event
 * @param[in] remote_iov        where in the peer's memory, with a context that allows remote
 *                              reading; its length is ignored; null for no data; not kept
 * @param[in] completion_flags  SUPPRESS, UNSIGNALLED, BARRIER_FENCE
 *
 * Events: completion with operation DAT_DTO_RDMA_READ.
 *
 * @retval DAT_INVALID_HANDLE          `ep_handle`
 * @retval DAT_INVALID_PARAMETER       number of segments, null pointer, a segment outside its LMR,
 *                                     over max_rdma_size
 * @retval DAT_INVALID_STATE           the EP is not COMPLETION_PENDING, CONNECTED or
 *                                     DISCONNECTED
 * @retval DAT_PROTECTION_VIOLATION    an LMR of another zone
 * @retval DAT_PRIVILEGES_VIOLATION    no such LMR, or one that may not be written locally; on iWARP
 *                                     remote writing is needed too (rdma_write_for_rdma_read_req)
 * @retval DAT_INSUFFICIENT_RESOURCES  max_request_dtos requests are outstanding
 *
 * Blocking: no, except over TCP on a full queue: some 0.4 s at most. Threads: serialize.
 * Spec: uDAPL 2.0 dat_ep_post_rdma_read
 */
DAT_EXPORT DAT_RETURN DAT_API dat_ep_post_rdma_read(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments,
                                                    DAT_LMR_TRIPLET* local_iov,
                                                    DAT_DTO_COOKIE user_cookie,
                                                    const DAT_RMR_TRIPLET* remote_iov,
                                                    DAT_COMPLETION_FLAGS completion_flags);

/**
 * Read memory of the peer into memory that an RMR names; for transports that expose the context of
 * the sink to the peer (rdma_read_lmr_rmr_context_exposure).
 *
 * @param[in] ep_handle
 * @param[in] local_iov         one piece of local memory, with the context of an RMR that allows
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
 * Blocking: no, except over TCP on a full queue: some 0.4 s at most. Threads: serialize.
 * Spec: uDAPL 2.0 dat_ep_post_rdma_read_to_rmr
 */
DAT_EXPORT DAT_RETURN DAT_API dat_ep_post_rdma_read_to_rmr(DAT_EP_HANDLE ep_handle,
                                                           const DAT_RMR_TRIPLET* local_iov,
                                                           DAT_DTO_COOKIE user_cookie,
                                                           const DAT_RMR_TRIPLET* remote_iov,
                                                           DAT_COMPLETION_FLAGS completion_flags);

/**
 * Write into memory of the peer, whose application is not notified. The data is in place when the
 * peer receives a message that was sent later on the same EP.
 *
 * A peer may also poll the memory, but the specification does not guarantee that this works. The
 * software RNIC stores the Writes of one EP in the order of posting, the last bytes of each (up to
 * 8) after all its others, and an aligned word at the end with a single store: a thread that sees
 * the end of a Write (by an atomic load with acquire order) sees all of it and all earlier Writes.
 * It fills receive buffers and the sinks of RDMA Reads in the same way. RDMA hardware usually does
 * the same.
 *
 * @param[in] ep_handle
 * @param[in] num_segments      number of segments, up to max_rdma_write_iov
 * @param[in] local_iov         segments; together up to max_rdma_size bytes
 * @param[in] user_cookie       for the completion event
 * @param[in] remote_iov        where in the peer's memory, with a context that allows remote
 *                              writing; its length is ignored; null for no data; not kept
 * @param[in] completion_flags  SUPPRESS, UNSIGNALLED, BARRIER_FENCE
 *
 * Events: completion with operation DAT_DTO_RDMA_WRITE.
 *
 * @retval DAT_INVALID_HANDLE          `ep_handle`
 * @retval DAT_INVALID_PARAMETER       number of segments, null pointer, a segment outside its LMR,
 *                                     over max_rdma_size
 * @retval DAT_INVALID_STATE           the EP is not COMPLETION_PENDING, CONNECTED or
 *                                     DISCONNECTED
 * @retval DAT_PROTECTION_VIOLATION    an LMR of another zone
 * @retval DAT_PRIVILEGES_VIOLATION    no such LMR, or one that may not be read locally
 * @retval DAT_INSUFFICIENT_RESOURCES  max_request_dtos requests are outstanding
 *
 * Blocking: no, except over TCP on a full queue: some 0.4 s at most. Threads: serialize.
 * Spec: uDAPL 2.0 dat_ep_post_rdma_write
 */
DAT_EXPORT DAT_RETURN DAT_API dat_ep_post_rdma_write(DAT_EP_HANDLE ep_handle,
                                                     DAT_COUNT num_segments,
                                                     DAT_LMR_TRIPLET* local_iov,
                                                     DAT_DTO_COOKIE user_cookie,
                                                     const DAT_RMR_TRIPLET* remote_iov,
                                                     DAT_COMPLETION_FLAGS completion_flags);

DAT_END_DECLS
