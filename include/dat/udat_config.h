/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * The version of the DAT interface that these headers describe.
 */
#pragma once

/** Major version of the interface; applications of another major version do not work with it. */
#define DAT_VERSION_MAJOR 2

/** Minor version of the interface. */
#define DAT_VERSION_MINOR 0

/**
 * The thread safety that dat_ia_open() requests. It opens only providers whose dat.conf entry says
 * "nonthreadsafe"; an application that wants a "threadsafe" one calls dat_ia_openv() with DAT_TRUE.
 */
#define DAT_THREADSAFE DAT_FALSE

/** Extensions are part of the binary interface and always present; programs may test the macro. */
#ifndef DAT_EXTENSIONS
#define DAT_EXTENSIONS 1
#endif
