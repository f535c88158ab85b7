// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include <algorithm>
#include <string_view>

#include "common/tracing/cause.h"
#include "dat/provider_of.h"
#include "dat/registry.h"
#include "dat/text.h"

namespace udapl::dat {

// Queries an open IA named `queried` whether it and `about` belong to the same HA group. Fails with
// type DAT_PROVIDER_NOT_FOUND if no such IA is open.
Status Registry::query_related(DAT_NAME_PTR queried, DAT_NAME_PTR about, DAT_BOOLEAN& answer) {
  std::list<OpenIa>::iterator record;
  {
    ScopedLock lock(mutex_);
    record = std::find_if(open_ias_.begin(), open_ias_.end(), [&](const OpenIa& open) {
      return !open.closing && key_of(open.lease.registration().info).name == queried;
    });
    if (record == open_ias_.end()) return failure(DAT_PROVIDER_NOT_FOUND);
    ++record->pins;
  }
  const DAT_IA_HANDLE ia = table_.pointer_of(record->number);
  const DAT_RETURN code = call_slot<&DAT_PROVIDER::ia_ha_related_func>(
      "dat_registry_providers_related", ia, about, &answer);
  ScopedLock lock(mutex_);
  --record->pins;
  changed_.notify_all();
  return Status(code);
}

Result<DAT_HA_RELATIONSHIP> Registry::related(DAT_NAME_PTR name_a, DAT_NAME_PTR name_b) {
  {
    ScopedLock lock(mutex_);
    for (const DAT_NAME_PTR name : {name_a, name_b}) {
      if (tables_.contains(name)) continue;
      UDAPL_EXPLAIN(kNormal, dat_error(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED),
                    "%s is not registered", in_quotes(name).c_str());
      return failure(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
    }
  }
  DAT_BOOLEAN answer_a = DAT_FALSE;
  DAT_BOOLEAN answer_b = DAT_FALSE;
  const Status status_a = query_related(name_a, name_b, answer_a);
  const Status status_b = query_related(name_b, name_a, answer_b);
  if (status_a.ok() && status_b.ok() && (answer_a == DAT_FALSE) != (answer_b == DAT_FALSE))
    return DAT_HA_CONFLICTING;
  if (status_a.ok() || status_b.ok()) {
    const DAT_BOOLEAN answer = status_a.ok() ? answer_a : answer_b;
    return answer == DAT_FALSE ? DAT_HA_FALSE : DAT_HA_TRUE;
  }
  if (status_a.type() == DAT_PROVIDER_NOT_FOUND && status_b.type() == DAT_PROVIDER_NOT_FOUND)
    return DAT_HA_UNKNOWN;
  UDAPL_EXPLAIN(kNormal, dat_error(DAT_MODEL_NOT_SUPPORTED),
                "neither provider answered: 0x%x, 0x%x", status_a.code(), status_b.code());
  return failure(DAT_MODEL_NOT_SUPPORTED);
}

}  // namespace udapl::dat
