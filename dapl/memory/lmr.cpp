// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/memory/lmr.h"

#include "dapl/memory/shared_mapping.h"
#include "dapl/objects/boundary.h"
#include "dapl/objects/calls.h"
#include "dapl/objects/ia.h"
#include "dapl/objects/refuse.h"
#include "dapl/objects/require.h"

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
  if (length == 0) UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG4, "length 0");
  if (address == 0) UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3, "null address");
  if (length - 1 > std::numeric_limits<DAT_VADDR>::max() - address)
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG4, "the region wraps around");
  if (length > attributes.max_lmr_size || address + (length - 1) > attributes.max_lmr_address)
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG4,
                 "%llu bytes are beyond the limits of the IA",
                 static_cast<unsigned long long>(length));
  return Status();
}

// The known bits of what a program passes. Unknown bits are ignored (docs/compatibility.md C60).
DAT_MEM_PRIV_FLAGS known_privileges(unsigned privileges,
                                    const transport::Attributes& attributes) noexcept {
  unsigned known = DAT_MEM_PRIV_ALL_FLAG;
  if (attributes.extension == DAT_EXTENSION_IB) known |= DAT_IB_MEM_PRIV_REMOTE_ATOMIC;
  return static_cast<DAT_MEM_PRIV_FLAGS>(privileges & known);
}

// Determines the memory to register. Shared memory, which other processes register too, is like any
// other to the transport: its 40-byte name need only be present, but its mapping must be shared.
Status resolve(const Ia& ia, Lmr::Description& description) {
  const DAT_REGION_DESCRIPTION& region = description.region;
  transport::MrInit& init = description.init;
  switch (description.type) {
    case DAT_MEM_TYPE_VIRTUAL:
      init.address = reinterpret_cast<std::uintptr_t>(region.for_va);
      return Status();
    case DAT_MEM_TYPE_LMR: {
      const auto source = require_of<Lmr>(ia, region.for_lmr_handle);
      if (source == nullptr) return source.refusal();
      init.address = source->description().init.address;
      init.length = source->length();
      return Status();
    }
    case DAT_MEM_TYPE_SHARED_VIRTUAL:
      init.address = reinterpret_cast<std::uintptr_t>(region.for_shared_memory.virtual_address);
      if (region.for_shared_memory.shared_memory_id == nullptr)
        UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3, "shared memory without a name");
      return Status();
    default:
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2, "memory type %u",
                   static_cast<unsigned>(description.type));
  }
}

// For a registration of length 0: registers a private byte that is never exposed to the consumer.
Result<std::unique_ptr<transport::Mr>> register_empty(Ia& ia, Pz& pz, DAT_VA_TYPE va_type) {
  static const char nothing = 0;
  return ia.adapter().register_memory(pz.pd(), {reinterpret_cast<std::uintptr_t>(&nothing), 1,
                                                DAT_MEM_PRIV_LOCAL_READ_FLAG, va_type});
}

// `description`: as the consumer passed it.
Result<Lmr*> create(Ia& ia, Pz& pz, Lmr::Description& description) {
  if (const Status status = resolve(ia, description); !status.ok()) return status;
  transport::MrInit& init = description.init;
  const transport::Attributes& attributes = ia.attributes();
  const bool is_empty = description.type == DAT_MEM_TYPE_VIRTUAL && init.length == 0;
  if (!is_empty)
    if (const Status status = check_range(init.address, init.length, attributes); !status.ok())
      return status;
  if (init.va_type != DAT_VA_TYPE_ZB)
    init.va_type = DAT_VA_TYPE_VA;
  else if (!attributes.zero_based_va)
    UDAPL_REFUSE(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE, "the IA has no zero-based addresses");
  if (description.type == DAT_MEM_TYPE_SHARED_VIRTUAL) {
    if (!attributes.shared_memory_lmr)
      UDAPL_REFUSE(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE, "the IA has no shared memory LMRs");
    if (!is_shared_mapping(init.address, init.length))
      UDAPL_REFUSE(DAT_INVALID_STATE, DAT_NO_SUBTYPE, "the memory is not shared");
  }
  if (ia.full<Lmr>(attributes.max_lmrs))
    UDAPL_REFUSE(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY_REGION, "already %d LMRs",
                 attributes.max_lmrs);
  init.privileges = known_privileges(init.privileges, attributes);
  auto mr =
      is_empty ? register_empty(ia, pz, init.va_type) : ia.adapter().register_memory(pz.pd(), init);
  if (!mr.ok())
    UDAPL_PASS_ON(mr.status(), "registering %llu bytes failed",
                  static_cast<unsigned long long>(init.length));
  return &ia.adopt(make_object<Lmr>(ia.provider, ia, pz, description, *std::move(mr)));
}

// On a coherent machine there is nothing to do, so the segments are ignored.
DAT_RETURN sync(DAT_IA_HANDLE handle) noexcept {
  return boundary([&]() -> Status { return require<Ia>(handle).refusal(); });
}

}  // namespace

namespace calls {

DAT_RETURN lmr_create(DAT_IA_HANDLE ia_handle, DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION region,
                      DAT_VLEN length, DAT_PZ_HANDLE pz_handle, DAT_MEM_PRIV_FLAGS privileges,
                      DAT_VA_TYPE va_type, DAT_LMR_HANDLE* lmr_handle, DAT_LMR_CONTEXT* lmr_context,
                      DAT_RMR_CONTEXT* rmr_context, DAT_VLEN* registered_length,
                      DAT_VADDR* registered_address) {
  return boundary([&]() -> Status {
    const auto ia = require<Ia>(ia_handle);
    if (ia == nullptr) return ia.refusal();
    const auto pz = require_of<Pz>(*ia, pz_handle);
    if (pz == nullptr) return pz.refusal();
    if (lmr_handle == nullptr)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG8, "null LMR handle pointer");
    Lmr::Description description{type, region, {0, length, privileges, va_type}};
    auto lmr = create(*ia, *pz, description);
    if (!lmr.ok()) return lmr.status();
    *lmr_handle = *lmr;
    if (lmr_context != nullptr) *lmr_context = (*lmr)->mr().lmr_context();
    if (rmr_context != nullptr) *rmr_context = (*lmr)->mr().rmr_context();
    if (registered_length != nullptr) *registered_length = (*lmr)->length();
    if (registered_address != nullptr) *registered_address = (*lmr)->description().init.address;
    return Status();
  });
}

DAT_RETURN lmr_query(DAT_LMR_HANDLE handle, DAT_LMR_PARAM_MASK, DAT_LMR_PARAM* param) {
  return boundary([&]() -> Status {
    const auto lmr = require<Lmr>(handle);
    if (lmr == nullptr) return lmr.refusal();
    if (param == nullptr) UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3, "null parameters");
    const Lmr::Description& description = lmr->description();
    param->ia_handle = lmr->ia->handle();
    param->mem_type = description.type;
    param->region_desc = description.region;
    param->length = lmr->length();
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
    const auto lmr = require<Lmr>(handle);
    if (lmr == nullptr) return lmr.refusal();
    if (lmr->mr().has_windows())
      UDAPL_REFUSE(DAT_INVALID_STATE, DAT_INVALID_STATE_LMR_IN_USE, "an RMR is bound to LMR %p",
                   handle);
    lmr->ia->destroy(*lmr);
    return Status();
  });
}

DAT_RETURN lmr_sync_rdma_read(DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET*, DAT_VLEN) {
  return sync(ia);
}

DAT_RETURN lmr_sync_rdma_write(DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET*, DAT_VLEN) {
  return sync(ia);
}

}  // namespace calls
}  // namespace udapl::dapl
