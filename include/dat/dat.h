/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file Everything of DAT that user and kernel level share. */
#pragma once

#include <dat/api/cno.h>
#include <dat/api/cr.h>
#include <dat/api/dto.h>
#include <dat/api/ep.h>
#include <dat/api/evd.h>
#include <dat/api/event.h>
#include <dat/api/handle.h>
#include <dat/api/ia.h>
#include <dat/api/memory.h>
#include <dat/api/registry.h>
#include <dat/api/service_point.h>
#include <dat/api/srq.h>
#include <dat/api/types.h>
#include <dat/dat_error.h>
#include <dat/dat_platform_specific.h>
#include <dat/udat_config.h>
