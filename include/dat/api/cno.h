/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * CNO, the consumer notification object: one place to wait for the events of several EVDs.
 *
 * A notification from an enabled EVD on which no thread waits triggers the CNO. The trigger stays
 * until dat_cno_wait(), dat_cno_trigger() or the agent has consumed it; with other providers,
 * further notifications in between have no effect. The following loop misses no event, since it
 * does not rely on the EVD that is named:
 *
 *     for (;;) {
 *       for (each EVD of the CNO)
 *         while (dat_evd_dequeue(evd, &event) == DAT_SUCCESS) handle(&event);
 *       dat_cno_wait(cno, DAT_TIMEOUT_INFINITE, &hint);
 *     }
 */
#pragma once

#include <dat/api/types.h>

DAT_BEGIN_DECLS

/**
 * An agent: called when the CNO is triggered, on a thread of the provider. It may dequeue and post,
 * and must neither block nor free the CNO. `evd_handle` is a hint as in dat_cno_wait(), null if the
 * IA is being closed. When the last EVD of the CNO is freed, threads in dat_cno_wait() are released
 * but the agent is not called.
 */
typedef void (*DAT_AGENT_FUNC)(DAT_PVOID instance_data, DAT_EVD_HANDLE evd_handle);

typedef struct dat_os_wait_proxy_agent {
  DAT_PVOID instance_data; /**< First argument of the function; the application's. */
  DAT_AGENT_FUNC proxy_agent_func;
} DAT_OS_WAIT_PROXY_AGENT;

/** No agent. */
#if defined(__cplusplus) && __cplusplus >= 201103L
#define DAT_OS_WAIT_PROXY_AGENT_NULL \
  DAT_OS_WAIT_PROXY_AGENT { NULL, NULL }
#else
#define DAT_OS_WAIT_PROXY_AGENT_NULL ((DAT_OS_WAIT_PROXY_AGENT){NULL, NULL})
#endif

/** What a CNO does besides releasing threads in dat_cno_wait(). */
typedef enum dat_proxy_type {
  DAT_PROXY_TYPE_NONE = 0,
  DAT_PROXY_TYPE_AGENT = 1, /**< Calls an agent. */
  DAT_PROXY_TYPE_FD = 2     /**< Makes a file descriptor readable. */
} DAT_PROXY_TYPE;

/** What dat_cno_query() returns. */
typedef struct dat_cno_param {
  DAT_IA_HANDLE ia_handle;
  DAT_PROXY_TYPE proxy_type; /**< Says which member of `proxy` is valid. */
  union {
    DAT_OS_WAIT_PROXY_AGENT agent;
    DAT_FD fd;
    DAT_PVOID none;
  } proxy;
} DAT_CNO_PARAM;

/** Fields of DAT_CNO_PARAM. The values are not bits, and ALL is a separate value. */
typedef enum dat_cno_param_mask {
  DAT_CNO_FIELD_IA_HANDLE = 1,
  DAT_CNO_FIELD_PROXY_TYPE = 2,
  DAT_CNO_FIELD_PROXY = 3,
  DAT_CNO_FIELD_ALL = 4
} DAT_CNO_PARAM_MASK;

/**
 * Create a CNO, not triggered and without EVDs.
 *
 * @param[in]  ia_handle
 * @param[in]  agent       agent to call at the next trigger, or DAT_OS_WAIT_PROXY_AGENT_NULL. It is
 *                         called once; dat_cno_modify_agent() installs it again.
 * @param[out] cno_handle  receives the CNO; owned by the application
 *
 * @retval DAT_INVALID_HANDLE          `ia_handle`
 * @retval DAT_INVALID_PARAMETER       `cno_handle` is null
 * @retval DAT_INSUFFICIENT_RESOURCES  out of memory
 *
 * Blocking: no. Threads: safe. Spec: uDAPL 2.0 dat_cno_create
 */
DAT_EXPORT DAT_RETURN DAT_API dat_cno_create(DAT_IA_HANDLE ia_handle, DAT_OS_WAIT_PROXY_AGENT agent,
                                             DAT_CNO_HANDLE* cno_handle);

/**
 * Create a CNO with a file descriptor for poll(2) and the like: readable while the CNO is
 * triggered. When it is, call dat_cno_trigger(), dequeue from every EVD, and poll again.
 *
 * @param[in]  ia_handle
 * @param[out] fd          receives the descriptor. It belongs to the CNO and is closed with it; the
 *                         application may only poll it.
 * @param[out] cno_handle  receives the CNO; owned by the application
 *
 * @retval DAT_INVALID_HANDLE          `ia_handle`
 * @retval DAT_INVALID_PARAMETER       null pointer
 * @retval DAT_INSUFFICIENT_RESOURCES  out of memory or file descriptors
 * @retval DAT_MODEL_NOT_SUPPORTED     the provider has no such CNOs
 *
 * Blocking: no. Threads: safe. Spec: uDAPL 2.0 dat_cno_fd_create
 */
