// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The sizes and offsets on LP64 Linux, as seen from C, on which third-party binaries rely. There is
// nothing to run: an error does not compile. check_abi.py checks everything else.

#include <assert.h>
#include <dat/dat_ib_extensions.h>
#include <dat/dat_registry.h>
#include <dat/udat.h>

static_assert(sizeof(void*) == 8, "the numbers below are those of LP64");

static_assert(sizeof(DAT_EVENT) == 120, "");
static_assert(offsetof(DAT_EVENT, event_number) == 0, "");
static_assert(offsetof(DAT_EVENT, evd_handle) == 8, "");
static_assert(offsetof(DAT_EVENT, event_data) == 16, "");
static_assert(offsetof(DAT_EVENT, event_extension_data) == 56, "");

static_assert(sizeof(DAT_DTO_COMPLETION_EVENT_DATA) == 32, "");
static_assert(offsetof(DAT_DTO_COMPLETION_EVENT_DATA, ep_handle) == 0, "");
static_assert(offsetof(DAT_DTO_COMPLETION_EVENT_DATA, user_cookie) == 8, "");
static_assert(offsetof(DAT_DTO_COMPLETION_EVENT_DATA, status) == 16, "");
static_assert(offsetof(DAT_DTO_COMPLETION_EVENT_DATA, transfered_length) == 20, "");
static_assert(offsetof(DAT_DTO_COMPLETION_EVENT_DATA, operation) == 24, "");
static_assert(offsetof(DAT_DTO_COMPLETION_EVENT_DATA, rmr_context) == 28, "");

static_assert(sizeof(DAT_CONNECTION_EVENT_DATA) == 24, "");
static_assert(offsetof(DAT_CONNECTION_EVENT_DATA, ep_handle) == 0, "");
static_assert(offsetof(DAT_CONNECTION_EVENT_DATA, private_data_size) == 8, "");
static_assert(offsetof(DAT_CONNECTION_EVENT_DATA, private_data) == 16, "");

static_assert(sizeof(DAT_CR_ARRIVAL_EVENT_DATA) == 40, "");
static_assert(sizeof(DAT_IA_ATTR) == 688, "");
static_assert(sizeof(DAT_PROVIDER_ATTR) == 520, "");
static_assert(sizeof(DAT_EP_ATTR) == 88, "");
static_assert(sizeof(DAT_EP_PARAM) == 184, "");
static_assert(sizeof(DAT_PROVIDER_INFO) == 268, "");
static_assert(sizeof(DAT_SOCK_ADDR6) == 28, "");
static_assert(sizeof(DAT_LMR_TRIPLET) == 16, "");
static_assert(sizeof(DAT_RMR_TRIPLET) == 16, "");
static_assert(sizeof(DAT_IB_EXTENSION_EVENT_DATA) == 64, "");
static_assert(sizeof(DAT_IB_ADDR_HANDLE) == 40, "");

// The registry and third-party providers find each other's functions by these offsets.
static_assert(sizeof(DAT_PROVIDER) == 648, "");
static_assert(offsetof(DAT_PROVIDER, device_name) == 0, "");
static_assert(offsetof(DAT_PROVIDER, ia_open_func) == 16, "");
static_assert(offsetof(DAT_PROVIDER, ia_query_func) == 24, "");
static_assert(offsetof(DAT_PROVIDER, ia_close_func) == 32, "");
static_assert(offsetof(DAT_PROVIDER, handle_extendedop_func) == 640, "");

static_assert(DAT_NOT_IMPLEMENTED == 0x3fff0000, "");
static_assert(DAT_GET_TYPE(DAT_CLASS_ERROR | DAT_NOT_IMPLEMENTED) == DAT_NOT_IMPLEMENTED, "");

// An agent can be cleared both by initialisation and by assignment.
DAT_OS_WAIT_PROXY_AGENT layout_null_agent(DAT_OS_WAIT_PROXY_AGENT* agent);

DAT_OS_WAIT_PROXY_AGENT layout_null_agent(DAT_OS_WAIT_PROXY_AGENT* agent) {
  const DAT_OS_WAIT_PROXY_AGENT none = DAT_OS_WAIT_PROXY_AGENT_NULL;
  *agent = DAT_OS_WAIT_PROXY_AGENT_NULL;
  return none;
}
