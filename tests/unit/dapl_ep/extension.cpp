// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The handle_extendedop slot.
#include "tests/unit/dapl_ep/support.h"

#include <dat/dat_ib_extensions.h>

#include <cstdarg>
#include <cstring>

namespace udapl::test {
namespace {

struct Extensions : Rig {
  DAT_RETURN call(DAT_HANDLE handle, int operation, ...) const {
    va_list args;
    va_start(args, operation);
    const DAT_RETURN code = ia->handle_extendedop_func(handle, operation, args);
    va_end(args);
    return code;
  }
  DAT_EVENT take(DAT_EVD_HANDLE evd) const {
    DAT_EVENT event{};
    REQUIRE_OK(ia->evd_dequeue_func(evd, &event));
    BOOST_CHECK_EQUAL(static_cast<int>(event.event_number), static_cast<int>(DAT_IB_DTO_EVENT));
    return event;
  }
  static DAT_IB_EXTENSION_EVENT_DATA extension(const DAT_EVENT& event) {
    DAT_IB_EXTENSION_EVENT_DATA data{};
    std::memcpy(&data, event.event_extension_data, sizeof data);
    return data;
  }
  [[nodiscard]] std::uint64_t word(const Buffer& buffer) const {
    std::uint64_t value = 0;
    std::memcpy(&value, buffer.bytes.data(), sizeof value);
    return value;
  }

