// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Properties that C++ programs rely on beyond layout.c: types passed by value as in C, functions
// with C linkage, enumerations of 32 bits. There is nothing to run: an error does not compile.

#include <dat/dat_ib_extensions.h>
#include <dat/dat_iw_extensions.h>
#include <dat/dat_registry.h>
#include <dat/udat.h>

#include <type_traits>

namespace {

template <typename T>
constexpr bool kLikeC = std::is_trivially_copyable_v<T>&& std::is_standard_layout_v<T>;

// Passed by value, in registers: 8 and 16 bytes.
static_assert(kLikeC<DAT_CONTEXT> && sizeof(DAT_CONTEXT) == 8);
static_assert(kLikeC<DAT_REGION_DESCRIPTION> && sizeof(DAT_REGION_DESCRIPTION) == 16);
static_assert(kLikeC<DAT_OS_WAIT_PROXY_AGENT> && sizeof(DAT_OS_WAIT_PROXY_AGENT) == 16);

static_assert(kLikeC<DAT_EVENT> && sizeof(DAT_EVENT) == 120);
static_assert(kLikeC<DAT_IA_ATTR> && sizeof(DAT_IA_ATTR) == 688);
static_assert(kLikeC<DAT_PROVIDER_ATTR> && sizeof(DAT_PROVIDER_ATTR) == 520);
static_assert(kLikeC<DAT_EP_ATTR> && sizeof(DAT_EP_ATTR) == 88);
static_assert(kLikeC<DAT_EP_PARAM> && sizeof(DAT_EP_PARAM) == 184);
static_assert(kLikeC<DAT_PROVIDER_INFO> && sizeof(DAT_PROVIDER_INFO) == 268);
static_assert(kLikeC<DAT_PROVIDER> && sizeof(DAT_PROVIDER) == 648);
static_assert(kLikeC<DAT_LMR_TRIPLET> && sizeof(DAT_LMR_TRIPLET) == 16);
static_assert(kLikeC<DAT_RMR_TRIPLET> && sizeof(DAT_RMR_TRIPLET) == 16);
static_assert(kLikeC<DAT_IB_EXTENSION_EVENT_DATA>);
static_assert(sizeof(DAT_IB_EXTENSION_EVENT_DATA) == sizeof(DAT_EVENT::event_extension_data));
static_assert(alignof(DAT_IB_EXTENSION_EVENT_DATA) <= alignof(DAT_EVENT));

static_assert(std::is_same_v<std::underlying_type_t<DAT_BOOLEAN>, unsigned>);
static_assert(std::is_same_v<std::underlying_type_t<DAT_RETURN_TYPE>, unsigned>);
static_assert(std::is_same_v<std::underlying_type_t<DAT_EVENT_NUMBER>, unsigned>);

// A slot of the provider table has the type of the function of the same name.
static_assert(
    std::is_same_v<decltype(DAT_PROVIDER::ep_post_send_func), decltype(&dat_ep_post_send)>);

// A string literal can be passed as a name without a warning, which would be an error here.
[[maybe_unused]] DAT_RETURN open_by_literal(DAT_EVD_HANDLE* async_evd, DAT_IA_HANDLE* ia) {
  return dat_ia_open("soft", 8, async_evd, ia);
}

}  // namespace

// These redeclarations with C linkage fail to compile if the header omits it.
extern "C" DAT_RETURN dat_evd_dequeue(DAT_EVD_HANDLE, DAT_EVENT*);
extern "C" DAT_RETURN dat_extension_op(DAT_HANDLE, DAT_EXTENDED_OP, ...);
extern "C" void dat_provider_init(const DAT_PROVIDER_INFO*, const char*);
