// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Requests that name an RMR: binds, sends that invalidate, reads into one.
#include "tests/unit/dapl_ep/transfers.h"

#include <cstring>

namespace udapl::test {
namespace {

BOOST_FIXTURE_TEST_SUITE(binds, Transfers)

BOOST_AUTO_TEST_CASE(send_with_invalidate) {
  DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
  REQUIRE_OK(ia->rmr_create_func(pz, &rmr));
  DAT_LMR_TRIPLET range = to.local(16);
  DAT_RMR_CONTEXT context = 0;
  REQUIRE_OK(ia->rmr_bind_func(rmr, to.lmr, &range, DAT_MEM_PRIV_REMOTE_WRITE_FLAG, DAT_VA_TYPE_VA,
                               passive.ep, cookie_of(5), kDefault, &context));
  DAT_EVENT event{};
  REQUIRE_OK(ia->evd_dequeue_func(passive.request_evd, &event));
  BOOST_CHECK_EQUAL(static_cast<int>(event.event_number),
                    static_cast<int>(DAT_RMR_BIND_COMPLETION_EVENT));
  BOOST_CHECK_EQUAL(event.event_data.rmr_completion_event_data.rmr_handle, rmr);
  BOOST_CHECK_EQUAL(event.event_data.rmr_completion_event_data.user_cookie.as_64, 5U);
  for (std::uint64_t i = 0; i < 2; ++i) REQUIRE_OK(post_recv(passive.ep, to, i));
  DAT_LMR_TRIPLET segment = from.local(8);
  const auto post = [&](DAT_BOOLEAN invalidate, unsigned flags = kDefault) {
    return ia->ep_post_send_with_invalidate_func(active.ep, 1, &segment, cookie_of(2),
                                                 flags_of(flags), invalidate, context);
  };
  REQUIRE_OK(post(DAT_FALSE));
  BOOST_CHECK_EQUAL(take_dto(passive.recv_evd).operation, DAT_DTO_RECEIVE);
  REQUIRE_OK(post(DAT_TRUE));
  const auto received = take_dto(passive.recv_evd);
  BOOST_CHECK_EQUAL(received.operation, DAT_DTO_RECEIVE_WITH_INVALIDATE);
  BOOST_CHECK_EQUAL(received.rmr_context, context);
  CHECK_CODE(ia->ep_post_send_with_invalidate_func(active.ep, 5, &segment, cookie_of(2), kDefault,
                                                   DAT_TRUE, context),
             invalid_parameter(DAT_INVALID_ARG2));
  CHECK_CODE(ia->ep_post_send_with_invalidate_func(active.ep, 1, nullptr, cookie_of(2), kDefault,
                                                   DAT_TRUE, context),
             invalid_parameter(DAT_INVALID_ARG2));

  Transfers without(true, attributes(), [](transport::Attributes& limits) {
    limits.send_invalidate = false;
    limits.read_to_rmr = false;
    limits.zero_based_va = false;
  });
  segment = without.from.local(8);
  REQUIRE_OK(without.post_recv(without.passive.ep, without.to, 1));
  CHECK_ERROR(without.ia->ep_post_send_with_invalidate_func(without.active.ep, 1, &segment,
                                                            cookie_of(2), kDefault, DAT_TRUE, 1),
              DAT_MODEL_NOT_SUPPORTED);
  REQUIRE_OK(without.ia->ep_post_send_with_invalidate_func(without.active.ep, 1, &segment,
                                                           cookie_of(2), kDefault, DAT_FALSE, 1));
  const DAT_RMR_TRIPLET remote = without.to.remote(8);
  CHECK_ERROR(without.ia->ep_post_rdma_read_to_rmr_func(without.active.ep, &remote, cookie_of(1),
                                                        &remote, kDefault),
              DAT_MODEL_NOT_SUPPORTED);
  DAT_RMR_HANDLE window = DAT_HANDLE_NULL;
  REQUIRE_OK(without.ia->rmr_create_func(without.pz, &window));
  range = without.from.local(8);
  CHECK_CODE(without.ia->rmr_bind_func(window, without.from.lmr, &range,
                                       DAT_MEM_PRIV_REMOTE_READ_FLAG, DAT_VA_TYPE_ZB,
                                       without.active.ep, cookie_of(3), kDefault, &context),
             dat_error(DAT_MODEL_NOT_SUPPORTED));
}

// The adapter's maximum lengths apply to these operations, too.
BOOST_AUTO_TEST_CASE(messages_beyond_the_maximum_are_refused) {
  DAT_EP_ATTR attr = attributes();
  attr.max_message_size = attr.max_rdma_size = 20;
  Transfers small(true, attr, [](transport::Attributes& limits) {
    limits.max_message_size = 100;
    limits.max_rdma_size = 50;
  });
  DAT_LMR_TRIPLET segment = small.from.local(101);
  CHECK_CODE(small.ia->ep_post_send_with_invalidate_func(small.active.ep, 1, &segment, cookie_of(2),
                                                         kDefault, DAT_TRUE, 1),
             invalid_parameter(DAT_INVALID_ARG3));
  const DAT_RMR_TRIPLET source = small.from.remote(51);
  CHECK_CODE(small.ia->ep_post_rdma_read_to_rmr_func(small.active.ep, &source, cookie_of(1),
                                                     &source, kDefault),
             invalid_parameter(DAT_INVALID_ARG4));
  BOOST_CHECK_EQUAL(ep_object(small.active.ep).requests.cookies.outstanding(), 0U);
}

BOOST_AUTO_TEST_CASE(read_to_rmr) {
  const DAT_RMR_TRIPLET sink = to.remote(8);
  const DAT_RMR_TRIPLET source = from.remote(8);
  const DAT_RMR_TRIPLET large = from.remote(9);
  const auto post = [&](const DAT_RMR_TRIPLET* a, const DAT_RMR_TRIPLET* b) {
    return ia->ep_post_rdma_read_to_rmr_func(active.ep, a, cookie_of(3), b, kDefault);
  };
  CHECK_CODE(post(nullptr, &source), invalid_parameter(DAT_INVALID_ARG2));
  CHECK_CODE(post(&sink, nullptr), invalid_parameter(DAT_INVALID_ARG4));
  CHECK_CODE(post(&sink, &large), dat_error(DAT_LENGTH_ERROR));
  REQUIRE_OK(post(&sink, &source));
  const auto done = take_dto(active.request_evd);
  BOOST_CHECK_EQUAL(done.operation, DAT_DTO_RDMA_READ);
  BOOST_CHECK_EQUAL(done.transfered_length, 8U);
  BOOST_CHECK(std::memcmp(to.bytes.data(), from.bytes.data(), 8) == 0);
}

BOOST_AUTO_TEST_CASE(bad_bind_arguments_are_refused) {
  DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
  REQUIRE_OK(ia->rmr_create_func(pz, &rmr));
  const DAT_LMR_TRIPLET good = to.local(16);
  DAT_RMR_CONTEXT context = 0;
  const auto bind = [&](DAT_HANDLE window, DAT_HANDLE lmr, const DAT_LMR_TRIPLET* range,
                        unsigned privileges, int va_type, DAT_HANDLE ep, DAT_RMR_CONTEXT* out) {
    return ia->rmr_bind_func(window, lmr, range,
                             raw_enum<DAT_MEM_PRIV_FLAGS>(static_cast<int>(privileges)),
                             raw_enum<DAT_VA_TYPE>(va_type), ep, cookie_of(1), kDefault, out);
  };
  constexpr unsigned kRead = DAT_MEM_PRIV_REMOTE_READ_FLAG;
  CHECK_CODE(bind(pz, to.lmr, &good, kRead, 0, active.ep, &context),
             invalid_handle(DAT_INVALID_HANDLE_RMR));
  CHECK_CODE(bind(rmr, nullptr, &good, kRead, 0, active.ep, &context),
             invalid_handle(DAT_INVALID_HANDLE_LMR));
  CHECK_CODE(bind(rmr, pz, &good, kRead, 0, active.ep, &context),
             invalid_handle(DAT_INVALID_HANDLE_LMR));
  CHECK_CODE(bind(rmr, to.lmr, &good, kRead, 0, pz, &context),
             invalid_handle(DAT_INVALID_HANDLE_EP));
  CHECK_CODE(bind(rmr, to.lmr, nullptr, kRead, 0, active.ep, &context),
             invalid_parameter(DAT_INVALID_ARG3));
  CHECK_CODE(bind(rmr, to.lmr, &good, kRead, 0, active.ep, nullptr),
             invalid_parameter(DAT_INVALID_ARG9));
  CHECK_CODE(bind(rmr, to.lmr, &good, 0x40, 0, active.ep, &context),
             invalid_parameter(DAT_INVALID_ARG4));
  CHECK_CODE(bind(rmr, to.lmr, &good, kRead, 2, active.ep, &context),
             invalid_parameter(DAT_INVALID_ARG5));
  const DAT_LMR_TRIPLET ranges[] = {to.local(257),
                                    to.local(1, 256),
                                    {good.virtual_address - 1, 1, to.context},
                                    {~DAT_VADDR{0}, 2, to.context},
                                    from.local(16),
                                    {good.virtual_address, 16, from.context}};
  for (const DAT_LMR_TRIPLET& range : ranges)
    CHECK_CODE(bind(rmr, to.lmr, &range, kRead, 0, active.ep, &context),
               invalid_parameter(DAT_INVALID_ARG3));

  // Protection zones and privileges.
  const DAT_PZ_HANDLE other = ia.pz();
  Buffer foreign(ia, other);
  const DAT_LMR_TRIPLET foreign_range = foreign.local(16);
  CHECK_CODE(bind(rmr, foreign.lmr, &foreign_range, kRead, 0, active.ep, &context),
             dat_error(DAT_PROTECTION_VIOLATION));
  DAT_RMR_HANDLE foreign_rmr = DAT_HANDLE_NULL;
  REQUIRE_OK(ia->rmr_create_func(other, &foreign_rmr));
  CHECK_CODE(bind(foreign_rmr, to.lmr, &good, kRead, 0, active.ep, &context),
             dat_error(DAT_PROTECTION_VIOLATION));
  Buffer read_only(ia, pz, 64, DAT_MEM_PRIV_LOCAL_READ_FLAG);
  const DAT_LMR_TRIPLET readable = read_only.local(16);
  CHECK_CODE(
      bind(rmr, read_only.lmr, &readable, DAT_MEM_PRIV_REMOTE_WRITE_FLAG, 0, active.ep, &context),
      dat_error(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_WRITE));
  BOOST_CHECK_EQUAL(ep_object(active.ep).requests.cookies.outstanding(), 0U);

  // Local reading needs no privilege (docs/compatibility.md C1).
  Buffer write_only(ia, pz, 64, DAT_MEM_PRIV_LOCAL_WRITE_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG);
  const DAT_LMR_TRIPLET writable = write_only.local(16);
  REQUIRE_OK(bind(rmr, write_only.lmr, &writable, kRead, 0, active.ep, &context));
  REQUIRE_OK(
      bind(rmr, to.lmr, &good, kRead | DAT_MEM_PRIV_LOCAL_READ_FLAG, 0, active.ep, &context));
  BOOST_CHECK_NE(context, 0U);
  CHECK_ERROR(ia->lmr_free_func(to.lmr), DAT_INVALID_STATE);
  const DAT_LMR_TRIPLET nothing{0, 0, 0};
  REQUIRE_OK(bind(rmr, nullptr, &nothing, 0, 0, active.ep, nullptr));  // unbind
  REQUIRE_OK(ia->lmr_free_func(to.lmr));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::test
