/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * Place for additions of this implementation to the interface. There are none.
 */
#pragma once
