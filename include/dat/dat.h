/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * The DAT 2.0 interface, one header per kind of object. Applications include <dat/udat.h>.
 *
 * DAT gives a process direct access to a network adapter that moves data between registered memory
 * of two hosts. The objects, in the order in which a program meets them:
 *
 *     IA   interface adapter        dat/api/ia.h             one opened port of an adapter
 *     PZ   protection zone          dat/api/pz.h             which EPs may access which memory
 *     LMR  local memory region      dat/api/lmr.h            registered memory
 *     RMR  remote memory region     dat/api/rmr.h            a window for peers into an LMR
 *     EVD  event dispatcher         dat/api/evd.h, event.h   a queue of events
 *     CNO  notification object      dat/api/cno.h            one place to wait for several EVDs
 *     EP   endpoint                 dat/api/ep.h             one end of a connection
 *     SRQ  shared receive queue     dat/api/srq.h            receive buffers for several EPs
 *     PSP, RSP, CSP  service points dat/api/service_point.h  listen for connections
 *     CR   connection request       dat/api/cr.h             what service points receive
 *
 * Connections are made and ended in dat/api/connection.h, data is moved in dat/api/dto.h.
 *
 * Common to all calls:
 *
 * - The result is DAT_SUCCESS or one of those listed, with DAT_CLASS_ERROR set and possibly a
 *   subtype (dat/dat_error.h). DAT_INTERNAL_ERROR, a fault of the provider, is always possible and
 *   not listed. A provider that lacks a call altogether returns DAT_MODEL_NOT_SUPPORTED or
 *   DAT_NOT_IMPLEMENTED.
 * - A call that fails has created and changed nothing. Its [out] arguments are undefined unless the
 *   text says otherwise.
 * - Every call detects a null handle; a destroyed handle is detected only where that is possible.
 * - A structure passed to a call is not retained. Pointers that a query puts into a structure
 *   (addresses, attributes) belong to the provider and are valid as long as the queried object.
 * - Free objects in the order EP, SRQ, RMR, LMR, PZ and service points, EVD, CNO, IA. An object
 *   that is in use is not freed (DAT_INVALID_STATE); dat_ia_close() can free everything.
 *
 * The last lines of each description state:
 *
 * - Blocking: whether the call can put the thread to sleep. If not, the work may happen later, and
 *   an event then reports its completion; posts and dequeues do not allocate memory either.
 * - Threads: "safe" calls may run at the same time as any other call. "serialize": the application
 *   must not run two calls on one object at once, unless the IA is thread safe (is_thread_safe of
 *   DAT_PROVIDER_ATTR). No call may run while another destroys its object.
 * - Spec: the call of the uDAPL 2.0 specification that it implements.
 */
#pragma once

#include <dat/api/cno.h>
#include <dat/api/connection.h>
#include <dat/api/cr.h>
#include <dat/api/dto.h>
#include <dat/api/ep.h>
#include <dat/api/evd.h>
#include <dat/api/event.h>
#include <dat/api/handle.h>
#include <dat/api/ia.h>
#include <dat/api/lmr.h>
#include <dat/api/pz.h>
#include <dat/api/registry.h>
#include <dat/api/rmr.h>
#include <dat/api/service_point.h>
#include <dat/api/srq.h>
#include <dat/api/types.h>
#include <dat/dat_error.h>
#include <dat/dat_platform_specific.h>
#include <dat/udat_config.h>
