// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "connecting.h"
#include "harness.h"

#include <netinet/in.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <thread>

#include <pthread.h>

// Return codes that include/dat/api documents and no line of the checklist (checklist.cpp)
// requires. The option --observe records which test sees which code of which function.
namespace conformance {

namespace {

// An address of the IA's family to which no connection is possible.
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

// Interrupts a wait with signals. Sends them repeatedly, because one that arrives before the wait
// does not interrupt it.
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
  REQUIRE_OK(dat_cno_create(ia, data_without_function(), &cno));  // no agent
  REQUIRE_OK(dat_cno_free(cno));
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
  REQUIRE_OK(dat_cno_modify_agent(cno, data_without_function()));  // no agent
}

// A provider may also restart the wait, as the packaged one does:
// docs/semantics.md#threads-and-signals.
BOOST_AUTO_TEST_CASE(rc_cno_wait_interrupted) {
  const Ia ia;
  Cno cno;
  REQUIRE_OK(dat_cno_create(ia, DAT_OS_WAIT_PROXY_AGENT_NULL, cno.out()));
  DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
  CHECK_TYPE(interrupted([&] { return dat_cno_wait(cno, 300 * kMillisecond, &evd); }),
             DAT_QUEUE_EMPTY);
  CHECK_TYPE(dat_cno_wait(cno, 0, &evd), DAT_QUEUE_EMPTY);  // it can still be waited on
}

// Programs with timers or children wait for connections.
BOOST_AUTO_TEST_CASE(rc_evd_wait_interrupted) {
  const Ia ia;
  for (const DAT_EVD_FLAGS flag :
       {DAT_EVD_DTO_FLAG, DAT_EVD_CONNECTION_FLAG, DAT_EVD_CR_FLAG, DAT_EVD_SOFTWARE_FLAG}) {
    const Evd evd = make_evd(ia, flag, 8);
    DAT_EVENT event;
    DAT_COUNT more = 0;
    CHECK_TYPE(interrupted([&] { return dat_evd_wait(evd, 300 * kMillisecond, 1, &event, &more); }),
               flag == DAT_EVD_DTO_FLAG ? DAT_INTERRUPTED_CALL : DAT_TIMEOUT_EXPIRED);
  }
}

// Nor does a program expect an end by a signal where the EVD of its completions has a CNO, on which
// it waits at other times.
BOOST_AUTO_TEST_CASE(rc_evd_wait_with_cno_interrupted) {
  const Ia ia;
  Cno cno;
  REQUIRE_OK(dat_cno_create(ia, DAT_OS_WAIT_PROXY_AGENT_NULL, cno.out()));
  const Evd evd = make_evd(ia, DAT_EVD_DTO_FLAG, 8, cno);
  DAT_EVENT event;
  DAT_COUNT more = 0;
  const auto wait = [&] { return dat_evd_wait(evd, 300 * kMillisecond, 1, &event, &more); };
  CHECK_TYPE(interrupted(wait), DAT_TIMEOUT_EXPIRED);
  REQUIRE_OK(dat_evd_modify_cno(evd, DAT_HANDLE_NULL));
  CHECK_TYPE(interrupted(wait), DAT_INTERRUPTED_CALL);
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
  char data[kMoreThanReplies];
  CHECK_TYPE(dat_cr_reject(cr, -1, nullptr), DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_cr_reject(cr, kMoreThanReplies, data), DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_cr_reject(cr, 1, nullptr), DAT_INVALID_PARAMETER);
  REQUIRE_OK(dat_cr_reject(cr, 0, nullptr));  // the CR is still valid
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
}

// ---- service points: 2.6 ----

BOOST_AUTO_TEST_CASE(rc_rsp) {
  Pair pair;
  DAT_RSP_HANDLE none = DAT_HANDLE_NULL;
  const DAT_CONN_QUAL conn_qual = fresh_conn_qual();
  CHECK_TYPE(dat_rsp_create(pair.ia, conn_qual, pair.passive.ep, pair.cr_evd, nullptr),
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
  REQUIRE_OK(dat_csp_query(csp, not_an_enumerator<DAT_CSP_PARAM_MASK>(0x100), &param));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