DAT_EXPORT DAT_RETURN DAT_API dat_cno_fd_create(DAT_IA_HANDLE ia_handle, DAT_FD* fd,
                                                DAT_CNO_HANDLE* cno_handle);

/**
 * Install another agent in place of the present one. It is called at the next trigger, once.
 *
 * @param[in] cno_handle  a CNO without a file descriptor
 * @param[in] agent       the agent, or DAT_OS_WAIT_PROXY_AGENT_NULL to remove the present one
 *
 * @retval DAT_INVALID_HANDLE     `cno_handle`
 * @retval DAT_INVALID_STATE      the CNO has a file descriptor
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_cno_modify_agent
 */
DAT_EXPORT DAT_RETURN DAT_API dat_cno_modify_agent(DAT_CNO_HANDLE cno_handle,
                                                   DAT_OS_WAIT_PROXY_AGENT agent);

/**
 * Get the parameters of a CNO.
 *
 * @param[in]  cno_handle
 * @param[in]  cno_param_mask  field wanted; others may be filled as well
 * @param[out] cno_param       structure to fill. The agent is null if there is none, or if it has
 *                             been called.
 *
 * @retval DAT_INVALID_HANDLE     `cno_handle`
 * @retval DAT_INVALID_PARAMETER  `cno_param` is null
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_cno_query
 */
DAT_EXPORT DAT_RETURN DAT_API dat_cno_query(DAT_CNO_HANDLE cno_handle,
                                            DAT_CNO_PARAM_MASK cno_param_mask,
                                            DAT_CNO_PARAM* cno_param);

/**
 * Wait until the CNO is triggered, and consume the trigger. One trigger releases one thread.
 *
 * @param[in]  cno_handle
 * @param[in]  timeout     microseconds; 0 to poll, or DAT_TIMEOUT_INFINITE
 * @param[out] evd_handle  receives an EVD that triggered; libdaplofa and libdaplsoft name others in
 *                         the next waits, while they have events. A hint: its events may be gone.
 *                         Null after a time-out, a close of the IA, or the free of the last EVD.
 *
 * @retval DAT_QUEUE_EMPTY        not triggered in time
 * @retval DAT_INTERRUPTED_CALL   a signal arrived; libdaplofa and libdaplsoft go on waiting instead
 * @retval DAT_INVALID_HANDLE     `cno_handle`
 * @retval DAT_INVALID_PARAMETER  `evd_handle` is null
 * @retval DAT_INVALID_STATE      the CNO is being destroyed (DAT_INVALID_STATE_CNO_DEAD)
 *
 * The call is a cancellation point (pthread_cancel). A waiting thread notices a cancellation
 * within a few seconds, or within 0.1 s if its cancellation type is asynchronous.
 *
 * Blocking: up to `timeout`. Threads: safe. Spec: uDAPL 2.0 dat_cno_wait
 */
DAT_EXPORT DAT_RETURN DAT_API dat_cno_wait(DAT_CNO_HANDLE cno_handle, DAT_TIMEOUT timeout,
                                           DAT_EVD_HANDLE* evd_handle);

/**
 * Consume the trigger if there is one; the companion of dat_cno_fd_create(). The file descriptor is
 * not readable afterwards.
 *
 * @param[in]  cno_handle
 * @param[out] evd_handle  receives the EVD that triggered last, a hint as in dat_cno_wait(); null
 *                         if the CNO was not triggered
 *
 * @retval DAT_INVALID_HANDLE       `cno_handle`
 * @retval DAT_INVALID_PARAMETER    `evd_handle` is null
 * @retval DAT_MODEL_NOT_SUPPORTED  the provider does not offer it
 *
 * Blocking: no. Threads: safe. Spec: uDAPL 2.0 dat_cno_trigger
 */
DAT_EXPORT DAT_RETURN DAT_API dat_cno_trigger(DAT_CNO_HANDLE cno_handle,
                                              DAT_EVD_HANDLE* evd_handle);

/**
 * Destroy a CNO, and its file descriptor if it has one.
 *
 * @param[in] cno_handle
 *
 * @retval DAT_INVALID_HANDLE  `cno_handle`
 * @retval DAT_INVALID_STATE   an EVD refers to it, or a thread waits on it
 *                             (DAT_INVALID_STATE_CNO_IN_USE)
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_cno_free
 */
DAT_EXPORT DAT_RETURN DAT_API dat_cno_free(DAT_CNO_HANDLE cno_handle);

DAT_END_DECLS
