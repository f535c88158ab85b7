// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "checklist.h"
#include "harness.h"

#include <cstring>

// The attributes of the IA and of its provider.
namespace conformance {

BOOST_AUTO_TEST_SUITE(ia)

BOOST_AUTO_TEST_CASE(ia_query_arguments,
                     *covers("ia_query_null_outputs ia_query_mask_null_ptr ia_query_bad_mask")) {
  Ia ia;
  REQUIRE_OK(dat_ia_query(ia, nullptr, 0, nullptr, 0, nullptr));
  DAT_IA_ATTR attr{};
  CHECK_TYPE(dat_ia_query(ia, nullptr, DAT_IA_FIELD_ALL, nullptr, 0, nullptr),
             DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_ia_query(ia, nullptr, 0, nullptr, DAT_PROVIDER_FIELD_ALL, nullptr),
             DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_ia_query(ia, nullptr, DAT_IA_FIELD_ALL + 1, &attr, 0, nullptr),
             DAT_INVALID_PARAMETER);
  DAT_PROVIDER_ATTR provider{};  // OpenFabrics refuses unknown bits only of the IA's mask
  REQUIRE_OK(dat_ia_query(ia, nullptr, 0, nullptr, ~DAT_PROVIDER_ATTR_MASK{0}, &provider));
}

BOOST_AUTO_TEST_CASE(ia_attributes,
                     *covers("ia_attr_names_terminated ia_attr_address ia_attr_limits_positive")) {
  Ia ia;
  for (const char* const name : {ia.attr.adapter_name, ia.attr.vendor_name}) {
    const std::size_t length = ::strnlen(name, DAT_NAME_MAX_LENGTH);
    BOOST_CHECK_GT(length, 0U);
    BOOST_CHECK_LT(length, static_cast<std::size_t>(DAT_NAME_MAX_LENGTH));
  }
  BOOST_REQUIRE(ia.attr.ia_address_ptr != nullptr);
  BOOST_CHECK(ia.attr.ia_address_ptr->sa_family == AF_INET ||
              ia.attr.ia_address_ptr->sa_family == AF_INET6);
  for (const DAT_COUNT limit :
       {ia.attr.max_eps, ia.attr.max_dto_per_ep, ia.attr.max_evd_qlen,
        ia.attr.max_iov_segments_per_dto, ia.attr.max_lmrs, ia.attr.max_pzs,
        ia.attr.max_iov_segments_per_rdma_read, ia.attr.max_iov_segments_per_rdma_write})
    BOOST_CHECK_GE(limit, 1);
  BOOST_CHECK_GE(ia.attr.max_evds, 2);
  BOOST_CHECK_GE(ia.attr.max_message_size, 1U);
  BOOST_CHECK_GE(ia.attr.max_rdma_size, 1U);
  BOOST_CHECK_GE(ia.attr.max_lmr_block_size, 1U);
  BOOST_CHECK_EQUAL(ia.attr.num_transport_attr == 0, ia.attr.transport_attr == nullptr);
  BOOST_CHECK_EQUAL(ia.attr.num_vendor_attr == 0, ia.attr.vendor_attr == nullptr);
}

BOOST_AUTO_TEST_CASE(prov_attributes,
                     *covers("prov_attr_version prov_attr_merge_matrix prov_attr_srq_consistent "
                             "ofa_1_max_srqs")) {
  Ia ia;
  const DAT_PROVIDER_ATTR& attr = ia.provider();
  BOOST_CHECK_EQUAL(attr.dapl_version_major, 2U);
  BOOST_CHECK_EQUAL(attr.dapl_version_minor, 0U);
  BOOST_CHECK_EQUAL(attr.is_thread_safe, options().thread_safe);
  BOOST_CHECK_EQUAL(DAT_OPTIMAL_ALIGNMENT % attr.optimal_buffer_alignment, 0U);
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < 6; ++j) {
      const DAT_BOOLEAN value = attr.evd_stream_merging_supported[i][j];
      BOOST_CHECK(value == DAT_TRUE || value == DAT_FALSE);
      BOOST_CHECK_EQUAL(value, attr.evd_stream_merging_supported[j][i]);
    }
  BOOST_CHECK_EQUAL(attr.srq_supported == DAT_TRUE, ia.attr.max_srqs > 0);
}

