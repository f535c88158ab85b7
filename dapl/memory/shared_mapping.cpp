// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/memory/shared_mapping.h"

#include "common/errno_text.h"
#include "common/mappings.h"
#include "common/tracing/trace.h"

#include <cerrno>

namespace udapl::dapl {

bool is_shared_mapping(DAT_VADDR address, DAT_VLEN length) noexcept {
  const auto shared =
      all_mappings(address, length, [](const char* rights) { return rights[3] == 's'; });
  if (!shared) UDAPL_TRACE(kError, "/proc/self/maps: %s", ErrnoText(errno).c_str());
  return shared.value_or(false);
}

}  // namespace udapl::dapl