  Side active = side();
  Side passive = side();
  Buffer local{ia, pz};
  Buffer target{ia, pz, 256,
                unsigned{DAT_MEM_PRIV_ALL_FLAG} | unsigned{DAT_IB_MEM_PRIV_REMOTE_ATOMIC}};
};

BOOST_FIXTURE_TEST_SUITE(extensions, Extensions)

BOOST_AUTO_TEST_CASE(atomics_complete_with_their_kind) {
  join(active, passive);
  DAT_LMR_TRIPLET old = local.local(8);
  DAT_RMR_TRIPLET remote = target.remote(8);
  REQUIRE_OK(call(active.ep, DAT_IB_FETCH_AND_ADD_OP, DAT_UINT64{5}, &old, cookie_of(11), &remote,
                  kDefault));
  DAT_EVENT event = take(active.request_evd);
  BOOST_CHECK_EQUAL(extension(event).type, DAT_IB_FETCH_AND_ADD);
  BOOST_CHECK_EQUAL(extension(event).status, DAT_OP_SUCCESS);
  BOOST_CHECK_EQUAL(static_cast<int>(event.event_data.dto_completion_event_data.operation),
                    static_cast<int>(DAT_IB_DTO_FETCH_ADD));
  BOOST_CHECK_EQUAL(event.event_data.dto_completion_event_data.transfered_length, 8U);
  BOOST_CHECK_EQUAL(event.event_data.dto_completion_event_data.user_cookie.as_64, 11U);
  BOOST_CHECK_EQUAL(word(local), 0U);
  BOOST_CHECK_EQUAL(word(target), 5U);
  REQUIRE_OK(call(active.ep, DAT_IB_CMP_AND_SWAP_OP, DAT_UINT64{5}, DAT_UINT64{99}, &old,
                  cookie_of(12), &remote, kDefault));
  event = take(active.request_evd);
  BOOST_CHECK_EQUAL(extension(event).type, DAT_IB_CMP_AND_SWAP);
  BOOST_CHECK_EQUAL(word(local), 5U);
  BOOST_CHECK_EQUAL(word(target), 99U);

  DAT_LMR_TRIPLET small = local.local(7);
  CHECK_CODE(call(active.ep, DAT_IB_FETCH_AND_ADD_OP, DAT_UINT64{5}, &small, cookie_of(1), &remote,
                  kDefault),
             dat_error(DAT_LENGTH_ERROR));
  CHECK_ERROR(call(active.ep, DAT_IB_FETCH_AND_ADD_OP, DAT_UINT64{5}, nullptr, cookie_of(1),
                   &remote, kDefault),
              DAT_INVALID_PARAMETER);
  CHECK_ERROR(call(active.ep, DAT_IB_CMP_AND_SWAP_OP, DAT_UINT64{5}, DAT_UINT64{5}, &old,
                   cookie_of(1), nullptr, kDefault),
              DAT_INVALID_PARAMETER);
  REQUIRE_OK(call(active.ep, DAT_IB_CMP_AND_SWAP_OP, DAT_UINT64{5}, DAT_UINT64{5}, &old,
                  cookie_of(1), &remote, DAT_COMPLETION_SOLICITED_WAIT_FLAG));
  CHECK_ERROR(call(pz, DAT_IB_CMP_AND_SWAP_OP, DAT_UINT64{5}, DAT_UINT64{5}, &old, cookie_of(1),
                   &remote, kDefault),
              DAT_INVALID_HANDLE);
}

BOOST_AUTO_TEST_CASE(write_with_immediate_data) {
  join(active, passive);
  REQUIRE_OK(post_recv(passive.ep, local, 21));
  local.bytes[0] = 0xAB;
  DAT_LMR_TRIPLET from = local.local(16);
  DAT_RMR_TRIPLET remote = target.remote(16);
  REQUIRE_OK(call(active.ep, DAT_IB_RDMA_WRITE_IMMED_OP, DAT_COUNT{1}, &from, cookie_of(20),
                  &remote, DAT_UINT32{0xCAFE}, DAT_COMPLETION_SOLICITED_WAIT_FLAG));
  const DAT_EVENT sent = take(active.request_evd);
  BOOST_CHECK_EQUAL(extension(sent).type, DAT_IB_RDMA_WRITE_IMMED);
  BOOST_CHECK_EQUAL(sent.event_data.dto_completion_event_data.transfered_length, 16U);
  const DAT_EVENT arrived = take(passive.recv_evd);
  BOOST_CHECK_EQUAL(extension(arrived).type, DAT_IB_RDMA_WRITE_IMMED_DATA);
  BOOST_CHECK_EQUAL(extension(arrived).val.immed.data, 0xCAFEU);
  BOOST_CHECK_EQUAL(arrived.event_data.dto_completion_event_data.user_cookie.as_64, 21U);
  BOOST_CHECK_EQUAL(target.bytes[0], 0xAB);
  CHECK_ERROR(call(active.ep, DAT_IB_RDMA_WRITE_IMMED_OP, DAT_COUNT{5}, &from, cookie_of(20),
                   &remote, DAT_UINT32{0}, kDefault),
              DAT_INVALID_PARAMETER);
  CHECK_ERROR(call(active.ep, DAT_IB_RDMA_WRITE_IMMED_OP, DAT_COUNT{1}, &from, cookie_of(20),
                   nullptr, DAT_UINT32{0}, kDefault),
              DAT_INVALID_PARAMETER);
}

BOOST_AUTO_TEST_CASE(write_immediate_beyond_the_limit_is_refused) {
  const Rig small(true, [](transport::Attributes& limits) { limits.max_rdma_size = 50; });
  DAT_EP_ATTR attr = attributes();
  attr.max_rdma_size = 50;
  const Side from = small.side(attr);
  small.join(from, small.side(attr));
  Buffer memory(small.ia, small.pz);
  DAT_LMR_TRIPLET segment = memory.local(51);
  DAT_RMR_TRIPLET remote = memory.remote(51);
  CHECK_CODE(call(from.ep, DAT_IB_RDMA_WRITE_IMMED_OP, DAT_COUNT{1}, &segment, cookie_of(20),
                  &remote, DAT_UINT32{0}, kDefault),
             invalid_parameter(DAT_INVALID_ARG3));
  BOOST_CHECK(small.empty(from.request_evd));
}

BOOST_AUTO_TEST_CASE(unknown_operations_have_no_class_bits) {
  for (const int operation : {3, 4, 5, 6, 25, 26, 28, 29, 30, 0x3000, -1})
    CHECK_CODE(call(active.ep, operation), DAT_NOT_IMPLEMENTED);
}

BOOST_AUTO_TEST_CASE(open_and_close_query) {
  DAT_HANDLE opened = DAT_HANDLE_NULL;
  DAT_IA_ATTR attr{};
  DAT_PROVIDER_ATTR provider{};
  char name[] = "fake";
  char unknown[] = "unknown";
  const auto query = [&](char* ia_name, DAT_HANDLE* out) {
    return call(ia_name, DAT_IB_OPEN_QUERY_OP, out, DAT_IA_FIELD_ALL, &attr, DAT_PROVIDER_FIELD_ALL,
                &provider);
  };
  CHECK_CODE(query(nullptr, &opened), invalid_parameter(DAT_INVALID_ARG1));
  CHECK_CODE(query(name, nullptr), invalid_parameter(DAT_INVALID_ARG2));
  CHECK_ERROR(query(unknown, &opened), DAT_PROVIDER_NOT_FOUND);
  REQUIRE_OK(query(name, &opened));
  BOOST_CHECK_EQUAL(std::string(attr.adapter_name), "fake0");
  BOOST_CHECK_EQUAL(attr.extension_supported, DAT_EXTENSION_IB);
  BOOST_CHECK_EQUAL(provider.max_private_data_size, 256);
  BOOST_CHECK(dapl::handle_cast<dapl::Ia>(opened) != nullptr);
  REQUIRE_OK(call(opened, DAT_IB_CLOSE_QUERY_OP));
  // If the adapter cannot be opened or an argument is invalid, the results are unchanged.
  fake::settings().refuse_open = true;
  opened = pz;
  CHECK_ERROR(query(name, &opened), DAT_INVALID_ADDRESS);
  fake::settings().refuse_open = false;
  BOOST_CHECK_EQUAL(opened, pz);
  CHECK_ERROR(call(name, DAT_IB_OPEN_QUERY_OP, &opened, ~DAT_IA_ATTR_MASK{0}, &attr,
                   DAT_PROVIDER_FIELD_ALL, &provider),
              DAT_INVALID_PARAMETER);
  BOOST_CHECK_EQUAL(opened, pz);
  opened = DAT_HANDLE_NULL;
  BOOST_CHECK(dapl::handle_cast<dapl::Ia>(opened) == nullptr);
  CHECK_ERROR(call(opened, DAT_IB_CLOSE_QUERY_OP), DAT_INVALID_HANDLE);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::test
