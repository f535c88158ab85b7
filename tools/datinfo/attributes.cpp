// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "attributes.h"

#include <arpa/inet.h>
#include <dat/dat_trclvl.h>
#include <netinet/in.h>

#include <array>
#include <concepts>
#include <cstring>
#include <memory>

namespace datinfo {

namespace {

std::string text_of(const char (&text)[DAT_NAME_MAX_LENGTH]) {
  return std::string(text, ::strnlen(text, sizeof text));
}

std::string address_of(const sockaddr* address) {
  if (address == nullptr) return "none";
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes = nullptr;
  if (address->sa_family == AF_INET)
    bytes = &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
  else if (address->sa_family == AF_INET6)
    bytes = &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  if (bytes == nullptr) return "of family " + std::to_string(address->sa_family);
  return ::inet_ntop(address->sa_family, bytes, text.data(), text.size());
}

// Collects attributes as names and values.
class Table {
 public:
  explicit Table(Attributes& rows) : rows_(rows) {}

  void add(const char* name, const std::string& value,
           Attribute::Kind kind = Attribute::Kind::kText) {
    rows_.push_back({name, value, kind});
  }
  void version(const char* name, DAT_UINT32 major, DAT_UINT32 minor) {
    add(name, std::to_string(major) + '.' + std::to_string(minor));
  }
  template <std::integral Number>
  void number(const char* name, Number value) {
    add(name, std::to_string(value), Attribute::Kind::kNumber);
  }
  void flag(const char* name, DAT_BOOLEAN value) {
    add(name, value != DAT_FALSE ? "yes" : "no", Attribute::Kind::kFlag);
  }
  void named(const DAT_NAMED_ATTR* attributes, DAT_COUNT count) {
    for (DAT_COUNT i = 0; attributes != nullptr && i < count; ++i)
      if (attributes[i].name != nullptr) add(attributes[i].name, value_of(attributes[i]));
  }

 private:
  static const char* value_of(const DAT_NAMED_ATTR& attribute) {
    if (attribute.value == nullptr) return "";
    return dat_vendor_attr_is_text(attribute.name) ? attribute.value : "(function)";
  }

  Attributes& rows_;
};

void add_adapter(const DAT_IA_ATTR& a, Table& table) {
  table.add("adapter_name", text_of(a.adapter_name));
  table.add("vendor_name", text_of(a.vendor_name));
  table.add("address", address_of(reinterpret_cast<const sockaddr*>(a.ia_address_ptr)));
  table.version("hardware_version", a.hardware_version_major, a.hardware_version_minor);
  table.version("firmware_version", a.firmware_version_major, a.firmware_version_minor);
  table.number("max_eps", a.max_eps);
  table.number("max_dto_per_ep", a.max_dto_per_ep);
  table.number("max_rdma_read_per_ep_in", a.max_rdma_read_per_ep_in);
  table.number("max_rdma_read_per_ep_out", a.max_rdma_read_per_ep_out);
  table.flag("max_rdma_read_per_ep_in_guaranteed", a.max_rdma_read_per_ep_in_guaranteed);
  table.flag("max_rdma_read_per_ep_out_guaranteed", a.max_rdma_read_per_ep_out_guaranteed);
  table.number("max_rdma_read_in", a.max_rdma_read_in);
  table.number("max_rdma_read_out", a.max_rdma_read_out);
  table.number("max_evds", a.max_evds);
  table.number("max_evd_qlen", a.max_evd_qlen);
  table.number("max_iov_segments_per_dto", a.max_iov_segments_per_dto);
  table.number("max_iov_segments_per_rdma_read", a.max_iov_segments_per_rdma_read);
  table.number("max_iov_segments_per_rdma_write", a.max_iov_segments_per_rdma_write);
  table.number("max_lmrs", a.max_lmrs);
  table.number("max_lmr_block_size", a.max_lmr_block_size);
  table.number("max_lmr_virtual_address", a.max_lmr_virtual_address);
  table.number("max_pzs", a.max_pzs);
  table.number("max_message_size", a.max_message_size);
  table.number("max_rdma_size", a.max_rdma_size);
  table.number("max_rmrs", a.max_rmrs);
  table.number("max_rmr_target_address", a.max_rmr_target_address);
  table.number("max_srqs", a.max_srqs);
  table.number("max_ep_per_srq", a.max_ep_per_srq);
  table.number("max_recv_per_srq", a.max_recv_per_srq);
  table.flag("zb_supported", a.zb_supported);
  const char* family = a.extension_supported == DAT_EXTENSION_IB   ? "IB"
                       : a.extension_supported == DAT_EXTENSION_IW ? "IW"
                                                                   : "none";
  table.add("extension", family);
  table.number("extension_version", a.extension_version);
}

void add_provider(const DAT_PROVIDER_ATTR& p, Table& table) {
  table.add("provider_name", text_of(p.provider_name));
  table.version("provider_version", p.provider_version_major, p.provider_version_minor);
  table.version("dapl_version", p.dapl_version_major, p.dapl_version_minor);
  table.flag("is_thread_safe", p.is_thread_safe);
  table.number("max_private_data_size", p.max_private_data_size);
  table.flag("supports_multipath", p.supports_multipath);
  table.number("optimal_buffer_alignment", p.optimal_buffer_alignment);
  table.flag("srq_supported", p.srq_supported);
  table.number("srq_watermarks_supported", p.srq_watermarks_supported);
  table.flag("srq_ep_pz_difference_supported", p.srq_ep_pz_difference_supported);
  table.flag("lmr_sync_req", p.lmr_sync_req);
  table.flag("dto_async_return_guaranteed", p.dto_async_return_guaranteed);
  table.flag("rdma_write_for_rdma_read_req", p.rdma_write_for_rdma_read_req);
  table.flag("rdma_read_lmr_rmr_context_exposure", p.rdma_read_lmr_rmr_context_exposure);
  table.flag("is_signal_safe", p.is_signal_safe);
  table.flag("ha_supported", p.ha_supported);
}

}  // namespace

DAT_RETURN attributes_of(DAT_IA_HANDLE ia, Attributes& attributes) {
  const auto adapter = std::make_unique<DAT_IA_ATTR>();
  const auto provider = std::make_unique<DAT_PROVIDER_ATTR>(DAT_PROVIDER_ATTR{});
  const DAT_RETURN status = dat_ia_query(ia, nullptr, DAT_IA_FIELD_ALL, adapter.get(),
                                         DAT_PROVIDER_FIELD_ALL, provider.get());
  if (status != DAT_SUCCESS) return status;
  Table table(attributes);
  add_adapter(*adapter, table);
  add_provider(*provider, table);
  table.named(adapter->transport_attr, adapter->num_transport_attr);
  table.named(adapter->vendor_attr, adapter->num_vendor_attr);
  table.named(provider->provider_specific_attr, provider->num_provider_specific_attr);
  return DAT_SUCCESS;
}

}  // namespace datinfo
