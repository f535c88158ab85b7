// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The traces of objects, connections, transfers and wake-ups.
#include "dapl/objects/trace_points.h"
#include "tests/unit/dapl_ep/support.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace udapl::test {
namespace {

using trace::Kind;
using Lines = std::vector<Traced::Line>;

Lines about(const Lines& lines, const void* object) {
  Lines found;
  std::copy_if(lines.begin(), lines.end(), std::back_inserter(found),
               [object](const Traced::Line& line) { return line.object == object; });
  return found;
}

BOOST_FIXTURE_TEST_SUITE(traces, Rig)

BOOST_AUTO_TEST_CASE(object_creation_and_free) {
  const Traced traced;
  const DAT_PZ_HANDLE zone = ia.pz();
  const Lines made = about(traced.of(Kind::kCreate), zone);
  BOOST_REQUIRE_EQUAL(made.size(), 1U);
  BOOST_CHECK_EQUAL(made[0].level, static_cast<int>(trace::kCalls));
  BOOST_CHECK_EQUAL(made[0].ia, "fake");
  BOOST_CHECK_EQUAL(made[0].type, "PZ");
  BOOST_CHECK(about(traced.of(Kind::kFree), zone).empty());
  REQUIRE_OK(ia->pz_free_func(zone));
  BOOST_CHECK_EQUAL(about(traced.of(Kind::kFree), zone).size(), 1U);
}

BOOST_AUTO_TEST_CASE(calls_and_return_codes) {
  const Traced traced;
  DAT_PZ_PARAM param{};
  CHECK_ERROR(ia->pz_query_func(pz, DAT_PZ_FIELD_ALL, nullptr), DAT_INVALID_PARAMETER);
  REQUIRE_OK(ia->pz_query_func(pz, DAT_PZ_FIELD_ALL, &param));
  CHECK_ERROR(ia->pz_query_func(ia.raw, DAT_PZ_FIELD_ALL, &param), DAT_INVALID_HANDLE);
  const Lines returns = traced.of(Kind::kReturn);
  BOOST_REQUIRE_EQUAL(returns.size(), 3U);
  BOOST_CHECK_EQUAL(traced.of(Kind::kCall).size(), 3U);
  BOOST_CHECK_EQUAL(returns[0].status, "DAT_INVALID_PARAMETER");
  BOOST_CHECK_EQUAL(returns[0].object, pz);
  BOOST_CHECK_EQUAL(returns[0].type, "PZ");
  BOOST_CHECK_EQUAL(returns[1].code, 0);
  BOOST_CHECK_EQUAL(returns[2].type, "IA");  // the type of the object, not the one expected
  alignas(64) static std::byte nothing[256] = {};
  CHECK_ERROR(ia->pz_query_func(nothing, DAT_PZ_FIELD_ALL, &param), DAT_INVALID_HANDLE);
  BOOST_CHECK_EQUAL(traced.of(Kind::kReturn).at(3).type, "");
}

BOOST_AUTO_TEST_CASE(a_connection_with_its_addresses) {
  const Side active = side();
  const Side passive = side();
  const DAT_PSP_HANDLE listening = psp();
  const Traced traced;
  REQUIRE_OK(connect(active.ep));
  run();
  const DAT_CR_HANDLE cr = take_cr();
  const Lines requests = about(traced.of(Kind::kConnection), cr);
  BOOST_REQUIRE_EQUAL(requests.size(), 1U);
  BOOST_CHECK_EQUAL(requests[0].text, "DAT_CONNECTION_REQUEST_EVENT");
  BOOST_CHECK_MESSAGE(requests[0].detail.starts_with("local 127.0.0.1:4711 remote 127.0.0.1:"),
                      requests[0].detail);
  REQUIRE_OK(ia->cr_accept_func(cr, passive.ep, 0, nullptr));
  run();
  const Lines ends = about(traced.of(Kind::kConnection), active.ep);
  BOOST_REQUIRE_EQUAL(ends.size(), 1U);
  BOOST_CHECK_EQUAL(ends[0].text, "DAT_CONNECTION_EVENT_ESTABLISHED");
  BOOST_CHECK(ends[0].detail.ends_with(" 127.0.0.1:4711"));
  const Lines states = about(traced.of(Kind::kState), active.ep);
  BOOST_REQUIRE_EQUAL(states.size(), 2U);
  BOOST_CHECK_EQUAL(states[1].detail, states[0].text);  // starts where the previous one ended
  REQUIRE_OK(ia->psp_free_func(listening));
}

BOOST_AUTO_TEST_CASE(ipv6_addresses_are_traced_in_brackets) {
  const Side active = side();
  sockaddr_in6 peer{};
  peer.sin6_family = AF_INET6;
  peer.sin6_addr.s6_addr[0] = 0x20;
  peer.sin6_addr.s6_addr[1] = 0x01;
  peer.sin6_addr.s6_addr[15] = 1;
  const Traced traced;
  REQUIRE_OK(ia->ep_connect_func(active.ep, reinterpret_cast<DAT_IA_ADDRESS_PTR>(&peer), 9, kLate,
                                 0, nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
  run();
  const Lines ends = about(traced.of(Kind::kConnection), active.ep);
  BOOST_REQUIRE_EQUAL(ends.size(), 1U);
  BOOST_CHECK_EQUAL(ends[0].text, "DAT_CONNECTION_EVENT_NON_PEER_REJECTED");
  BOOST_CHECK(ends[0].detail.ends_with(" [2001:0:0:0:0:0:0:1]:9"));
}

BOOST_AUTO_TEST_CASE(unknown_addresses_are_question_marks) {
  const Side active = side();
  const Traced traced;
  dapl::point::connection(ep_object(active.ep), DAT_CONNECTION_EVENT_UNREACHABLE, {}, {});
  const Lines lines = about(traced.of(Kind::kConnection), active.ep);
  BOOST_REQUIRE_EQUAL(lines.size(), 1U);
  BOOST_CHECK_EQUAL(lines[0].detail, "local ? remote ?");
}

BOOST_AUTO_TEST_CASE(private_data_is_traced_as_payload) {
  psp();
  const Traced traced;
  std::vector<std::uint8_t> data = {0xDE, 0xAD, 0x00, 0x0F};
  REQUIRE_OK(connect(side().ep, kService, data));
  run();
  BOOST_CHECK(traced.has(trace::kPayload, "dead000f"));
  BOOST_CHECK_EQUAL(about(traced.of(Kind::kConnection), take_cr()).at(0).length, data.size());
}

BOOST_AUTO_TEST_CASE(posts_and_completions_are_traced) {
  const Side active = side();
  const Side passive = side();
  join(active, passive);
  Buffer buffer(ia, pz);
  const Traced traced;
  REQUIRE_OK(post_recv(passive.ep, buffer, 21));
  REQUIRE_OK(post_send(active.ep, buffer, 22, 16));
  const Lines posts = traced.of(Kind::kPost);
  BOOST_REQUIRE_EQUAL(posts.size(), 2U);
  BOOST_CHECK_EQUAL(posts[0].object, passive.ep);
  BOOST_CHECK_EQUAL(posts[0].cookie, 21U);
  BOOST_CHECK_EQUAL(posts[1].object, active.ep);
  BOOST_CHECK_EQUAL(posts[1].length, 16U);
  static_cast<void>(take_dto(passive.recv_evd));
  static_cast<void>(take_dto(active.request_evd));
  const Lines completions = traced.of(Kind::kCompletion);
  BOOST_REQUIRE_EQUAL(completions.size(), 2U);
  BOOST_CHECK_EQUAL(completions[0].cookie, 21U);
  BOOST_CHECK_EQUAL(completions[0].length, 16U);
  BOOST_CHECK_EQUAL(completions[0].status, "DAT_DTO_SUCCESS");
  BOOST_CHECK_EQUAL(completions[1].cookie, 22U);
}

BOOST_AUTO_TEST_CASE(buffers_of_an_srq) {
  const DAT_SRQ_HANDLE srq = ia.srq(pz);
  Buffer buffer(ia, pz);
  DAT_LMR_TRIPLET segment = buffer.local(64);
  const Traced traced;
  REQUIRE_OK(ia->srq_post_recv_func(srq, 1, &segment, cookie_of(31)));
  const Lines posts = about(traced.of(Kind::kPost), srq);
  BOOST_REQUIRE_EQUAL(posts.size(), 1U);
  BOOST_CHECK_EQUAL(posts[0].cookie, 31U);
}

BOOST_AUTO_TEST_CASE(arming_and_wake_ups) {
  const ServiceThread service;
  const DAT_CNO_HANDLE cno = ia.cno();
  const DAT_EVD_HANDLE evd = ia.evd(DAT_EVD_DTO_FLAG | DAT_EVD_SOFTWARE_FLAG, 8);
  const Traced traced;
  REQUIRE_OK(ia.post(evd, 1));
  REQUIRE_OK(ia->evd_modify_cno_func(evd, cno));
  REQUIRE_OK(ia.post(evd, 2));
  const auto texts = [&](Kind kind, const void* object) {
    std::vector<std::string> found;
    for (const Traced::Line& line : about(traced.of(kind), object)) found.push_back(line.text);
    return found;
  };
  const auto has = [](const std::vector<std::string>& lines, const char* text) {
    return std::find(lines.begin(), lines.end(), text) != lines.end();
  };
  DAT_RETURN code = DAT_INTERNAL_ERROR;
  std::thread waiter([&] {
    DAT_EVENT event{};
    DAT_COUNT more = 0;
    code = ia->evd_wait_func(evd, kLate, 3, &event, &more);
  });
  while (!has(texts(Kind::kArm, evd), "waits")) std::this_thread::yield();
  REQUIRE_OK(ia.post(evd, 3));
  waiter.join();
  REQUIRE_OK(code);
  const std::vector<std::string> wakes = texts(Kind::kWake, evd);
  for (const char* const text : {"no waiter", "triggers its CNO", "wakes its waiter"})
    BOOST_CHECK_MESSAGE(has(wakes, text), text);
  BOOST_CHECK(has(texts(Kind::kWake, cno), "triggered"));
  const std::vector<std::string> arms = texts(Kind::kArm, evd);
  for (const char* const text : {"for its CNO", "waits"})
    BOOST_CHECK_MESSAGE(has(arms, text), text);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::test
