// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/objects/boundary.h"
#include "dapl/objects/calls.h"
#include "dapl/objects/refuse.h"
#include "dapl/objects/require.h"
#include "dapl/table/open_ia.h"
#include "dapl/table/provider.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>

namespace udapl::dapl {

namespace {

// evd_stream_merging_supported: rows and columns in this order.
enum Stream { kSoftware, kCr, kDto, kConnection, kBind, kAsync, kStreams };

// Bits of the count-typed attributes for which the headers define no values.
constexpr DAT_COUNT kLowWatermark = 1;
constexpr DAT_COUNT kSoftHighWatermark = 2;
constexpr DAT_COUNT kHardHighWatermark = 4;
constexpr DAT_COUNT kBothCounts = 3;  // SRQ: available, outstanding. EP: buffers, span

constexpr DAT_UINT32 kProviderVersionMajor = 2;
constexpr DAT_UINT32 kProviderVersionMinor = 0;

template <std::size_t N>
void copy_name(char (&to)[N], std::string_view from) noexcept {
  const std::size_t length = std::min(from.size(), N - 1);
  std::memcpy(to, from.data(), length);
  std::memset(to + length, 0, N - length);
}

constexpr DAT_SEG_LENGTH clamp_length(std::uint64_t length) noexcept {
  return static_cast<DAT_SEG_LENGTH>(
      std::min<std::uint64_t>(length, std::numeric_limits<DAT_SEG_LENGTH>::max()));
}

constexpr DAT_BOOLEAN boolean(bool value) noexcept { return value ? DAT_TRUE : DAT_FALSE; }

void fill(const transport::Attributes& from, std::vector<DAT_NAMED_ATTR>& vendor,
          DAT_IA_ATTR* to) noexcept {
  *to = DAT_IA_ATTR{};
  copy_name(to->adapter_name, from.device_name);
  copy_name(to->vendor_name,
            from.vendor_name.empty() ? "unknown" : std::string_view(from.vendor_name));
  to->hardware_version_major = static_cast<DAT_UINT32>(from.hardware_version[0]);
  to->hardware_version_minor = static_cast<DAT_UINT32>(from.hardware_version[1]);
  to->firmware_version_major = static_cast<DAT_UINT32>(from.firmware_version[0]);
  to->firmware_version_minor = static_cast<DAT_UINT32>(from.firmware_version[1]);
  // The field is not const, but consumers must not write to the address.
  to->ia_address_ptr = const_cast<DAT_SOCK_ADDR*>(from.address.get());
  to->max_eps = from.max_eps;
  to->max_dto_per_ep = from.max_dto_per_ep;
  to->max_rdma_read_per_ep_in = from.max_rdma_read_in;
  to->max_rdma_read_per_ep_out = from.max_rdma_read_out;
  to->max_evds = from.max_evds;
  to->max_evd_qlen = from.max_evd_qlen;
  to->max_iov_segments_per_dto = from.max_segments;
  to->max_lmrs = from.max_lmrs;
  to->max_lmr_block_size = clamp_length(from.max_lmr_size);
  to->max_lmr_virtual_address = from.max_lmr_address;
  to->max_pzs = from.max_pzs;
  to->max_message_size = from.max_message_size;
  to->max_rdma_size = from.max_rdma_size;
  to->max_rmrs = from.max_rmrs;
  to->max_rmr_target_address = from.max_rmr_address;
  to->max_srqs = from.max_srqs;
  to->max_ep_per_srq = from.max_eps_per_srq;
  to->max_recv_per_srq = from.max_recv_per_srq;
  to->max_iov_segments_per_rdma_read = from.max_read_segments;
  to->max_iov_segments_per_rdma_write = from.max_write_segments;
  to->max_rdma_read_in = from.max_rdma_read_in_total;
  to->max_rdma_read_out = from.max_rdma_read_out_total;
  // Even if the total does not suffice for all EPs that may exist (docs/compatibility.md C133).
  to->max_rdma_read_per_ep_in_guaranteed = DAT_TRUE;
  to->max_rdma_read_per_ep_out_guaranteed = DAT_TRUE;
  to->zb_supported = boolean(from.zero_based_va);
  to->extension_supported = from.extension;
  to->extension_version = from.extension == DAT_EXTENSION_NONE ? 0 : from.extension_version;
  // No transport attributes: count 0, null array.
  to->num_vendor_attr = static_cast<DAT_COUNT>(vendor.size());
  to->vendor_attr = vendor.data();
}

void fill_merging(const transport::Attributes& from, DAT_PROVIDER_ATTR* to) noexcept {
  for (int row = 0; row < kStreams; ++row) {
    for (int column = 0; column < kStreams; ++column) {
      const bool async = row == kAsync || column == kAsync;
      const bool ordered =
          (row == kDto && column == kConnection) || (row == kConnection && column == kDto);
      const bool merges =
          row == column || (!async && (!ordered || from.dto_and_connection_mergeable));
      // The field is const in the public structure, although the provider has to fill it in.
      const_cast<DAT_BOOLEAN&>(to->evd_stream_merging_supported[row][column]) = boolean(merges);
    }
  }
}

void fill(const Provider& provider, const transport::Attributes& from,
          std::vector<DAT_NAMED_ATTR>& named, DAT_PROVIDER_ATTR* to) noexcept {
  const bool srq = from.max_srqs > 0;
  std::memset(static_cast<void*>(to), 0, sizeof *to);
  copy_name(to->provider_name, provider.info().ia_name);
  to->provider_version_major = kProviderVersionMajor;
  to->provider_version_minor = kProviderVersionMinor;
  // When the IA is closed, the registry finds its entry by these three values.
  to->dapl_version_major = provider.info().dapl_version_major;
  to->dapl_version_minor = provider.info().dapl_version_minor;
  to->is_thread_safe = provider.info().is_thread_safe;
  to->lmr_mem_types_supported = static_cast<DAT_MEM_TYPE>(
      DAT_MEM_TYPE_LMR | (from.shared_memory_lmr ? DAT_MEM_TYPE_SHARED_VIRTUAL : 0));
  to->iov_ownership_on_return = DAT_IOV_CONSUMER;
  to->dat_qos_supported = DAT_QOS_BEST_EFFORT;
  to->completion_flags_supported = static_cast<DAT_COMPLETION_FLAGS>(
      DAT_COMPLETION_SUPPRESS_FLAG | DAT_COMPLETION_SOLICITED_WAIT_FLAG |
      DAT_COMPLETION_UNSIGNALLED_FLAG | DAT_COMPLETION_BARRIER_FENCE_FLAG);
  to->max_private_data_size = from.private_data.request;
  to->supports_multipath = DAT_FALSE;
  to->ep_creator = DAT_PSP_CREATES_EP_IFASKED;
  to->pz_support = DAT_PZ_UNIQUE;
  to->optimal_buffer_alignment = DAT_OPTIMAL_ALIGNMENT;
  fill_merging(from, to);
  to->srq_supported = boolean(srq);
  to->srq_watermarks_supported =
      kSoftHighWatermark | kHardHighWatermark | (srq ? kLowWatermark : 0);
  to->srq_ep_pz_difference_supported = boolean(srq && from.srq_pz_may_differ);
  to->srq_info_supported = srq ? kBothCounts : 0;
  to->ep_recv_info_supported = kBothCounts;
  to->lmr_sync_req = DAT_FALSE;
  to->dto_async_return_guaranteed = boolean(from.posts_return_before_work);
  to->rdma_write_for_rdma_read_req = boolean(from.read_sink_needs_remote_write);
  to->rdma_read_lmr_rmr_context_exposure = boolean(from.read_sink_context_exposed);
  to->rmr_scope_supported = from.rmr_scope;
  to->is_signal_safe = DAT_FALSE;
  to->ha_supported = DAT_FALSE;
  to->ha_loadbalancing = DAT_HA_LB_NONE;
  to->num_provider_specific_attr = static_cast<DAT_COUNT>(named.size());
  to->provider_specific_attr = named.empty() ? nullptr : named.data();
}

}  // namespace

DAT_RETURN calls::ia_query(DAT_IA_HANDLE handle, DAT_EVD_HANDLE* async_evd,
                           DAT_IA_ATTR_MASK ia_mask, DAT_IA_ATTR* ia_attr,
                           DAT_PROVIDER_ATTR_MASK provider_mask, DAT_PROVIDER_ATTR* provider_attr) {
  return boundary([&]() -> Status {
    const auto ia = require<Ia>(handle);
    if (ia == nullptr) return ia.refusal();
    if ((ia_mask & ~DAT_IA_FIELD_ALL) != 0)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3, "IA attribute mask 0x%llx",
                   static_cast<unsigned long long>(ia_mask));
    if (ia_mask != 0 && ia_attr == nullptr)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG4, "null IA attributes");
    if (provider_mask != 0 && provider_attr == nullptr)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG6, "null provider attributes");
    OpenIa& open = OpenIa::of(*ia);
    if (async_evd != nullptr) *async_evd = open.async_evd();
    if (ia_mask != 0) fill(ia->attributes(), open.vendor_attributes(), ia_attr);
    if (provider_mask != 0)
      fill(open.owner(), ia->attributes(), open.named_attributes(), provider_attr);
    return Status();
  });
}

}  // namespace udapl::dapl
