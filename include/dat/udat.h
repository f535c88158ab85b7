/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file User-level DAT: the header an application includes. */
#pragma once

#include <dat/dat.h>
#include <dat/dat_platform_specific.h>
#include <dat/udat_config.h>
#include <dat/udat_vendor_specific.h>
