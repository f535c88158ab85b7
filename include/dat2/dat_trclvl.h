/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * The name under which existing sources include dat/dat_trclvl.h.
 */
#pragma once

#include <dat/dat_trclvl.h>
