/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * EVD, the event dispatcher: one queue of events from one or more sources.
 */
#pragma once

#include <dat/api/event.h>
#include <dat/api/types.h>

DAT_BEGIN_DECLS

/**
 * What may feed an EVD; a set. evd_stream_merging_supported of DAT_PROVIDER_ATTR says which kinds
 * may be combined.
 */
typedef enum dat_evd_flags {
  DAT_EVD_SOFTWARE_FLAG = 0x001,   /**< dat_evd_post_se(). */
  DAT_EVD_CR_FLAG = 0x010,         /**< Connection requests of service points. */
  DAT_EVD_DTO_FLAG = 0x020,        /**< Completions of sends, receives and RDMA. */
  DAT_EVD_CONNECTION_FLAG = 0x040, /**< Connection events of EPs. */
  DAT_EVD_RMR_BIND_FLAG = 0x080,   /**< Completions of dat_rmr_bind(). */
  DAT_EVD_ASYNC_FLAG = 0x100,      /**< Asynchronous events of an IA. */
  DAT_EVD_DEFAULT_FLAG = 0x1f0,    /**< All but software. */
  DAT_EVD_EXTENSION_BASE = 0x200   /**< First bit that belongs to extensions. */
} DAT_EVD_FLAGS;

/**
 * The state of an EVD: one value of each of the three groups, or-ed together. THRESHOLD is both
 * bits of its group, so compare the group as a whole.
 */
typedef enum dat_evd_state {
  /* Whether its events may trigger the CNO. */
  DAT_EVD_STATE_ENABLED = 0x01,
  DAT_EVD_STATE_DISABLED = 0x02,
  /* Whether dat_evd_wait() may be called. */
  DAT_EVD_STATE_WAITABLE = 0x04,
  DAT_EVD_STATE_UNWAITABLE = 0x08,
  /* Which completions notify, from the completion flags of the EPs that feed it. If these differ,
     each stream keeps its own mode, and the state shows the first of NOTIFY, SOLICITED and
     THRESHOLD that any stream has. */
  DAT_EVD_STATE_CONFIG_NOTIFY = 0x10,    /**< Those not posted as UNSIGNALLED. */
  DAT_EVD_STATE_CONFIG_SOLICITED = 0x20, /**< Those that the sender requested. */
  DAT_EVD_STATE_CONFIG_THRESHOLD = 0x30  /**< All. */
} DAT_EVD_STATE;

/** What dat_evd_query() returns. */
typedef struct dat_evd_param {
  DAT_IA_HANDLE ia_handle;
  DAT_COUNT evd_qlen; /**< Events it can hold; at least the number requested. */
  DAT_EVD_STATE evd_state;
  DAT_CNO_HANDLE cno_handle; /**< Null if none. */
  DAT_EVD_FLAGS evd_flags;   /**< As created. */
} DAT_EVD_PARAM;

/** Fields of DAT_EVD_PARAM; a set. */
typedef enum dat_evd_param_mask {
  DAT_EVD_FIELD_IA_HANDLE = 0x01,
  DAT_EVD_FIELD_EVD_QLEN = 0x02,
  DAT_EVD_FIELD_EVD_STATE = 0x04,
  DAT_EVD_FIELD_CNO = 0x08,
  DAT_EVD_FIELD_EVD_FLAGS = 0x10,
  DAT_EVD_FIELD_ALL = 0x1f
} DAT_EVD_PARAM_MASK;

/**
 * Create an EVD, empty, enabled and waitable.
 *
 * Make it large enough for everything that can be outstanding: all posts of the EPs it serves, two
 * connection events per EP, the backlog of service points. A full EVD loses events.
 *
 * @param[in]  ia_handle
 * @param[in]  evd_min_qlen  number of events it must be able to hold
 * @param[in]  cno_handle    CNO to trigger, or null
 * @param[in]  evd_flags     what will feed it; other bits are ignored
 * @param[out] evd_handle    receives the EVD, owned by the application; null after a failure
 *
 * @retval DAT_INVALID_HANDLE          `ia_handle`, or `cno_handle` is neither null nor a CNO of the
 *                                     IA
 * @retval DAT_INVALID_PARAMETER       `evd_min_qlen` is not positive; `evd_flags` cannot be merged
 *                                     (evd_stream_merging_supported); null pointer
 * @retval DAT_INSUFFICIENT_RESOURCES  out of memory or device queues, or `evd_min_qlen` is beyond
 *                                     max_evd_qlen
 *
 * Blocking: no. Threads: safe. Spec: uDAPL 2.0 dat_evd_create
 */
