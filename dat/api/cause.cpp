// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dat/cause.h"

#include "common/result.h"
#include "dat/api/forward.h"

using namespace udapl;

extern "C" {

UDAPL_API DAT_RETURN dat_last_cause(DAT_RETURN status, const char** cause) {
  if (cause == nullptr) return dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2);
  *cause = udapl::dat::cause::explain(status);
  return DAT_SUCCESS;
}

UDAPL_API DAT_RETURN dats_set_last_cause(DAT_RETURN status, const char* cause) {
  if (cause == nullptr) return dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2);
  udapl::dat::cause::set(status, cause);
  return DAT_SUCCESS;
}

}  // extern "C"
