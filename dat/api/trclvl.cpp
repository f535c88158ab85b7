// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include <dat/dat_trclvl.h>

#include "common/tracing/cause.h"
#include "common/tracing/trace.h"
#include "dat/api/forward.h"

using namespace udapl;
using namespace udapl::dat;

namespace {

DAT_RETURN refuse(DAT_RETURN subtype, const char* what, DAT_COUNT value) noexcept {
  const DAT_RETURN code = dat_error(DAT_INVALID_PARAMETER, subtype);
  UDAPL_EXPLAIN(kNormal, code, "%s %d", what, value);
  return code;
}

// The provider's IA and its attributes.
struct Target {
  DAT_IA_HANDLE ia;
  DAT_IA_ATTR attr;
};

// Returns INVALID_HANDLE, or the result of the provider's ia_query.
DAT_RETURN query(const char* function, DAT_IA_HANDLE ia, Target& target) noexcept {
  target.ia = ia_table().resolve(ia);
  if (target.ia == nullptr) return refuse_handle(function, ia, DAT_INVALID_HANDLE_IA);
  target.attr = DAT_IA_ATTR{};
  constexpr DAT_IA_ATTR_MASK kVendorAttributes =
      DAT_IA_FIELD_IA_NUM_VENDOR_ATTR | DAT_IA_FIELD_IA_VENDOR_ATTR;
  return call_slot<&DAT_PROVIDER::ia_query_func>(function, target.ia, nullptr, kVendorAttributes,
                                                 &target.attr, 0, nullptr);
}

DAT_RETURN no_levels() noexcept {
  const DAT_RETURN code = dat_error(DAT_MODEL_NOT_SUPPORTED);
  UDAPL_EXPLAIN(kNormal, code, "the provider has no trace levels");
  return code;
}

}  // namespace

extern "C" {

UDAPL_API DAT_RETURN dat_trclvl_query(DAT_IA_HANDLE ia_handle, DAT_COUNT component,
                                      DAT_COUNT* level) {
  Target target;
  if (const DAT_RETURN code = query(__func__, ia_handle, target); code != DAT_SUCCESS) return code;
  if (component != DAT_TRCLVL_DAT && component != DAT_TRCLVL_DAPL)
    return refuse(DAT_INVALID_ARG2, "no such component:", component);
  if (level == nullptr) return refuse(DAT_INVALID_ARG3, "null pointer for the level of", component);
  if (component == DAT_TRCLVL_DAT) {
    *level = trace::level();
    return DAT_SUCCESS;
  }
  const DAT_TRCLVL_QUERY_FUNC ask = dat_trclvl_query_func(&target.attr);
  return ask == nullptr ? no_levels() : ask(target.ia, component, level);
}

UDAPL_API DAT_RETURN dat_trclvl_modify(DAT_IA_HANDLE ia_handle, DAT_COUNT component,
                                       DAT_COUNT level) {
  Target target;
  if (const DAT_RETURN code = query(__func__, ia_handle, target); code != DAT_SUCCESS) return code;
  if (component != DAT_TRCLVL_DAT && component != DAT_TRCLVL_DAPL)
    return refuse(DAT_INVALID_ARG2, "no such component:", component);
  if (level < TRC_LVL_OFF || level > TRC_LVL_MAX)
    return refuse(DAT_INVALID_ARG3, "no such level:", level);
  if (component == DAT_TRCLVL_DAT) {
    trace::set_level(level);
    return DAT_SUCCESS;
  }
  const DAT_TRCLVL_MODIFY_FUNC change = dat_trclvl_modify_func(&target.attr);
  return change == nullptr ? no_levels() : change(target.ia, component, level);
}

}  // extern "C"
