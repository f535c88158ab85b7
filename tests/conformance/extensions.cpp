// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "harness.h"

#include <dat/dat_ib_extensions.h>

#include <chrono>
#include <cstring>
#include <string_view>
#include <thread>

// The InfiniBand extensions: RDMA write with immediate data, atomic operations, queries without an
// open IA; where extension_supported of the IA is IB. Events are those that existing programs know.
namespace conformance {

namespace {

constexpr std::size_t kSize = 256;
constexpr DAT_COMPLETION_FLAGS kDefault = DAT_COMPLETION_DEFAULT_FLAG;

bool has_extensions(const Ia& ia) { return ia.attr.extension_supported == DAT_EXTENSION_IB; }
constexpr const char* kNoExtensions = "the IA has no IB extensions";

// The value of a named attribute of the provider; empty if there is none.
std::string_view named(const Ia& ia, std::string_view name) {
  const DAT_PROVIDER_ATTR& attr = ia.provider();
  for (DAT_COUNT i = 0; i < attr.num_provider_specific_attr; ++i)
    if (attr.provider_specific_attr[i].name == name) return attr.provider_specific_attr[i].value;
  return {};
}

DAT_IB_EXTENSION_EVENT_DATA extension_of(const DAT_EVENT& event) {
  DAT_IB_EXTENSION_EVENT_DATA data{};
  static_assert(sizeof data <= sizeof event.event_extension_data);
  std::memcpy(&data, event.event_extension_data, sizeof data);
  return data;
}

struct Expected {
  DAT_IB_DTOS operation;
  DAT_IB_EXT_TYPE type;
  std::uint64_t cookie;
  std::size_t length;
};

DAT_IB_EXTENSION_EVENT_DATA expect_extended(DAT_EVD_HANDLE evd, const Expected& expected) {
  const DAT_EVENT event = expect_event(evd, static_cast<DAT_EVENT_NUMBER>(DAT_IB_DTO_EVENT));
  const auto& dto = event.event_data.dto_completion_event_data;
  BOOST_CHECK_EQUAL(dto.status, DAT_DTO_SUCCESS);
  BOOST_CHECK_EQUAL(dto.user_cookie.as_64, expected.cookie);
  BOOST_CHECK_EQUAL(static_cast<int>(dto.operation), static_cast<int>(expected.operation));
  BOOST_CHECK_EQUAL(dto.transfered_length, expected.length);
  const DAT_IB_EXTENSION_EVENT_DATA data = extension_of(event);
  BOOST_CHECK_EQUAL(data.type, expected.type);
  BOOST_CHECK_EQUAL(data.status, DAT_OP_SUCCESS);
  return data;
}

// A failed operation: the number of its event is either, and only the status counts.
void expect_failed(DAT_EVD_HANDLE evd, DAT_DTO_COMPLETION_STATUS status, std::uint64_t value) {
  const auto event = next_event(evd);
  BOOST_REQUIRE(event);
  const auto& dto = event->event_data.dto_completion_event_data;
  BOOST_CHECK_EQUAL(dto.status, status);
  BOOST_CHECK_EQUAL(dto.user_cookie.as_64, value);
  const bool extended = event->event_number == static_cast<DAT_EVENT_NUMBER>(DAT_IB_DTO_EVENT);
  BOOST_CHECK(extended || event->event_number == DAT_DTO_COMPLETION_EVENT);
  if (extended) BOOST_CHECK_NE(extension_of(*event).status, DAT_OP_SUCCESS);
}

// A pair whose EVDs take events of extensions, and memory on both sides.
struct Fixture {
  Fixture()
      : here(pair.ia, pair.pz, kSize),
        there(
            pair.ia, pair.pz, kSize,
            static_cast<DAT_MEM_PRIV_FLAGS>(
                DAT_MEM_PRIV_ALL_FLAG |
                (has_extensions(pair.ia) ? static_cast<int>(DAT_IB_MEM_PRIV_REMOTE_ATOMIC) : 0))) {}

  // The word at the start of a buffer.
  static std::uint64_t word(const Buffer& buffer, std::size_t offset = 0) {
    std::uint64_t value = 0;
    std::memcpy(&value, buffer.bytes.data() + offset, sizeof value);
    return value;
  }
  static void set_word(Buffer& buffer, std::uint64_t value, std::size_t offset = 0) {
    std::memcpy(buffer.bytes.data() + offset, &value, sizeof value);
  }

