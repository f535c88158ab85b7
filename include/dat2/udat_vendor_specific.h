/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * The name under which existing sources include dat/udat_vendor_specific.h.
 */
#pragma once

#include <dat/udat_vendor_specific.h>
