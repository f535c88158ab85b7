// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "harness.h"

#include <netinet/in.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <thread>

#include <pthread.h>

// Return codes of section 2 of the semantics reference that no line of its checklist asks for.
// Which test sees which code of which function is written down by return_codes.py.
namespace conformance {

namespace {

// An address of the IA's family that nothing can be connected to.
struct BadAddress {
  explicit BadAddress(const Ia& ia) {
    storage.sin6_family = ia.attr.ia_address_ptr->sa_family;
    if (storage.sin6_family == AF_INET6) storage.sin6_addr.s6_addr[0] = 0xff;  // multicast
    if (storage.sin6_family == AF_INET)
      reinterpret_cast<sockaddr_in*>(&storage)->sin_addr.s_addr = htonl(0xe0000001U);
  }
  DAT_IA_ADDRESS_PTR get() { return reinterpret_cast<DAT_IA_ADDRESS_PTR>(&storage); }
  sockaddr_in6 storage{};
};

DAT_OS_WAIT_PROXY_AGENT data_without_function() {
  static int data = 0;
  DAT_OS_WAIT_PROXY_AGENT agent = DAT_OS_WAIT_PROXY_AGENT_NULL;
  agent.instance_data = &data;
  return agent;
}

// Sent over and over, because one that comes before the wait is no interruption. Ends with the
// waiter.
template <class Wait>
DAT_RETURN interrupted(Wait wait) {
  struct sigaction quiet {};
  struct sigaction before {};
  quiet.sa_handler = [](int) {};
  sigaction(SIGUSR1, &quiet, &before);
  std::atomic<bool> over{false};
  const pthread_t waiter = pthread_self();
  std::thread sender([&] {
    for (int i = 0; i < 20 && !over; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      if (!over) pthread_kill(waiter, SIGUSR1);
    }
  });
  const DAT_RETURN rc = wait();
  over = true;
  sender.join();
  sigaction(SIGUSR1, &before, nullptr);
  return rc;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(return_codes)

// ---- IA and registry: 2.1, 2.13 ----

BOOST_AUTO_TEST_CASE(rc_ia_openv) {
  DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
  char unknown[] = "no such interface adapter";
  CHECK_TYPE(dat_ia_openv(unknown, 8, &async, &ia, DAT_VERSION_MAJOR, DAT_VERSION_MINOR,
                          options().thread_safe),
             DAT_PROVIDER_NOT_FOUND);
  std::string name = options().ia;
  CHECK_TYPE(dat_ia_openv(name.data(), 8, &async, nullptr, DAT_VERSION_MAJOR, DAT_VERSION_MINOR,
                          options().thread_safe),
             DAT_INVALID_HANDLE);
}

BOOST_AUTO_TEST_CASE(rc_registry_list_providers) {
  DAT_PROVIDER_INFO entries[64];
  DAT_PROVIDER_INFO* list[64];
  for (int i = 0; i < 64; ++i) list[i] = &entries[i];
  DAT_COUNT count = 0;
  REQUIRE_OK(dat_registry_list_providers(64, &count, list));
  BOOST_CHECK_GT(count, 0);
  CHECK_TYPE(dat_registry_list_providers(0, &count, nullptr), DAT_INVALID_PARAMETER);
}

BOOST_AUTO_TEST_CASE(rc_strerror) {
  const char* major = nullptr;
  const char* minor = nullptr;
  REQUIRE_OK(dat_strerror(DAT_SUCCESS, &major, &minor));
  CHECK_TYPE(dat_strerror(static_cast<DAT_RETURN>(0x80ff0000U), &major, &minor),
             DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_strerror(static_cast<DAT_RETURN>(0x8005ffffU), &major, &minor),
             DAT_INVALID_PARAMETER);
}

// ---- CNO: 2.3 ----

BOOST_AUTO_TEST_CASE(rc_cno_create) {
  const Ia ia;
  DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
  CHECK_TYPE(dat_cno_create(ia, data_without_function(), &cno), DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_cno_create(ia, DAT_OS_WAIT_PROXY_AGENT_NULL, nullptr), DAT_INVALID_PARAMETER);
}

BOOST_AUTO_TEST_CASE(rc_cno_fd) {
  const Ia ia;
  DAT_FD fd = -1;
  Cno cno;
  const DAT_RETURN rc = dat_cno_fd_create(ia, &fd, cno.out());
  if (skip_unless(DAT_GET_TYPE(rc) != DAT_MODEL_NOT_SUPPORTED,
                  "the IA has no CNOs with a descriptor"))
    return;
  REQUIRE_OK(rc);
  DAT_CNO_HANDLE none = DAT_HANDLE_NULL;
  CHECK_TYPE(dat_cno_fd_create(ia, nullptr, &none), DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_cno_fd_create(ia, &fd, nullptr), DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_cno_trigger(cno, nullptr), DAT_INVALID_PARAMETER);
  CHECK_TYPE_OR(dat_cno_modify_agent(cno, DAT_OS_WAIT_PROXY_AGENT_NULL), DAT_INVALID_STATE,
                DAT_INVALID_PARAMETER);
}

BOOST_AUTO_TEST_CASE(rc_cno_modify_agent) {
  const Ia ia;
  Cno cno;
  REQUIRE_OK(dat_cno_create(ia, DAT_OS_WAIT_PROXY_AGENT_NULL, cno.out()));
  CHECK_TYPE(dat_cno_modify_agent(cno, data_without_function()), DAT_INVALID_PARAMETER);
}

// Section 1.7: a provider may also start the wait again.
BOOST_AUTO_TEST_CASE(rc_cno_wait_interrupted) {
  const Ia ia;
  Cno cno;
  REQUIRE_OK(dat_cno_create(ia, DAT_OS_WAIT_PROXY_AGENT_NULL, cno.out()));
  DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
  CHECK_TYPE_OR(interrupted([&] { return dat_cno_wait(cno, 300 * kMillisecond, &evd); }),
                DAT_INTERRUPTED_CALL, DAT_QUEUE_EMPTY);
  CHECK_TYPE(dat_cno_wait(cno, 0, &evd), DAT_QUEUE_EMPTY);  // and can be waited on as before
}

// ---- connections: 2.5, 2.7 ----

BOOST_AUTO_TEST_CASE(rc_ep_dup_connect) {
  Pair pair;
  pair.connect();
  End other;
  other.create(pair.ia, pair.pz, nullptr);
  const DAT_COUNT most = pair.ia.provider().max_private_data_size;
  std::vector<char> data(static_cast<std::size_t>(most) + 1);
  const auto attempt = [&](DAT_TIMEOUT timeout, DAT_COUNT size, void* bytes, DAT_QOS qos) {
    return dat_ep_dup_connect(other.ep, pair.active.ep, timeout, size, bytes, qos);
  };
  constexpr DAT_QOS kQos = DAT_QOS_BEST_EFFORT;
  CHECK_TYPE(attempt(0, 0, nullptr, kQos), DAT_INVALID_PARAMETER);
  CHECK_TYPE(attempt(kPatience, most + 1, data.data(), kQos), DAT_INVALID_PARAMETER);
  CHECK_TYPE(attempt(kPatience, -1, data.data(), kQos), DAT_INVALID_PARAMETER);
  CHECK_TYPE(attempt(kPatience, 1, nullptr, kQos), DAT_INVALID_PARAMETER);
  CHECK_TYPE(attempt(kPatience, 0, nullptr, DAT_QOS_PREMIUM), DAT_MODEL_NOT_SUPPORTED);
  BOOST_CHECK_EQUAL(ep_state(other.ep), DAT_EP_STATE_UNCONNECTED);
  pair.disconnect();
}

BOOST_AUTO_TEST_CASE(rc_ep_common_connect) {
  Pair pair;
  End& end = pair.active;
  DAT_EP_PARAM param{};
  param.comm = {pair.ia.attr.ia_address_ptr->sa_family, SOCK_STREAM, 0};
  if (skip_unless(dat_ep_modify(end.ep, DAT_EP_FIELD_COMM, &param) == DAT_SUCCESS,
                  "the IA has no communicators"))
    return;
  const DAT_IA_ADDRESS_PTR here = pair.ia.attr.ia_address_ptr;
  BadAddress multicast(pair.ia);
  CHECK_TYPE(dat_ep_common_connect(end.ep, nullptr, kPatience, 0, nullptr), DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_ep_common_connect(end.ep, here, 0, 0, nullptr), DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_ep_common_connect(end.ep, here, kPatience, -1, nullptr), DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_ep_common_connect(end.ep, here, kPatience, 1, nullptr), DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_ep_common_connect(end.ep, multicast.get(), kPatience, 0, nullptr),
             DAT_INVALID_ADDRESS);
  BOOST_CHECK_EQUAL(ep_state(end.ep), DAT_EP_STATE_UNCONNECTED);
}

BOOST_AUTO_TEST_CASE(rc_cr_reject) {
  Pair pair;
  const DAT_CR_HANDLE cr = pair.connect_and_take_cr();
  const DAT_COUNT most = pair.ia.provider().max_private_data_size;
  std::vector<char> data(static_cast<std::size_t>(most) + 1);
  CHECK_TYPE(dat_cr_reject(cr, -1, nullptr), DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_cr_reject(cr, most + 1, data.data()), DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_cr_reject(cr, 1, nullptr), DAT_INVALID_PARAMETER);
  REQUIRE_OK(dat_cr_reject(cr, 0, nullptr));  // it is still there
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
}

// ---- service points: 2.6 ----

BOOST_AUTO_TEST_CASE(rc_rsp) {
  Pair pair;
  DAT_RSP_HANDLE none = DAT_HANDLE_NULL;
  const DAT_CONN_QUAL conn_qual = fresh_conn_qual();
  CHECK_TYPE(dat_rsp_create(pair.ia, conn_qual, pair.passive.ep, pair.cr_evd, nullptr),
             DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_rsp_create(pair.ia, 0, pair.passive.ep, pair.cr_evd, &none),
             DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_rsp_create(pair.ia, pair.conn_qual, pair.passive.ep, pair.cr_evd, &none),
             DAT_CONN_QUAL_IN_USE);
  BOOST_CHECK_EQUAL(ep_state(pair.passive.ep), DAT_EP_STATE_UNCONNECTED);
  Rsp rsp;
  REQUIRE_OK(dat_rsp_create(pair.ia, conn_qual, pair.passive.ep, pair.cr_evd, rsp.out()));
  DAT_RSP_PARAM param{};
  REQUIRE_OK(dat_rsp_query(rsp, DAT_RSP_FIELD_ALL, &param));
  BOOST_CHECK_EQUAL(param.ia_handle, pair.ia.handle);
  BOOST_CHECK_EQUAL(param.conn_qual, conn_qual);
  BOOST_CHECK_EQUAL(param.evd_handle, static_cast<DAT_EVD_HANDLE>(pair.cr_evd));
  BOOST_CHECK_EQUAL(param.ep_handle, static_cast<DAT_EP_HANDLE>(pair.passive.ep));
  CHECK_TYPE(dat_rsp_query(rsp, DAT_RSP_FIELD_ALL, nullptr), DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_rsp_query(rsp, not_an_enumerator<DAT_RSP_PARAM_MASK>(0x100), &param),
             DAT_INVALID_PARAMETER);
}

BOOST_AUTO_TEST_CASE(rc_csp) {
  Pair pair;
  const int family = pair.ia.attr.ia_address_ptr->sa_family;
  DAT_COMM comm{family, SOCK_STREAM, 0};
  Owner<DAT_CSP_HANDLE, dat_csp_free> csp;
  const DAT_RETURN rc = dat_csp_create(pair.ia, &comm, nullptr, pair.cr_evd, csp.out());
  if (skip_unless(DAT_GET_TYPE(rc) != DAT_MODEL_NOT_SUPPORTED, "the IA has no CSPs")) return;
  REQUIRE_OK(rc);
  DAT_CSP_HANDLE none = DAT_HANDLE_NULL;
  CHECK_TYPE(dat_csp_create(pair.ia, nullptr, nullptr, pair.cr_evd, &none), DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_csp_create(pair.ia, &comm, nullptr, pair.cr_evd, nullptr), DAT_INVALID_PARAMETER);
  DAT_COMM datagrams{family, SOCK_DGRAM, 0};
  CHECK_TYPE(dat_csp_create(pair.ia, &datagrams, nullptr, pair.cr_evd, &none),
             DAT_COMM_NOT_SUPPORTED);
  DAT_CSP_PARAM param{};
  CHECK_TYPE(dat_csp_query(csp, DAT_CSP_FIELD_ALL, nullptr), DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_csp_query(csp, not_an_enumerator<DAT_CSP_PARAM_MASK>(0x100), &param),
             DAT_INVALID_PARAMETER);
}

// ---- data transfer: 2.8 ----

// More than the IA can do at all; the memory is not looked at.
BOOST_AUTO_TEST_CASE(rc_dto_too_long) {
  Pair pair;
  Buffer buffer(pair.ia, pair.pz, 64);
  pair.connect();
  DAT_LMR_TRIPLET segments[2] = {buffer.local(), buffer.local()};
  for (DAT_LMR_TRIPLET& segment : segments) segment.segment_length = 0xffffffffU;
  DAT_RMR_TRIPLET remote = buffer.remote(64);
  remote.segment_length = 0xffffffffU;
  CHECK_TYPE_OR(
      dat_ep_post_send(pair.active.ep, 2, segments, cookie(1), DAT_COMPLETION_DEFAULT_FLAG),
      DAT_INVALID_PARAMETER, DAT_LENGTH_ERROR);
  CHECK_TYPE_OR(dat_ep_post_rdma_write(pair.active.ep, 2, segments, cookie(1), &remote,
                                       DAT_COMPLETION_DEFAULT_FLAG),
                DAT_INVALID_PARAMETER, DAT_LENGTH_ERROR);
  segments[0].segment_length = 64;
  CHECK_TYPE_OR(dat_ep_post_rdma_read(pair.active.ep, 1, segments, cookie(1), &remote,
                                      DAT_COMPLETION_DEFAULT_FLAG),
                DAT_INVALID_PARAMETER, DAT_LENGTH_ERROR);
  BOOST_CHECK_EQUAL(ep_state(pair.active.ep), DAT_EP_STATE_CONNECTED);
  pair.disconnect();
}

namespace {

// Section 2.8: memory may be checked at once, or when the operation is executed. Never silent
// success.
template <class Post>
void check_memory(Pair& pair, DAT_EVD_HANDLE evd, const char* what, DAT_RETURN at_once, Post post) {
  BOOST_TEST_CONTEXT(what) {
    const DAT_RETURN rc = post();
    if (rc != DAT_SUCCESS) {
      BOOST_CHECK_MESSAGE(DAT_GET_TYPE(rc) == at_once || DAT_GET_TYPE(rc) == DAT_INVALID_PARAMETER,
                          describe(rc));
      pair.disconnect();
      return;
    }
    const auto event = next_event(evd);
    BOOST_REQUIRE(event);
    BOOST_CHECK_EQUAL(event->event_data.dto_completion_event_data.status,
                      DAT_DTO_ERR_LOCAL_PROTECTION);
    expect_connection_end(pair.active.connect_evd);
    expect_connection_end(pair.passive.connect_evd);
  }
}

}  // namespace

// A PZ that is not the EP's: PROTECTION_VIOLATION.
BOOST_AUTO_TEST_CASE(rc_dto_protection_violation) {
  for (const char* const what : {"send", "write", "read", "receive"}) {
    Pair pair;
    const Pz other = make_pz(pair.ia);
    Buffer buffer(pair.ia, pair.pz, 64);
    Buffer foreign(pair.ia, other, 64);
    pair.connect();
    const std::string_view kind(what);
    if (kind == "receive") {
      check_memory(pair, pair.passive.recv_evd, what, DAT_PROTECTION_VIOLATION, [&] {
        const DAT_RETURN rc = pair.passive.post_recv(foreign, 64, 1);
        if (rc == DAT_SUCCESS) REQUIRE_OK(pair.active.post_send(buffer, 64, 1));
        return rc;
      });
      continue;
    }
    check_memory(pair, pair.active.request_evd, what, DAT_PROTECTION_VIOLATION, [&] {
      return kind == "send"    ? pair.active.post_send(foreign, 64, 1)
             : kind == "write" ? pair.active.post_write(foreign, buffer.remote(64), 1)
                               : pair.active.post_read(foreign, buffer.remote(64), 1);
    });
  }
}

// A local right that the LMR lacks, or no LMR at all: PRIVILEGES_VIOLATION.
BOOST_AUTO_TEST_CASE(rc_dto_privileges_violation) {
  for (const char* const what : {"send", "write", "read", "read into nothing", "receive"}) {
    Pair pair;
    Buffer buffer(pair.ia, pair.pz, 64);
    Buffer readable(pair.ia, pair.pz, 64, DAT_MEM_PRIV_LOCAL_READ_FLAG);
    Buffer nothing(pair.ia, pair.pz, 64);
    nothing.lmr_context ^= 0x00500000;
    pair.connect();
    const std::string_view kind(what);
    if (kind == "receive") {
      check_memory(pair, pair.passive.recv_evd, what, DAT_PRIVILEGES_VIOLATION, [&] {
        const DAT_RETURN rc = pair.passive.post_recv(readable, 64, 1);
        if (rc == DAT_SUCCESS) REQUIRE_OK(pair.active.post_send(buffer, 64, 1));
        return rc;
      });
      continue;
    }
    check_memory(pair, pair.active.request_evd, what, DAT_PRIVILEGES_VIOLATION, [&] {
      return kind == "send"    ? pair.active.post_send(nothing, 64, 1)
             : kind == "write" ? pair.active.post_write(nothing, buffer.remote(64), 1)
             : kind == "read"  ? pair.active.post_read(readable, buffer.remote(64), 1)
                               : pair.active.post_read(nothing, buffer.remote(64), 1);
    });
  }
}

// ---- memory: 2.9, 2.10 ----

BOOST_AUTO_TEST_CASE(rc_lmr_zero_based) {
  const Ia ia;
  if (skip_unless(ia.attr.zb_supported == DAT_FALSE, "the IA has zero-based addresses")) return;
  const Pz pz = make_pz(ia);
  char bytes[64];
  DAT_REGION_DESCRIPTION region{};
  region.for_va = bytes;
  DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
  DAT_LMR_CONTEXT context = 0;
  DAT_RMR_CONTEXT remote = 0;
  DAT_VLEN length = 0;
  DAT_VADDR address = 0;
  CHECK_TYPE(
      dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, sizeof bytes, pz, DAT_MEM_PRIV_ALL_FLAG,
                     DAT_VA_TYPE_ZB, &lmr, &context, &remote, &length, &address),
      DAT_MODEL_NOT_SUPPORTED);
}

BOOST_AUTO_TEST_CASE(rc_rmr) {
  const Ia ia;
  if (skip_unless(ia.attr.max_rmrs > 0, "the IA has no RMRs")) return;
  const Pz pz = make_pz(ia);
  CHECK_TYPE(dat_rmr_create(pz, nullptr), DAT_INVALID_PARAMETER);
  CHECK_TYPE_OR(dat_rmr_create_for_ep(pz, nullptr), DAT_INVALID_PARAMETER, DAT_MODEL_NOT_SUPPORTED);
  Rmr rmr;
  REQUIRE_OK(dat_rmr_create(pz, rmr.out()));
  DAT_RMR_PARAM param{};
  CHECK_TYPE(dat_rmr_query(rmr, DAT_RMR_FIELD_ALL, nullptr), DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_rmr_query(rmr, not_an_enumerator<DAT_RMR_PARAM_MASK>(0x100), &param),
             DAT_INVALID_PARAMETER);
}

// ---- SRQ: 2.12 ----

BOOST_AUTO_TEST_CASE(rc_srq) {
  const Ia ia;
  if (skip_unless(ia.attr.max_srqs > 0, "the IA has no SRQs")) return;
  const Pz pz = make_pz(ia);
  const Pz other = make_pz(ia);
  Buffer foreign(ia, other, 64);
  Buffer readable(ia, pz, 64, DAT_MEM_PRIV_LOCAL_READ_FLAG);
  DAT_SRQ_ATTR attr{4, 1, DAT_SRQ_LW_DEFAULT};
  Srq srq;
  REQUIRE_OK(dat_srq_create(ia, pz, &attr, srq.out()));
  DAT_SRQ_PARAM param{};
  CHECK_TYPE(dat_srq_query(srq, DAT_SRQ_FIELD_ALL, nullptr), DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_srq_query(srq, not_an_enumerator<DAT_SRQ_PARAM_MASK>(0x10000), &param),
             DAT_INVALID_PARAMETER);
  REQUIRE_OK(dat_srq_query(srq, DAT_SRQ_FIELD_ALL, &param));
  std::vector<DAT_LMR_TRIPLET> segments(static_cast<std::size_t>(param.max_recv_iov) + 1,
                                        readable.local());
  CHECK_TYPE(dat_srq_post_recv(srq, param.max_recv_iov + 1, segments.data(), cookie(1)),
             DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_srq_post_recv(srq, -1, segments.data(), cookie(1)), DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_srq_post_recv(srq, 1, nullptr, cookie(1)), DAT_INVALID_PARAMETER);
  // Checked at once or when a message comes (section 6.4), which there is none here.
  DAT_LMR_TRIPLET segment = foreign.local();
  DAT_RETURN rc = dat_srq_post_recv(srq, 1, &segment, cookie(1));
  BOOST_CHECK_MESSAGE(rc == DAT_SUCCESS || DAT_GET_TYPE(rc) == DAT_PROTECTION_VIOLATION,
                      describe(rc));
  segment = readable.local();
  rc = dat_srq_post_recv(srq, 1, &segment, cookie(1));
  BOOST_CHECK_MESSAGE(rc == DAT_SUCCESS || DAT_GET_TYPE(rc) == DAT_PRIVILEGES_VIOLATION,
                      describe(rc));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