  DAT_RETURN write_immediate(std::size_t length, std::uint32_t data, std::uint64_t value,
                             DAT_COMPLETION_FLAGS flags = kDefault) {
    DAT_LMR_TRIPLET segment = here.local(length);
    DAT_RMR_TRIPLET remote = there.remote(length);
    const DAT_COUNT count = length == 0 ? 0 : 1;
    return dat_ib_post_rdma_write_immed(pair.active.ep, count, &segment, cookie(value), &remote,
                                        data, flags);
  }
  DAT_RETURN fetch_add(std::uint64_t add, std::uint64_t value, std::size_t offset = 0,
                       DAT_COMPLETION_FLAGS flags = kDefault) {
    DAT_LMR_TRIPLET segment = here.local(8);
    DAT_RMR_TRIPLET remote = there.remote(8, offset);
    return dat_ib_post_fetch_and_add(pair.active.ep, add, &segment, cookie(value), &remote, flags);
  }
  DAT_RETURN compare_swap(std::uint64_t compare, std::uint64_t swap, std::uint64_t value) {
    DAT_LMR_TRIPLET segment = here.local(8);
    DAT_RMR_TRIPLET remote = there.remote(8);
    return dat_ib_post_cmp_and_swap(pair.active.ep, compare, swap, &segment, cookie(value), &remote,
                                    kDefault);
  }

