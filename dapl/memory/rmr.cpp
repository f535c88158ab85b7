// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/memory/rmr.h"

#include "dapl/objects/boundary.h"
#include "dapl/objects/calls.h"
#include "dapl/objects/ia.h"
#include "dapl/objects/refuse.h"
#include "dapl/objects/require.h"

#include <utility>

namespace udapl::dapl {

Rmr::Rmr(const DAT_PROVIDER* table, Ia& owner, Pz& pz, DAT_RMR_SCOPE scope,
         std::unique_ptr<transport::Window> window) noexcept
    : ObjectHeader(table, kType, &owner), pz_(&pz), scope_(scope), window_(std::move(window)) {}

namespace {

DAT_RETURN create(DAT_PZ_HANDLE pz_handle, DAT_RMR_SCOPE scope, DAT_RMR_HANDLE* rmr) noexcept {
  return boundary([&]() -> Status {
    const auto pz = require<Pz>(pz_handle);
    if (pz == nullptr) return pz.refusal();
    if (rmr == nullptr)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2, "null RMR handle pointer");
    Ia& ia = *pz->ia;
    const transport::Attributes& attributes = ia.attributes();
    if (attributes.max_rmrs <= 0 ||
        (attributes.rmr_scope != DAT_RMR_SCOPE_ANY && attributes.rmr_scope != scope))
      UDAPL_REFUSE(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE, "the IA has no RMRs of scope %d",
                   static_cast<int>(scope));
    if (ia.full<Rmr>(attributes.max_rmrs))
      UDAPL_REFUSE(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY_REGION, "already %d RMRs",
                   attributes.max_rmrs);
    auto window = ia.adapter().create_window(pz->pd(), scope == DAT_RMR_SCOPE_EP
                                                           ? transport::WindowScope::kQp
                                                           : transport::WindowScope::kPd);
    if (!window.ok()) UDAPL_PASS_ON(window.status(), "creating a memory window failed");
    *rmr = &ia.adopt(make_object<Rmr>(ia.provider, ia, *pz, scope, *std::move(window)));
    return Status();
  });
}

}  // namespace

namespace calls {

DAT_RETURN rmr_create(DAT_PZ_HANDLE pz, DAT_RMR_HANDLE* rmr) {
  return create(pz, DAT_RMR_SCOPE_PZ, rmr);
}

DAT_RETURN rmr_create_for_ep(DAT_PZ_HANDLE pz, DAT_RMR_HANDLE* rmr) {
  return create(pz, DAT_RMR_SCOPE_EP, rmr);
}

DAT_RETURN rmr_query(DAT_RMR_HANDLE handle, DAT_RMR_PARAM_MASK, DAT_RMR_PARAM* param) {
  return boundary([&]() -> Status {
    const auto rmr = require<Rmr>(handle);
    if (rmr == nullptr) return rmr.refusal();
    if (param == nullptr) UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3, "null parameters");
    // Unbound: no range, no privileges.
    const transport::Binding binding = rmr->window().binding().value_or(transport::Binding{});
    param->ia_handle = rmr->ia->handle();
    param->pz_handle = &rmr->pz();
    param->lmr_triplet = binding.range;
    param->mem_priv = binding.privileges;
    param->rmr_context = rmr->window().rmr_context();
    param->rmr_scope = rmr->scope();
    param->va_type = binding.va_type;
    return Status();
  });
}

DAT_RETURN rmr_free(DAT_RMR_HANDLE handle) {
  return boundary([&]() -> Status {
    const auto rmr = require<Rmr>(handle);
    if (rmr == nullptr) return rmr.refusal();
    rmr->ia->destroy(*rmr);  // unbinds it
    return Status();
  });
}

}  // namespace calls
}  // namespace udapl::dapl
