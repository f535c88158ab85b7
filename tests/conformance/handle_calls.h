// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "harness.h"

#include <netinet/in.h>

#include <cstring>
#include <functional>
#include <set>
#include <vector>

// Every function of the API that takes a handle, with good arguments except for that handle.
namespace conformance {

// The types of objects, in the order of World::live and World::stale.
enum Type { kIa, kCno, kEvd, kCr, kEp, kLmr, kRmr, kPz, kPsp, kRsp, kCsp, kSrq, kTypes };
inline constexpr const char* kTypeNames[] = {"IA",  "CNO", "EVD", "CR",  "EP",  "LMR",
                                             "RMR", "PZ",  "PSP", "RSP", "CSP", "SRQ"};

// One object of each type, held by the owners of the harness.
struct Objects {
  explicit Objects(Pair& with) : pair(with), buffer(pair.ia, pair.pz, 64), pz(make_pz(pair.ia)) {
    REQUIRE_OK(dat_cno_create(pair.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, cno.out()));
    evd = make_evd(pair.ia, static_cast<DAT_EVD_FLAGS>(DAT_EVD_SOFTWARE_FLAG | DAT_EVD_CR_FLAG), 8);
    end.create(pair.ia, pair.pz, nullptr);
    reserved.create(pair.ia, pair.pz, nullptr);
    REQUIRE_OK(dat_psp_create(pair.ia, fresh_conn_qual(), evd, DAT_PSP_CONSUMER_FLAG, psp.out()));
    REQUIRE_OK(dat_rsp_create(pair.ia, fresh_conn_qual(), reserved.ep, evd, rsp.out()));
    if (pair.ia.attr.max_rmrs > 0) REQUIRE_OK(dat_rmr_create(pair.pz, rmr.out()));
    DAT_SRQ_ATTR srq_attr{8, 1, DAT_SRQ_LW_DEFAULT};
    if (pair.ia.attr.max_srqs > 0)
      REQUIRE_OK(dat_srq_create(pair.ia, pair.pz, &srq_attr, srq.out()));
    DAT_CSP_HANDLE made = DAT_HANDLE_NULL;
    if (dat_csp_create(pair.ia, &comm, address(), evd, &made) == DAT_SUCCESS) *csp.out() = made;
  }

  [[nodiscard]] DAT_IA_ADDRESS_PTR address() {
    const sockaddr* const here = pair.ia.attr.ia_address_ptr;
    std::memcpy(&storage, here,
                here->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
    storage.sin6_port = htons(static_cast<std::uint16_t>(fresh_conn_qual()));  // as sin_port
    comm = {here->sa_family, SOCK_STREAM, 0};
    return reinterpret_cast<DAT_IA_ADDRESS_PTR>(&storage);
  }

  Pair& pair;
  sockaddr_in6 storage{};
  DAT_COMM comm{AF_INET, SOCK_STREAM, 0};
  Buffer buffer;
  Pz pz;
  Cno cno;
  Evd evd;
  Srq srq;
  Rmr rmr;
  End end;
  End reserved;
  Psp psp;
  Rsp rsp;
  Owner<DAT_CSP_HANDLE, dat_csp_free> csp;
};

// A live and a stale handle of every type; null where the IA lacks the type.
struct World {
  World() : objects(pair) {
    live[kIa] = pair.ia;
    live[kCno] = objects.cno;
    live[kEvd] = objects.evd;
    live[kCr] = pair.connect_and_take_cr();
    live[kEp] = objects.end.ep;
    live[kLmr] = objects.buffer.lmr;
    live[kRmr] = objects.rmr;
    live[kPz] = objects.pz;
    live[kPsp] = objects.psp;
    live[kRsp] = objects.rsp;
    live[kCsp] = objects.csp;
    live[kSrq] = objects.srq;
    make_stale();
  }
  ~World() {
    const DAT_RETURN rc = dat_cr_reject(live[kCr], 0, nullptr);
    BOOST_CHECK_MESSAGE(rc == DAT_SUCCESS, describe(rc));
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Pair pair;
  Objects objects;
  DAT_HANDLE live[kTypes] = {};
  DAT_HANDLE stale[kTypes] = {};

  // Arguments for calls.
  DAT_EVENT event{};
  DAT_COUNT count = 0;
  DAT_HANDLE out = DAT_HANDLE_NULL;
  DAT_CONTEXT context{};
  DAT_RMR_CONTEXT rmr_context = 0;
  DAT_FD fd = -1;

 private:
  void make_stale() {
    {
      Ia other;
      stale[kIa] = other;
    }
    {
      Objects gone(pair);
      stale[kCno] = gone.cno;
      stale[kEvd] = gone.evd;
      stale[kEp] = gone.end.ep;
      stale[kLmr] = gone.buffer.lmr;
      stale[kRmr] = gone.rmr;
      stale[kPz] = gone.pz;
      stale[kPsp] = gone.psp;
      stale[kRsp] = gone.rsp;
      stale[kCsp] = gone.csp;
      stale[kSrq] = gone.srq;
    }
    End other;
    other.create(pair.ia, pair.pz, nullptr);
    REQUIRE_OK(dat_ep_connect(other.ep, pair.ia.attr.ia_address_ptr, pair.conn_qual, kPatience, 0,
                              nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
    stale[kCr] = expect_event(pair.cr_evd, DAT_CONNECTION_REQUEST_EVENT)
                     .event_data.cr_arrival_event_data.cr_handle;
    REQUIRE_OK(dat_cr_reject(stale[kCr], 0, nullptr));
    expect_event(other.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
  }
};

// A call of a function with the handle under test as one of its arguments; all others are good.
struct Call {
  const char* name;
  std::set<Type> takes;
  std::function<DAT_RETURN(World&, DAT_HANDLE)> run;
  bool null_is_legal = false;
  // The handle is part of a structure: INVALID_PARAMETER is as good as INVALID_HANDLE.
  bool in_structure = false;
};

// Each function, once for every argument that is a handle.
std::vector<Call> all_calls();

}  // namespace conformance
