// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "extensions.h"

#include <algorithm>
#include <chrono>
#include <thread>

// The InfiniBand extensions, for IAs whose extension_supported is IB: RDMA write with immediate
// data, arguments and states, and queries without an open IA. extensions_atomic.cpp tests the
// atomic operations.
namespace conformance {

BOOST_AUTO_TEST_SUITE(extensions)

// The posts support exactly what the attributes advertise.
BOOST_AUTO_TEST_CASE(ext_attributes) {
  ExtendedPair fixture;
  const Ia& ia = fixture.pair.ia;
  if (skip_unless(has_extensions(ia), kNoExtensions)) return;
  BOOST_CHECK_EQUAL(ia.attr.extension_version, DAT_IB_EXTENSION_VERSION);
  const auto promised = [&](const char* name) { return named(ia, name) == "TRUE"; };
  // On an unconnected EP, supported operations fail because of its state.
  BOOST_CHECK_EQUAL(is_unsupported(fixture.write_immediate(8, 1, 1)),
                    !promised(DAT_IB_ATTR_IMMED_DATA));
  BOOST_CHECK_EQUAL(is_unsupported(fixture.fetch_add(1, 1)), !promised(DAT_IB_ATTR_FETCH_AND_ADD));
  BOOST_CHECK_EQUAL(is_unsupported(fixture.compare_swap(1, 1, 1)),
                    !promised(DAT_IB_ATTR_CMP_AND_SWAP));
}

BOOST_AUTO_TEST_CASE(ext_write_immediate) {
  ExtendedPair fixture;
  Pair& pair = fixture.pair;
  if (skip_unless_named(pair.ia, DAT_IB_ATTR_IMMED_DATA)) return;
  Buffer in(pair.ia, pair.pz, ExtendedPair::kSize);
  pair.connect();
  std::uint64_t value = 1;
  for (const std::size_t length : {ExtendedPair::kSize, std::size_t{1}, std::size_t{0}}) {
    const auto data = static_cast<std::uint32_t>(0x12345678U + length);
    fixture.here.fill(static_cast<std::uint8_t>(value));
    REQUIRE_OK(pair.passive.post_recv(in, ExtendedPair::kSize, value));
    REQUIRE_OK(fixture.write_immediate(length, data, value + 100));
    const auto received =
        expect_extended(pair.passive.recv_evd,
                        {DAT_IB_DTO_RECV_IMMED, DAT_IB_RDMA_WRITE_IMMED_DATA, value, length});
    BOOST_CHECK_EQUAL(received.val.immed.data, data);
    BOOST_CHECK(fixture.there.holds(static_cast<std::uint8_t>(value), length));
    expect_extended(pair.active.request_evd,
                    {DAT_IB_DTO_RDMA_WRITE_IMMED, DAT_IB_RDMA_WRITE_IMMED, value + 100, length});
    ++value;
  }
  // The receive gets no data.
  BOOST_CHECK(std::ranges::all_of(in.bytes, [](std::uint8_t byte) { return byte == 0; }));
}

// It consumes receives in order with the sends before and after it.
BOOST_AUTO_TEST_CASE(ext_write_immediate_order) {
  ExtendedPair fixture;
  Pair& pair = fixture.pair;
  if (skip_unless_named(pair.ia, DAT_IB_ATTR_IMMED_DATA)) return;
  Buffer in(pair.ia, pair.pz, ExtendedPair::kSize);
  pair.connect();
  for (std::uint64_t i = 0; i < 9; ++i)
    REQUIRE_OK(pair.passive.post_recv(in, ExtendedPair::kSize, i));
  for (std::uint32_t i = 0; i < 9; ++i)
    REQUIRE_OK(i % 3 == 1 ? fixture.write_immediate(16, i, i)
                          : pair.active.post_send(fixture.here, 8, i));
  for (std::uint32_t i = 0; i < 9; ++i) {
    if (i % 3 != 1) {
      expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, i);
      expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, i);
      continue;
    }
    const auto received = expect_extended(
        pair.passive.recv_evd, {DAT_IB_DTO_RECV_IMMED, DAT_IB_RDMA_WRITE_IMMED_DATA, i, 16});
    BOOST_CHECK_EQUAL(received.val.immed.data, i);
    expect_extended(pair.active.request_evd,
                    {DAT_IB_DTO_RDMA_WRITE_IMMED, DAT_IB_RDMA_WRITE_IMMED, i, 16});
  }
}

