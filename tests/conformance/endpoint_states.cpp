// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "checklist.h"
#include "ep_subject.h"

#include <netinet/in.h>

#include <boost/test/data/test_case.hpp>

#include <algorithm>
#include <cstring>
#include <ostream>
#include <vector>

// Every operation in every state of an EP: the second table of docs/semantics.md#ep-states.
// There is one test per state; each of its cases tries one operation on a fresh EP in that state.
namespace conformance {

namespace {

constexpr std::uint64_t kCookie = 0x5EED;
constexpr std::size_t kSize = Subject::kSize;

// Columns of the table.
constexpr DAT_EP_STATE kStates[] = {DAT_EP_STATE_UNCONNECTED,
                                    DAT_EP_STATE_RESERVED,
                                    DAT_EP_STATE_PASSIVE_CONNECTION_PENDING,
                                    DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING,
                                    DAT_EP_STATE_ACTIVE_CONNECTION_PENDING,
                                    DAT_EP_STATE_COMPLETION_PENDING,
                                    DAT_EP_STATE_CONNECTED,
                                    DAT_EP_STATE_DISCONNECT_PENDING,
                                    DAT_EP_STATE_DISCONNECTED};

std::size_t column(DAT_EP_STATE state) {
  return static_cast<std::size_t>(std::ranges::find(kStates, state) - kStates);
}

// ---- the operations ----

DAT_RETURN post_recv(Subject& s) {
  DAT_LMR_TRIPLET segment = s.buffer.local();
  return dat_ep_post_recv(s.ep, 1, &segment, cookie(kCookie), DAT_COMPLETION_DEFAULT_FLAG);
}

// In CONNECTED the peer must have posted a receive, or the connection breaks.
void post_peers_recv(Subject& s) { REQUIRE_OK(s.pair.passive.post_recv(s.buffer, kSize, 1)); }

DAT_RETURN post_send(Subject& s) {
  if (ep_state(s.ep) == DAT_EP_STATE_CONNECTED) post_peers_recv(s);
  DAT_LMR_TRIPLET segment = s.buffer.local();
  return dat_ep_post_send(s.ep, 1, &segment, cookie(kCookie), DAT_COMPLETION_DEFAULT_FLAG);
}

DAT_RETURN post_send_invalidate(Subject& s) {
  if (ep_state(s.ep) == DAT_EP_STATE_CONNECTED) post_peers_recv(s);
  DAT_LMR_TRIPLET segment = s.buffer.local();
  return dat_ep_post_send_with_invalidate(s.ep, 1, &segment, cookie(kCookie),
                                          DAT_COMPLETION_DEFAULT_FLAG, DAT_FALSE, 0);
}

DAT_RETURN post_write(Subject& s) {
  DAT_LMR_TRIPLET segment = s.buffer.local();
  const DAT_RMR_TRIPLET remote = s.buffer.remote(kSize);
  return dat_ep_post_rdma_write(s.ep, 1, &segment, cookie(kCookie), &remote,
                                DAT_COMPLETION_DEFAULT_FLAG);
}

DAT_RETURN post_read(Subject& s) {
  DAT_LMR_TRIPLET segment = s.buffer.local();
  const DAT_RMR_TRIPLET remote = s.buffer.remote(kSize);
  return dat_ep_post_rdma_read(s.ep, 1, &segment, cookie(kCookie), &remote,
                               DAT_COMPLETION_DEFAULT_FLAG);
}

DAT_RETURN post_read_to_rmr(Subject& s) {
  const DAT_RMR_TRIPLET here = s.buffer.remote(kSize);
  return dat_ep_post_rdma_read_to_rmr(s.ep, &here, cookie(kCookie), &here,
                                      DAT_COMPLETION_DEFAULT_FLAG);
}

DAT_RETURN bind(Subject& s) {
  if (s.pair.ia.attr.max_rmrs == 0) return DAT_MODEL_NOT_SUPPORTED;
  REQUIRE_OK(dat_rmr_create(s.pair.pz, s.rmr.out()));
  const DAT_LMR_TRIPLET range = s.buffer.local();
  DAT_RMR_CONTEXT context = 0;
  return dat_rmr_bind(s.rmr, s.buffer.lmr, &range, DAT_MEM_PRIV_REMOTE_READ_FLAG, DAT_VA_TYPE_VA,
                      s.ep, cookie(kCookie), DAT_COMPLETION_DEFAULT_FLAG, &context);
}

DAT_RETURN connect(Subject& s) { return s.connect(s.ep, s.pair.conn_qual); }

DAT_RETURN dup_connect(Subject& s) {
  s.connect_others();
  return dat_ep_dup_connect(s.ep, s.other_active.ep, kPatience, 0, nullptr, DAT_QOS_BEST_EFFORT);
}

DAT_RETURN dup_connect_to(Subject& s) {
  s.other_active.create(s.pair.ia, s.pair.pz, nullptr);
  return dat_ep_dup_connect(s.other_active.ep, s.ep, kPatience, 0, nullptr, DAT_QOS_BEST_EFFORT);
}

// Connects to the port of the pair's PSP. No CSP listens there, but that affects the outcome and
// not the call.
DAT_RETURN common_connect(Subject& s) {
  if (ep_state(s.ep) == DAT_EP_STATE_UNCONNECTED) s.configure_comm(s.ep);
  sockaddr_in6 address{};
  const sockaddr* const here = s.pair.ia.attr.ia_address_ptr;
  std::memcpy(&address, here,
              here->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
  address.sin6_port = htons(static_cast<std::uint16_t>(s.pair.conn_qual));  // as sin_port
  return dat_ep_common_connect(s.ep, reinterpret_cast<DAT_IA_ADDRESS_PTR>(&address), kPatience, 0,
                               nullptr);
}

DAT_RETURN reserve(Subject& s) {
  DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
  const DAT_RETURN rc = dat_rsp_create(s.pair.ia, fresh_conn_qual(), s.ep, s.pair.cr_evd, &rsp);
  if (rc == DAT_SUCCESS) *s.rsp.out() = rsp;
  return rc;
}

// Accepts a request that arrived at the PSP, with the subject as the consumer's EP.
DAT_RETURN accept_other(Subject& s) {
  s.other_active.create(s.pair.ia, s.pair.pz, nullptr);
  REQUIRE_OK(s.connect(s.other_active.ep, s.pair.conn_qual));
  const DAT_CR_HANDLE request = s.take_cr();
  const DAT_RETURN rc = dat_cr_accept(request, s.ep, 0, nullptr);
  if (rc != DAT_SUCCESS) REQUIRE_OK(dat_cr_reject(request, 0, nullptr));
  return rc;
}

DAT_RETURN accept_own(Subject& s) {
  const DAT_RETURN rc = dat_cr_accept(s.cr, DAT_HANDLE_NULL, 0, nullptr);
  if (rc != DAT_SUCCESS) return rc;
  s.cr = DAT_HANDLE_NULL;
  if (s.ep != s.pair.passive.ep) *s.accepted_ep.out() = s.ep;
  return rc;
}

DAT_RETURN disconnect_abrupt(Subject& s) { return dat_ep_disconnect(s.ep, DAT_CLOSE_ABRUPT_FLAG); }
DAT_RETURN disconnect_graceful(Subject& s) {
  return dat_ep_disconnect(s.ep, DAT_CLOSE_GRACEFUL_FLAG);
}
DAT_RETURN reset(Subject& s) { return dat_ep_reset(s.ep); }

DAT_RETURN free_ep(Subject& s) {
  const DAT_RETURN rc = dat_ep_free(s.ep);
  if (rc == DAT_SUCCESS) s.end->ep.release();
  return rc;
}

DAT_RETURN modify_pz(Subject& s) {
  DAT_EP_PARAM param{};
  param.pz_handle = s.other_pz;
  return dat_ep_modify(s.ep, DAT_EP_FIELD_PZ_HANDLE, &param);
}

DAT_RETURN modify_evd(Subject& s) {
  DAT_EP_PARAM param{};
  param.recv_evd_handle = s.other_evd;
  return dat_ep_modify(s.ep, DAT_EP_FIELD_RECV_EVD_HANDLE, &param);
}

DAT_RETURN modify_attribute(Subject& s) {
  DAT_EP_PARAM param{};
  param.ep_attr.max_recv_iov = 2;
  return dat_ep_modify(s.ep, DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV, &param);
}

DAT_RETURN set_watermark(Subject& s) {
  return dat_ep_set_watermark(s.ep, 4, DAT_WATERMARK_INFINITE);
}

DAT_RETURN recv_query(Subject& s) {
  DAT_COUNT held = 0;
  DAT_COUNT span = 0;
  return dat_ep_recv_query(s.ep, &held, &span);
}

DAT_RETURN query(Subject& s) {
  DAT_EP_PARAM param{};
  return dat_ep_query(s.ep, DAT_EP_FIELD_ALL, &param);
}

DAT_RETURN get_status(Subject& s) { return dat_ep_get_status(s.ep, nullptr, nullptr, nullptr); }

DAT_RETURN contexts(Subject& s) {
  DAT_CONTEXT context{};
  context.as_64 = kCookie;
  const DAT_RETURN rc = dat_set_consumer_context(s.ep, context);
  if (rc != DAT_SUCCESS) return rc;
  context.as_64 = 0;
  REQUIRE_OK(dat_get_consumer_context(s.ep, &context));
  BOOST_CHECK_EQUAL(context.as_64, kCookie);
  return rc;
}

// ---- what an operation that was carried out leads to ----

void is_connecting(Subject& s) {
  BOOST_CHECK_EQUAL(ep_state(s.ep), DAT_EP_STATE_ACTIVE_CONNECTION_PENDING);
  REQUIRE_OK(dat_cr_reject(s.take_cr(), 0, nullptr));
  expect_event(s.end->connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
}

void other_is_connecting(Subject& s) {
  BOOST_CHECK_EQUAL(ep_state(s.ep), DAT_EP_STATE_CONNECTED);
  BOOST_CHECK_EQUAL(ep_state(s.other_active.ep), DAT_EP_STATE_ACTIVE_CONNECTION_PENDING);
  REQUIRE_OK(dat_cr_reject(s.take_cr(), 0, nullptr));
  expect_event(s.other_active.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
}

// PSPs and CSPs share ports, but need not understand each other. There must be some answer.
void is_connecting_or_connected(Subject& s) {
  const DAT_EP_STATE state = ep_state(s.ep);
  BOOST_CHECK(state == DAT_EP_STATE_ACTIVE_CONNECTION_PENDING ||
              state == DAT_EP_STATE_DISCONNECTED);
  if (const auto request = next_event(s.pair.cr_evd, kQuiet))
    REQUIRE_OK(dat_cr_reject(request->event_data.cr_arrival_event_data.cr_handle, 0, nullptr));
  BOOST_REQUIRE(next_event(s.end->connect_evd));
  BOOST_CHECK_EQUAL(ep_state(s.ep), DAT_EP_STATE_DISCONNECTED);
}

void is_reserved(Subject& s) {
  BOOST_CHECK_EQUAL(ep_state(s.ep), DAT_EP_STATE_RESERVED);
  REQUIRE_OK(dat_rsp_free(s.rsp.release()));
  BOOST_CHECK_EQUAL(ep_state(s.ep), DAT_EP_STATE_UNCONNECTED);
}

void is_established(Subject& s) {
  End& peer = s.other_active.ep != DAT_HANDLE_NULL ? s.other_active : s.pair.active;
  expect_event(peer.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  expect_event(s.end->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  BOOST_CHECK_EQUAL(ep_state(s.ep), DAT_EP_STATE_CONNECTED);
}

void is_disconnected(Subject& s) {
  expect_event(s.end->connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
  BOOST_CHECK_EQUAL(ep_state(s.ep), DAT_EP_STATE_DISCONNECTED);
}

void is_unconnected(Subject& s) { BOOST_CHECK_EQUAL(ep_state(s.ep), DAT_EP_STATE_UNCONNECTED); }

void is_gone(Subject& s) {
  CHECK_TYPE(dat_ep_get_status(s.ep, nullptr, nullptr, nullptr), DAT_INVALID_HANDLE);
  expect_silence(s.end->connect_evd);
}

void has_other_pz(Subject& s) { BOOST_CHECK(s.query().pz_handle == s.other_pz); }
void has_other_evd(Subject& s) { BOOST_CHECK(s.query().recv_evd_handle == s.other_evd); }
void has_attribute(Subject& s) { BOOST_CHECK_EQUAL(s.query().ep_attr.max_recv_iov, 2); }

void recv_is_flushed(Subject& s) { expect_dto(s.end->recv_evd, DAT_DTO_ERR_FLUSHED, kCookie); }
void request_is_flushed(Subject& s) {
  expect_dto(s.end->request_evd, DAT_DTO_ERR_FLUSHED, kCookie);
}
void bind_is_flushed(Subject& s) {
  const DAT_EVENT event = expect_event(s.end->request_evd, DAT_RMR_BIND_COMPLETION_EVENT);
  BOOST_CHECK_EQUAL(event.event_data.rmr_completion_event_data.status, DAT_DTO_ERR_FLUSHED);
}

// ---- the table ----

struct Operation {
  const char* name;
  // One result per column of kStates: Y carried out, F accepted and flushed, N refused, 0 no
  // effect, - not reachable, E refused, or accepted and completed by a disconnect at the latest.
  const char* answers;
  DAT_RETURN (*run)(Subject&);
  void (*done)(Subject&);     // checks the result of Y; null: the state is unchanged
  void (*flushed)(Subject&);  // checks the result of F
  bool optional;              // the IA may lack the function
};

std::ostream& operator<<(std::ostream& out, const Operation& operation) {
  return out << operation.name;
}

constexpr bool kOptional = true;
constexpr Operation kOperations[] = {
    // columns: UNC RES PAS TEN ACT CMP CON DPD DIS
    {"post_recv", "YYYYYYYYF", post_recv, nullptr, recv_is_flushed, false},
    {"post_send", "NNNNNEYNF", post_send, nullptr, request_is_flushed, false},
    {"send_inv", "NNNNNEYNF", post_send_invalidate, nullptr, request_is_flushed, kOptional},
    {"rdma_write", "NNNNNEYNF", post_write, nullptr, request_is_flushed, false},
    {"rdma_read", "NNNNNEYNF", post_read, nullptr, request_is_flushed, false},
    {"read_to_rmr", "NNNNNEYNF", post_read_to_rmr, nullptr, request_is_flushed, kOptional},
    {"rmr_bind", "NNNNNEYNF", bind, nullptr, bind_is_flushed, kOptional},
    {"connect", "YNNNNNNNN", connect, is_connecting, nullptr, false},
    {"dup_connect", "YNNNNNNNN", dup_connect, is_connecting, nullptr, false},
    {"common_connect", "YNNNNNNNN", common_connect, is_connecting_or_connected, nullptr, kOptional},
    {"be dup_ep", "NNNNNNYNN", dup_connect_to, other_is_connecting, nullptr, false},
    {"rsp_create", "YNNNNNNNN", reserve, is_reserved, nullptr, false},
    {"cr_accept naming it", "YNNNNNNNN", accept_other, is_established, nullptr, false},
    {"cr_accept of its own CR", "--YY-----", accept_own, is_established, nullptr, false},
    {"disconnect ABRUPT", "NNNNYYYY0", disconnect_abrupt, is_disconnected, nullptr, false},
    {"disconnect GRACEFUL", "NNNNYYY00", disconnect_graceful, is_disconnected, nullptr, false},
    {"reset", "0NNNNNNNY", reset, is_unconnected, nullptr, false},
    {"free", "YNNNYYYYY", free_ep, is_gone, nullptr, false},
    {"modify PZ", "YNNYNNNNN", modify_pz, has_other_pz, nullptr, false},
    {"modify EVDs", "YYYYNNNNN", modify_evd, has_other_evd, nullptr, false},
    {"modify attributes", "YYYYNNNNN", modify_attribute, has_attribute, nullptr, false},
    {"set_watermark", "YYYYYYYYY", set_watermark, nullptr, nullptr, kOptional},
    {"recv_query", "YYYYYYYYY", recv_query, nullptr, nullptr, kOptional},
    {"query", "YYYYYYYYY", query, nullptr, nullptr, false},
    {"get_status", "YYYYYYYYY", get_status, nullptr, nullptr, false},
    {"contexts", "YYYYYYYYY", contexts, nullptr, nullptr, false},
};

std::vector<Operation> operations_in(DAT_EP_STATE state) {
  std::vector<Operation> result;
  for (const Operation& operation : kOperations)
    if (operation.answers[column(state)] != '-') result.push_back(operation);
  return result;
}

void try_in(DAT_EP_STATE state, const Operation& operation) {
  Subject subject(state);
  if (skip_unless(subject.reached,
                  state == DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING
                      ? "the provider makes no EPs"
                      : "the state passes although the peer's process stands still"))
    return;
  const DAT_RETURN rc = operation.run(subject);
  if (operation.optional &&
      skip_unless(!is_unsupported(rc), std::string("the IA has no ") + operation.name))
    return;
  const char answer = operation.answers[column(state)];
  if (answer == 'N') {
    // A race remains: if the state ends after it was checked, the result is that of the next state.
    if (rc == DAT_SUCCESS && is_transient(state) &&
        skip_unless(ep_state(subject.ep) == state, "the state passed during the call"))
      return;
    CHECK_TYPE(rc, DAT_INVALID_STATE);
    BOOST_CHECK_EQUAL(ep_state(subject.ep), state);
    return;
  }
  if (answer == 'E' && rc != DAT_SUCCESS) {
    CHECK_TYPE(rc, DAT_INVALID_STATE);
    return;
  }
  REQUIRE_OK(rc);
  if (answer == 'Y' && operation.done != nullptr)
    operation.done(subject);
  else
    BOOST_CHECK_EQUAL(ep_state(subject.ep), state);
  if (answer == 'E') {
    REQUIRE_OK(dat_ep_disconnect(subject.ep, DAT_CLOSE_ABRUPT_FLAG));
    BOOST_CHECK(next_event(subject.end->request_evd));
  }
  if (answer == 'F') operation.flushed(subject);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(
    endpoint_states,
    *covers("conn_bad_state disc_invalid_states dto_post_bad_states dto_recv_in_all_states "
            "ep_modify_pz_states ep_modify_evd_states ep_reset_states rsp_ep_not_unconnected"))

namespace data = boost::unit_test::data;

BOOST_DATA_TEST_CASE(unconnected, data::make(operations_in(DAT_EP_STATE_UNCONNECTED)), operation) {
  try_in(DAT_EP_STATE_UNCONNECTED, operation);
}
BOOST_DATA_TEST_CASE(reserved, data::make(operations_in(DAT_EP_STATE_RESERVED)), operation) {
  try_in(DAT_EP_STATE_RESERVED, operation);
}
BOOST_DATA_TEST_CASE(passive, data::make(operations_in(DAT_EP_STATE_PASSIVE_CONNECTION_PENDING)),
                     operation) {
  try_in(DAT_EP_STATE_PASSIVE_CONNECTION_PENDING, operation);
}
BOOST_DATA_TEST_CASE(tentative,
                     data::make(operations_in(DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING)),
                     operation) {
  try_in(DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING, operation);
}
BOOST_DATA_TEST_CASE(active, data::make(operations_in(DAT_EP_STATE_ACTIVE_CONNECTION_PENDING)),
                     operation) {
  try_in(DAT_EP_STATE_ACTIVE_CONNECTION_PENDING, operation);
}
BOOST_DATA_TEST_CASE(completion_pending, data::make(operations_in(DAT_EP_STATE_COMPLETION_PENDING)),
                     operation) {
  try_in(DAT_EP_STATE_COMPLETION_PENDING, operation);
}
BOOST_DATA_TEST_CASE(connected, data::make(operations_in(DAT_EP_STATE_CONNECTED)), operation) {
  try_in(DAT_EP_STATE_CONNECTED, operation);
}
BOOST_DATA_TEST_CASE(disconnect_pending, data::make(operations_in(DAT_EP_STATE_DISCONNECT_PENDING)),
                     operation) {
  try_in(DAT_EP_STATE_DISCONNECT_PENDING, operation);
}
BOOST_DATA_TEST_CASE(disconnected, data::make(operations_in(DAT_EP_STATE_DISCONNECTED)),
                     operation) {
  try_in(DAT_EP_STATE_DISCONNECTED, operation);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
