// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dat/strerror.h"

#include "common/result.h"

namespace udapl::dat {

DAT_RETURN describe(DAT_RETURN value, const char** major, const char** minor) noexcept {
  if (major == nullptr) return dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2);
  const char* type = type_name(value);
  *major = type != nullptr ? type : "unknown error";
  if (type == nullptr) return DAT_INVALID_PARAMETER;
  if (minor == nullptr) return DAT_SUCCESS;
  const char* subtype = subtype_name(value);
  *minor = subtype != nullptr ? subtype : "unknown minor error";
  return subtype != nullptr ? DAT_SUCCESS : DAT_INVALID_PARAMETER;
}

std::string error_text(DAT_RETURN value) {
  const char* type = type_name(value);
  const char* subtype = subtype_name(value);
  std::string text = type != nullptr ? type : "unknown error";
  if (subtype != nullptr && *subtype != '\0') text += std::string(", ") + subtype;
  return text;
}

}  // namespace udapl::dat
