// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include "probe.h"

namespace datinfo {

// Reads all attributes of an open IA and of its provider as text, the most useful ones first.
[[nodiscard]] DAT_RETURN attributes_of(DAT_IA_HANDLE ia, Attributes& attributes);

}  // namespace datinfo
