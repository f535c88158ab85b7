/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * Trace levels of the running process, and the vendor-specific attributes that give access to them
 * and to delayed acknowledgement: an extension, as in IBM's uDAPL for AIX.
 *
 * Every provider of this implementation has in the vendor attributes of dat_ia_query():
 *
 *     delayed_ack_supported  "true" or "false": whether EPs have the attribute delayed_ack
 *     vendor_extension       "true": debug_query and debug_modify exist
 *     vendor_ext_version     "1.0"
 *     debug_query            a function: DAT_TRCLVL_QUERY_FUNC
 *     debug_modify           a function: DAT_TRCLVL_MODIFY_FUNC
 *
 * The values of the last two are not text: the pointer itself is the address of the function. Use
 * dat_trclvl_query_func() and dat_trclvl_modify_func(), and do not print these values
 * (dat_vendor_attr_is_text()). The functions do the same as dat_trclvl_query() and
 * dat_trclvl_modify() of libdat2, which a program may also call directly.
 *
 * An EP's provider-specific attribute delayed_ack is "false", or "true" if the dat.conf entry has
 * delayed_ack=on, unless set by dat_ep_modify() with DAT_EP_FIELD_EP_ATTR_NUM_PROVIDER_ATTR and
 * DAT_EP_FIELD_EP_ATTR_PROVIDER_SPECIFIC_ATTR. With "true" Sends and RDMA Writes complete when the
 * peer has placed their data; with "false" Writes do, unless the entry has delayed_ack=off.
 */
#pragma once

#include <dat/udat.h>

#include <stdint.h>
#include <string.h>

DAT_BEGIN_DECLS

/** Names of vendor-specific attributes. */
#define DAT_VENDOR_ATTR_DELAYED_ACK_SUPPORTED "delayed_ack_supported"
#define DAT_VENDOR_ATTR_EXTENSION "vendor_extension"
#define DAT_VENDOR_ATTR_EXT_VERSION "vendor_ext_version"
#define DAT_VENDOR_ATTR_DEBUG_QUERY "debug_query"
#define DAT_VENDOR_ATTR_DEBUG_MODIFY "debug_modify"
/** Name of a provider-specific attribute of an EP. */
#define DAT_EP_ATTR_DELAYED_ACK "delayed_ack"

/** The component whose level is meant. */
#define DAT_TRCLVL_DAT 0  /**< The registry, libdat2: as DAT_TRACE_LEVEL. */
#define DAT_TRCLVL_DAPL 1 /**< The IA's provider: as DAPL_TRACE_LEVEL. */

/** Levels. A record of level n is written while the level is at least n. */
#define TRC_LVL_OFF 0
#define TRC_LVL_ERROR 1
#define TRC_LVL_NORMAL 3
#define TRC_LVL_DETAIL 7
#define TRC_LVL_MAX 10

/**
 * Get a trace level of this process.
 *
 * @param[in]  ia_handle  an open IA, whose provider is queried
 * @param[in]  component  DAT_TRCLVL_DAT or DAT_TRCLVL_DAPL
 * @param[out] level      receives 0 to 10
 *
 * @retval DAT_INVALID_HANDLE       `ia_handle` is no open IA (DAT_INVALID_HANDLE_IA)
 * @retval DAT_INVALID_PARAMETER    no such component (ARG2); `level` is null (ARG3)
 * @retval DAT_MODEL_NOT_SUPPORTED  the provider has no trace levels: it is not one of ours
 *
 * Blocking: no. Threads: safe. Not part of the specification.
 */
DAT_EXPORT DAT_RETURN DAT_API dat_trclvl_query(DAT_IA_HANDLE ia_handle, DAT_COUNT component,
                                               DAT_COUNT* level);

/**
 * Change a trace level of this process, for all its IAs of the same provider library and for all
 * its threads. Takes effect at the next trace point.
 *
 * @param[in] ia_handle  an open IA
 * @param[in] component  DAT_TRCLVL_DAT or DAT_TRCLVL_DAPL
 * @param[in] level      0 to 10
 *
 * @retval DAT_INVALID_HANDLE       `ia_handle` is no open IA (DAT_INVALID_HANDLE_IA)
 * @retval DAT_INVALID_PARAMETER    no such component (ARG2); `level` is out of range (ARG3).
 *                                  Nothing has changed.
 * @retval DAT_MODEL_NOT_SUPPORTED  the provider has no trace levels: it is not one of ours
 *
 * Blocking: no. Threads: safe. Not part of the specification.
 */
DAT_EXPORT DAT_RETURN DAT_API dat_trclvl_modify(DAT_IA_HANDLE ia_handle, DAT_COUNT component,
                                                DAT_COUNT level);

/** Types of debug_query and debug_modify. */
typedef DAT_RETURN (*DAT_TRCLVL_QUERY_FUNC)(DAT_IA_HANDLE ia_handle, DAT_COUNT component,
                                            DAT_COUNT* level);
typedef DAT_RETURN (*DAT_TRCLVL_MODIFY_FUNC)(DAT_IA_HANDLE ia_handle, DAT_COUNT component,
                                             DAT_COUNT level);

/** The value of a named attribute; null if it is not in the array. */
static __inline__ const char* dat_named_attr_value(const DAT_NAMED_ATTR* attr, DAT_COUNT count,
                                                   const char* name) {
  DAT_COUNT i;
  for (i = 0; i < count; ++i) {
    if (strcmp(attr[i].name, name) == 0) return attr[i].value;
  }
  return 0;
}

/** Whether the value of the vendor attribute with this name is text that may be printed. */
static __inline__ int dat_vendor_attr_is_text(const char* name) {
  return strcmp(name, DAT_VENDOR_ATTR_DEBUG_QUERY) != 0 &&
         strcmp(name, DAT_VENDOR_ATTR_DEBUG_MODIFY) != 0;
}

/** The debug_query of a provider, from the IA attributes that dat_ia_query() filled; or null. */
static __inline__ DAT_TRCLVL_QUERY_FUNC dat_trclvl_query_func(const DAT_IA_ATTR* attr) {
  return (DAT_TRCLVL_QUERY_FUNC)(uintptr_t)dat_named_attr_value(
      attr->vendor_attr, attr->num_vendor_attr, DAT_VENDOR_ATTR_DEBUG_QUERY);
}
/** The debug_modify of a provider, likewise. */
static __inline__ DAT_TRCLVL_MODIFY_FUNC dat_trclvl_modify_func(const DAT_IA_ATTR* attr) {
  return (DAT_TRCLVL_MODIFY_FUNC)(uintptr_t)dat_named_attr_value(
      attr->vendor_attr, attr->num_vendor_attr, DAT_VENDOR_ATTR_DEBUG_MODIFY);
}

DAT_END_DECLS
