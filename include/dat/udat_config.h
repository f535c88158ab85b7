/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file Version of the DAT interface that these headers describe. */
#pragma once

#define DAT_VERSION_MAJOR 2
#define DAT_VERSION_MINOR 0

#define DAT_THREADSAFE DAT_FALSE

#ifndef DAT_EXTENSIONS
#define DAT_EXTENSIONS 1
#endif
