// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "connecting.h"
#include "harness.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <set>
#include <string>
#include <thread>

// Bugs that users of OpenFabrics dapl 2.1.10 met: missing functions, and data transfer (sections
// "ofa 1" and "ofa 2.1" of the checklist).
namespace conformance {

namespace {

// An event filled with a poison value. Two dequeues with different values show which fields were
// not written: those that differ.
struct Written {
  explicit Written(unsigned char poison) { std::memset(&event, poison, sizeof event); }
  DAT_EVENT event;
  [[nodiscard]] const DAT_DTO_COMPLETION_EVENT_DATA& dto() const {
    return event.event_data.dto_completion_event_data;
  }
};

void wait_into(DAT_EVD_HANDLE evd, DAT_EVENT* event) {
  DAT_COUNT more = 0;
  REQUIRE_OK(dat_evd_wait(evd, kPatience, 1, event, &more));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(regressions)

// ---- missing functions ----

BOOST_AUTO_TEST_CASE(ofa_1_rmr_advertised_means_usable) {
  const Ia ia;
  const Pz pz = make_pz(ia);
  Rmr rmr;
  DAT_RMR_HANDLE made = DAT_HANDLE_NULL;
  const DAT_RETURN rc = dat_rmr_create(pz, &made);
  if (ia.attr.max_rmrs > 0) {
    REQUIRE_OK(rc);
    *rmr.out() = made;
  } else {
    BOOST_CHECK_MESSAGE(is_unsupported(rc), describe(rc));
  }
}

BOOST_AUTO_TEST_CASE(ofa_1_lmr_types_advertised_mean_usable) {
  const Ia ia;
  const Pz pz = make_pz(ia);
  const Buffer source(ia, pz, 256);
  DAT_REGION_DESCRIPTION region{};
  region.for_lmr_handle = source.lmr;
  LmrHandle copy;
  DAT_LMR_HANDLE made = DAT_HANDLE_NULL;
  DAT_LMR_CONTEXT context = 0;
  DAT_RMR_CONTEXT remote = 0;
  DAT_VLEN length = 0;
  DAT_VADDR address = 0;
  const DAT_RETURN rc = dat_lmr_create(ia, DAT_MEM_TYPE_LMR, region, 0, pz, DAT_MEM_PRIV_ALL_FLAG,
                                       DAT_VA_TYPE_VA, &made, &context, &remote, &length, &address);
  if ((ia.provider().lmr_mem_types_supported & DAT_MEM_TYPE_LMR) == 0) {
    BOOST_CHECK_MESSAGE(rc == DAT_SUCCESS || is_unsupported(rc), describe(rc));
  } else {
    REQUIRE_OK(rc);
  }
  if (rc == DAT_SUCCESS) *copy.out() = made;
}

// Each of these crashed: a descriptor without a name, without memory, and without both.
BOOST_AUTO_TEST_CASE(ofa_1_shared_lmr_incomplete) {
  const Ia ia;
  const Pz pz = make_pz(ia);
  char name[40] = {};
  char memory[64] = {};
  for (const bool with_name : {false, true})
    for (const bool with_memory : {false, true}) {
      if (with_name && with_memory) continue;
      DAT_REGION_DESCRIPTION region{};
      region.for_shared_memory.shared_memory_id = with_name ? &name : nullptr;
      region.for_shared_memory.virtual_address = with_memory ? memory : nullptr;
      DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
      DAT_LMR_CONTEXT context = 0;
      DAT_RMR_CONTEXT remote = 0;
      DAT_VLEN length = 0;
      DAT_VADDR address = 0;
      const DAT_RETURN rc = dat_lmr_create(ia, DAT_MEM_TYPE_SHARED_VIRTUAL, region, sizeof memory,
                                           pz, DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &lmr,
                                           &context, &remote, &length, &address);
      BOOST_CHECK_MESSAGE(DAT_GET_TYPE(rc) == DAT_INVALID_PARAMETER || is_unsupported(rc),
                          describe(rc));
    }
}

BOOST_AUTO_TEST_CASE(ofa_1_multipath_falls_back) {
  Pair pair;
  REQUIRE_OK(dat_ep_connect(pair.active.ep, pair.ia.attr.ia_address_ptr, pair.conn_qual, kPatience,
                            0, nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_MULTIPATH_REQUESTED_FLAG));
  const DAT_EVENT event = expect_event(pair.cr_evd, DAT_CONNECTION_REQUEST_EVENT);
  REQUIRE_OK(
      dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, pair.passive.ep, 0, nullptr));
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  expect_event(pair.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}

// ---- 2.1 completions and events ----

BOOST_AUTO_TEST_CASE(ofa_2_1_01_failed_receive_is_a_dto_event) {
  Pair pair;
  Buffer in(pair.ia, pair.pz, 64);
  for (std::uint64_t i = 0; i < 3; ++i) REQUIRE_OK(pair.passive.post_recv(in, 64, i));
  pair.connect();
  REQUIRE_OK(dat_ep_disconnect(pair.passive.ep, DAT_CLOSE_ABRUPT_FLAG));
  for (std::uint64_t i = 0; i < 3; ++i) {
    Written got(0xA5);
    wait_into(pair.passive.recv_evd, &got.event);
    BOOST_CHECK_EQUAL(got.event.event_number, DAT_DTO_COMPLETION_EVENT);
    BOOST_CHECK(got.dto().ep_handle == pair.passive.ep);
    BOOST_CHECK_EQUAL(got.dto().user_cookie.as_64, i);
    BOOST_CHECK_EQUAL(got.dto().status, DAT_DTO_ERR_FLUSHED);
    BOOST_CHECK_EQUAL(got.dto().transfered_length, 0U);
    BOOST_CHECK_EQUAL(got.dto().operation, DAT_DTO_RECEIVE);
  }
}

BOOST_AUTO_TEST_CASE(ofa_2_1_02_all_fields_of_a_dto_event) {
  Pair pair;
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  pair.connect();
  Written sent[2] = {Written(0x00), Written(0xFF)};
  Written received[2] = {Written(0x00), Written(0xFF)};
  for (int i = 0; i < 2; ++i) {
    REQUIRE_OK(pair.passive.post_recv(in, 64, 5));
    REQUIRE_OK(pair.active.post_send(out, 64, 6));
    wait_into(pair.passive.recv_evd, &received[i].event);
    wait_into(pair.active.request_evd, &sent[i].event);
  }
  for (const Written* const both : {sent, received}) {
    BOOST_CHECK_EQUAL(both[0].dto().operation, both[1].dto().operation);
    BOOST_CHECK_EQUAL(both[0].dto().rmr_context, both[1].dto().rmr_context);
    BOOST_CHECK_EQUAL(both[0].dto().transfered_length, both[1].dto().transfered_length);
    BOOST_CHECK_EQUAL(both[0].dto().status, both[1].dto().status);
    BOOST_CHECK(both[0].dto().ep_handle == both[1].dto().ep_handle);
  }
}

// Several connections consume the buffers of an SRQ in an unknown order. Each cookie must be
// returned once, with the message that is in its buffer.
BOOST_AUTO_TEST_CASE(ofa_2_1_04_srq_cookies) {
  Pair pair;
  if (skip_unless(pair.ia.attr.max_srqs > 0, "the IA has no SRQs")) return;
  constexpr std::size_t kBuffers = 16;
  constexpr std::size_t kSize = 64;
  Buffer in(pair.ia, pair.pz, kBuffers * kSize);
  Buffer out(pair.ia, pair.pz, kSize);
  Srq srq;
  DAT_SRQ_ATTR attr{kBuffers, 1, DAT_SRQ_LW_DEFAULT};
  REQUIRE_OK(dat_srq_create(pair.ia, pair.pz, &attr, srq.out()));
  End active[2];
  End passive[2];
  for (int i = 0; i < 2; ++i) {
    active[i].create(pair.ia, pair.pz, nullptr);
    const DAT_EP_ATTR ep_attr = default_ep_attr(pair.ia);
    passive[i].create(pair.ia, pair.pz, &ep_attr, srq);
    pair.connect(active[i], passive[i]);
  }
  const auto post = [&](std::size_t slot) {
    DAT_LMR_TRIPLET segment = in.local(kSize, slot * kSize);
    REQUIRE_OK(dat_srq_post_recv(srq, 1, &segment, cookie(slot)));
  };
  for (std::size_t slot = 0; slot < kBuffers; ++slot) post(slot);
  std::uint8_t message = 0;
  for (int round = 0; round < 8; ++round) {
    // Several messages are in flight on both connections before the first completion is dequeued.
    std::uint8_t first[2] = {};
    for (int end = 0; end < 2; ++end) {
      first[end] = static_cast<std::uint8_t>(message + 1);
      for (int i = 0; i < 3 + end; ++i) {
        out.fill(++message);
        REQUIRE_OK(active[end].post_send(out, kSize, message));
        expect_dto(active[end].request_evd, DAT_DTO_SUCCESS, message);
      }
    }
    std::set<std::uint64_t> slots;
    for (int end = 1; end >= 0; --end)
      for (int i = 0; i < 3 + end; ++i) {
        const auto& dto = expect_event(passive[end].recv_evd, DAT_DTO_COMPLETION_EVENT)
                              .event_data.dto_completion_event_data;
        BOOST_CHECK(dto.ep_handle == passive[end].ep);
        const std::uint64_t slot = dto.user_cookie.as_64;
        BOOST_REQUIRE_LT(slot, kBuffers);
        BOOST_CHECK_MESSAGE(slots.insert(slot).second, "cookie " << slot << " arrived twice");
        BOOST_CHECK(in.holds(static_cast<std::uint8_t>(first[end] + i), kSize, slot * kSize));
      }
    for (const std::uint64_t slot : slots) post(slot);
  }
}

// The return code must not depend on the value of errno.
BOOST_AUTO_TEST_CASE(ofa_2_1_06_failed_post_code) {
  Pair pair;
  Buffer in(pair.ia, pair.pz, 64);
  DAT_RETURN full = DAT_SUCCESS;
  for (int i = 0; full == DAT_SUCCESS; ++i) {
    BOOST_REQUIRE_LT(i, 100'000);
    full = pair.passive.post_recv(in, 64, 1);
  }
  CHECK_TYPE(full, DAT_INSUFFICIENT_RESOURCES);
  for (const int noise : {0, EINPROGRESS, EINVAL, ENOENT}) {
    errno = noise;
    CHECK_TYPE(pair.passive.post_recv(in, 64, 1), DAT_INSUFFICIENT_RESOURCES);
  }
}

BOOST_AUTO_TEST_CASE(ofa_2_1_08_both_sides_learn_of_a_dto_error) {
  Pair pair;
  Buffer out(pair.ia, pair.pz, 64);
  pair.connect();
  DAT_RMR_TRIPLET nowhere = out.remote(64);
  nowhere.rmr_context ^= 0x5A5A00;
  REQUIRE_OK(pair.active.post_write(out, nowhere, 1));
  expect_connection_end(pair.active.connect_evd);
  expect_connection_end(pair.passive.connect_evd);
  BOOST_CHECK_EQUAL(ep_state(pair.active.ep), DAT_EP_STATE_DISCONNECTED);
  BOOST_CHECK_EQUAL(ep_state(pair.passive.ep), DAT_EP_STATE_DISCONNECTED);
}

// The completions are not dequeued on either side.
BOOST_AUTO_TEST_CASE(ofa_2_1_09_dto_error_without_dequeue) {
  Pair pair;
  Buffer out(pair.ia, pair.pz, 128);
  Buffer in(pair.ia, pair.pz, 64);
  REQUIRE_OK(pair.passive.post_recv(in, 8, 1));
  pair.connect();
  REQUIRE_OK(pair.active.post_send(out, 128, 2));  // longer than the receive
  expect_connection_end(pair.passive.connect_evd);
  expect_connection_end(pair.active.connect_evd);
}

// The async EVD overflows, and the process must continue.
BOOST_AUTO_TEST_CASE(ofa_2_1_11_async_evd_overflows) {
  std::string name = options().ia;
  DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
  DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
  REQUIRE_OK(dat_ia_openv(name.data(), 1, &async_evd, &ia, 2, 0, options().thread_safe));
  {
    Pair pair;  // on another IA: the EPs below use its address only
    const Pz pz = make_pz(ia);
    std::vector<std::uint8_t> bytes(64);
    Buffer out(pair.ia, pair.pz, 64);
    Buffer in(ia, pz, 64);
    const Evd connect_evd = make_evd(ia, DAT_EVD_CONNECTION_FLAG, 8);
    const Evd request_evd = make_evd(ia, DAT_EVD_DTO_FLAG, 64);
    const Evd cr_evd = make_evd(ia, DAT_EVD_CR_FLAG, 8);
    Psp psp;
    const DAT_CONN_QUAL conn_qual = fresh_conn_qual();
    REQUIRE_OK(dat_psp_create(ia, conn_qual, cr_evd, DAT_PSP_CONSUMER_FLAG, psp.out()));
    DAT_EVD_PARAM param{};
    REQUIRE_OK(dat_evd_query(async_evd, DAT_EVD_FIELD_ALL, &param));
    for (DAT_COUNT round = 0; round < std::min(param.evd_qlen + 3, 12); ++round) {
      const Evd tiny = make_evd(ia, DAT_EVD_DTO_FLAG, 1);
      REQUIRE_OK(dat_evd_query(tiny, DAT_EVD_FIELD_ALL, &param));
      DAT_EP_ATTR attr = default_ep_attr(pair.ia);
      attr.max_recv_dtos = std::min(param.evd_qlen + kSpareEntries, pair.ia.attr.max_dto_per_ep);
      if (skip_unless(param.evd_qlen < attr.max_recv_dtos,
                      "the smallest EVD cannot be made to overflow"))
        break;
      Ep ep;
      REQUIRE_OK(dat_ep_create(ia, pz, tiny, request_evd, connect_evd, &attr, ep.out()));
      DAT_LMR_TRIPLET segment = in.local();
      for (DAT_COUNT i = 0; i < attr.max_recv_dtos; ++i)
        REQUIRE_OK(dat_ep_post_recv(ep, 1, &segment, cookie(1), DAT_COMPLETION_DEFAULT_FLAG));
      REQUIRE_OK(connect_to(pair, conn_qual));
      const DAT_EVENT request = expect_event(cr_evd, DAT_CONNECTION_REQUEST_EVENT);
      REQUIRE_OK(dat_cr_accept(request.event_data.cr_arrival_event_data.cr_handle, ep, 0, nullptr));
      expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
      expect_event(connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
      send_many(pair.active, out, attr.max_recv_dtos);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      dat_ep_disconnect(pair.active.ep, DAT_CLOSE_ABRUPT_FLAG);
      expect_connection_end(pair.active.connect_evd);
      expect_connection_end(connect_evd);
      drain(pair.active.request_evd);
      REQUIRE_OK(dat_ep_reset(pair.active.ep));
    }
    BOOST_CHECK_GE(drain(async_evd), 1);
  }
  REQUIRE_OK(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
