// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include "common/result.h"
#include "dapl/transport/adapter.h"

#include <vector>

// The project's own named attributes; <dat/dat_trclvl.h> documents them.
namespace udapl::dapl {

struct EpConfig;

// vendor_attr of dat_ia_query. The strings have static lifetime.
[[nodiscard]] std::vector<DAT_NAMED_ATTR> vendor_attributes(const transport::Attributes& adapter);

// Applies the provider-specific attributes of an EP in `from`. INVALID_PARAMETER
// with subtype `arg`: a name that EPs of this adapter do not have, or a value that it cannot have.
// Unnamed ones stay as they are. Then puts the array that queries show into `config`.
[[nodiscard]] Status apply_ep_attributes(const transport::Attributes& adapter,
                                         const DAT_EP_ATTR& from, DAT_RETURN arg, EpConfig* config);
// Like apply_ep_attributes(), for calls in which programs pass attributes that they never
// initialised: invalid and unreadable ones are ignored, as OpenFabrics does (docs/compatibility.md
// C70). `from` may be config->attr.
void adopt_ep_attributes(const transport::Attributes& adapter, const DAT_EP_ATTR& from,
                         EpConfig* config) noexcept;
void show_ep_attributes(const transport::Attributes& adapter, EpConfig* config) noexcept;

}  // namespace udapl::dapl
