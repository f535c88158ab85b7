// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/endpoint/ep_field_names.h"

#include <cstddef>
#include <cstdio>
#include <cstring>

namespace udapl::dapl {

namespace {

// The name of each bit of the mask.
constexpr std::array kNames{
    "ia_handle",
    "ep_state",
    "comm",
    "local_ia_address_ptr",
    "local_port_qual",
    "remote_ia_address_ptr",
    "remote_port_qual",
    "pz_handle",
    "recv_evd_handle",
    "request_evd_handle",
    "connect_evd_handle",
    "srq_handle",
    "service_type",
    "max_message_size",
    "max_rdma_size",
    "qos",
    "recv_completion_flags",
    "request_completion_flags",
    "max_recv_dtos",
    "max_request_dtos",
    "max_recv_iov",
    "max_request_iov",
    "max_rdma_read_in",
    "max_rdma_read_out",
    "srq_soft_hw",
    "max_rdma_read_iov",
    "max_rdma_write_iov",
    "ep_transport_specific_count",
    "ep_transport_specific",
    "ep_provider_specific_count",
    "ep_provider_specific",
};
static_assert(DAT_EP_FIELD_ALL == (DAT_EP_PARAM_MASK{1} << kNames.size()) - 1);
static_assert(DAT_EP_FIELD_EP_ATTR_MAX_RDMA_WRITE_IOV == DAT_EP_PARAM_MASK{1} << 26);

constexpr char kSeparator[] = ", ";
constexpr char kMore[] = ", ...";

}  // namespace

EpFieldNames::EpFieldNames(DAT_EP_PARAM_MASK mask) noexcept {
  if ((mask & DAT_EP_FIELD_EP_ATTR_ALL) == DAT_EP_FIELD_EP_ATTR_ALL) {
    static_cast<void>(append("ep_attr"));
    mask &= ~DAT_EP_FIELD_EP_ATTR_ALL;
  }
  for (std::size_t bit = 0; bit != kNames.size(); ++bit) {
    if ((mask >> bit & 1U) != 0 && !append(kNames[bit])) return;
  }
  const DAT_EP_PARAM_MASK others = mask & ~DAT_EP_FIELD_ALL;
  if (others == 0) return;
  std::array<char, 32> unknown{};
  std::snprintf(unknown.data(), unknown.size(), "0x%llx", static_cast<unsigned long long>(others));
  static_cast<void>(append(unknown.data()));
}

// Returns false if there is no room for the name.
bool EpFieldNames::append(const char* name) noexcept {
  const char* const separator = length_ != 0 ? kSeparator : "";
  const std::size_t needed = std::strlen(separator) + std::strlen(name);
  if (length_ + needed + sizeof kMore > text_.size()) {
    std::snprintf(text_.data() + length_, text_.size() - length_, "%s", kMore);
    return false;
  }
  std::snprintf(text_.data() + length_, text_.size() - length_, "%s%s", separator, name);
  length_ += needed;
  return true;
}

}  // namespace udapl::dapl
