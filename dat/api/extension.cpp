// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include <cstdarg>

#include "dat/api/boundary.h"
#include "dat/api/forward.h"

using namespace udapl;
using namespace udapl::dat;

extern "C" {

UDAPL_API DAT_RETURN dat_extension_op(DAT_HANDLE handle, DAT_EXTENDED_OP operation, ...) {
  va_list args;
  va_start(args, operation);
  const DAT_RETURN code = boundary([&]() -> DAT_RETURN {
    Registry* reg = registry();
    if (reg == nullptr) return dat_error(DAT_INVALID_STATE);
    return reg->extension_op(handle, operation, args);
  });
  va_end(args);
  return code;
}

}  // extern "C"
