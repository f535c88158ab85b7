// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The attributes of the adapter and the provider that dat_ia_query returns.
#include "tests/unit/dapl_events/support.h"

#include <dat/dat_trclvl.h>

#include <array>
#include <cstddef>
#include <cstring>

namespace udapl::test {

BOOST_FIXTURE_TEST_SUITE(ia_attributes, Providers)

BOOST_AUTO_TEST_CASE(attributes_fill_every_field) {
  const OpenIa ia;
  const transport::Attributes& from = ia.object().attributes();
  for (const int poison : {0x00, 0xFF}) {
    DAT_IA_ATTR attr;
    std::memset(static_cast<void*>(&attr), poison, sizeof attr);
    REQUIRE_OK(ia->ia_query_func(ia.raw, nullptr, DAT_IA_FIELD_IA_MAX_EPS, &attr, 0, nullptr));
    BOOST_CHECK_EQUAL(std::string(attr.adapter_name), "fake0");
    BOOST_CHECK_EQUAL(std::string(attr.vendor_name), "udapl tests");
    BOOST_CHECK_EQUAL(attr.hardware_version_major, 3U);
    BOOST_CHECK_EQUAL(attr.hardware_version_minor, 1U);
    BOOST_CHECK_EQUAL(attr.firmware_version_major, 4U);
    BOOST_CHECK_EQUAL(attr.firmware_version_minor, 2U);
    BOOST_CHECK_EQUAL(attr.ia_address_ptr->sa_family, AF_INET);
    BOOST_CHECK_EQUAL(attr.max_eps, 100);
    BOOST_CHECK_EQUAL(attr.max_dto_per_ep, 256);
    BOOST_CHECK_EQUAL(attr.max_rdma_read_per_ep_in, 16);
    BOOST_CHECK_EQUAL(attr.max_rdma_read_per_ep_out, 8);
    BOOST_CHECK_EQUAL(attr.max_evds, 64);
    BOOST_CHECK_EQUAL(attr.max_evd_qlen, 4096);
    BOOST_CHECK_EQUAL(attr.max_iov_segments_per_dto, 8);
    BOOST_CHECK_EQUAL(attr.max_lmrs, 64);
    BOOST_CHECK_EQUAL(attr.max_lmr_block_size, 0xFFFFFFFFU);  // 2^40, clamped
    BOOST_CHECK_EQUAL(attr.max_lmr_virtual_address, ~DAT_VADDR{0});
    BOOST_CHECK_EQUAL(attr.max_pzs, 16);
    BOOST_CHECK_EQUAL(attr.max_message_size, from.max_message_size);
    BOOST_CHECK_EQUAL(attr.max_rdma_size, from.max_rdma_size);
    BOOST_CHECK_EQUAL(attr.max_rmrs, 32);
    BOOST_CHECK_EQUAL(attr.max_rmr_target_address, ~DAT_VADDR{0});
    BOOST_CHECK_EQUAL(attr.max_srqs, 8);
    BOOST_CHECK_EQUAL(attr.max_ep_per_srq, 100);
    BOOST_CHECK_EQUAL(attr.max_recv_per_srq, 512);
    BOOST_CHECK_EQUAL(attr.max_iov_segments_per_rdma_read, 4);
    BOOST_CHECK_EQUAL(attr.max_iov_segments_per_rdma_write, 8);
    BOOST_CHECK_EQUAL(attr.max_rdma_read_in, 1600);
    BOOST_CHECK_EQUAL(attr.max_rdma_read_out, 100);
    BOOST_CHECK_EQUAL(attr.max_rdma_read_per_ep_in_guaranteed, DAT_TRUE);   // 100 EPs * 16
    BOOST_CHECK_EQUAL(attr.max_rdma_read_per_ep_out_guaranteed, DAT_TRUE);  // not for 100 EPs * 8
    BOOST_CHECK_EQUAL(attr.zb_supported, DAT_TRUE);
    BOOST_CHECK_EQUAL(attr.extension_supported, DAT_EXTENSION_IB);
    BOOST_CHECK_EQUAL(attr.extension_version, 209);
    BOOST_CHECK_EQUAL(attr.num_transport_attr, 0);
    BOOST_CHECK(attr.transport_attr == nullptr);
    BOOST_REQUIRE_EQUAL(attr.num_vendor_attr, 5);
    const auto value = [&attr](const char* name) {
      const char* const text = dat_named_attr_value(attr.vendor_attr, attr.num_vendor_attr, name);
      return std::string(text == nullptr ? "missing" : text);
    };
    BOOST_CHECK_EQUAL(value("delayed_ack_supported"), "false");
    BOOST_CHECK_EQUAL(value("vendor_extension"), "true");
    BOOST_CHECK_EQUAL(value("vendor_ext_version"), "1.0");
    const auto level_query = dat_trclvl_query_func(&attr);
    const auto level_modify = dat_trclvl_modify_func(&attr);
    BOOST_REQUIRE(level_query != nullptr && level_modify != nullptr);
    DAT_COUNT level = -1;
    REQUIRE_OK(level_query(ia.raw, DAT_TRCLVL_DAPL, &level));
    BOOST_CHECK_GE(level, TRC_LVL_OFF);
    REQUIRE_OK(level_modify(ia.raw, DAT_TRCLVL_DAPL, level));
    CHECK_CODE(level_query(ia.raw, DAT_TRCLVL_DAT, &level), invalid_parameter(DAT_INVALID_ARG2));
    CHECK_CODE(level_modify(ia.raw, DAT_TRCLVL_DAT, level), invalid_parameter(DAT_INVALID_ARG2));
    CHECK_CODE(level_query(ia.raw, DAT_TRCLVL_DAPL, nullptr), invalid_parameter(DAT_INVALID_ARG3));
    CHECK_CODE(level_modify(ia.raw, DAT_TRCLVL_DAPL, TRC_LVL_MAX + 1),
               invalid_parameter(DAT_INVALID_ARG3));
    CHECK_CODE(level_modify(ia.raw, DAT_TRCLVL_DAPL, TRC_LVL_OFF - 1),
               invalid_parameter(DAT_INVALID_ARG3));
  }
}

BOOST_AUTO_TEST_CASE(provider_attributes_fill_every_field) {
  for (const bool thread_safe : {false, true}) {
    const OpenIa ia(thread_safe);
    // Storage without an initialiser: the structure has a constant member.
    alignas(DAT_PROVIDER_ATTR) std::byte storage[sizeof(DAT_PROVIDER_ATTR)];
    std::memset(storage, 0xFF, sizeof storage);
    DAT_PROVIDER_ATTR& attr = *reinterpret_cast<DAT_PROVIDER_ATTR*>(storage);
    REQUIRE_OK(ia->ia_query_func(ia.raw, nullptr, 0, nullptr, DAT_PROVIDER_FIELD_ALL, &attr));
    BOOST_CHECK_EQUAL(std::string(attr.provider_name), "fake");
    BOOST_CHECK_EQUAL(attr.provider_version_major, 2U);
    BOOST_CHECK_EQUAL(attr.provider_version_minor, 0U);
    BOOST_CHECK_EQUAL(attr.dapl_version_major, 2U);
    BOOST_CHECK_EQUAL(attr.dapl_version_minor, 0U);
    BOOST_CHECK_EQUAL(static_cast<int>(attr.lmr_mem_types_supported), 3);
    BOOST_CHECK_EQUAL(attr.iov_ownership_on_return, DAT_IOV_CONSUMER);
    BOOST_CHECK_EQUAL(static_cast<int>(attr.dat_qos_supported), 0);
    BOOST_CHECK_EQUAL(static_cast<int>(attr.completion_flags_supported), 0x0F);
    BOOST_CHECK_EQUAL(attr.is_thread_safe, thread_safe ? DAT_TRUE : DAT_FALSE);
    BOOST_CHECK_EQUAL(attr.max_private_data_size, 256);
    BOOST_CHECK_EQUAL(attr.supports_multipath, DAT_FALSE);
    BOOST_CHECK_EQUAL(attr.ep_creator, DAT_PSP_CREATES_EP_IFASKED);
    BOOST_CHECK_EQUAL(attr.pz_support, DAT_PZ_UNIQUE);
    BOOST_CHECK_EQUAL(attr.optimal_buffer_alignment, 256U);
    BOOST_CHECK_EQUAL(attr.srq_supported, DAT_TRUE);
    BOOST_CHECK_EQUAL(attr.srq_watermarks_supported, 7);
    BOOST_CHECK_EQUAL(attr.srq_ep_pz_difference_supported, DAT_FALSE);
    BOOST_CHECK_EQUAL(attr.srq_info_supported, 3);
    BOOST_CHECK_EQUAL(attr.ep_recv_info_supported, 3);
    BOOST_CHECK_EQUAL(attr.lmr_sync_req, DAT_FALSE);
    BOOST_CHECK_EQUAL(attr.dto_async_return_guaranteed, DAT_FALSE);
    BOOST_CHECK_EQUAL(attr.rdma_write_for_rdma_read_req, DAT_FALSE);
    BOOST_CHECK_EQUAL(attr.rdma_read_lmr_rmr_context_exposure, DAT_TRUE);
    BOOST_CHECK_EQUAL(attr.rmr_scope_supported, DAT_RMR_SCOPE_ANY);
    BOOST_CHECK_EQUAL(attr.is_signal_safe, DAT_FALSE);
    BOOST_CHECK_EQUAL(attr.ha_supported, DAT_FALSE);
    BOOST_CHECK_EQUAL(attr.ha_loadbalancing, DAT_HA_LB_NONE);
    BOOST_REQUIRE_EQUAL(attr.num_provider_specific_attr, 2);
    BOOST_CHECK_EQUAL(std::string(attr.provider_specific_attr[1].name), "FAKE_OTHER");
    BOOST_CHECK_EQUAL(std::string(attr.provider_specific_attr[1].value), "TRUE");
    for (int i = 0; i < 6; ++i)
      for (int j = 0; j < 6; ++j)
        BOOST_CHECK_EQUAL(attr.evd_stream_merging_supported[i][j] != DAT_FALSE,
                          i == j || (i != 5 && j != 5));
  }
}

BOOST_AUTO_TEST_CASE(query_checks_masks_and_pointers) {
  const OpenIa ia;
  DAT_IA_ATTR attr{};
  DAT_PROVIDER_ATTR provider{};
  const auto query = [&](DAT_IA_ATTR_MASK ia_mask, DAT_IA_ATTR* a, DAT_PROVIDER_ATTR_MASK p_mask,
                         DAT_PROVIDER_ATTR* p) {
    return ia->ia_query_func(ia.raw, nullptr, ia_mask, a, p_mask, p);
  };
  CHECK_CODE(query(DAT_IA_FIELD_ALL + 1, &attr, 0, nullptr), invalid_parameter(DAT_INVALID_ARG3));
  CHECK_CODE(query(DAT_IA_FIELD_ALL, nullptr, 0, nullptr), invalid_parameter(DAT_INVALID_ARG4));
  // OpenFabrics refuses unknown bits in the first mask only.
  CHECK_CODE(query(0, nullptr, DAT_PROVIDER_FIELD_ALL + 1, &provider), DAT_SUCCESS);
  BOOST_CHECK_EQUAL(provider.dapl_version_major, 2U);
  CHECK_CODE(query(0, nullptr, DAT_PROVIDER_FIELD_ALL + 1, nullptr),
             invalid_parameter(DAT_INVALID_ARG6));
  CHECK_CODE(query(0, nullptr, DAT_PROVIDER_FIELD_ALL, nullptr),
             invalid_parameter(DAT_INVALID_ARG6));
  CHECK_CODE(query(0, nullptr, 0, nullptr), DAT_SUCCESS);
  CHECK_ERROR(ia->ia_query_func(ia.async, nullptr, 0, nullptr, 0, nullptr), DAT_INVALID_HANDLE);
  char name[] = "fake";
  DAT_BOOLEAN answer{};
  CHECK_ERROR(ia->ia_ha_related_func(ia.raw, name, &answer), DAT_MODEL_NOT_SUPPORTED);
  CHECK_ERROR(ia->ia_ha_related_func(ia.raw, name, nullptr), DAT_INVALID_PARAMETER);
  CHECK_ERROR(ia->ia_ha_related_func(nullptr, name, &answer), DAT_INVALID_HANDLE);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