// DAT requires 64 bytes; the connection manager of InfiniBand and RoCE has room for 56. The test
// connection/conn_private_data_max proves that as much as the attribute says can be sent.
BOOST_AUTO_TEST_CASE(prov_attr_private_data_min) {
  Ia ia;
  const DAT_COUNT most = ia.provider().max_private_data_size;
  BOOST_CHECK_GE(most, 1);
  if (skip_unless(most >= 64,
                  "connections carry " + std::to_string(most) + " bytes of private data, not 64"))
    return;
}

BOOST_AUTO_TEST_CASE(prov_attr_completion_flags) {
  Ia probe;
  DAT_EP_ATTR attr = default_ep_attr(probe);
  const int supported = probe.provider().completion_flags_supported;
  BOOST_CHECK_EQUAL(supported & ~0x0F, 0);
  if ((supported & DAT_COMPLETION_UNSIGNALLED_FLAG) != 0)
    attr.request_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
  Pair pair(&attr);
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  pair.connect();
  for (const auto flag : {DAT_COMPLETION_SUPPRESS_FLAG, DAT_COMPLETION_SOLICITED_WAIT_FLAG,
                          DAT_COMPLETION_UNSIGNALLED_FLAG, DAT_COMPLETION_BARRIER_FENCE_FLAG}) {
    if ((supported & flag) == 0) continue;
    REQUIRE_OK(pair.passive.post_recv(in, 64, 1));
    REQUIRE_OK(pair.active.post_send(out, 64, 2, flag));
    expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, 1);
    if (flag != DAT_COMPLETION_SUPPRESS_FLAG)
      expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 2);
  }
}

BOOST_AUTO_TEST_CASE(prov_attr_all_filled, *covers("ofa_1_provider_attributes")) {
  Ia ia;
  // Fill the structure with two different poison values: a byte that differs was not written.
  // Compare fields and not bytes, because padding may stay unwritten.
  alignas(DAT_PROVIDER_ATTR) unsigned char bytes[2][sizeof(DAT_PROVIDER_ATTR)];
  for (int i = 0; i < 2; ++i) {
    std::memset(bytes[i], i == 0 ? 0xA5 : 0x5A, sizeof bytes[i]);
    REQUIRE_OK(dat_ia_query(ia, nullptr, 0, nullptr, DAT_PROVIDER_FIELD_ALL,
                            reinterpret_cast<DAT_PROVIDER_ATTR*>(bytes[i])));
  }
  const auto& first = *reinterpret_cast<const DAT_PROVIDER_ATTR*>(bytes[0]);
  const auto& second = *reinterpret_cast<const DAT_PROVIDER_ATTR*>(bytes[1]);
#define SAME(field) BOOST_CHECK_MESSAGE(first.field == second.field, #field " is not written")
  SAME(provider_version_major);
  SAME(provider_version_minor);
  SAME(lmr_mem_types_supported);
  SAME(iov_ownership_on_return);
  SAME(dat_qos_supported);
  SAME(completion_flags_supported);
  SAME(supports_multipath);
  SAME(ep_creator);
  SAME(pz_support);
  SAME(srq_supported);
  SAME(srq_watermarks_supported);
  SAME(srq_ep_pz_difference_supported);
  SAME(srq_info_supported);
  SAME(ep_recv_info_supported);
  SAME(lmr_sync_req);
  SAME(dto_async_return_guaranteed);
  SAME(rdma_write_for_rdma_read_req);
  SAME(rdma_read_lmr_rmr_context_exposure);
  SAME(rmr_scope_supported);
  SAME(is_signal_safe);
  SAME(ha_supported);
  SAME(ha_loadbalancing);
  SAME(num_provider_specific_attr);
  SAME(provider_specific_attr);
#undef SAME
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