  Pair pair;
  Buffer here;
  Buffer there;
};

// Unless the IA has the extension of that name.
bool skip_unless_named(const Ia& ia, const char* name) {
  return skip_unless(has_extensions(ia) && !named(ia, name).empty() && named(ia, name) != "FALSE",
                     std::string("the IA has no ") + name);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(extensions)

// What the attributes say is what the posts do.
BOOST_AUTO_TEST_CASE(ext_attributes) {
  Fixture fixture;
  const Ia& ia = fixture.pair.ia;
  if (skip_unless(has_extensions(ia), kNoExtensions)) return;
  BOOST_CHECK_EQUAL(ia.attr.extension_version, DAT_IB_EXTENSION_VERSION);
  const auto promised = [&](const char* name) { return named(ia, name) == "TRUE"; };
  // On an EP that is not connected what there is fails for its state.
  BOOST_CHECK_EQUAL(is_lacking(fixture.write_immediate(8, 1, 1)),
                    !promised(DAT_IB_ATTR_IMMED_DATA));
  BOOST_CHECK_EQUAL(is_lacking(fixture.fetch_add(1, 1)), !promised(DAT_IB_ATTR_FETCH_AND_ADD));
  BOOST_CHECK_EQUAL(is_lacking(fixture.compare_swap(1, 1, 1)), !promised(DAT_IB_ATTR_CMP_AND_SWAP));
}

BOOST_AUTO_TEST_CASE(ext_write_immediate) {
  Fixture fixture;
  Pair& pair = fixture.pair;
  if (skip_unless_named(pair.ia, DAT_IB_ATTR_IMMED_DATA)) return;
  Buffer in(pair.ia, pair.pz, kSize);
  pair.connect();
  std::uint64_t value = 1;
  for (const std::size_t length : {kSize, std::size_t{1}, std::size_t{0}}) {
    const auto data = static_cast<std::uint32_t>(0x12345678U + length);
    fixture.here.fill(static_cast<std::uint8_t>(value));
    REQUIRE_OK(pair.passive.post_recv(in, kSize, value));
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
  BOOST_CHECK(in.bytes == std::vector<std::uint8_t>(kSize));  // the receive itself takes no data
}

// It takes receives in the order of the sends around it.
BOOST_AUTO_TEST_CASE(ext_write_immediate_order) {
  Fixture fixture;
  Pair& pair = fixture.pair;
  if (skip_unless_named(pair.ia, DAT_IB_ATTR_IMMED_DATA)) return;
  Buffer in(pair.ia, pair.pz, kSize);
  pair.connect();
  for (std::uint64_t i = 0; i < 9; ++i) REQUIRE_OK(pair.passive.post_recv(in, kSize, i));
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
  Fixture fixture;
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

BOOST_AUTO_TEST_CASE(ext_fetch_add) {
  Fixture fixture;
  Pair& pair = fixture.pair;
  if (skip_unless_named(pair.ia, DAT_IB_ATTR_FETCH_AND_ADD)) return;
  pair.connect();
  std::uint64_t expected = 0xFFFFFFFFFFFFFFFEU;  // it wraps around
  Fixture::set_word(fixture.there, expected);
  for (std::uint64_t i = 1; i <= 5; ++i) {
    REQUIRE_OK(fixture.fetch_add(i, i));
    expect_extended(pair.active.request_evd, {DAT_IB_DTO_FETCH_ADD, DAT_IB_FETCH_AND_ADD, i, 8});
    BOOST_CHECK_EQUAL(Fixture::word(fixture.here), expected);
    expected += i;
    BOOST_CHECK_EQUAL(Fixture::word(fixture.there), expected);
  }
}

BOOST_AUTO_TEST_CASE(ext_compare_swap) {
  Fixture fixture;
  Pair& pair = fixture.pair;
  if (skip_unless_named(pair.ia, DAT_IB_ATTR_CMP_AND_SWAP)) return;
  pair.connect();
  Fixture::set_word(fixture.there, 10);
  REQUIRE_OK(fixture.compare_swap(11, 99, 1));  // something else is there
  expect_extended(pair.active.request_evd, {DAT_IB_DTO_CMP_SWAP, DAT_IB_CMP_AND_SWAP, 1, 8});
  BOOST_CHECK_EQUAL(Fixture::word(fixture.here), 10U);
  BOOST_CHECK_EQUAL(Fixture::word(fixture.there), 10U);
  REQUIRE_OK(fixture.compare_swap(10, 0x8000000000000001U, 2));
  expect_extended(pair.active.request_evd, {DAT_IB_DTO_CMP_SWAP, DAT_IB_CMP_AND_SWAP, 2, 8});
  BOOST_CHECK_EQUAL(Fixture::word(fixture.here), 10U);
  BOOST_CHECK_EQUAL(Fixture::word(fixture.there), 0x8000000000000001U);
}

// Many at once, mixed with other requests, complete in their order.
BOOST_AUTO_TEST_CASE(ext_atomic_order) {
  Fixture fixture;
  Pair& pair = fixture.pair;
  if (skip_unless_named(pair.ia, DAT_IB_ATTR_FETCH_AND_ADD)) return;
  pair.connect();
  Buffer other(pair.ia, pair.pz, kSize);
  for (std::uint64_t i = 0; i < 12; ++i)
    REQUIRE_OK(i % 3 == 2 ? pair.active.post_write(other, fixture.there.remote(64, 64), i)
                          : fixture.fetch_add(1, i));
  for (std::uint64_t i = 0; i < 12; ++i) {
    if (i % 3 == 2)
      expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, i);
    else
      expect_extended(pair.active.request_evd, {DAT_IB_DTO_FETCH_ADD, DAT_IB_FETCH_AND_ADD, i, 8});
  }
  BOOST_CHECK_EQUAL(Fixture::word(fixture.there), 8U);
}

// Two connections add to one word.
BOOST_AUTO_TEST_CASE(ext_atomics_of_two_connections) {
  Fixture fixture;
  Pair& pair = fixture.pair;
  if (skip_unless_named(pair.ia, DAT_IB_ATTR_FETCH_AND_ADD)) return;
  pair.connect();
  End second;
  End acceptor;
  second.create(pair.ia, pair.pz, nullptr);
  acceptor.create(pair.ia, pair.pz, nullptr);
  REQUIRE_OK(dat_ep_connect(second.ep, pair.ia.attr.ia_address_ptr, pair.conn_qual, kPatience, 0,
                            nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
  const DAT_EVENT request = expect_event(pair.cr_evd, DAT_CONNECTION_REQUEST_EVENT);
  REQUIRE_OK(
      dat_cr_accept(request.event_data.cr_arrival_event_data.cr_handle, acceptor.ep, 0, nullptr));
  expect_event(second.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  expect_event(acceptor.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  Buffer other(pair.ia, pair.pz, 8);
  DAT_LMR_TRIPLET segment = other.local(8);
  DAT_RMR_TRIPLET remote = fixture.there.remote(8);
  constexpr std::uint64_t kCount = 200;
  constexpr std::uint64_t kDepth = 4;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    REQUIRE_OK(fixture.fetch_add(1, i));
    REQUIRE_OK(dat_ib_post_fetch_and_add(second.ep, 1, &segment, cookie(i), &remote, kDefault));
    if (i < kDepth) continue;
    for (End* const end : {&pair.active, &second})
      expect_extended(end->request_evd,
                      {DAT_IB_DTO_FETCH_ADD, DAT_IB_FETCH_AND_ADD, i - kDepth, 8});
  }
  for (std::uint64_t i = kCount - kDepth; i < kCount; ++i)
    for (End* const end : {&pair.active, &second})
      expect_extended(end->request_evd, {DAT_IB_DTO_FETCH_ADD, DAT_IB_FETCH_AND_ADD, i, 8});
  BOOST_CHECK_EQUAL(Fixture::word(fixture.there), 2 * kCount);
}

BOOST_AUTO_TEST_CASE(ext_atomic_right) {
  Fixture fixture;
  Pair& pair = fixture.pair;
  if (skip_unless_named(pair.ia, DAT_IB_ATTR_FETCH_AND_ADD)) return;
  Buffer plain(pair.ia, pair.pz, 8);  // everything but REMOTE_ATOMIC
  pair.connect();
  DAT_LMR_TRIPLET segment = fixture.here.local(8);
  DAT_RMR_TRIPLET remote = plain.remote(8);
  REQUIRE_OK(dat_ib_post_fetch_and_add(pair.active.ep, 1, &segment, cookie(1), &remote, kDefault));
  expect_failed(pair.active.request_evd, DAT_DTO_ERR_REMOTE_ACCESS, 1);
  expect_connection_end(pair.active.connect_evd);
  expect_connection_end(pair.passive.connect_evd);
  BOOST_CHECK_EQUAL(Fixture::word(plain), 0U);
}

BOOST_AUTO_TEST_CASE(ext_atomic_unaligned) {
  Fixture fixture;
  Pair& pair = fixture.pair;
  if (skip_unless_named(pair.ia, DAT_IB_ATTR_FETCH_AND_ADD)) return;
  pair.connect();
  const DAT_RETURN rc = fixture.fetch_add(1, 1, 4);
  if (rc != DAT_SUCCESS) {
    BOOST_CHECK_EQUAL(DAT_GET_TYPE(rc), static_cast<DAT_RETURN>(DAT_INVALID_PARAMETER));
    return;
  }
  const auto event = next_event(pair.active.request_evd);
  BOOST_REQUIRE(event);
  BOOST_CHECK_NE(event->event_data.dto_completion_event_data.status, DAT_DTO_SUCCESS);
  expect_connection_end(pair.active.connect_evd);
  expect_connection_end(pair.passive.connect_evd);
  BOOST_CHECK_EQUAL(Fixture::word(fixture.there, 4), 0U);
}

BOOST_AUTO_TEST_CASE(ext_states) {
  Fixture fixture;
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
  Fixture fixture;
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
  CHECK_TYPE(dat_ib_post_fetch_and_add(ep, 1, &segment, cookie(1), &remote,
                                       not_an_enumerator<DAT_COMPLETION_FLAGS>(0x8000)),
             DAT_INVALID_PARAMETER);
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
  CHECK_TYPE(dat_ib_post_rdma_write_immed(ep, 1, &segment, cookie(1), &remote, 1,
                                          not_an_enumerator<DAT_COMPLETION_FLAGS>(0x8000)),
             DAT_INVALID_PARAMETER);
  remote.segment_length = 7;
  CHECK_TYPE(dat_ib_post_rdma_write_immed(ep, 1, &segment, cookie(1), &remote, 1, kDefault),
             DAT_LENGTH_ERROR);
  for (const DAT_HANDLE bad : {DAT_HANDLE(nullptr), DAT_HANDLE(pair.pz), DAT_HANDLE(pair.cr_evd)})
    CHECK_TYPE(dat_ib_post_fetch_and_add(bad, 1, &segment, cookie(1), &remote, kDefault),
               DAT_INVALID_HANDLE);
  expect_silence(pair.active.request_evd);
  BOOST_CHECK_EQUAL(ep_state(ep), DAT_EP_STATE_CONNECTED);
}

BOOST_AUTO_TEST_CASE(ext_suppress) {
  Fixture fixture;
  Pair& pair = fixture.pair;
  if (skip_unless_named(pair.ia, DAT_IB_ATTR_FETCH_AND_ADD)) return;
  pair.connect();
  // Many more than the queue is deep: slots come back by themselves, when the operations are done.
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
  BOOST_CHECK_EQUAL(Fixture::word(fixture.there), 50U);
}

BOOST_AUTO_TEST_CASE(ext_open_query) {
  Ia ia;  // an open IA makes no difference
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
  make_pz(ia);  // the other open is as before
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
}

// What of the extensions is for other transports: refused, not crashed.
BOOST_AUTO_TEST_CASE(ext_lacking_operations) {
  Fixture fixture;
  Pair& pair = fixture.pair;
  if (skip_unless(has_extensions(pair.ia), kNoExtensions)) return;
  if (named(pair.ia, DAT_IB_ATTR_UD) != "TRUE") {
    DAT_LMR_TRIPLET segment = fixture.here.local();
    DAT_IB_ADDR_HANDLE address{};
    BOOST_CHECK(is_lacking(
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