DAT_EXPORT DAT_RETURN DAT_API dat_evd_create(DAT_IA_HANDLE ia_handle, DAT_COUNT evd_min_qlen,
                                             DAT_CNO_HANDLE cno_handle, DAT_EVD_FLAGS evd_flags,
                                             DAT_EVD_HANDLE* evd_handle);

/**
 * Get the parameters and the state of an EVD.
 *
 * @param[in]  evd_handle
 * @param[in]  evd_param_mask  fields wanted; others may be filled as well, unknown bits are ignored
 * @param[out] evd_param       structure to fill
 *
 * @retval DAT_INVALID_HANDLE     `evd_handle`
 * @retval DAT_INVALID_PARAMETER  `evd_param` is null
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_evd_query
 */
DAT_EXPORT DAT_RETURN DAT_API dat_evd_query(DAT_EVD_HANDLE evd_handle,
                                            DAT_EVD_PARAM_MASK evd_param_mask,
                                            DAT_EVD_PARAM* evd_param);

/**
 * Let future events trigger another CNO.
 *
 * A notification during the call may go to either. Events that are already queued do not trigger
 * the new CNO: after the call, dequeue until the EVD is empty.
 *
 * @param[in] evd_handle
 * @param[in] cno_handle  the new CNO, or null for none
 *
 * @retval DAT_INVALID_HANDLE  `evd_handle`, or `cno_handle` is neither null nor a CNO of the IA
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_evd_modify_cno
 */
DAT_EXPORT DAT_RETURN DAT_API dat_evd_modify_cno(DAT_EVD_HANDLE evd_handle,
                                                 DAT_CNO_HANDLE cno_handle);

/**
 * Let the EVD trigger its CNO; no effect if it does already. Events that are already queued do not
 * trigger it: after the call, dequeue until the EVD is empty.
 *
 * @param[in] evd_handle
 *
 * @retval DAT_INVALID_HANDLE  `evd_handle`
 *
 * Blocking: no. Threads: safe. Spec: uDAPL 2.0 dat_evd_enable
 */
DAT_EXPORT DAT_RETURN DAT_API dat_evd_enable(DAT_EVD_HANDLE evd_handle);

/**
 * Keep the EVD from triggering its CNO; no effect if it is already disabled. Threads in
 * dat_evd_wait() are not affected, nor is a wake-up that is already in progress.
 *
 * @param[in] evd_handle
 *
 * @retval DAT_INVALID_HANDLE  `evd_handle`
 *
 * Blocking: no. Threads: safe. Spec: uDAPL 2.0 dat_evd_disable
 */
DAT_EXPORT DAT_RETURN DAT_API dat_evd_disable(DAT_EVD_HANDLE evd_handle);

/**
 * Forbid dat_evd_wait(). A thread that is in it returns with DAT_INVALID_STATE. Events still
 * arrive, and dat_evd_dequeue() and the CNO still work.
 *
 * @param[in] evd_handle
 *
 * @retval DAT_INVALID_HANDLE  `evd_handle`
 *
 * Blocking: no. Threads: safe. Spec: uDAPL 2.0 dat_evd_set_unwaitable
 */
DAT_EXPORT DAT_RETURN DAT_API dat_evd_set_unwaitable(DAT_EVD_HANDLE evd_handle);

/**
 * Allow dat_evd_wait() again.
 *
 * @param[in] evd_handle
 *
 * @retval DAT_INVALID_HANDLE  `evd_handle`
 *
 * Blocking: no. Threads: safe. Spec: uDAPL 2.0 dat_evd_clear_unwaitable
 */
DAT_EXPORT DAT_RETURN DAT_API dat_evd_clear_unwaitable(DAT_EVD_HANDLE evd_handle);

/**
 * Change how many events the EVD can hold. No event is lost. If it fails, the EVD is unchanged.
 *
 * @param[in] evd_handle
 * @param[in] evd_min_qlen  number of events it must be able to hold
 *
 * @retval DAT_INVALID_HANDLE          `evd_handle`
 * @retval DAT_INVALID_PARAMETER       `evd_min_qlen` is not positive
 * @retval DAT_INVALID_STATE           more events than that are queued, or a thread waits on the
 *                                     EVD
 * @retval DAT_INSUFFICIENT_RESOURCES  out of memory or device queues, or beyond max_evd_qlen
 *
 * Blocking: may wait for the transport. Threads: serialize. Spec: uDAPL 2.0 dat_evd_resize
 */
DAT_EXPORT DAT_RETURN DAT_API dat_evd_resize(DAT_EVD_HANDLE evd_handle, DAT_COUNT evd_min_qlen);

