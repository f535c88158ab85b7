// SPDX-License-Identifier: MIT OR GPL-2.0-only
// dat_ep_create, dat_ep_create_with_srq, dat_ep_query: attributes, defaults, limits.
#include "tests/unit/dapl_ep/support.h"

#include <dat/dat_trclvl.h>

#include <strings.h>

#include <cstdio>
#include <limits>

namespace udapl::test {
namespace {

struct Creation : Rig {
  DAT_RETURN create(const DAT_EP_ATTR* attr, DAT_EP_HANDLE* made) const {
    return ia->ep_create_func(ia.raw, pz, recv, request, connection, attr, made);
  }
  DAT_EP_PARAM query(DAT_EP_HANDLE of) const {
    DAT_EP_PARAM param{};
    REQUIRE_OK(ia->ep_query_func(of, DAT_EP_FIELD_ALL, &param));
    return param;
  }
  DAT_EVD_HANDLE recv = ia.evd(DAT_EVD_DTO_FLAG);
  DAT_EVD_HANDLE request = ia.evd(DAT_EVD_DTO_FLAG);
  DAT_EVD_HANDLE connection = ia.evd(DAT_EVD_CONNECTION_FLAG);
  DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
};

BOOST_FIXTURE_TEST_SUITE(attributes, Creation)

BOOST_AUTO_TEST_CASE(ep_without_attributes_gets_the_defaults) {
  REQUIRE_OK(create(nullptr, &ep));
  const DAT_EP_PARAM param = query(ep);
  BOOST_CHECK_EQUAL(param.ia_handle, ia.number);
  BOOST_CHECK_EQUAL(param.ep_state, DAT_EP_STATE_UNCONNECTED);
  BOOST_CHECK_EQUAL(param.pz_handle, pz);
  BOOST_CHECK_EQUAL(param.recv_evd_handle, recv);
  BOOST_CHECK_EQUAL(param.request_evd_handle, request);
  BOOST_CHECK_EQUAL(param.connect_evd_handle, connection);
  BOOST_CHECK(param.srq_handle == DAT_HANDLE_NULL);
  BOOST_CHECK(param.local_ia_address_ptr != nullptr);
  BOOST_REQUIRE(param.remote_ia_address_ptr != nullptr);
  BOOST_CHECK_EQUAL(param.remote_ia_address_ptr->sa_family, AF_UNSPEC);
  BOOST_CHECK_EQUAL(param.ep_attr.service_type, DAT_SERVICE_TYPE_RC);
  BOOST_CHECK_EQUAL(param.ep_attr.max_message_size, 1U << 30);
  BOOST_CHECK_EQUAL(param.ep_attr.max_rdma_size, 1U << 30);
  BOOST_CHECK_EQUAL(param.ep_attr.qos, DAT_QOS_BEST_EFFORT);
  BOOST_CHECK_EQUAL(param.ep_attr.recv_completion_flags, DAT_COMPLETION_EVD_THRESHOLD_FLAG);
  BOOST_CHECK_EQUAL(param.ep_attr.request_completion_flags, DAT_COMPLETION_EVD_THRESHOLD_FLAG);
  BOOST_CHECK_EQUAL(param.ep_attr.max_recv_dtos, 16);
  BOOST_CHECK_EQUAL(param.ep_attr.max_request_dtos, 16);
  BOOST_CHECK_EQUAL(param.ep_attr.max_recv_iov, 4);
  BOOST_CHECK_EQUAL(param.ep_attr.max_request_iov, 4);
  BOOST_CHECK_EQUAL(param.ep_attr.max_rdma_read_in, 4);
  BOOST_CHECK_EQUAL(param.ep_attr.max_rdma_read_out, 4);
  BOOST_CHECK_EQUAL(param.ep_attr.srq_soft_hw, DAT_WATERMARK_INFINITE);
}

BOOST_AUTO_TEST_CASE(defaults_without_evds) {
  REQUIRE_OK(ia->ep_create_func(ia.raw, DAT_HANDLE_NULL, DAT_HANDLE_NULL, DAT_HANDLE_NULL,
                                DAT_HANDLE_NULL, nullptr, &ep));
  const DAT_EP_PARAM param = query(ep);
  BOOST_CHECK_EQUAL(param.ep_attr.max_recv_dtos, 16);
  BOOST_CHECK_EQUAL(param.ep_attr.max_request_dtos, 16);
  BOOST_CHECK(param.pz_handle == DAT_HANDLE_NULL);
  BOOST_CHECK(fake::Qp::of(ep) == nullptr);  // no PZ, no QP
}

BOOST_AUTO_TEST_CASE(attributes_are_granted_exactly) {
  DAT_EP_ATTR attr = Rig::attributes();
  attr.recv_completion_flags = DAT_COMPLETION_SOLICITED_WAIT_FLAG;
  attr.request_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
  attr.max_rdma_read_iov = 1;
  attr.max_rdma_write_iov = 3;
  REQUIRE_OK(create(&attr, &ep));
  const DAT_EP_ATTR got = query(ep).ep_attr;
  BOOST_CHECK_EQUAL(got.max_message_size, 4096U);
  BOOST_CHECK_EQUAL(got.recv_completion_flags, DAT_COMPLETION_SOLICITED_WAIT_FLAG);
  BOOST_CHECK_EQUAL(got.request_completion_flags, DAT_COMPLETION_UNSIGNALLED_FLAG);
  BOOST_CHECK_EQUAL(got.max_rdma_read_iov, 1);
  BOOST_CHECK_EQUAL(got.max_rdma_write_iov, 3);
  const transport::QpInit init = qp(ep).init();
  BOOST_CHECK_EQUAL(init.max_recv, 8);
  BOOST_CHECK_EQUAL(init.max_request, 8);
  BOOST_CHECK_EQUAL(init.max_recv_segments, 4);  // the minimum
  BOOST_CHECK_EQUAL(init.max_request_segments, 4);
  BOOST_CHECK_EQUAL(init.max_rdma_read_in, 4);
  BOOST_CHECK(init.solicited_only);
  BOOST_CHECK(init.recv_cq == object(recv).cq());
  BOOST_CHECK(init.request_cq == object(request).cq());
}

BOOST_AUTO_TEST_CASE(each_limit_holds_and_no_more) {
  const auto& limits = fake::settings().attributes;
  const std::pair<DAT_COUNT DAT_EP_ATTR::*, int> counts[] = {
      {&DAT_EP_ATTR::max_recv_dtos, limits.max_dto_per_ep},
      {&DAT_EP_ATTR::max_request_dtos, limits.max_dto_per_ep},
      {&DAT_EP_ATTR::max_recv_iov, limits.max_segments},
      {&DAT_EP_ATTR::max_request_iov, limits.max_segments},
      {&DAT_EP_ATTR::max_rdma_read_in, limits.max_rdma_read_in_total},
      {&DAT_EP_ATTR::max_rdma_read_out, limits.max_rdma_read_out_total}};
  for (const auto& [field, limit] : counts) {
    DAT_EP_ATTR attr = Rig::attributes();
    attr.*field = limit;
    REQUIRE_OK(create(&attr, &ep));
    attr.*field = limit + 1;
    CHECK_CODE(create(&attr, &ep), invalid_parameter(DAT_INVALID_ARG6));
    attr.*field = -1;
    const bool depth =
        field == &DAT_EP_ATTR::max_rdma_read_in || field == &DAT_EP_ATTR::max_rdma_read_out;
    CHECK_CODE(create(&attr, &ep), depth ? 0U : invalid_parameter(DAT_INVALID_ARG6));
    attr.*field = std::numeric_limits<DAT_COUNT>::max();
    CHECK_CODE(create(&attr, &ep), invalid_parameter(DAT_INVALID_ARG6));
  }
  for (const auto field : {&DAT_EP_ATTR::max_message_size, &DAT_EP_ATTR::max_rdma_size}) {
    DAT_EP_ATTR attr = Rig::attributes();
    attr.*field = 1U << 30;
    REQUIRE_OK(create(&attr, &ep));
    ++(attr.*field);
    CHECK_CODE(create(&attr, &ep), invalid_parameter(DAT_INVALID_ARG6));
  }
}

// The adapter's limit applies, but a query returns the value that was given.
BOOST_AUTO_TEST_CASE(adapter_limits_apply) {
  fake::settings().attributes.max_read_segments = 3;
  const OpenIa narrow;
  const DAT_PZ_HANDLE zone = narrow.pz();
  const auto init_with = [&](auto&& change) {
    DAT_EP_ATTR attr = Rig::attributes();
    attr.max_request_iov = 5;
    change(attr);
    REQUIRE_OK(narrow->ep_create_func(narrow.raw, zone, nullptr, nullptr, nullptr, &attr, &ep));
    DAT_EP_PARAM param{};
    REQUIRE_OK(narrow->ep_query_func(ep, DAT_EP_FIELD_ALL, &param));
    BOOST_CHECK_EQUAL(param.ep_attr.max_rdma_read_iov, attr.max_rdma_read_iov);
    BOOST_CHECK_EQUAL(param.ep_attr.max_rdma_write_iov, attr.max_rdma_write_iov);
    BOOST_CHECK_EQUAL(param.ep_attr.max_rdma_read_in, attr.max_rdma_read_in);
    return qp(ep).init();
  };
  const auto& limits = fake::settings().attributes;
  constexpr DAT_COUNT kMax = std::numeric_limits<DAT_COUNT>::max();
  BOOST_CHECK_EQUAL(init_with([](auto& a) { a.max_rdma_read_iov = kMax; }).max_request_segments, 5);
  BOOST_CHECK_EQUAL(init_with([](auto& a) { a.max_rdma_read_iov = -1; }).max_request_segments, 5);
  BOOST_CHECK_EQUAL(init_with([](auto& a) { a.max_rdma_write_iov = kMax; }).max_request_segments,
                    limits.max_write_segments);
  BOOST_CHECK_EQUAL(init_with([](auto& a) { a.max_rdma_read_in = -1; }).max_rdma_read_in,
                    limits.max_rdma_read_in);
  BOOST_CHECK_EQUAL(init_with([](auto& a) { a.max_rdma_read_out = -5; }).max_rdma_read_out,
                    limits.max_rdma_read_out);
  BOOST_CHECK_EQUAL(init_with([&](auto& a) {
                      a.max_rdma_read_out = limits.max_rdma_read_out + 1;
                    }).max_rdma_read_out,
                    limits.max_rdma_read_out);
  BOOST_CHECK(!init_with([](auto& a) {
                 a.recv_completion_flags = DAT_COMPLETION_BARRIER_FENCE_FLAG;
               }).solicited_only);
}

BOOST_AUTO_TEST_CASE(bad_values_are_refused) {
  const auto refuse = [this](auto&& change, DAT_RETURN code = invalid_parameter(DAT_INVALID_ARG6)) {
    DAT_EP_ATTR attr = Rig::attributes();
    change(attr);
    CHECK_CODE(create(&attr, &ep), code);
  };
  const auto accept = [&](auto&& change) { refuse(change, DAT_SUCCESS); };
  refuse([](auto& a) { a.service_type = DAT_SERVICE_TYPE_EXTENSION_BASE; });
  accept([](auto& a) { a.service_type = raw_enum<DAT_SERVICE_TYPE>(77); });
  accept([](auto& a) { a.qos = raw_enum<DAT_QOS>(0x10); });
  accept([](auto& a) { a.qos = DAT_QOS_PREMIUM; });
  refuse([](auto& a) { a.recv_completion_flags = DAT_COMPLETION_SUPPRESS_FLAG; });
  accept([](auto& a) { a.recv_completion_flags = DAT_COMPLETION_BARRIER_FENCE_FLAG; });
  accept([](auto& a) { a.request_completion_flags = DAT_COMPLETION_SUPPRESS_FLAG; });
  accept([](auto& a) { a.request_completion_flags = DAT_COMPLETION_SOLICITED_WAIT_FLAG; });
  refuse([](auto& a) { a.max_recv_dtos = 0; });
  refuse([](auto& a) { a.max_recv_iov = 0; });
  refuse([](auto& a) { a.max_request_dtos = 0; });
  accept([](auto& a) { a.srq_soft_hw = -2; });
  accept([](auto& a) { a.ep_provider_specific_count = 1; });
  accept([](auto& a) { a.ep_transport_specific_count = -1; });
  CHECK_CODE(create(nullptr, nullptr), invalid_parameter(DAT_INVALID_ARG7));
}

BOOST_AUTO_TEST_CASE(delayed_ack_is_true_or_false) {
  fake::settings().attributes.delayed_ack = true;
  const OpenIa with;
  const DAT_PZ_HANDLE zone = with.pz();
  char name[] = DAT_EP_ATTR_DELAYED_ACK;
  char value[8] = "";
  DAT_NAMED_ATTR named{name, value};
  DAT_EP_ATTR attr = Rig::attributes();
  attr.ep_provider_specific_count = 1;
  attr.ep_provider_specific = &named;
  const auto create_one = [&](const char* wanted) {
    std::snprintf(value, sizeof value, "%s", wanted);
    return with->ep_create_func(with.raw, zone, nullptr, nullptr, nullptr, &attr, &ep);
  };
  const Traced traced;
  for (const char* const wrong : {"", "yes", "1", "truer"}) {
    REQUIRE_OK(create_one(wrong));
    DAT_EP_PARAM param{};
    REQUIRE_OK(with->ep_query_func(ep, DAT_EP_FIELD_ALL, &param));
    BOOST_CHECK_EQUAL(std::string(param.ep_attr.ep_provider_specific[0].value), "false");
    param.ep_attr = attr;
    CHECK_CODE(with->ep_modify_func(ep,
                                    DAT_EP_FIELD_EP_ATTR_NUM_PROVIDER_ATTR |
                                        DAT_EP_FIELD_EP_ATTR_PROVIDER_SPECIFIC_ATTR,
                                    &param),
               invalid_parameter(DAT_INVALID_ARG3));
  }
  BOOST_CHECK(
      traced.has(trace::kNormal, "\"delayed_ack\" = \"yes\" on fake0: must be true or false"));
  for (const char* const right : {"true", "TRUE", "false", "False"}) {
    REQUIRE_OK(create_one(right));
    DAT_EP_PARAM param{};
    REQUIRE_OK(with->ep_query_func(ep, DAT_EP_FIELD_ALL, &param));
    BOOST_REQUIRE_EQUAL(param.ep_attr.ep_provider_specific_count, 1);
    BOOST_CHECK_EQUAL(std::string(param.ep_attr.ep_provider_specific[0].value),
                      ::strcasecmp(right, "true") == 0 ? "true" : "false");
  }
}

// delayed_ack=on in the dat.conf entry.
BOOST_AUTO_TEST_CASE(delayed_ack_of_the_adapter) {
  fake::settings().attributes.delayed_ack = true;
  fake::settings().attributes.delayed_ack_by_default = true;
  const OpenIa with;
  const DAT_PZ_HANDLE zone = with.pz();
  const auto shown = [&] {
    DAT_EP_PARAM param{};
    REQUIRE_OK(with->ep_query_func(ep, DAT_EP_FIELD_ALL, &param));
    BOOST_REQUIRE_EQUAL(param.ep_attr.ep_provider_specific_count, 1);
    return std::string(param.ep_attr.ep_provider_specific[0].value);
  };
  const DAT_EP_ATTR attr = Rig::attributes();
  for (const DAT_EP_ATTR* const given : {&attr, static_cast<const DAT_EP_ATTR*>(nullptr)}) {
    REQUIRE_OK(with->ep_create_func(with.raw, zone, nullptr, nullptr, nullptr, given, &ep));
    BOOST_CHECK_EQUAL(shown(), "true");
    BOOST_CHECK(qp(ep).init().delayed_ack);
  }
  char name[] = DAT_EP_ATTR_DELAYED_ACK;
  char value[] = "false";
  DAT_NAMED_ATTR off{name, value};
  DAT_EP_PARAM param{};
  param.ep_attr.ep_provider_specific_count = 1;
  param.ep_attr.ep_provider_specific = &off;
  REQUIRE_OK(with->ep_modify_func(
      ep, DAT_EP_FIELD_EP_ATTR_NUM_PROVIDER_ATTR | DAT_EP_FIELD_EP_ATTR_PROVIDER_SPECIFIC_ATTR,
      &param));
  BOOST_CHECK_EQUAL(shown(), "false");
  BOOST_CHECK(!qp(ep).init().delayed_ack);
}

BOOST_AUTO_TEST_CASE(wrong_objects_are_refused) {
  const DAT_EP_ATTR attr = Rig::attributes();
  const OpenIa other;
  const auto refuse = [&](DAT_HANDLE a, DAT_HANDLE b, DAT_HANDLE c, DAT_HANDLE d, DAT_RETURN code) {
    CHECK_CODE(ia->ep_create_func(ia.raw, a, b, c, d, &attr, &ep), code);
  };
  CHECK_CODE(ia->ep_create_func(pz, pz, recv, request, connection, &attr, &ep),
             invalid_handle(DAT_INVALID_HANDLE_IA));
  refuse(recv, recv, request, connection, invalid_handle(DAT_INVALID_HANDLE_PZ));
  refuse(other.pz(), recv, request, connection, invalid_handle(DAT_INVALID_HANDLE_PZ));
  refuse(pz, connection, request, connection, invalid_handle(DAT_INVALID_HANDLE_EVD_RECV));
  refuse(pz, pz, request, connection, invalid_handle(DAT_INVALID_HANDLE_EVD_RECV));
  refuse(pz, other.evd(DAT_EVD_DTO_FLAG), request, connection,
         invalid_handle(DAT_INVALID_HANDLE_EVD_RECV));
  refuse(pz, recv, connection, connection, invalid_handle(DAT_INVALID_HANDLE_EVD_REQUEST));
  refuse(pz, recv, request, recv, invalid_handle(DAT_INVALID_HANDLE_EVD_CONN));
  refuse(pz, recv, request, cr_evd, invalid_handle(DAT_INVALID_HANDLE_EVD_CONN));
}

BOOST_AUTO_TEST_CASE(one_evd_accepts_mixed_modes) {
  DAT_EP_ATTR attr = Rig::attributes();
  REQUIRE_OK(create(&attr, &ep));
  BOOST_CHECK_EQUAL(object(recv).state() & 0x30, DAT_EVD_STATE_CONFIG_THRESHOLD);
  attr.recv_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
  REQUIRE_OK(create(&attr, &ep));
  BOOST_CHECK_EQUAL(object(recv).state() & 0x30, DAT_EVD_STATE_CONFIG_NOTIFY);
  REQUIRE_OK(ia->ep_free_func(ep));
  BOOST_CHECK_EQUAL(object(recv).state() & 0x30, DAT_EVD_STATE_CONFIG_THRESHOLD);
}

BOOST_AUTO_TEST_CASE(no_more_than_max_eps) {
  fake::settings().attributes.max_eps = 2;
  const OpenIa few;
  const DAT_PZ_HANDLE zone = few.pz();
  const auto create_one = [&] {
    return few->ep_create_func(few.raw, zone, nullptr, nullptr, nullptr, nullptr, &ep);
  };
  REQUIRE_OK(create_one());
  REQUIRE_OK(create_one());
  const DAT_EP_HANDLE last = ep;
  CHECK_CODE(create_one(), dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEP));
  REQUIRE_OK(few->ep_free_func(last));
  REQUIRE_OK(create_one());
}

BOOST_AUTO_TEST_CASE(an_ep_keeps_its_objects) {
  REQUIRE_OK(create(nullptr, &ep));
  CHECK_ERROR(ia->pz_free_func(pz), DAT_INVALID_STATE);
  for (const DAT_EVD_HANDLE evd : {recv, request, connection})
    CHECK_ERROR(ia->evd_free_func(evd), DAT_INVALID_STATE);
  REQUIRE_OK(ia->ep_free_func(ep));
  for (const DAT_EVD_HANDLE evd : {recv, request, connection}) REQUIRE_OK(ia->evd_free_func(evd));
  REQUIRE_OK(ia->pz_free_func(pz));
  CHECK_ERROR(ia->ep_free_func(ep), DAT_INVALID_HANDLE);
}

BOOST_AUTO_TEST_CASE(with_an_srq) {
  const DAT_SRQ_HANDLE srq = ia.srq(pz);
  DAT_EP_ATTR attr = Rig::attributes();
  attr.max_recv_dtos = 0;
  const auto create_with = [&](DAT_SRQ_HANDLE queue, DAT_PZ_HANDLE zone, const DAT_EP_ATTR* a) {
    return ia->ep_create_with_srq_func(ia.raw, zone, recv, request, connection, queue, a, &ep);
  };
  CHECK_CODE(create_with(DAT_HANDLE_NULL, pz, &attr), invalid_handle(DAT_INVALID_HANDLE_SRQ));
  CHECK_CODE(create_with(pz, pz, &attr), invalid_handle(DAT_INVALID_HANDLE_SRQ));
  REQUIRE_OK(create_with(srq, pz, nullptr));
  REQUIRE_OK(ia->ep_free_func(ep));
  CHECK_ERROR(create_with(srq, ia.pz(), &attr), DAT_INVALID_PARAMETER);
  const OpenIa other;
  CHECK_CODE(create_with(other.srq(other.pz()), pz, &attr), invalid_handle(DAT_INVALID_HANDLE_SRQ));
  CHECK_CODE(ia->ep_create_with_srq_func(pz, pz, recv, request, connection, srq, &attr, &ep),
             invalid_handle(DAT_INVALID_HANDLE_IA));
  CHECK_CODE(
      ia->ep_create_with_srq_func(ia.raw, pz, recv, request, connection, srq, &attr, nullptr),
      invalid_parameter(DAT_INVALID_ARG8));
  attr.srq_soft_hw = 3;
  REQUIRE_OK(create_with(srq, pz, &attr));
  BOOST_CHECK_EQUAL(query(ep).srq_handle, srq);
  BOOST_CHECK_EQUAL(query(ep).ep_attr.srq_soft_hw, 3);
  BOOST_CHECK(qp(ep).init().srq == &static_cast<dapl::Srq*>(srq)->queue());
  BOOST_CHECK_EQUAL(qp(ep).init().max_recv, 0);
  Buffer buffer(ia, pz);
  CHECK_CODE(post_recv(ep, buffer, 1), invalid_state(DAT_INVALID_STATE_SRQ_IN_USE));
  CHECK_ERROR(ia->srq_free_func(srq), DAT_INVALID_STATE);
  REQUIRE_OK(ia->ep_free_func(ep));
  REQUIRE_OK(ia->srq_free_func(srq));
}

BOOST_AUTO_TEST_CASE(no_more_than_max_eps_per_srq) {
  fake::settings().attributes.max_eps_per_srq = 1;
  const OpenIa few;
  const DAT_PZ_HANDLE zone = few.pz();
  const DAT_SRQ_HANDLE srq = few.srq(zone);
  const DAT_EVD_HANDLE dto = few.evd(DAT_EVD_DTO_FLAG);
  const DAT_EVD_HANDLE end = few.evd(DAT_EVD_CONNECTION_FLAG);
  DAT_EP_ATTR attr = Rig::attributes();
  attr.max_recv_dtos = 0;
  const auto create_one = [&] {
    return few->ep_create_with_srq_func(few.raw, zone, dto, dto, end, srq, &attr, &ep);
  };
  REQUIRE_OK(create_one());
  const DAT_EP_HANDLE only = ep;
  CHECK_CODE(create_one(), dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_SRQ));
  REQUIRE_OK(few->ep_free_func(only));
  REQUIRE_OK(create_one());
}

BOOST_AUTO_TEST_CASE(query_without_room_is_refused) {
  REQUIRE_OK(create(nullptr, &ep));
  DAT_EP_PARAM param{};
  REQUIRE_OK(ia->ep_query_func(ep, DAT_EP_FIELD_ALL + 1, &param));
  CHECK_CODE(ia->ep_query_func(ep, DAT_EP_FIELD_ALL, nullptr), invalid_parameter(DAT_INVALID_ARG3));
  CHECK_CODE(ia->ep_query_func(ep, 0, &param), DAT_SUCCESS);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::test
