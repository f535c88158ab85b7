// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include <algorithm>
#include <cstring>
#include <string>

#include "common/tracing/cause.h"
#include "dat/known_tables.h"
#include "dat/provider_of.h"
#include "dat/registry.h"

namespace udapl::dat {

namespace {

// The key for operations that open by name: their arguments contain no version.
IaKey extension_key(const char* name) { return {name, 2, 0, false}; }

DAT_RETURN refuse(DAT_EXTENDED_OP op, DAT_RETURN code) {
  UDAPL_EXPLAIN(kNormal, code, "extension operation %d refused with 0x%x", op, code);
  return code;
}

}  // namespace

DAT_RETURN Registry::extension_op(DAT_HANDLE handle, DAT_EXTENDED_OP op, va_list args) {
  if (handle != nullptr && !extensions_in_use_.load(std::memory_order_relaxed))
    return refuse(op, dat_error(DAT_NOT_IMPLEMENTED));
  if ((op & DAT_OPEN_EXTENSION_BASE) != 0) {
    const DAT_NAME_PTR name = va_arg(args, DAT_NAME_PTR);
    if (name == nullptr) return refuse(op, dat_error(DAT_INVALID_HANDLE, DAT_INVALID_ARG3));
    return extension_open(name, op, args);
  }
  if ((op & DAT_CLOSE_EXTENSION_BASE) != 0) return extension_close(handle, op, args);
  const DAT_IA_HANDLE ia = table_.pointer_of(handle);
  if (ia != nullptr) handle = ia;
  if (!is_object_address(handle))
    return refuse(op, dat_error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1));
  return call_slot<&DAT_PROVIDER::handle_extendedop_func>("dat_extension_op", handle, op, args);
}

// The provider gets the name instead of a handle. It opens an object of its own, not an IA of the
// table, and the consumer later passes that object to extension_close.
DAT_RETURN Registry::extension_open(DAT_NAME_PTR name, DAT_EXTENDED_OP op, va_list args) {
  // Allocated first, because after the provider has opened it nothing here may fail.
  std::list<ProviderLease> kept(1);
  Result<ProviderLease> lease =
      with_provider(extension_key(name), [&](const Registration& provider) {
        extensions_in_use_.store(true, std::memory_order_relaxed);
        if (provider.extension == nullptr) return failure(DAT_NOT_IMPLEMENTED);
        va_list copy;  // a va_list can be read only once, and there may be another candidate
        va_copy(copy, args);
        const DAT_RETURN code = provider.extension(name, op, copy);
        va_end(copy);
        return Status(code);
      });
  if (!lease.ok()) return lease.status().code();
  kept.front() = std::move(*lease);
  ScopedLock lock(mutex_);
  extension_leases_.splice(extension_leases_.end(), kept);
  return DAT_SUCCESS;
}

DAT_RETURN Registry::extension_close(DAT_HANDLE handle, DAT_EXTENDED_OP op, va_list args) {
  if (!is_object_address(handle))
    return refuse(op, dat_error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA));
  const DAT_PROVIDER& provider = provider_of(handle);
  const std::string name = provider.device_name != nullptr ? provider.device_name : "";
  const DAT_RETURN code =
      call_slot<&DAT_PROVIDER::handle_extendedop_func>("dat_extension_op", handle, op, args);
  if (code != DAT_SUCCESS) return code;
  std::list<ProviderLease> ended;
  ScopedLock lock(mutex_);
  const auto of_provider = [&](const ProviderLease& lease) {
    return lease.registration().provider == &provider;
  };
  const auto of_name = [&](const ProviderLease& lease) {
    return key_of(lease.registration().info) == extension_key(name.c_str());
  };
  auto found = std::find_if(extension_leases_.begin(), extension_leases_.end(), of_provider);
  if (found == extension_leases_.end())
    found = std::find_if(extension_leases_.begin(), extension_leases_.end(), of_name);
  if (found != extension_leases_.end()) ended.splice(ended.end(), extension_leases_, found);
  return DAT_SUCCESS;
}

}  // namespace udapl::dat
