/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * Why a call failed, in words, and what dat.conf says: extensions of this implementation, which
 * other libraries named libdat2 do not have (version node DAT_2.1).
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

/** Longest cause in bytes, with its terminator. What is longer ends with "...". */
#define DAT_LAST_CAUSE_MAX 4096

/**
 * Tell why the last call of this thread that failed with `status` has failed. Works at every trace
 * level, also at 0.
 *
 * After dat_ia_openv() the text has several lines: what was asked for and the name of `status`;
 * then, indented by two blanks, each entry of the configuration that was tried and what came of it
 * (the dynamic linker's message, the provider's own reason), or, if there was none, which files
 * were read, which of their lines were skipped and why. A line that begins with "  try: " says what
 * may help. After other calls the text is what their trace record says, mostly one line. There is
 * no newline at the end.
 *
 * A failed call sets the text; a call that succeeds leaves it alone, so ask only after a failure. A
 * thread has one text: another failure replaces it, also one inside a callback or a provider.
 * Results that are no faults (DAT_QUEUE_EMPTY, DAT_TIMEOUT_EXPIRED, DAT_INTERRUPTED_CALL) set none.
 * If the thread's text is about another status than the one given, or its provider told nothing,
 * the answer is the name of `status` and a remark that there is no cause.
 *
 * Why a connection broke: after the thread has taken a DAT_CONNECTION_EVENT_BROKEN from an EVD, ask
 * with DAT_CONNECTION_EVENT_BROKEN in place of a status ("protocol error: DDP tagged: invalid
 * STag").
 *
 * @param[in]  status  what the failed call returned; class bits do not matter
 * @param[out] cause   receives the text, which is never null: "" for DAT_SUCCESS. It belongs to the
 *                     library and is valid in this thread until the thread's next DAT call.
 *
 * @retval DAT_INVALID_PARAMETER  `cause` is null (DAT_INVALID_ARG2)
 *
 * Blocking: no, and nothing is allocated. Threads: safe; each sees its own causes. No part of the
 * specification.
 */
DAT_EXPORT DAT_RETURN DAT_API dat_last_cause(DAT_RETURN status, const char** cause);

/**
 * For providers: say why the call that is about to return `status` fails. Replaces the thread's
 * text; dat_ia_openv() puts it into a text of its own.
 *
 * Other registries lack this function. A provider that shall work with them declares it weak and
 * tests its address, as ours do:
 *
 *     #pragma weak dats_set_last_cause
 *     if (dats_set_last_cause != NULL) dats_set_last_cause(status, "no such device");
 *
 * @param[in] status  what the call returns
 * @param[in] cause   for people: lines separated by newlines, none at the end. Copied. Advice goes
 *                    into a line that begins with "try: ".
 *
 * @retval DAT_INVALID_PARAMETER  `cause` is null (DAT_INVALID_ARG2)
 *
 * Blocking: no, and nothing is allocated. Threads: safe. No part of the specification.
 */
DAT_EXPORT DAT_RETURN DAT_API dats_set_last_cause(DAT_RETURN status, const char* cause);
/** @} */

/** @name Names. What numbers are called, for messages. @{ */

/**
 * The name of an event: "DAT_CONNECTION_EVENT_BROKEN".
 *
 *     fprintf(stderr, "unexpected %s\n", dat_event_name(event.event_number));
 *
 * @param[in] number  what DAT_EVENT has
 *
 * Returns a text that lives for ever and is never null; of a number that is none, "unknown event".
 *
 * Blocking: no, and nothing is allocated. Threads: safe, also in signal handlers. No part of the
 * specification.
 */
DAT_EXPORT const char* DAT_API dat_event_name(DAT_EVENT_NUMBER number);

/**
 * The name of how a transfer ended, "DAT_DTO_ERR_REMOTE_ACCESS"; else as dat_event_name().
 *
 * @param[in] status  what DAT_DTO_COMPLETION_EVENT_DATA has
 */
DAT_EXPORT const char* DAT_API dat_dto_status_name(DAT_DTO_COMPLETION_STATUS status);

/**
 * The name of a transfer as in the call that posts it, "rdma_write"; else as dat_event_name().
 *
 * @param[in] operation  what DAT_DTO_COMPLETION_EVENT_DATA has
 */
DAT_EXPORT const char* DAT_API dat_dto_operation_name(DAT_DTOS operation);

/**
 * The name of a state of an EP, "DAT_EP_STATE_CONNECTED"; else as dat_event_name().
 *
 * @param[in] state  what dat_ep_get_status() gives
 */
DAT_EXPORT const char* DAT_API dat_ep_state_name(DAT_EP_STATE state);

/**
 * What an object is called, "EP"; else as dat_event_name().
 *
 * @param[in] type  what dat_get_handle_type() gives
 */
DAT_EXPORT const char* DAT_API dat_handle_type_name(DAT_HANDLE_TYPE type);
/** @} */

/** @name The configuration. @{ */

/** What a DAT_CONF_RECORD is about. */
typedef enum dat_conf_kind {
  DAT_CONF_FILE =
      0, /**< A file that was tried; `text` says why it could not be read, "": it was. */
  DAT_CONF_ENTRY = 1,  /**< A line that is an entry which dat_ia_openv() uses. */
  DAT_CONF_REMARK = 2, /**< A line that is used although it is not quite right. */
  DAT_CONF_UNUSED = 3, /**< A line that is right but ignored: a kernel or a nondefault entry. */
  DAT_CONF_ERROR = 4   /**< A line that is wrong and was dropped. */
} DAT_CONF_KIND;

/** Something found in a dat.conf. The strings are valid during the call of the visitor. */
typedef struct dat_conf_record {
  DAT_CONF_KIND kind;
  DAT_UINT32 line;     /**< The first is 1; 0 for DAT_CONF_FILE. */
  const char* file;    /**< Path. */
  const char* text;    /**< What is to be said about it, for people; "" for an entry. */
  const char* ia_name; /**< "" if the line did not get that far. Not null, as all strings here. */
  /** @name Of entries, else 0 and "". @{ */
  DAT_UINT32 dapl_version_major;
  DAT_UINT32 dapl_version_minor;
  DAT_BOOLEAN is_thread_safe;
  const char* library;          /**< As written. */
  const char* provider_version; /**< As written. */
  const char* ia_params;        /**< For the provider. */
  const char* platform_params;
  /** @} */
} DAT_CONF_RECORD;

/** Receives the records in the order of the file. `context` is the caller's. Must return. */
typedef void (*DAT_CONF_VISITOR)(void* context, const DAT_CONF_RECORD* record);

/**
 * Read a dat.conf as dat_ia_openv() would, and show everything that is in it. Nothing is loaded or
 * registered, and what the process has read before does not matter.
 *
 * @param[in] file     path; null: the file that a process with this environment uses
 * @param[in] visit    called for each record before this function returns
 * @param[in] context  handed to it
 *
 * @retval DAT_PROVIDER_NOT_FOUND      no file could be read; the records say why
 * @retval DAT_INVALID_PARAMETER       `visit` is null (DAT_INVALID_ARG2)
 * @retval DAT_INSUFFICIENT_RESOURCES  out of memory
 *
 * Blocking: reads files. Threads: safe. No part of the specification.
 */
DAT_EXPORT DAT_RETURN DAT_API dat_registry_read_conf(const char* file, DAT_CONF_VISITOR visit,
                                                     void* context);
/** @} */

DAT_END_DECLS
