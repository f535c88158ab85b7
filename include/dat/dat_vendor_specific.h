/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file Reserved for vendor additions. */
#pragma once
