/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * IA, the interface adapter: a port of an adapter that the process has opened, and the owner of all
 * other objects.
 */
#pragma once

#include <dat/api/ia_attr.h>
#include <dat/api/provider_attr.h>
#include <dat/api/types.h>
#include <dat/udat_config.h>

DAT_BEGIN_DECLS

/** To dat_ia_openv(): create no asynchronous EVD, since another open IA of the adapter has one. */
#define DAT_EVD_ASYNC_EXISTS ((DAT_EVD_HANDLE)0x1)

/** From dat_ia_query(): there is an asynchronous EVD, but this IA cannot use it. */
#define DAT_EVD_OUT_OF_SCOPE ((DAT_EVD_HANDLE)0x2)

/**
 * Open an adapter by its name in the configuration, loading the provider if necessary. A name may
 * be opened several times; the IAs are independent of each other.
 *
 * @param[in]     provider             IA name; less than DAT_NAME_MAX_LENGTH bytes
 * @param[in]     asynch_evd_min_qlen  events that a new asynchronous EVD must be able to hold
 * @param[in,out] asynch_evd_handle    the EVD for asynchronous events. If null, a new one is made
 *                                     and its handle stored; it is destroyed with the IA. A handle:
 *                                     that EVD is used and remains the application's.
 *                                     DAT_EVD_ASYNC_EXISTS: none.
 * @param[out]    ia_handle            receives the IA; owned by the application
 * @param[in]     dat_major            version of the interface, exactly as configured
 * @param[in]     dat_minor            same
 * @param[in]     dat_thread_safety    whether the provider serializes calls, exactly as configured
 *
 * Events, on the asynchronous EVD: errors that no call reports.
 *
 * @retval DAT_INVALID_PARAMETER       name null or too long (DAT_INVALID_ARG1); length not positive
 *                                     when an EVD must be created (ARG2); null pointer
 * @retval DAT_INVALID_HANDLE          `ia_handle` is null (DAT_INVALID_HANDLE_IA); the asynchronous
 *                                     EVD is not an EVD
 * @retval DAT_PROVIDER_NOT_FOUND      nothing is configured under this name, version and thread
 *                                     safety, or its library does not load
 *                                     (DAT_NAME_NOT_REGISTERED); the trace says which
 * @retval DAT_INVALID_ADDRESS         the configuration names a device or address that does not
 *                                     exist
 * @retval DAT_INVALID_STATE           the process is exiting, the registry no longer exists
 * @retval DAT_INSUFFICIENT_RESOURCES  out of memory or device contexts
 *
 * Blocking: loads libraries and opens devices. Threads: safe. Spec: uDAPL 2.0 dat_ia_openv
 */
DAT_EXPORT DAT_RETURN DAT_API dat_ia_openv(DAT_NAME_PTR provider, DAT_COUNT asynch_evd_min_qlen,
                                           DAT_EVD_HANDLE* asynch_evd_handle,
                                           DAT_IA_HANDLE* ia_handle, DAT_UINT32 dat_major,
                                           DAT_UINT32 dat_minor, DAT_BOOLEAN dat_thread_safety);

/* For dat_ia_open(): literals are const in C++, and DAT never modifies a name. */
#ifdef __cplusplus
#define DAT_IA_NAME_(name) const_cast<DAT_NAME_PTR>(static_cast<const char*>(name))
#else
#define DAT_IA_NAME_(name) (name)
#endif

/** dat_ia_openv() with the version of these headers, and the thread safety DAT_THREADSAFE. */
#define dat_ia_open(name, qlen, async_evd, ia)                                   \
  dat_ia_openv(DAT_IA_NAME_(name), (qlen), (async_evd), (ia), DAT_VERSION_MAJOR, \
               DAT_VERSION_MINOR, DAT_THREADSAFE)

/**
 * Get the asynchronous EVD and the attributes of an IA.
 *
 * @param[in]  ia_handle
 * @param[out] async_evd_handle    receives the asynchronous EVD, or DAT_EVD_OUT_OF_SCOPE; may be
 *                                 null
 * @param[in]  ia_attr_mask        fields wanted; others may be filled as well
 * @param[out] ia_attr             structure to fill; may be null if its mask is 0
 * @param[in]  provider_attr_mask  fields wanted; others may be filled as well
 * @param[out] provider_attr       structure to fill; may be null if its mask is 0
 *
 * @retval DAT_INVALID_HANDLE     `ia_handle`
 * @retval DAT_INVALID_PARAMETER  unknown bit in a mask (DAT_INVALID_ARG3, ARG5), or null structure
 *                                for a mask (ARG4, ARG6)
 *
 * Blocking: no. Threads: safe. Spec: uDAPL 2.0 dat_ia_query
 */
DAT_EXPORT DAT_RETURN DAT_API dat_ia_query(DAT_IA_HANDLE ia_handle,
                                           DAT_EVD_HANDLE* async_evd_handle,
                                           DAT_IA_ATTR_MASK ia_attr_mask, DAT_IA_ATTR* ia_attr,
                                           DAT_PROVIDER_ATTR_MASK provider_attr_mask,
                                           DAT_PROVIDER_ATTR* provider_attr);

/**
 * Close an IA. When the call returns, no agent runs any more; other IAs are not affected.
 *
 * Abrupt: all that belongs to the IA is destroyed with it. Connections are broken, dat_evd_wait()
 * returns DAT_ABORT, dat_cno_wait() a null EVD, and agents are called with a null EVD. Graceful:
 * only if the application has freed all it created; requests without an answer are rejected.
 *
 * @param[in] ia_handle
 * @param[in] close_flags  DAT_CLOSE_ABRUPT_FLAG or DAT_CLOSE_GRACEFUL_FLAG
 *
 * @retval DAT_INVALID_HANDLE          `ia_handle`
 * @retval DAT_INVALID_PARAMETER       unknown flag
 * @retval DAT_INVALID_STATE           graceful, and objects are left (DAT_INVALID_STATE_IA_IN_USE);
 *                                     the IA stays open
 * @retval DAT_PROVIDER_NOT_FOUND      closed, but the registry knows no provider with the name,
 *                                     version and thread safety that this one reports
 * @retval DAT_INSUFFICIENT_RESOURCES  a catastrophic failure
 *
 * Blocking: waits for the transport. Threads: serialize. Spec: uDAPL 2.0 dat_ia_close
 */
DAT_EXPORT DAT_RETURN DAT_API dat_ia_close(DAT_IA_HANDLE ia_handle, DAT_CLOSE_FLAGS close_flags);

DAT_END_DECLS
