/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * The cause of a failure in words, and the contents of dat.conf: extensions of this implementation
 * that other libraries named libdat2 do not have (version node DAT_2.1).
 *
 *     DAT_RETURN status = dat_ia_open("soft", 8, &async_evd, &ia);
 *     if (status != DAT_SUCCESS) {
 *       const char* cause;
 *       dat_last_cause(status, &cause);
 *       fprintf(stderr, "%s\n", cause);
 *     }
 */
#pragma once

#include <dat/udat.h>

DAT_BEGIN_DECLS

/** @name Causes. @{ */

/** Longest cause in bytes, including its terminator. A longer one is cut and ends with "...". */
#define DAT_LAST_CAUSE_MAX 4096

/**
 * Get the reason why the last call of this thread that returned `status` failed. Works at every
 * trace level, including 0.
 *
 * After dat_ia_openv() the text has several lines: the request and the name of `status`; then,
 * indented by two spaces, each configuration entry that was tried and its outcome (the dynamic
 * linker's message, the provider's own reason). If no entry was tried, these lines name the files
 * that were read and the lines that were skipped in them, with the reasons. A line that begins with
 * "  try: " suggests a remedy. After other calls the text is that of their trace record, usually
 * one line. There is no newline at the end.
 *
 * A failed call sets the text; a successful call leaves it unchanged, so call this function only
 * after a failure. A thread has one text: every later failure replaces it, including one inside a
 * callback or a provider. Results that are not errors (DAT_QUEUE_EMPTY, DAT_TIMEOUT_EXPIRED,
 * DAT_INTERRUPTED_CALL) set none. If the thread's text belongs to another status than the one
 * given, or if the provider recorded no cause, the result is the name of `status` and a remark that
 * there is no cause.
 *
 * To learn why a connection broke, dequeue its DAT_CONNECTION_EVENT_BROKEN in this thread, and then
 * pass DAT_CONNECTION_EVENT_BROKEN in place of a status ("protocol error: DDP tagged: invalid
 * STag").
 *
 * @param[in]  status  what the failed call returned; class bits are ignored
 * @param[out] cause   receives the text, which is never null: "" for DAT_SUCCESS. It belongs to the
 *                     library and is valid in this thread until the thread's next DAT call.
 *
 * @retval DAT_INVALID_PARAMETER  `cause` is null (DAT_INVALID_ARG2)
 *
 * Blocking: no, and nothing is allocated. Threads: safe; each has its own causes. Not part of the
 * specification.
 */
DAT_EXPORT DAT_RETURN DAT_API dat_last_cause(DAT_RETURN status, const char** cause);

/**
 * For providers: record why the call that is about to return `status` fails. Replaces the thread's
 * text; dat_ia_openv() includes it in a text of its own.
 *
 * Other registries lack this function. A provider that must work with them too declares it weak and
 * tests its address, as ours do:
 *
 *     #pragma weak dats_set_last_cause
 *     if (dats_set_last_cause != NULL) dats_set_last_cause(status, "no such device");
 *
 * @param[in] status  what the call returns
 * @param[in] cause   human-readable text: lines separated by newlines, none at the end. Copied. Put
 *                    advice into a line that begins with "try: ".
 *
 * @retval DAT_INVALID_PARAMETER  `cause` is null (DAT_INVALID_ARG2)
 *
 * Blocking: no, and nothing is allocated. Threads: safe. Not part of the specification.
 */
DAT_EXPORT DAT_RETURN DAT_API dats_set_last_cause(DAT_RETURN status, const char* cause);
/** @} */

/** @name Names of values, for messages. @{ */

/**
 * The name of an event, such as "DAT_CONNECTION_EVENT_BROKEN".
 *
 *     fprintf(stderr, "unexpected %s\n", dat_event_name(event.event_number));
 *
 * @param[in] number  event_number of a DAT_EVENT
 *
 * Returns a constant string, never null; for an unknown number "unknown event".
 *
 * Blocking: no, and nothing is allocated. Threads: safe, also in signal handlers. Not part of the
 * specification.
 */
