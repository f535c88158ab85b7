// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include <cstdarg>

#include "dat/api/boundary.h"
#include "dat/api/forward.h"

using namespace udapl;
using namespace udapl::dat;

namespace {

// Whether this is a post, or another operation on an object of a provider: the handle is neither an
// IA's number nor the name of something to open. The registry only passes such operations on.
bool is_providers(DAT_HANDLE handle, DAT_EXTENDED_OP operation) noexcept {
  if ((operation & (DAT_OPEN_EXTENSION_BASE | DAT_CLOSE_EXTENSION_BASE)) != 0) return false;
  if (!is_object_address(handle)) return false;
  const DAT_PROVIDER* const table = *static_cast<const DAT_PROVIDER* const*>(handle);  // or null
  return known_tables().has(table) && table->handle_extendedop_func != nullptr;
}

// Whether the handle is invalid: it is not an object, although it is neither an IA's number nor the
// name of something to open.
bool is_no_object(DAT_HANDLE handle, DAT_EXTENDED_OP operation) noexcept {
  return (operation & DAT_OPEN_EXTENSION_BASE) == 0 && is_object_address(handle) &&
         !is_object<&DAT_PROVIDER::handle_extendedop_func>(handle);
}

DAT_RETURN call_registry(DAT_HANDLE handle, DAT_EXTENDED_OP operation, va_list args) {
  if (is_no_object(handle, operation))
    return refuse_handle("dat_extension_op", handle, DAT_INVALID_HANDLE1);
  return boundary([&]() -> DAT_RETURN {
    Registry* reg = registry();
    if (reg == nullptr) return dat_error(DAT_INVALID_STATE);
    return reg->extension_op(handle, operation, args);
  });
}

}  // namespace

extern "C" {

UDAPL_API DAT_RETURN dat_extension_op(DAT_HANDLE handle, DAT_EXTENDED_OP operation, ...) {
  va_list args;
  va_start(args, operation);
  const DAT_RETURN code = is_providers(handle, operation)
                              ? provider_of(handle).handle_extendedop_func(handle, operation, args)
                              : call_registry(handle, operation, args);
  va_end(args);
  return code;
}

}  // extern "C"
