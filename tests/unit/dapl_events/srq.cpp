// SPDX-License-Identifier: MIT OR GPL-2.0-only
// SRQs: arguments, counts, resizing, and reports.
#include "tests/unit/dapl_events/support.h"

#include <cstddef>
#include <cstring>
#include <vector>

namespace udapl::test {

namespace {

struct SrqFixture : Fixture {
  DAT_PZ_HANDLE pz = ia.pz();
  std::vector<std::byte> memory = std::vector<std::byte>(4096);
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(srq, SrqFixture)

BOOST_AUTO_TEST_CASE(bad_srq_arguments_are_refused) {
  DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
  const auto create_srq = [&](DAT_COUNT buffers, DAT_COUNT segments, DAT_COUNT mark) {
    DAT_SRQ_ATTR attributes{buffers, segments, mark};
    return ia->srq_create_func(ia.raw, pz, &attributes, &srq);
  };
  CHECK_ERROR(create_srq(0, 1, 0), DAT_INVALID_PARAMETER);
  CHECK_ERROR(create_srq(513, 1, 0), DAT_INVALID_PARAMETER);
  CHECK_ERROR(create_srq(8, -1, 0), DAT_INVALID_PARAMETER);
  CHECK_ERROR(create_srq(8, 9, 0), DAT_INVALID_PARAMETER);
  DAT_SRQ_ATTR attributes{8, 1, 0};
  CHECK_ERROR(ia->srq_create_func(ia.raw, pz, nullptr, &srq), DAT_INVALID_PARAMETER);
  CHECK_ERROR(ia->srq_create_func(ia.raw, pz, &attributes, nullptr), DAT_INVALID_PARAMETER);
  CHECK_ERROR(ia->srq_create_func(ia.raw, ia.raw, &attributes, &srq), DAT_INVALID_HANDLE);
  CHECK_ERROR(ia->srq_create_func(pz, pz, &attributes, &srq), DAT_INVALID_HANDLE);
  fake::settings().fail_from = 1;
  CHECK_ERROR(create_srq(8, 1, 0), DAT_INSUFFICIENT_RESOURCES);
  fake::settings().fail_from = 0;
  fake::settings().attributes.max_srqs = 0;
  const OpenIa none;
  CHECK_ERROR(none->srq_create_func(none.raw, none.pz(), &attributes, &srq),
              DAT_MODEL_NOT_SUPPORTED);
  DAT_PROVIDER_ATTR attr{};
  REQUIRE_OK(none->ia_query_func(none.raw, nullptr, 0, nullptr, DAT_PROVIDER_FIELD_ALL, &attr));
  BOOST_CHECK_EQUAL(attr.srq_supported, DAT_FALSE);
  BOOST_CHECK_EQUAL(attr.srq_watermarks_supported, 6);
  BOOST_CHECK_EQUAL(attr.srq_info_supported, 0);
}

BOOST_AUTO_TEST_CASE(srq_counts_and_resize) {
  DAT_REGION_DESCRIPTION what{};
  what.for_va = memory.data();
  DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
  DAT_LMR_CONTEXT context = 0;
  DAT_VADDR address = 0;
  REQUIRE_OK(ia->lmr_create_func(ia.raw, DAT_MEM_TYPE_VIRTUAL, what, memory.size(), pz,
                                 DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &lmr, &context, nullptr,
                                 nullptr, &address));
  const DAT_SRQ_HANDLE srq = ia.srq(pz, 4);
  CHECK_CODE(ia->pz_free_func(pz), invalid_state(DAT_INVALID_STATE_PZ_IN_USE));
  auto& queue = static_cast<fake::Srq&>(static_cast<dapl::Srq*>(srq)->queue());
  DAT_LMR_TRIPLET segment{address, 10, context};
  const DAT_DTO_COOKIE user{};
  const auto post = [&] { return ia->srq_post_recv_func(srq, 1, &segment, user); };
  for (int i = 0; i < 4; ++i) REQUIRE_OK(post());
  CHECK_ERROR(post(), DAT_INSUFFICIENT_RESOURCES);
  DAT_SRQ_PARAM param;
  std::memset(&param, 0xA5, sizeof param);
  REQUIRE_OK(ia->srq_query_func(srq, DAT_SRQ_FIELD_ALL, &param));
  BOOST_CHECK_EQUAL(param.ia_handle, ia.number);
  BOOST_CHECK_EQUAL(param.srq_state, DAT_SRQ_STATE_OPERATIONAL);
  BOOST_CHECK_EQUAL(param.pz_handle, pz);
  BOOST_CHECK_EQUAL(param.max_recv_dtos, 4);
  BOOST_CHECK_EQUAL(param.max_recv_iov, 1);
  BOOST_CHECK_EQUAL(param.low_watermark, 0);
  BOOST_CHECK_EQUAL(param.available_dto_count, 4);
  BOOST_CHECK_EQUAL(param.outstanding_dto_count, 4);
  REQUIRE_OK(ia->srq_query_func(srq, any_value<DAT_SRQ_PARAM_MASK>(0x100), &param));
  CHECK_ERROR(ia->srq_query_func(srq, DAT_SRQ_FIELD_ALL, nullptr), DAT_INVALID_PARAMETER);

  CHECK_ERROR(ia->srq_resize_func(srq, 0), DAT_INVALID_PARAMETER);
  CHECK_ERROR(ia->srq_resize_func(srq, 513), DAT_INVALID_PARAMETER);
  CHECK_ERROR(ia->srq_resize_func(srq, 3), DAT_INVALID_STATE);
  queue.refuse_resize = true;
  CHECK_ERROR(ia->srq_resize_func(srq, 6), DAT_INSUFFICIENT_RESOURCES);
  CHECK_ERROR(post(), DAT_INSUFFICIENT_RESOURCES);  // the size is unchanged
  queue.refuse_resize = false;
  REQUIRE_OK(ia->srq_resize_func(srq, 6));
  REQUIRE_OK(post());
  REQUIRE_OK(post());
  CHECK_ERROR(post(), DAT_INSUFFICIENT_RESOURCES);
  segment.lmr_context += 100;
  REQUIRE_OK(ia->srq_resize_func(srq, 7));
  CHECK_ERROR(post(), DAT_PRIVILEGES_VIOLATION);  // a refused post is not counted
  REQUIRE_OK(ia->srq_query_func(srq, DAT_SRQ_FIELD_ALL, &param));
  BOOST_CHECK_EQUAL(param.max_recv_dtos, 7);
  BOOST_CHECK_EQUAL(param.outstanding_dto_count, 6);
  REQUIRE_OK(ia->srq_free_func(srq));  // posted buffers do not prevent that
  CHECK_ERROR(ia->srq_free_func(srq), DAT_INVALID_HANDLE);
}

BOOST_AUTO_TEST_CASE(srq_shrinks_to_what_is_outstanding) {
  const DAT_SRQ_HANDLE handle = ia.srq(pz, 8);
  auto& srq = *static_cast<dapl::Srq*>(handle);
  std::vector<dapl::SrqCookie*> cookies;
  for (int i = 0; i < 5; ++i) cookies.push_back(srq.cookies().claim());
  REQUIRE_OK(ia->srq_resize_func(handle, 5));
  BOOST_CHECK(srq.cookies().claim() == nullptr);
  srq.cookies().retire(*cookies[2]);  // out of order
  BOOST_CHECK(srq.cookies().claim() == cookies[2]);
  REQUIRE_OK(ia->srq_set_lw_func(handle, 5));
  for (int i = 0; i < 3; ++i) srq.cookies().retire(*cookies[static_cast<std::size_t>(i)]);
  CHECK_ERROR(ia->srq_resize_func(handle, 4), DAT_INVALID_STATE);  // below the watermark
  fake::Scheduler::instance().run();
}

BOOST_AUTO_TEST_CASE(srq_watermark_and_failure_are_async_events) {
  const DAT_SRQ_HANDLE srq = ia.srq(pz, 4);
  CHECK_ERROR(ia->srq_set_lw_func(srq, -1), DAT_INVALID_PARAMETER);
  CHECK_ERROR(ia->srq_set_lw_func(srq, 5), DAT_INVALID_PARAMETER);
  REQUIRE_OK(ia->srq_set_lw_func(srq, 2));  // fires at once, because no buffer is posted
  fake::Scheduler::instance().run();
  DAT_EVENT event{};
  REQUIRE_OK(ia->evd_dequeue_func(ia.async, &event));
  BOOST_CHECK_EQUAL(static_cast<int>(event.event_number), 0x8003);
  BOOST_CHECK_EQUAL(event.event_data.asynch_error_event_data.dat_handle, srq);
  BOOST_CHECK_EQUAL(event.event_data.asynch_error_event_data.reason,
                    static_cast<int>(DAT_SRQ_LOW_WATERMARK_EVENT));
  static_cast<fake::Srq&>(static_cast<dapl::Srq*>(srq)->queue()).fail();
  fake::Scheduler::instance().run();
  REQUIRE_OK(ia->evd_dequeue_func(ia.async, &event));
  BOOST_CHECK_EQUAL(event.event_data.asynch_error_event_data.reason,
                    static_cast<int>(DAT_SRQ_TRANSFER_TO_ERROR));
  DAT_SRQ_PARAM param{};
  REQUIRE_OK(ia->srq_query_func(srq, DAT_SRQ_FIELD_ALL, &param));
  BOOST_CHECK_EQUAL(param.srq_state, DAT_SRQ_STATE_ERROR);
}

BOOST_AUTO_TEST_CASE(a_watermark_refused_by_the_transport_is_not_set) {
  const DAT_SRQ_HANDLE srq = ia.srq(pz, 4);
  auto& queue = static_cast<fake::Srq&>(static_cast<dapl::Srq*>(srq)->queue());
  queue.refuse_watermark = true;
  const Traced traced;
  CHECK_ERROR(ia->srq_set_lw_func(srq, 2), DAT_INSUFFICIENT_RESOURCES);
  BOOST_CHECK(traced.has(trace::kNormal, "rejected the low watermark 2"));
  DAT_SRQ_PARAM param{};
  REQUIRE_OK(ia->srq_query_func(srq, DAT_SRQ_FIELD_ALL, &param));
  BOOST_CHECK_EQUAL(param.low_watermark, 0);
  REQUIRE_OK(ia->srq_resize_func(srq, 1));  // no watermark prevents that
}

BOOST_AUTO_TEST_CASE(no_more_than_max_srqs) {
  fake::settings().attributes.max_srqs = 1;
  const OpenIa few;
  const DAT_PZ_HANDLE zone = few.pz();
  DAT_SRQ_ATTR attributes{8, 1, 0};
  DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
  REQUIRE_OK(few->srq_create_func(few.raw, zone, &attributes, &srq));
  DAT_SRQ_HANDLE second = DAT_HANDLE_NULL;
  CHECK_CODE(few->srq_create_func(few.raw, zone, &attributes, &second),
             dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_SRQ));
  REQUIRE_OK(few->srq_free_func(srq));
  REQUIRE_OK(few->srq_create_func(few.raw, zone, &attributes, &second));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
