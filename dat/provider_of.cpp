// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dat/provider_of.h"

#include "common/tracing/cause.h"
#include "common/tracing/trace.h"

namespace udapl::dat {

DAT_RETURN not_implemented(const char* function) noexcept {
  const DAT_RETURN code = dat_error(DAT_NOT_IMPLEMENTED);
  if (trace::enabled(trace::kNormal))
    trace::write_error(trace::kNormal, code, function, "the provider does not have this function");
  udapl::cause::note(code, "%s: the provider does not have this function", function);
  return code;
}

}  // namespace udapl::dat
