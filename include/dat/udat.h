/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * uDAPL, the user-level Direct Access Programming Library: the header that an application includes.
 * Start reading in dat/dat.h.
 */
#pragma once

#include <dat/api/flags.h>
#include <dat/dat.h>
#include <dat/dat_platform_specific.h>
#include <dat/udat_config.h>
#include <dat/udat_vendor_specific.h>
