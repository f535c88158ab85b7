/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file Reserved for vendor additions to user-level DAT. */
#pragma once

#include <dat/dat_vendor_specific.h>
