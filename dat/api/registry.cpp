// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include <dat/dat_registry.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "dat/api/boundary.h"
#include "dat/api/forward.h"
#include "dat/strerror.h"

using namespace udapl;
using namespace udapl::dat;

namespace {

// Succeeds even if the maximum is too small, because existing programs rely on that; but not if it
// is 0. A negative maximum means that there is no room.
DAT_RETURN list_providers(Registry& reg, DAT_COUNT max, DAT_COUNT* count,
                          DAT_PROVIDER_INFO** list) {
  if (count == nullptr) {
    UDAPL_EXPLAIN(kNormal, dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2),
                  "null pointer for the number of entries");
    return dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2);
  }
  const std::vector<DAT_PROVIDER_INFO> providers = reg.list();
  if (max == 0) {
    *count = static_cast<DAT_COUNT>(providers.size());
    return dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1);
  }
  const std::size_t wanted = std::min(static_cast<std::size_t>(std::max(max, 0)), providers.size());
  bool places = list != nullptr;
  for (std::size_t i = 0; places && i < wanted; ++i) places = list[i] != nullptr;
  if (!places) {
    UDAPL_EXPLAIN(kNormal, dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3),
                  "the list or one of its elements is null");
    *count = 0;
    return dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3);
  }
  for (std::size_t i = 0; i < wanted; ++i) *list[i] = providers[i];
  *count = static_cast<DAT_COUNT>(wanted);
  return DAT_SUCCESS;
}

}  // namespace

extern "C" {

UDAPL_API DAT_RETURN dat_registry_list_providers(DAT_COUNT max_to_return,
                                                 DAT_COUNT* entries_returned,
                                                 DAT_PROVIDER_INFO* dat_provider_list[]) {
  return boundary([&]() -> DAT_RETURN {
    Registry* reg = registry();
    if (reg == nullptr) return dat_error(DAT_INVALID_STATE);
    return list_providers(*reg, max_to_return, entries_returned, dat_provider_list);
  });
}

UDAPL_API DAT_RETURN dat_registry_add_provider(const DAT_PROVIDER* provider,
                                               const DAT_PROVIDER_INFO* provider_info) {
  return boundary([&]() -> DAT_RETURN {
    Registry* reg = registry();
    if (reg == nullptr) return dat_error(DAT_INVALID_STATE);
    const Status status = reg->add(provider, provider_info);
    if (status.ok()) known_tables().add(provider);
    return status.code();
  });
}

UDAPL_API DAT_RETURN dat_registry_remove_provider(const DAT_PROVIDER* provider,
                                                  const DAT_PROVIDER_INFO* provider_info) {
  return boundary([&]() -> DAT_RETURN {
    Registry* reg = registry();
    if (reg == nullptr) return dat_error(DAT_INVALID_STATE);
    return reg->remove(provider, provider_info).code();
  });
}

UDAPL_API DAT_RETURN dat_registry_providers_related(const DAT_NAME_PTR ia_name_a,
                                                    const DAT_NAME_PTR ia_name_b,
                                                    DAT_HA_RELATIONSHIP* relationship) {
  return boundary([&]() -> DAT_RETURN {
    Registry* reg = registry();
    if (reg == nullptr) return dat_error(DAT_INVALID_STATE);
    if (ia_name_a == nullptr) return dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1);
    if (ia_name_b == nullptr) return dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2);
    if (relationship == nullptr) return dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3);
    Result<DAT_HA_RELATIONSHIP> answer = reg->related(ia_name_a, ia_name_b);
    if (answer.ok()) *relationship = *answer;
    return answer.status().code();
  });
}

// Uses the table, not the registry: providers call this in every query.
UDAPL_API DAT_RETURN dats_get_ia_handle(DAT_IA_HANDLE handle, DAT_IA_HANDLE* ia_handle) {
  return ia_table().translate(handle, ia_handle);
}

UDAPL_API DAT_RETURN dat_strerror(DAT_RETURN value, const char** major_message,
                                  const char** minor_message) {
  return describe(value, major_message, minor_message);
}

}  // extern "C"