BOOST_AUTO_TEST_CASE(ext_write_immediate_from_srq) {
  ExtendedPair fixture;
  Pair& pair = fixture.pair;
  if (skip_unless_named(pair.ia, DAT_IB_ATTR_IMMED_DATA)) return;
  if (skip_unless(pair.ia.attr.max_srqs > 0, "the IA has no SRQs")) return;
  DAT_SRQ_ATTR srq_attr{8, 1, DAT_SRQ_LW_DEFAULT};
  Srq srq;
  REQUIRE_OK(dat_srq_create(pair.ia, pair.pz, &srq_attr, srq.out()));
  const DAT_EP_ATTR attr = default_ep_attr(pair.ia);
  End taker;
  taker.create(pair.ia, pair.pz, &attr, srq);
  DAT_LMR_TRIPLET segment = fixture.there.local();
  REQUIRE_OK(dat_srq_post_recv(srq, 1, &segment, cookie(5)));
  REQUIRE_OK(dat_cr_accept(pair.connect_and_take_cr(), taker.ep, 0, nullptr));
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  expect_event(taker.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  REQUIRE_OK(fixture.write_immediate(32, 77, 6));
  const auto received =
      expect_extended(taker.recv_evd, {DAT_IB_DTO_RECV_IMMED, DAT_IB_RDMA_WRITE_IMMED_DATA, 5, 32});
  BOOST_CHECK_EQUAL(received.val.immed.data, 77U);
  expect_extended(pair.active.request_evd,
                  {DAT_IB_DTO_RDMA_WRITE_IMMED, DAT_IB_RDMA_WRITE_IMMED, 6, 32});
}

BOOST_AUTO_TEST_CASE(ext_states) {
  ExtendedPair fixture;
  Pair& pair = fixture.pair;
  if (skip_unless_named(pair.ia, DAT_IB_ATTR_FETCH_AND_ADD)) return;
  const auto refused = [&] {
    CHECK_TYPE(fixture.write_immediate(8, 1, 1), DAT_INVALID_STATE);
    CHECK_TYPE(fixture.fetch_add(1, 1), DAT_INVALID_STATE);
    CHECK_TYPE(fixture.compare_swap(1, 1, 1), DAT_INVALID_STATE);
  };
  refused();
  const DAT_CR_HANDLE cr = pair.connect_and_take_cr();
  refused();
  REQUIRE_OK(dat_cr_accept(cr, pair.passive.ep, 0, nullptr));
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  expect_event(pair.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  pair.disconnect();
  REQUIRE_OK(fixture.write_immediate(8, 1, 1));
  REQUIRE_OK(fixture.fetch_add(1, 2));
  REQUIRE_OK(fixture.compare_swap(1, 1, 3));
  for (std::uint64_t i = 1; i <= 3; ++i)
    expect_failed(pair.active.request_evd, DAT_DTO_ERR_FLUSHED, i);
}

BOOST_AUTO_TEST_CASE(ext_arguments) {
  ExtendedPair fixture;
  Pair& pair = fixture.pair;
  if (skip_unless_named(pair.ia, DAT_IB_ATTR_FETCH_AND_ADD)) return;
  pair.connect();
  DAT_LMR_TRIPLET segment = fixture.here.local(8);
  DAT_LMR_TRIPLET small = fixture.here.local(7);
  DAT_RMR_TRIPLET remote = fixture.there.remote(8);
  const DAT_EP_HANDLE ep = pair.active.ep;
  CHECK_TYPE(dat_ib_post_fetch_and_add(ep, 1, nullptr, cookie(1), &remote, kDefault),
             DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_ib_post_fetch_and_add(ep, 1, &segment, cookie(1), nullptr, kDefault),
             DAT_INVALID_PARAMETER);
  CHECK_TYPE_OR(dat_ib_post_fetch_and_add(ep, 1, &small, cookie(1), &remote, kDefault),
                DAT_LENGTH_ERROR, DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_ib_post_cmp_and_swap(ep, 1, 1, nullptr, cookie(1), &remote, kDefault),
             DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_ib_post_cmp_and_swap(ep, 1, 1, &segment, cookie(1), nullptr, kDefault),
             DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_ib_post_rdma_write_immed(ep, -1, &segment, cookie(1), &remote, 1, kDefault),
             DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_ib_post_rdma_write_immed(ep, 1, nullptr, cookie(1), &remote, 1, kDefault),
             DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_ib_post_rdma_write_immed(ep, 1, &segment, cookie(1), nullptr, 1, kDefault),
             DAT_INVALID_PARAMETER);
  for (const DAT_HANDLE bad : {DAT_HANDLE(nullptr), DAT_HANDLE(pair.pz), DAT_HANDLE(pair.cr_evd)})
    CHECK_TYPE(dat_ib_post_fetch_and_add(bad, 1, &segment, cookie(1), &remote, kDefault),
               DAT_INVALID_HANDLE);
  expect_silence(pair.active.request_evd);
  BOOST_CHECK_EQUAL(ep_state(ep), DAT_EP_STATE_CONNECTED);
}

BOOST_AUTO_TEST_CASE(ext_suppress) {
  ExtendedPair fixture;
  Pair& pair = fixture.pair;
  if (skip_unless_named(pair.ia, DAT_IB_ATTR_FETCH_AND_ADD)) return;
  pair.connect();
  // Many more than the depth of the queue: slots are released when the operations have completed.
  for (std::uint64_t i = 0; i < 50; ++i) {
    const auto flags = i == 49 ? kDefault : DAT_COMPLETION_SUPPRESS_FLAG;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(kPatience);
    DAT_RETURN rc = fixture.fetch_add(1, i, 0, flags);
    while (DAT_GET_TYPE(rc) == static_cast<DAT_RETURN>(DAT_INSUFFICIENT_RESOURCES) &&
           std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
      rc = fixture.fetch_add(1, i, 0, flags);
    }
    REQUIRE_OK(rc);
  }
  expect_extended(pair.active.request_evd, {DAT_IB_DTO_FETCH_ADD, DAT_IB_FETCH_AND_ADD, 49, 8});
  expect_silence(pair.active.request_evd);
  BOOST_CHECK_EQUAL(ExtendedPair::word(fixture.there), 50U);
}

BOOST_AUTO_TEST_CASE(ext_open_query) {
  Ia ia;  // an open IA must make no difference
  if (skip_unless(has_extensions(ia), kNoExtensions)) return;
  std::string name = options().ia;
  for (int round = 0; round < 3; ++round) {
    DAT_HANDLE query = DAT_HANDLE_NULL;
    DAT_IA_ATTR attr{};
    alignas(DAT_PROVIDER_ATTR) unsigned char bytes[sizeof(DAT_PROVIDER_ATTR)] = {};
    auto* const provider = reinterpret_cast<DAT_PROVIDER_ATTR*>(bytes);
    REQUIRE_OK(dat_ib_open_query(name.data(), &query, DAT_IA_FIELD_ALL, &attr,
                                 DAT_PROVIDER_FIELD_ALL, provider));
    BOOST_REQUIRE(query != DAT_HANDLE_NULL);
    BOOST_CHECK_EQUAL(std::string(attr.adapter_name), std::string(ia.attr.adapter_name));
    BOOST_CHECK_EQUAL(attr.max_eps, ia.attr.max_eps);
    BOOST_CHECK_EQUAL(attr.max_message_size, ia.attr.max_message_size);
    BOOST_CHECK_EQUAL(provider->max_private_data_size, ia.provider().max_private_data_size);
    BOOST_CHECK_EQUAL(provider->dapl_version_major, 2U);
    REQUIRE_OK(dat_ib_close_query(query));
    CHECK_TYPE(dat_ib_close_query(query), DAT_INVALID_HANDLE);
  }
  make_pz(ia);  // the other open is not affected
}

BOOST_AUTO_TEST_CASE(ext_open_query_refused) {
  {
    Ia ia;
    if (skip_unless(has_extensions(ia), kNoExtensions)) return;
  }
  DAT_HANDLE query = DAT_HANDLE_NULL;
  DAT_IA_ATTR attr{};
  std::string unknown = "no-such-adapter";
  CHECK_TYPE(dat_ib_open_query(unknown.data(), &query, DAT_IA_FIELD_ALL, &attr, 0, nullptr),
             DAT_PROVIDER_NOT_FOUND);
  CHECK_TYPE_OR(dat_ib_open_query(nullptr, &query, DAT_IA_FIELD_ALL, &attr, 0, nullptr),
                DAT_INVALID_PARAMETER, DAT_INVALID_HANDLE);
  std::string name = options().ia;
  CHECK_TYPE(dat_ib_open_query(name.data(), &query, DAT_IA_FIELD_ALL, nullptr, 0, nullptr),
             DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_ib_open_query(name.data(), nullptr, DAT_IA_FIELD_ALL, &attr, 0, nullptr),
             DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_ib_close_query(DAT_HANDLE_NULL), DAT_INVALID_HANDLE);
  std::array<std::uint64_t, 64> zeroed{};
  CHECK_TYPE(dat_ib_close_query(zeroed.data()), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_extension_op(zeroed.data(), static_cast<DAT_EXTENDED_OP>(0x0800)),
             DAT_INVALID_HANDLE);
}

// Extensions for other transports are refused and do not crash.
BOOST_AUTO_TEST_CASE(ext_lacking_operations) {
  ExtendedPair fixture;
  Pair& pair = fixture.pair;
  if (skip_unless(has_extensions(pair.ia), kNoExtensions)) return;
  if (named(pair.ia, DAT_IB_ATTR_UD) != "TRUE") {
    DAT_LMR_TRIPLET segment = fixture.here.local();
    DAT_IB_ADDR_HANDLE address{};
    BOOST_CHECK(is_unsupported(
        dat_ib_post_send_ud(pair.active.ep, 1, &segment, &address, cookie(1), kDefault)));
    DAT_EP_ATTR attr = default_ep_attr(pair.ia);
    attr.service_type = static_cast<DAT_SERVICE_TYPE>(DAT_IB_SERVICE_TYPE_UD);
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    CHECK_TYPE_OR(dat_ep_create(pair.ia, pair.pz, pair.active.recv_evd, pair.active.request_evd,
                                pair.active.connect_evd, &attr, &ep),
                  DAT_INVALID_PARAMETER, DAT_MODEL_NOT_SUPPORTED);
  }
  BOOST_CHECK_EQUAL(ep_state(pair.active.ep), DAT_EP_STATE_UNCONNECTED);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