/**
 * Wait until events are queued, and dequeue the oldest.
 *
 * The wait ends when `threshold` events are queued; a sleeping thread is woken only by a
 * notification (DAT_COMPLETION_FLAGS). While a thread waits, the CNO is not triggered, and other
 * threads can neither wait on the EVD nor dequeue from it.
 *
 * @param[in]  evd_handle
 * @param[in]  timeout        microseconds for the whole wait; 0 to look only,
 *                            DAT_TIMEOUT_INFINITE
 * @param[in]  threshold      number of events to wait for, 1 to the capacity. Must be 1 if the EVD
 *                            is in state CONFIG_NOTIFY or CONFIG_SOLICITED.
 * @param[out] event          receives the oldest event; on success only
 * @param[out] n_more_events  receives the number of events left in the queue, a snapshot; also
 *                            after DAT_TIMEOUT_EXPIRED and DAT_INTERRUPTED_CALL
 *
 * @retval DAT_TIMEOUT_EXPIRED    not enough events in time; none is dequeued
 * @retval DAT_INTERRUPTED_CALL   a signal arrived; none is dequeued. libdaplofa and libdaplsoft
 *                                go on waiting instead if the EVD has neither DTO nor RMR_BIND
 *                                events, or has a CNO
 * @retval DAT_ABORT              the IA was closed or the EVD destroyed
 * @retval DAT_INVALID_HANDLE     `evd_handle`
 * @retval DAT_INVALID_PARAMETER  `threshold` is not positive or beyond the capacity; null pointer
 * @retval DAT_INVALID_STATE      another thread waits; the EVD is or was made unwaitable; a
 *                                `threshold` above 1 where 1 is required
 *
 * The call is a cancellation point (pthread_cancel). A waiting thread notices a cancellation
 * within a few seconds, or within 0.1 s if its cancellation type is asynchronous.
 *
 * Blocking: up to `timeout`. Threads: safe. Spec: uDAPL 2.0 dat_evd_wait
 */
DAT_EXPORT DAT_RETURN DAT_API dat_evd_wait(DAT_EVD_HANDLE evd_handle, DAT_TIMEOUT timeout,
                                           DAT_COUNT threshold, DAT_EVENT* event,
                                           DAT_COUNT* n_more_events);

/**
 * Dequeue the oldest event, if there is one, in any state of the EVD.
 *
 * @param[in]  evd_handle
 * @param[out] event       receives the event; on success only
 *
 * @retval DAT_QUEUE_EMPTY        there is none
 * @retval DAT_INVALID_HANDLE     `evd_handle`
 * @retval DAT_INVALID_PARAMETER  `event` is null
 * @retval DAT_INVALID_STATE      a thread is in dat_evd_wait() on this EVD
 *
 * Blocking: no. Threads: safe; each event is returned to one thread, which one is not defined.
 * Spec: uDAPL 2.0 dat_evd_dequeue
 */
DAT_EXPORT DAT_RETURN DAT_API dat_evd_dequeue(DAT_EVD_HANDLE evd_handle, DAT_EVENT* event);

/**
 * Queue an event of the application. It always notifies.
 *
 * @param[in] evd_handle  an EVD with DAT_EVD_SOFTWARE_FLAG
 * @param[in] event       copied; event_number must be DAT_SOFTWARE_EVENT, software_event_data is
 *                        the application's, and evd_handle is filled in on delivery
 *
 * @retval DAT_INVALID_HANDLE     `evd_handle`
 * @retval DAT_INVALID_PARAMETER  `event` is null or has another number, or the EVD lacks the flag
 * @retval DAT_QUEUE_FULL         no room; the event is not queued, nothing is lost, and there is no
 *                                overflow event
 *
 * Blocking: no. Threads: serialize the posts to one EVD. Spec: uDAPL 2.0 dat_evd_post_se
 */
DAT_EXPORT DAT_RETURN DAT_API dat_evd_post_se(DAT_EVD_HANDLE evd_handle, const DAT_EVENT* event);

/**
 * Destroy an EVD together with the events in it. Connection requests among them are rejected.
 *
 * @param[in] evd_handle
 *
 * @retval DAT_INVALID_HANDLE  `evd_handle`
 * @retval DAT_INVALID_STATE   an EP, a service point or an IA feeds it, or a thread waits on it
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_evd_free
 */
DAT_EXPORT DAT_RETURN DAT_API dat_evd_free(DAT_EVD_HANDLE evd_handle);

DAT_END_DECLS
