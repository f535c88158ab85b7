// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/lmr.h"

#include "common/cause_scope.h"
#include "dapl/boundary.h"
#include "dapl/calls.h"
#include "dapl/ia.h"
#include "dapl/refuse.h"
#include "dapl/shared_mapping.h"

#include <dat/dat_ib_extensions.h>

#include <cstdint>
#include <limits>
#include <utility>

namespace udapl::dapl {

Lmr::Lmr(const DAT_PROVIDER* table, Ia& owner, Pz& pz, const Description& description,
         std::unique_ptr<transport::Mr> mr) noexcept
    : ObjectHeader(table, kType, &owner), pz_(&pz), description_(description), mr_(std::move(mr)) {}

namespace {

Status check_range(DAT_VADDR address, DAT_VLEN length, const transport::Attributes& attributes) {
  if (address == 0) UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3, "null address");
  if (length == 0) UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG4, "length 0");
  if (length - 1 > std::numeric_limits<DAT_VADDR>::max() - address)
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG4, "the region wraps around");
  if (length > attributes.max_lmr_size || address + (length - 1) > attributes.max_lmr_address)
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG4,
                 "%llu bytes are beyond the limits of the IA",
                 static_cast<unsigned long long>(length));
  return Status();
}

Status check_options(unsigned privileges, unsigned va_type,
                     const transport::Attributes& attributes) {
  unsigned known = DAT_MEM_PRIV_ALL_FLAG;
  if (attributes.extension == DAT_EXTENSION_IB) known |= DAT_IB_MEM_PRIV_REMOTE_ATOMIC;
  if ((privileges & ~known) != 0)
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG6, "privileges 0x%x", privileges);
  if (va_type != DAT_VA_TYPE_VA && va_type != DAT_VA_TYPE_ZB)
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG7, "address type %u", va_type);
  if (va_type == DAT_VA_TYPE_ZB && !attributes.zero_based_va)
    UDAPL_REFUSE(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE, "no zero-based addresses");
  return Status();
}

// What to register. Memory that another process registers too is the same to the transport: the
// 40-byte name only has to be there, the mapping has to be shared.
Result<transport::MrInit> resolve(const Ia& ia, DAT_MEM_TYPE type,
                                  const DAT_REGION_DESCRIPTION& region, DAT_VLEN length) {
  transport::MrInit init{};
  init.length = length;
  switch (type) {
    case DAT_MEM_TYPE_VIRTUAL:
      init.address = reinterpret_cast<std::uintptr_t>(region.for_va);
      break;
    case DAT_MEM_TYPE_LMR: {
      const Lmr* const source = handle_cast<Lmr>(region.for_lmr_handle);
      if (source == nullptr || source->ia != &ia)
        UDAPL_REFUSE(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_LMR, "%p is no LMR of this IA",
                     region.for_lmr_handle);
      init.address = source->description().init.address;
      init.length = source->length();
      break;
    }
    case DAT_MEM_TYPE_SHARED_VIRTUAL:
      init.address = reinterpret_cast<std::uintptr_t>(region.for_shared_memory.virtual_address);
      if (region.for_shared_memory.shared_memory_id == nullptr)
        UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3, "shared memory without a name");
      break;
    default:
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2, "memory type %u",
                   static_cast<unsigned>(type));
  }
  return init;
}

struct LmrRequest {
  DAT_MEM_TYPE type;
  DAT_REGION_DESCRIPTION region;
  DAT_VLEN length;
  DAT_MEM_PRIV_FLAGS privileges;
  DAT_VA_TYPE va_type;
};

Result<Lmr*> create(Ia& ia, Pz& pz, const LmrRequest& request) {
  auto init = resolve(ia, request.type, request.region, request.length);
  if (!init.ok()) return init.status();
  const transport::Attributes& attributes = ia.attributes();
  if (const Status status = check_range(init->address, init->length, attributes); !status.ok())
    return status;
  if (const Status status = check_options(request.privileges, request.va_type, attributes);
      !status.ok())
    return status;
  if (request.type == DAT_MEM_TYPE_SHARED_VIRTUAL) {
    if (!attributes.shared_memory_lmr)
      UDAPL_REFUSE(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE, "no shared memory LMRs");
    if (!is_shared_mapping(init->address, init->length))
      UDAPL_REFUSE(DAT_INVALID_STATE, DAT_NO_SUBTYPE, "the memory is not shared");
  }
  if (ia.full<Lmr>(attributes.max_lmrs))
    UDAPL_REFUSE(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY_REGION, "already %d LMRs",
                 attributes.max_lmrs);
  init->privileges = request.privileges;
  init->va_type = request.va_type;
  const cause::Scope below;
  auto mr = ia.adapter().register_memory(pz.pd(), *init);
  if (!mr.ok())
    UDAPL_PASS_ON(below, mr.status(), "the transport registers no %llu bytes",
                  static_cast<unsigned long long>(init->length));
  const Lmr::Description description{request.type, request.region, init->length, *init};
  return &ia.adopt(make_object<Lmr>(ia.provider, ia, pz, description, *std::move(mr)));
}