DAT_EXPORT const char* DAT_API dat_event_name(DAT_EVENT_NUMBER number);

/**
 * The name of a completion status, such as "DAT_DTO_ERR_REMOTE_ACCESS", or "unknown status";
 * otherwise as dat_event_name().
 *
 * @param[in] status  status of a DAT_DTO_COMPLETION_EVENT_DATA
 */
DAT_EXPORT const char* DAT_API dat_dto_status_name(DAT_DTO_COMPLETION_STATUS status);

/**
 * The name of an operation, taken from the call that posts it, such as "rdma_write", or "unknown
 * operation"; otherwise as dat_event_name().
 *
 * @param[in] operation  operation of a DAT_DTO_COMPLETION_EVENT_DATA
 */
DAT_EXPORT const char* DAT_API dat_dto_operation_name(DAT_DTOS operation);

/**
 * The name of an EP state, such as "DAT_EP_STATE_CONNECTED", or "unknown state"; otherwise as
 * dat_event_name().
 *
 * @param[in] state  as returned by dat_ep_get_status()
 */
DAT_EXPORT const char* DAT_API dat_ep_state_name(DAT_EP_STATE state);

/**
 * The name of an object type, such as "EP", or "unknown object"; otherwise as dat_event_name().
 *
 * @param[in] type  as returned by dat_get_handle_type()
 */
DAT_EXPORT const char* DAT_API dat_handle_type_name(DAT_HANDLE_TYPE type);
/** @} */

/** @name The configuration. @{ */

/** What a DAT_CONF_RECORD describes. */
typedef enum dat_conf_kind {
  DAT_CONF_FILE =
      0, /**< A file that was tried; `text` says why it could not be read, or is "" if it was. */
  DAT_CONF_ENTRY = 1,  /**< A line with an entry that dat_ia_openv() uses. */
  DAT_CONF_REMARK = 2, /**< A line that is used although it is not quite correct. */
  DAT_CONF_UNUSED = 3, /**< A correct line that is ignored: a kernel or a nondefault entry. */
  DAT_CONF_ERROR = 4   /**< An invalid line, which was dropped. */
} DAT_CONF_KIND;

/** Something found in a dat.conf. The strings are valid only during the call of the visitor. */
typedef struct dat_conf_record {
  DAT_CONF_KIND kind;
  DAT_UINT32 line;     /**< The first is 1; 0 for DAT_CONF_FILE. */
  const char* file;    /**< Path. */
  const char* text;    /**< Human-readable remark; "" for an entry. */
  const char* ia_name; /**< "" if the line was not read that far. Never null, like all strings. */
  /** @name Set for entries, otherwise 0 and "". @{ */
  DAT_UINT32 dapl_version_major;
  DAT_UINT32 dapl_version_minor;
  DAT_BOOLEAN is_thread_safe;
  const char* library;          /**< As written. */
  const char* provider_version; /**< As written. */
  const char* ia_params;        /**< For the provider. */
  const char* platform_params;
  /** @} */
} DAT_CONF_RECORD;

/** Receives the records in file order. `context` is passed through. Must return. */
typedef void (*DAT_CONF_VISITOR)(void* context, const DAT_CONF_RECORD* record);

/**
 * Read a dat.conf as dat_ia_openv() would, and report everything in it. Nothing is loaded or
 * registered, and a configuration that the process has read before has no influence.
 *
 * @param[in] file     path; if null, the file that a process with this environment uses
 * @param[in] visit    called for each record before this function returns
 * @param[in] context  passed to `visit`
 *
 * @retval DAT_PROVIDER_NOT_FOUND      no file could be read; the records say why
 * @retval DAT_INVALID_PARAMETER       `visit` is null (DAT_INVALID_ARG2)
 * @retval DAT_INSUFFICIENT_RESOURCES  out of memory
 *
 * Blocking: reads files. Threads: safe. Not part of the specification.
 */
DAT_EXPORT DAT_RETURN DAT_API dat_registry_read_conf(const char* file, DAT_CONF_VISITOR visit,
                                                     void* context);
/** @} */

DAT_END_DECLS
