// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Every fault at service points, connection requests, CNOs and changes of EPs and EVDs.
#include <netinet/in.h>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <cstring>

#include "every_fault.h"

namespace {

using faults::End;
using faults::for_every_fault;
using faults::Pair;
using faults::Run;
using faults::send;

const DAT_CONN_QUAL kOther = faults::conn_qual(1);
constexpr DAT_TIMEOUT kTime = 5'000'000;  // us

bool connect_to(Pair& pair, DAT_CONN_QUAL where) {
  return FAULTS_OK(pair.run,
                   dat_ep_connect(pair.active.ep, pair.run.attr.ia_address_ptr, where, kTime, 0,
                                  nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
}

// Takes the request of `from`; null: of the active EP.
bool take_request(Pair& pair, DAT_EVD_HANDLE evd, DAT_CR_HANDLE* cr, const End* from = nullptr) {
  DAT_EVENT event{};
  const End& active = from != nullptr ? *from : pair.active;
  if (!pair.run.expect(evd, DAT_CONNECTION_REQUEST_EVENT, &event, active.connect_evd)) return false;
  *cr = event.event_data.cr_arrival_event_data.cr_handle;
  return true;
}

// `ep` is null if the CR has one.
bool accept(Pair& pair, DAT_CR_HANDLE cr, DAT_EP_HANDLE ep) {
  Run& run = pair.run;
  if (!FAULTS_OK(run, dat_cr_accept(cr, ep, 0, nullptr))) {
    (void)dat_cr_reject(cr, 0, nullptr);  // if it still exists
    return false;
  }
  DAT_EVENT event{};
  return run.expect(pair.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED, &event,
                    pair.passive.connect_evd) &&
         run.expect(pair.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED, &event,
                    pair.active.connect_evd);
}

bool make_cr_evd(Run& run, DAT_EVD_HANDLE* evd) {
  if (!FAULTS_OK(run, dat_evd_create(run.ia, 8, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, evd)))
    return false;
  run.on_finish("dat_evd_free", [evd = *evd] { return dat_evd_free(evd); });
  return true;
}

bool make_psp(Run& run, DAT_CONN_QUAL where, DAT_EVD_HANDLE evd, DAT_PSP_FLAGS flags) {
  DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
  if (!FAULTS_OK(run, dat_psp_create(run.ia, where, evd, flags, &psp))) return false;
  run.on_finish("dat_psp_free", [psp] { return dat_psp_free(psp); });
  return true;
}

BOOST_AUTO_TEST_SUITE(fault_points)

BOOST_AUTO_TEST_CASE(psp_on_any_qualifier_fails_cleanly) {
  for_every_fault([](Pair& pair) {
    if (!pair.create()) return false;
    DAT_CONN_QUAL where = 0;
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    if (!FAULTS_OK(pair.run, dat_psp_create_any(pair.run.ia, &where, pair.cr_evd,
                                                DAT_PSP_CONSUMER_FLAG, &psp)))
      return false;
    pair.run.on_finish("dat_psp_free", [psp] { return dat_psp_free(psp); });
    DAT_CR_HANDLE cr = DAT_HANDLE_NULL;
    return connect_to(pair, where) && take_request(pair, pair.cr_evd, &cr) &&
           accept(pair, cr, pair.passive.ep);
  });
}

// The provider creates the EP, which gets its PZ and EVDs before the request is accepted.
BOOST_AUTO_TEST_CASE(provider_makes_the_ep) {
  for_every_fault([](Pair& pair) {
    Run& run = pair.run;
    DAT_CR_HANDLE cr = DAT_HANDLE_NULL;
    if (!pair.create() || !make_psp(run, kOther, pair.cr_evd, DAT_PSP_PROVIDER_FLAG) ||
        !connect_to(pair, kOther) || !take_request(pair, pair.cr_evd, &cr))
      return false;
    DAT_CR_PARAM request{};
    DAT_EP_PARAM param{};
    if (!FAULTS_OK(run, dat_cr_query(cr, DAT_CR_FIELD_ALL, &request)) ||
        !FAULTS_OK(run, dat_ep_query(request.local_ep_handle, DAT_EP_FIELD_ALL, &param)))
      return false;
    const DAT_EP_HANDLE made = request.local_ep_handle;
    run.on_finish("dat_ep_free", [made] { return dat_ep_free(made); });
    param.pz_handle = pair.pz;
    param.recv_evd_handle = pair.passive.recv_evd;
    param.request_evd_handle = pair.passive.request_evd;
    param.connect_evd_handle = pair.passive.connect_evd;
    param.ep_attr.max_recv_dtos = param.ep_attr.max_request_dtos = 8;
    param.ep_attr.max_recv_iov = param.ep_attr.max_request_iov = 1;
    const DAT_RETURN code = dat_ep_modify(
        made,
        DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE | DAT_EP_FIELD_REQUEST_EVD_HANDLE |
            DAT_EP_FIELD_CONNECT_EVD_HANDLE | DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS |
            DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS | DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV |
            DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_IOV,
        &param);
    if (!run.ok(code, "dat_ep_modify")) {
      (void)dat_cr_reject(cr, 0, nullptr);
      return false;
    }
    return accept(pair, cr, DAT_HANDLE_NULL);
  });
}

BOOST_AUTO_TEST_CASE(rsp_fails_cleanly) {
  for_every_fault([](Pair& pair) {
    DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
    if (!pair.create() || !FAULTS_OK(pair.run, dat_rsp_create(pair.run.ia, kOther, pair.passive.ep,
                                                              pair.cr_evd, &rsp)))
      return false;
    DAT_CR_HANDLE cr = DAT_HANDLE_NULL;
    if (!connect_to(pair, kOther) || !take_request(pair, pair.cr_evd, &cr)) {
      pair.run.on_finish("dat_rsp_free", [rsp] { return dat_rsp_free(rsp); });
      return false;
    }
    return accept(pair, cr, DAT_HANDLE_NULL) && send(pair);
  });
}

BOOST_AUTO_TEST_CASE(common_service_point_fails_cleanly) {
  for_every_fault([](Pair& pair) {
    Run& run = pair.run;
    if (!pair.create()) return false;
    DAT_COMM comm{};
    comm.domain = run.attr.ia_address_ptr->sa_family;
    comm.type = SOCK_STREAM;
    sockaddr_in6 storage{};
    std::memcpy(&storage, run.attr.ia_address_ptr,
                comm.domain == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
    storage.sin6_port = htons(static_cast<std::uint16_t>(kOther));  // same offset as sin_port
    auto* const address = reinterpret_cast<DAT_IA_ADDRESS_PTR>(&storage);
    DAT_CSP_HANDLE csp = DAT_HANDLE_NULL;
    if (!FAULTS_OK(run, dat_csp_create(run.ia, &comm, address, pair.cr_evd, &csp))) return false;
    run.on_finish("dat_csp_free", [csp] { return dat_csp_free(csp); });
    DAT_EP_PARAM param{};
    param.comm = comm;
    DAT_CR_HANDLE cr = DAT_HANDLE_NULL;
    return FAULTS_OK(run, dat_ep_modify(pair.active.ep, DAT_EP_FIELD_COMM, &param)) &&
           FAULTS_OK(run, dat_ep_common_connect(pair.active.ep, address, kTime, 0, nullptr)) &&
           take_request(pair, pair.cr_evd, &cr) && accept(pair, cr, pair.passive.ep);
  });
}

BOOST_AUTO_TEST_CASE(handoff_fails_cleanly) {
  for_every_fault([](Pair& pair) {
    Run& run = pair.run;
    DAT_EVD_HANDLE other_evd = DAT_HANDLE_NULL;
    if (!pair.create() || !make_cr_evd(run, &other_evd) ||
        !make_psp(run, kOther, other_evd, DAT_PSP_CONSUMER_FLAG) || !pair.request())
      return false;
    if (!FAULTS_OK(run, dat_cr_handoff(pair.cr, kOther))) {
      (void)dat_cr_reject(pair.cr, 0, nullptr);
      return false;
    }
    DAT_CR_HANDLE cr = DAT_HANDLE_NULL;
    return take_request(pair, other_evd, &cr) && accept(pair, cr, pair.passive.ep) && send(pair);
  });
}

BOOST_AUTO_TEST_CASE(dup_connect_fails_cleanly) {
  for_every_fault([](Pair& pair) {
    Run& run = pair.run;
    End second;
    if (!pair.create() || !pair.make_end(second) || !pair.connect()) return false;
    DAT_CR_HANDLE cr = DAT_HANDLE_NULL;
    if (!FAULTS_OK(run, dat_ep_dup_connect(second.ep, pair.active.ep, kTime, 0, nullptr,
                                           DAT_QOS_BEST_EFFORT)) ||
        !take_request(pair, pair.cr_evd, &cr, &second))
      return false;
    if (!FAULTS_OK(run, dat_cr_reject(cr, 0, nullptr))) {
      (void)dat_cr_reject(cr, 0, nullptr);
      return false;
    }
    DAT_EVENT event{};
    return run.expect(second.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED, &event);
  });
}

// The transport's queue is replaced by a larger one, before and after a connection.
BOOST_AUTO_TEST_CASE(ep_modify_fails_cleanly) {
  for_every_fault([](Pair& pair) {
    const auto modify = [&pair](DAT_EP_HANDLE ep, DAT_COUNT depth) {
      DAT_EP_PARAM param{};
      param.ep_attr.max_recv_dtos = param.ep_attr.max_request_dtos = depth;
      return FAULTS_OK(pair.run, dat_ep_modify(ep,
                                               DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS |
                                                   DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS,
                                               &param));
    };
    return pair.create() && modify(pair.passive.ep, 12) && pair.connect() && send(pair) &&
           pair.disconnect(DAT_CLOSE_GRACEFUL_FLAG) &&
           FAULTS_OK(pair.run, dat_ep_reset(pair.active.ep)) &&
           FAULTS_OK(pair.run, dat_ep_reset(pair.passive.ep)) && modify(pair.active.ep, 8) &&
           pair.connect() && send(pair);
  });
}

BOOST_AUTO_TEST_CASE(resize_and_wait) {
  for_every_fault([](Pair& pair) {
    Run& run = pair.run;
    if (!pair.create() || !FAULTS_OK(run, dat_evd_resize(pair.active.request_evd, 64)) ||
        !pair.connect())
      return false;
    DAT_LMR_TRIPLET to = pair.local(1024, 64);
    DAT_LMR_TRIPLET from = pair.local(0, 32);
    if (!FAULTS_OK(run, dat_ep_post_recv(pair.passive.ep, 1, &to, faults::cookie(1),
                                         DAT_COMPLETION_DEFAULT_FLAG)) ||
        !FAULTS_OK(run, dat_ep_post_send(pair.active.ep, 1, &from, faults::cookie(2),
                                         DAT_COMPLETION_DEFAULT_FLAG)))
      return false;
    DAT_EVENT event{};
    DAT_COUNT more = 0;
    return FAULTS_OK(run, dat_evd_wait(pair.passive.recv_evd, 2'000'000, 1, &event, &more));
  });
}

// A CNO reports a completion by a wait, an agent and a descriptor.
BOOST_AUTO_TEST_CASE(cno_with_waiter) {
  for_every_fault([](Pair& pair) {
    Run& run = pair.run;
    if (!pair.create()) return false;
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    if (!FAULTS_OK(run, dat_cno_create(run.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno))) return false;
    const DAT_EVD_HANDLE evd = pair.passive.recv_evd;
    run.on_finish("dat_cno_free", [cno, evd] {
      (void)dat_evd_modify_cno(evd, DAT_HANDLE_NULL);
      return dat_cno_free(cno);
    });
    DAT_EVD_HANDLE woken = DAT_HANDLE_NULL;
    if (!FAULTS_OK(run, dat_evd_modify_cno(evd, cno)) || !pair.connect() || !send(pair) ||
        !FAULTS_OK(run, dat_cno_wait(cno, 2'000'000, &woken)))
      return false;
    if (woken != evd) run.complain("the CNO names another EVD");
    return true;
  });
}

BOOST_AUTO_TEST_CASE(cno_with_agent_and_descriptor) {
  for_every_fault([](Pair& pair) {
    Run& run = pair.run;
    if (!pair.create()) return false;
    static std::atomic<int> calls;
    calls = 0;
    const DAT_OS_WAIT_PROXY_AGENT agent{nullptr, [](DAT_PVOID, DAT_EVD_HANDLE) { ++calls; }};
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    DAT_CNO_HANDLE with_fd = DAT_HANDLE_NULL;
    DAT_FD fd = -1;
    const DAT_EVD_HANDLE evds[] = {pair.passive.recv_evd, pair.active.request_evd};
    const auto detach_and_free = [](DAT_EVD_HANDLE evd, DAT_CNO_HANDLE of) {
      (void)dat_evd_modify_cno(evd, DAT_HANDLE_NULL);
      return dat_cno_free(of);
    };
    if (!FAULTS_OK(run, dat_cno_create(run.ia, agent, &cno))) return false;
    run.on_finish("dat_cno_free", [=] { return detach_and_free(evds[0], cno); });
    if (!FAULTS_OK(run, dat_cno_fd_create(run.ia, &fd, &with_fd))) return false;
    run.on_finish("dat_cno_free", [=] { return detach_and_free(evds[1], with_fd); });
    if (!FAULTS_OK(run, dat_evd_modify_cno(evds[0], cno)) ||
        !FAULTS_OK(run, dat_evd_modify_cno(evds[1], with_fd)) || !pair.connect() || !send(pair))
      return false;
    DAT_EVD_HANDLE triggered = DAT_HANDLE_NULL;
    return FAULTS_OK(run, dat_cno_trigger(with_fd, &triggered));
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