// On a coherent machine there is nothing to do but to look at the arguments.
DAT_RETURN sync(DAT_IA_HANDLE handle, const DAT_LMR_TRIPLET* segments, DAT_VLEN count) noexcept {
  return boundary([&]() -> Status {
    Ia* const ia = handle_cast<Ia>(handle);
    if (ia == nullptr)
      UDAPL_REFUSE(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA, "%p is no IA", handle);
    if (segments == nullptr && count != 0)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2, "null segments");
    const Status status = ia->adapter().check_local(segments, count);
    if (!status.ok()) UDAPL_REFUSE(status.type(), DAT_INVALID_ARG2, "a segment is outside its LMR");
    return Status();
  });
}

}  // namespace

namespace calls {

DAT_RETURN lmr_create(DAT_IA_HANDLE ia_handle, DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION region,
                      DAT_VLEN length, DAT_PZ_HANDLE pz_handle, DAT_MEM_PRIV_FLAGS privileges,
                      DAT_VA_TYPE va_type, DAT_LMR_HANDLE* lmr_handle, DAT_LMR_CONTEXT* lmr_context,
                      DAT_RMR_CONTEXT* rmr_context, DAT_VLEN* registered_length,
                      DAT_VADDR* registered_address) {
  return boundary([&]() -> Status {
    Ia* const ia = handle_cast<Ia>(ia_handle);
    if (ia == nullptr)
      UDAPL_REFUSE(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA, "%p is no IA", ia_handle);
    Pz* const pz = handle_cast<Pz>(pz_handle);
    if (pz == nullptr || pz->ia != ia)
      UDAPL_REFUSE(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_PZ, "%p is no PZ of this IA", pz_handle);
    if (lmr_handle == nullptr)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG8, "null LMR handle pointer");
    auto lmr = create(*ia, *pz, {type, region, length, privileges, va_type});
    if (!lmr.ok()) return lmr.status();
    *lmr_handle = *lmr;
    if (lmr_context != nullptr) *lmr_context = (*lmr)->mr().lmr_context();
    if (rmr_context != nullptr) *rmr_context = (*lmr)->mr().rmr_context();
    if (registered_length != nullptr) *registered_length = (*lmr)->length();
    if (registered_address != nullptr) *registered_address = (*lmr)->description().init.address;
    return Status();
  });
}

DAT_RETURN lmr_query(DAT_LMR_HANDLE handle, DAT_LMR_PARAM_MASK mask, DAT_LMR_PARAM* param) {
  return boundary([&]() -> Status {
    const Lmr* const lmr = handle_cast<Lmr>(handle);
    if (lmr == nullptr)
      UDAPL_REFUSE(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_LMR, "%p is no LMR", handle);
    if ((mask & ~static_cast<unsigned>(DAT_LMR_FIELD_ALL)) != 0)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2, "LMR mask 0x%x",
                   static_cast<unsigned>(mask));
    if (param == nullptr) UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3, "null parameters");
    const Lmr::Description& description = lmr->description();
    param->ia_handle = lmr->ia->handle();
    param->mem_type = description.type;
    param->region_desc = description.region;
    param->length = description.length;
    param->pz_handle = &lmr->pz();
    param->mem_priv = description.init.privileges;
    param->va_type = description.init.va_type;
    param->lmr_context = lmr->mr().lmr_context();
    param->rmr_context = lmr->mr().rmr_context();
    param->registered_size = lmr->length();
    param->registered_address = description.init.address;
    return Status();
  });
}

DAT_RETURN lmr_free(DAT_LMR_HANDLE handle) {
  return boundary([&]() -> Status {
    Lmr* const lmr = handle_cast<Lmr>(handle);
    if (lmr == nullptr)
      UDAPL_REFUSE(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_LMR, "%p is no LMR", handle);
    if (lmr->mr().has_windows())
      UDAPL_REFUSE(DAT_INVALID_STATE, DAT_INVALID_STATE_LMR_IN_USE, "an RMR is bound to LMR %p",
                   handle);
    lmr->ia->destroy(*lmr);
    return Status();
  });
}

DAT_RETURN lmr_sync_rdma_read(DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET* segments, DAT_VLEN count) {
  return sync(ia, segments, count);
}

DAT_RETURN lmr_sync_rdma_write(DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET* segments, DAT_VLEN count) {
  return sync(ia, segments, count);
}

}  // namespace calls
}  // namespace udapl::dapl
