// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "checklist.h"
#include "harness.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

// Bad arguments of every function: the rob_ lines of checklist 10.12 of the semantics reference.
// (rob_layout is in tests/abi.)
namespace conformance {

namespace {

// The types of objects, in the order of World::live and World::stale.
enum Type { kIa, kCno, kEvd, kCr, kEp, kLmr, kRmr, kPz, kPsp, kRsp, kCsp, kSrq, kTypes };
constexpr const char* kTypeNames[] = {"IA",  "CNO", "EVD", "CR",  "EP",  "LMR",
                                      "RMR", "PZ",  "PSP", "RSP", "CSP", "SRQ"};

bool is_lacking(DAT_RETURN rc) {
  return DAT_GET_TYPE(rc) == DAT_MODEL_NOT_SUPPORTED ||
         DAT_GET_TYPE(rc) == static_cast<DAT_RETURN>(DAT_NOT_IMPLEMENTED);
}

// Objects of each type, as owners where the harness has them.
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

// A live handle of every type and a stale one, null where the IA lacks the type.
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

// A function with the handle to be tried in one of its places; everything else is good.
struct Call {
  const char* name;
  std::set<Type> takes;
  std::function<DAT_RETURN(World&, DAT_HANDLE)> run;
  bool null_is_legal = false;
  // INVALID_PARAMETER is as good as INVALID_HANDLE.
  bool in_structure = false;
};

const std::set<Type> kAnything{kIa, kCno, kEvd, kCr, kEp, kLmr, kRmr, kPz, kPsp, kRsp, kCsp, kSrq};
constexpr bool kNullIsLegal = true;
constexpr DAT_COMPLETION_FLAGS kDefault = DAT_COMPLETION_DEFAULT_FLAG;

void add_ia_calls(std::vector<Call>& calls) {
  const auto add = [&](const char* name, auto run) { calls.push_back({name, {kIa}, run}); };
  add("dat_ia_query",
      [](World&, DAT_HANDLE h) { return dat_ia_query(h, nullptr, 0, nullptr, 0, nullptr); });
  add("dat_ia_close",
      [](World&, DAT_HANDLE h) { return dat_ia_close(h, DAT_CLOSE_GRACEFUL_FLAG); });
  add("dat_pz_create", [](World& w, DAT_HANDLE h) { return dat_pz_create(h, &w.out); });
  add("dat_cno_create", [](World& w, DAT_HANDLE h) {
    return dat_cno_create(h, DAT_OS_WAIT_PROXY_AGENT_NULL, &w.out);
  });
  add("dat_cno_fd_create",
      [](World& w, DAT_HANDLE h) { return dat_cno_fd_create(h, &w.fd, &w.out); });
  add("dat_evd_create", [](World& w, DAT_HANDLE h) {
    return dat_evd_create(h, 8, DAT_HANDLE_NULL, DAT_EVD_SOFTWARE_FLAG, &w.out);
  });
  add("dat_ep_create", [](World& w, DAT_HANDLE h) {
    return dat_ep_create(h, DAT_HANDLE_NULL, DAT_HANDLE_NULL, DAT_HANDLE_NULL, DAT_HANDLE_NULL,
                         nullptr, &w.out);
  });
  add("dat_ep_create_with_srq", [](World& w, DAT_HANDLE h) {
    DAT_EP_ATTR attr = default_ep_attr(w.pair.ia);
    const End& e = w.objects.end;
    return dat_ep_create_with_srq(h, w.pair.pz, e.recv_evd, e.request_evd, e.connect_evd,
                                  w.objects.srq, &attr, &w.out);
  });
  add("dat_lmr_create", [](World& w, DAT_HANDLE h) {
    DAT_REGION_DESCRIPTION region{};
    region.for_va = w.objects.buffer.bytes.data();
    return dat_lmr_create(h, DAT_MEM_TYPE_VIRTUAL, region, 64, w.pair.pz, DAT_MEM_PRIV_ALL_FLAG,
                          DAT_VA_TYPE_VA, &w.out, nullptr, nullptr, nullptr, nullptr);
  });
  add("dat_lmr_sync_rdma_read", [](World& w, DAT_HANDLE h) {
    const DAT_LMR_TRIPLET segment = w.objects.buffer.local();
    return dat_lmr_sync_rdma_read(h, &segment, 1);
  });
  add("dat_lmr_sync_rdma_write", [](World& w, DAT_HANDLE h) {
    const DAT_LMR_TRIPLET segment = w.objects.buffer.local();
    return dat_lmr_sync_rdma_write(h, &segment, 1);
  });
  add("dat_psp_create", [](World& w, DAT_HANDLE h) {
    return dat_psp_create(h, fresh_conn_qual(), w.objects.evd, DAT_PSP_CONSUMER_FLAG, &w.out);
  });
  add("dat_psp_create_any", [](World& w, DAT_HANDLE h) {
    DAT_CONN_QUAL conn_qual = 0;
    return dat_psp_create_any(h, &conn_qual, w.objects.evd, DAT_PSP_CONSUMER_FLAG, &w.out);
  });
  add("dat_rsp_create", [](World& w, DAT_HANDLE h) {
    return dat_rsp_create(h, fresh_conn_qual(), w.objects.end.ep, w.objects.evd, &w.out);
  });
  add("dat_csp_create", [](World& w, DAT_HANDLE h) {
    const DAT_IA_ADDRESS_PTR address = w.objects.address();
    return dat_csp_create(h, &w.objects.comm, address, w.objects.evd, &w.out);
  });
  add("dat_srq_create", [](World& w, DAT_HANDLE h) {
    DAT_SRQ_ATTR attr{8, 1, DAT_SRQ_LW_DEFAULT};
    return dat_srq_create(h, w.pair.pz, &attr, &w.out);
  });
}

// Handles that are arguments of a dat_*_create.
void add_create_calls(std::vector<Call>& calls) {
  const auto ep_create = [](World& w, DAT_HANDLE pz, DAT_HANDLE recv, DAT_HANDLE request,
                            DAT_HANDLE connect) {
    return dat_ep_create(w.pair.ia, pz, recv, request, connect, nullptr, &w.out);
  };
  calls.push_back({"dat_evd_create, CNO",
                   {kCno},
                   [](World& w, DAT_HANDLE h) {
                     return dat_evd_create(w.pair.ia, 8, h, DAT_EVD_SOFTWARE_FLAG, &w.out);
                   },
                   kNullIsLegal});
  calls.push_back(
      {"dat_ep_create, PZ",
       {kPz},
       [=](World& w, DAT_HANDLE h) { return ep_create(w, h, nullptr, nullptr, nullptr); },
       kNullIsLegal});
  calls.push_back(
      {"dat_ep_create, receive EVD",
       {kEvd},
       [=](World& w, DAT_HANDLE h) { return ep_create(w, w.pair.pz, h, nullptr, nullptr); },
       kNullIsLegal});
  calls.push_back(
      {"dat_ep_create, request EVD",
       {kEvd},
       [=](World& w, DAT_HANDLE h) { return ep_create(w, w.pair.pz, nullptr, h, nullptr); },
       kNullIsLegal});
  calls.push_back(
      {"dat_ep_create, connect EVD",
       {kEvd},
       [=](World& w, DAT_HANDLE h) { return ep_create(w, w.pair.pz, nullptr, nullptr, h); },
       kNullIsLegal});
  calls.push_back({"dat_ep_create_with_srq, SRQ", {kSrq}, [](World& w, DAT_HANDLE h) {
                     DAT_EP_ATTR attr = default_ep_attr(w.pair.ia);
                     const End& e = w.objects.end;
                     return dat_ep_create_with_srq(w.pair.ia, w.pair.pz, e.recv_evd, e.request_evd,
                                                   e.connect_evd, h, &attr, &w.out);
                   }});
  calls.push_back({"dat_lmr_create, PZ", {kPz}, [](World& w, DAT_HANDLE h) {
                     DAT_REGION_DESCRIPTION region{};
                     region.for_va = w.objects.buffer.bytes.data();
                     return dat_lmr_create(w.pair.ia, DAT_MEM_TYPE_VIRTUAL, region, 64, h,
                                           DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &w.out, nullptr,
                                           nullptr, nullptr, nullptr);
                   }});
  calls.push_back({"dat_lmr_create, source", {kLmr}, [](World& w, DAT_HANDLE h) {
                     DAT_REGION_DESCRIPTION region{};
                     region.for_lmr_handle = h;
                     return dat_lmr_create(w.pair.ia, DAT_MEM_TYPE_LMR, region, 0, w.pair.pz,
                                           DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &w.out, nullptr,
                                           nullptr, nullptr, nullptr);
                   }});
  calls.push_back({"dat_srq_create, PZ", {kPz}, [](World& w, DAT_HANDLE h) {
                     DAT_SRQ_ATTR attr{8, 1, DAT_SRQ_LW_DEFAULT};
                     return dat_srq_create(w.pair.ia, h, &attr, &w.out);
                   }});
  calls.push_back(
      {"dat_rmr_create", {kPz}, [](World& w, DAT_HANDLE h) { return dat_rmr_create(h, &w.out); }});
  calls.push_back({"dat_rmr_create_for_ep", {kPz}, [](World& w, DAT_HANDLE h) {
                     return dat_rmr_create_for_ep(h, &w.out);
                   }});
  calls.push_back({"dat_psp_create, EVD", {kEvd}, [](World& w, DAT_HANDLE h) {
                     return dat_psp_create(w.pair.ia, fresh_conn_qual(), h, DAT_PSP_CONSUMER_FLAG,
                                           &w.out);
                   }});
  calls.push_back({"dat_psp_create_any, EVD", {kEvd}, [](World& w, DAT_HANDLE h) {
                     DAT_CONN_QUAL conn_qual = 0;
                     return dat_psp_create_any(w.pair.ia, &conn_qual, h, DAT_PSP_CONSUMER_FLAG,
                                               &w.out);
                   }});
  calls.push_back({"dat_rsp_create, EP",
                   {kEp},
                   [](World& w, DAT_HANDLE h) {
                     return dat_rsp_create(w.pair.ia, fresh_conn_qual(), h, w.objects.evd, &w.out);
                   },
                   kNullIsLegal});
  calls.push_back({"dat_rsp_create, EVD", {kEvd}, [](World& w, DAT_HANDLE h) {
                     return dat_rsp_create(w.pair.ia, fresh_conn_qual(), w.objects.end.ep, h,
                                           &w.out);
                   }});
  calls.push_back({"dat_csp_create, EVD", {kEvd}, [](World& w, DAT_HANDLE h) {
                     const DAT_IA_ADDRESS_PTR address = w.objects.address();
                     return dat_csp_create(w.pair.ia, &w.objects.comm, address, h, &w.out);
                   }});
}

void add_event_calls(std::vector<Call>& calls) {
  const auto cno = [&](const char* name, auto run) { calls.push_back({name, {kCno}, run}); };
  const auto evd = [&](const char* name, auto run) { calls.push_back({name, {kEvd}, run}); };
  cno("dat_cno_modify_agent",
      [](World&, DAT_HANDLE h) { return dat_cno_modify_agent(h, DAT_OS_WAIT_PROXY_AGENT_NULL); });
  cno("dat_cno_query", [](World&, DAT_HANDLE h) {
    DAT_CNO_PARAM param{};
    return dat_cno_query(h, DAT_CNO_FIELD_ALL, &param);
  });
  cno("dat_cno_wait", [](World& w, DAT_HANDLE h) { return dat_cno_wait(h, 0, &w.out); });
  cno("dat_cno_trigger", [](World& w, DAT_HANDLE h) { return dat_cno_trigger(h, &w.out); });
  cno("dat_cno_free", [](World&, DAT_HANDLE h) { return dat_cno_free(h); });
  evd("dat_evd_query", [](World&, DAT_HANDLE h) {
    DAT_EVD_PARAM param{};
    return dat_evd_query(h, DAT_EVD_FIELD_ALL, &param);
  });
  evd("dat_evd_modify_cno",
      [](World&, DAT_HANDLE h) { return dat_evd_modify_cno(h, DAT_HANDLE_NULL); });
  evd("dat_evd_enable", [](World&, DAT_HANDLE h) { return dat_evd_enable(h); });
  evd("dat_evd_disable", [](World&, DAT_HANDLE h) { return dat_evd_disable(h); });
  evd("dat_evd_set_unwaitable", [](World&, DAT_HANDLE h) { return dat_evd_set_unwaitable(h); });
  evd("dat_evd_clear_unwaitable", [](World&, DAT_HANDLE h) { return dat_evd_clear_unwaitable(h); });
  evd("dat_evd_wait",
      [](World& w, DAT_HANDLE h) { return dat_evd_wait(h, 0, 1, &w.event, &w.count); });
  evd("dat_evd_dequeue", [](World& w, DAT_HANDLE h) { return dat_evd_dequeue(h, &w.event); });
  evd("dat_evd_resize", [](World&, DAT_HANDLE h) { return dat_evd_resize(h, 16); });
  evd("dat_evd_post_se", [](World&, DAT_HANDLE h) {
    DAT_EVENT event{};
    event.event_number = DAT_SOFTWARE_EVENT;
    return dat_evd_post_se(h, &event);
  });
  evd("dat_evd_free", [](World&, DAT_HANDLE h) { return dat_evd_free(h); });
  calls.push_back({"dat_evd_modify_cno, CNO",
                   {kCno},
                   [](World& w, DAT_HANDLE h) { return dat_evd_modify_cno(w.objects.evd, h); },
                   kNullIsLegal});
}

void add_ep_calls(std::vector<Call>& calls) {
  const auto add = [&](const char* name, auto run) { calls.push_back({name, {kEp}, run}); };
  add("dat_ep_query", [](World&, DAT_HANDLE h) {
    DAT_EP_PARAM param{};
    return dat_ep_query(h, DAT_EP_FIELD_ALL, &param);
  });
  add("dat_ep_modify", [](World&, DAT_HANDLE h) {
    DAT_EP_PARAM param{};
    param.ep_attr.max_recv_iov = 1;
    return dat_ep_modify(h, DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV, &param);
  });
  add("dat_ep_get_status",
      [](World&, DAT_HANDLE h) { return dat_ep_get_status(h, nullptr, nullptr, nullptr); });
  add("dat_ep_connect", [](World& w, DAT_HANDLE h) {
    return dat_ep_connect(h, w.pair.ia.attr.ia_address_ptr, w.pair.conn_qual, kPatience, 0, nullptr,
                          DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
  });
  add("dat_ep_dup_connect", [](World& w, DAT_HANDLE h) {
    return dat_ep_dup_connect(h, w.objects.end.ep, kPatience, 0, nullptr, DAT_QOS_BEST_EFFORT);
  });
  add("dat_ep_dup_connect, dup", [](World& w, DAT_HANDLE h) {
    return dat_ep_dup_connect(w.objects.end.ep, h, kPatience, 0, nullptr, DAT_QOS_BEST_EFFORT);
  });
  add("dat_ep_common_connect", [](World& w, DAT_HANDLE h) {
    return dat_ep_common_connect(h, w.objects.address(), kPatience, 0, nullptr);
  });
  add("dat_ep_disconnect",
      [](World&, DAT_HANDLE h) { return dat_ep_disconnect(h, DAT_CLOSE_ABRUPT_FLAG); });
  add("dat_ep_reset", [](World&, DAT_HANDLE h) { return dat_ep_reset(h); });
  add("dat_ep_free", [](World&, DAT_HANDLE h) { return dat_ep_free(h); });
  add("dat_ep_recv_query",
      [](World& w, DAT_HANDLE h) { return dat_ep_recv_query(h, &w.count, &w.count); });
  add("dat_ep_set_watermark",
      [](World&, DAT_HANDLE h) { return dat_ep_set_watermark(h, 1, DAT_WATERMARK_INFINITE); });
  add("dat_cr_accept, EP",
      [](World& w, DAT_HANDLE h) { return dat_cr_accept(w.live[kCr], h, 0, nullptr); });
  using Field = std::pair<DAT_EP_PARAM_MASK, void (*)(DAT_EP_PARAM&, DAT_HANDLE)>;
  const auto modify = [&](const char* name, Type type, Field field) {
    calls.push_back({name,
                     {type},
                     [field](World& w, DAT_HANDLE h) {
                       DAT_EP_PARAM param{};
                       field.second(param, h);
                       return dat_ep_modify(w.objects.end.ep, field.first, &param);
                     },
                     true,
                     true});
  };
  modify("dat_ep_modify, PZ", kPz,
         {DAT_EP_FIELD_PZ_HANDLE, [](DAT_EP_PARAM& p, DAT_HANDLE h) { p.pz_handle = h; }});
  modify(
      "dat_ep_modify, receive EVD", kEvd,
      {DAT_EP_FIELD_RECV_EVD_HANDLE, [](DAT_EP_PARAM& p, DAT_HANDLE h) { p.recv_evd_handle = h; }});
  modify("dat_ep_modify, request EVD", kEvd,
         {DAT_EP_FIELD_REQUEST_EVD_HANDLE,
          [](DAT_EP_PARAM& p, DAT_HANDLE h) { p.request_evd_handle = h; }});
  modify("dat_ep_modify, connect EVD", kEvd,
         {DAT_EP_FIELD_CONNECT_EVD_HANDLE,
          [](DAT_EP_PARAM& p, DAT_HANDLE h) { p.connect_evd_handle = h; }});
}

void add_post_calls(std::vector<Call>& calls) {
  const auto add = [&](const char* name, auto run) { calls.push_back({name, {kEp}, run}); };
  add("dat_ep_post_send", [](World& w, DAT_HANDLE h) {
    DAT_LMR_TRIPLET segment = w.objects.buffer.local();
    return dat_ep_post_send(h, 1, &segment, cookie(1), kDefault);
  });
  add("dat_ep_post_send_with_invalidate", [](World& w, DAT_HANDLE h) {
    DAT_LMR_TRIPLET segment = w.objects.buffer.local();
    return dat_ep_post_send_with_invalidate(h, 1, &segment, cookie(1), kDefault, DAT_FALSE, 0);
  });
  add("dat_ep_post_recv", [](World& w, DAT_HANDLE h) {
    DAT_LMR_TRIPLET segment = w.objects.buffer.local();
    return dat_ep_post_recv(h, 1, &segment, cookie(1), kDefault);
  });
  add("dat_ep_post_rdma_read", [](World& w, DAT_HANDLE h) {
    DAT_LMR_TRIPLET segment = w.objects.buffer.local();
    const DAT_RMR_TRIPLET remote = w.objects.buffer.remote(64);
    return dat_ep_post_rdma_read(h, 1, &segment, cookie(1), &remote, kDefault);
  });
  add("dat_ep_post_rdma_read_to_rmr", [](World& w, DAT_HANDLE h) {
    const DAT_RMR_TRIPLET remote = w.objects.buffer.remote(64);
    return dat_ep_post_rdma_read_to_rmr(h, &remote, cookie(1), &remote, kDefault);
  });
  add("dat_ep_post_rdma_write", [](World& w, DAT_HANDLE h) {
    DAT_LMR_TRIPLET segment = w.objects.buffer.local();
    const DAT_RMR_TRIPLET remote = w.objects.buffer.remote(64);
    return dat_ep_post_rdma_write(h, 1, &segment, cookie(1), &remote, kDefault);
  });
  const auto bind = [](World& w, DAT_HANDLE rmr, DAT_HANDLE lmr, DAT_HANDLE ep) {
    const DAT_LMR_TRIPLET range = w.objects.buffer.local();
    return dat_rmr_bind(rmr, lmr, &range, DAT_MEM_PRIV_REMOTE_READ_FLAG, DAT_VA_TYPE_VA, ep,
                        cookie(1), kDefault, &w.rmr_context);
  };
  calls.push_back({"dat_rmr_bind", {kRmr}, [=](World& w, DAT_HANDLE h) {
                     return bind(w, h, w.objects.buffer.lmr, w.objects.end.ep);
                   }});
  calls.push_back({"dat_rmr_bind, LMR", {kLmr}, [=](World& w, DAT_HANDLE h) {
                     return bind(w, w.objects.rmr, h, w.objects.end.ep);
                   }});
  calls.push_back({"dat_rmr_bind, EP", {kEp}, [=](World& w, DAT_HANDLE h) {
                     return bind(w, w.objects.rmr, w.objects.buffer.lmr, h);
                   }});
  calls.push_back({"dat_srq_post_recv", {kSrq}, [](World& w, DAT_HANDLE h) {
                     DAT_LMR_TRIPLET segment = w.objects.buffer.local();
                     return dat_srq_post_recv(h, 1, &segment, cookie(1));
                   }});
}

// The query function of a type.
template <class Param, class Mask>
Call query_of(const char* name, Type type, DAT_RETURN (*query)(DAT_HANDLE, Mask, Param*),
              Mask mask) {
  return {name, {type}, [=](World&, DAT_HANDLE h) {
            Param param{};
            return query(h, mask, &param);
          }};
}

void add_other_calls(std::vector<Call>& calls) {
  const auto add = [&](const char* name, Type type, auto run) {
    calls.push_back({name, {type}, run});
  };
  calls.push_back(query_of("dat_pz_query", kPz, dat_pz_query, DAT_PZ_FIELD_ALL));
  calls.push_back(query_of("dat_lmr_query", kLmr, dat_lmr_query, DAT_LMR_FIELD_ALL));
  calls.push_back(query_of("dat_rmr_query", kRmr, dat_rmr_query, DAT_RMR_FIELD_ALL));
  calls.push_back(query_of("dat_psp_query", kPsp, dat_psp_query, DAT_PSP_FIELD_ALL));
  calls.push_back(query_of("dat_rsp_query", kRsp, dat_rsp_query, DAT_RSP_FIELD_ALL));
  calls.push_back(query_of("dat_csp_query", kCsp, dat_csp_query, DAT_CSP_FIELD_ALL));
  calls.push_back(query_of("dat_cr_query", kCr, dat_cr_query, DAT_CR_FIELD_ALL));
  calls.push_back(query_of("dat_srq_query", kSrq, dat_srq_query, DAT_SRQ_FIELD_ALL));
  add("dat_pz_free", kPz, [](World&, DAT_HANDLE h) { return dat_pz_free(h); });
  add("dat_lmr_free", kLmr, [](World&, DAT_HANDLE h) { return dat_lmr_free(h); });
  add("dat_rmr_free", kRmr, [](World&, DAT_HANDLE h) { return dat_rmr_free(h); });
  add("dat_psp_free", kPsp, [](World&, DAT_HANDLE h) { return dat_psp_free(h); });
  add("dat_rsp_free", kRsp, [](World&, DAT_HANDLE h) { return dat_rsp_free(h); });
  add("dat_csp_free", kCsp, [](World&, DAT_HANDLE h) { return dat_csp_free(h); });
  add("dat_srq_free", kSrq, [](World&, DAT_HANDLE h) { return dat_srq_free(h); });
  add("dat_srq_resize", kSrq, [](World&, DAT_HANDLE h) { return dat_srq_resize(h, 16); });
  add("dat_srq_set_lw", kSrq, [](World&, DAT_HANDLE h) { return dat_srq_set_lw(h, 1); });
  add("dat_cr_accept", kCr,
      [](World& w, DAT_HANDLE h) { return dat_cr_accept(h, w.objects.end.ep, 0, nullptr); });
  add("dat_cr_reject", kCr, [](World&, DAT_HANDLE h) { return dat_cr_reject(h, 0, nullptr); });
  add("dat_cr_handoff", kCr,
      [](World& w, DAT_HANDLE h) { return dat_cr_handoff(h, w.pair.conn_qual); });
  calls.push_back({"dat_set_consumer_context", kAnything,
                   [](World& w, DAT_HANDLE h) { return dat_set_consumer_context(h, w.context); }});
  calls.push_back({"dat_get_consumer_context", kAnything,
                   [](World& w, DAT_HANDLE h) { return dat_get_consumer_context(h, &w.context); }});
  calls.push_back({"dat_get_handle_type", kAnything, [](World&, DAT_HANDLE h) {
                     DAT_HANDLE_TYPE type{};
                     return dat_get_handle_type(h, &type);
                   }});
}

std::vector<Call> all_calls() {
  std::vector<Call> calls;
  add_ia_calls(calls);
  add_create_calls(calls);
  add_event_calls(calls);
  add_ep_calls(calls);
  add_post_calls(calls);
  add_other_calls(calls);
  return calls;
}

// The handle must be refused. Functions for what the IA lacks may say that instead.
void expect_refused(const Call& call, World& world, DAT_HANDLE handle, const std::string& what) {
  const DAT_RETURN rc = call.run(world, handle);
  const bool refused =
      DAT_GET_TYPE(rc) == static_cast<DAT_RETURN>(DAT_INVALID_HANDLE) || is_lacking(rc) ||
      (call.in_structure && DAT_GET_TYPE(rc) == static_cast<DAT_RETURN>(DAT_INVALID_PARAMETER));
  BOOST_CHECK_MESSAGE(refused, call.name << " of " << what << " -> " << describe(rc));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(robustness)

BOOST_AUTO_TEST_CASE(rob_fuzz_handles_null, *covers("rob_fuzz_handles")) {
  World world;
  for (const Call& call : all_calls())
    if (!call.null_is_legal) expect_refused(call, world, DAT_HANDLE_NULL, "null");
}

BOOST_AUTO_TEST_CASE(rob_fuzz_handles_wrong_type) {
  World world;
  for (const Call& call : all_calls())
    for (int type = 0; type < kTypes; ++type)
      if (call.takes.count(static_cast<Type>(type)) == 0 && world.live[type] != DAT_HANDLE_NULL)
        expect_refused(call, world, world.live[type],
                       std::string("the handle of a ") + kTypeNames[type]);
}

BOOST_AUTO_TEST_CASE(rob_fuzz_handles_stale) {
  World world;
  for (const Call& call : all_calls())
    for (const Type type : call.takes)
      if (world.stale[type] != DAT_HANDLE_NULL)
        expect_refused(call, world, world.stale[type],
                       std::string("a handle that was freed: ") + kTypeNames[type]);
}

// Small numbers, as IA handles are, that name nothing; among them DAT_EVD_OUT_OF_SCOPE.
BOOST_AUTO_TEST_CASE(rob_fuzz_handles_numbers) {
  World world;
  for (const Call& call : all_calls())
    for (const std::uintptr_t number : {2U, 63U, 1000U, 4095U}) {
      const auto handle = reinterpret_cast<DAT_HANDLE>(number);
      DAT_HANDLE_TYPE type{};
      if (dat_get_handle_type(handle, &type) == DAT_SUCCESS) continue;  // an IA of this process
      expect_refused(call, world, handle, "the number " + std::to_string(number));
    }
}

BOOST_AUTO_TEST_CASE(rob_invalid_enum_values) {
  Pair pair;
  Buffer buffer(pair.ia, pair.pz, 64);
  DAT_HANDLE out = DAT_HANDLE_NULL;
  DAT_LMR_TRIPLET segment = buffer.local();
  const DAT_RMR_TRIPLET remote = buffer.remote(64);
  pair.connect();
  const DAT_EP_HANDLE ep = pair.active.ep;
  for (const unsigned value : {0x40U, 0x80U, 0x12345600U, 0x80000000U, 0xFFFFFFFFU}) {
    BOOST_TEST_CONTEXT("value 0x" << std::hex << value) {
      CHECK_TYPE(dat_ia_close(pair.ia, not_an_enumerator<DAT_CLOSE_FLAGS>(value)),
                 DAT_INVALID_PARAMETER);
      CHECK_TYPE(dat_ep_disconnect(ep, not_an_enumerator<DAT_CLOSE_FLAGS>(value)),
                 DAT_INVALID_PARAMETER);
      const auto flags = not_an_enumerator<DAT_COMPLETION_FLAGS>(value);
      CHECK_TYPE(dat_ep_post_send(ep, 1, &segment, cookie(1), flags), DAT_INVALID_PARAMETER);
      CHECK_TYPE(dat_ep_post_recv(ep, 1, &segment, cookie(1), flags), DAT_INVALID_PARAMETER);
      CHECK_TYPE(dat_ep_post_rdma_read(ep, 1, &segment, cookie(1), &remote, flags),
                 DAT_INVALID_PARAMETER);
      CHECK_TYPE(dat_ep_post_rdma_write(ep, 1, &segment, cookie(1), &remote, flags),
                 DAT_INVALID_PARAMETER);
      CHECK_TYPE_OR(
          dat_ep_post_send_with_invalidate(ep, 1, &segment, cookie(1), flags, DAT_FALSE, 0),
          DAT_INVALID_PARAMETER, DAT_MODEL_NOT_SUPPORTED);
      CHECK_TYPE(dat_psp_create(pair.ia, fresh_conn_qual(), pair.cr_evd,
                                not_an_enumerator<DAT_PSP_FLAGS>(value), &out),
                 DAT_INVALID_PARAMETER);
      DAT_REGION_DESCRIPTION region{};
      region.for_va = buffer.bytes.data();
      const auto lmr_create = [&](DAT_MEM_TYPE type, DAT_MEM_PRIV_FLAGS privileges,
                                  DAT_VA_TYPE va_type) {
        return dat_lmr_create(pair.ia, type, region, 64, pair.pz, privileges, va_type, &out,
                              nullptr, nullptr, nullptr, nullptr);
      };
      CHECK_TYPE(
          lmr_create(not_an_enumerator<DAT_MEM_TYPE>(value), DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA),
          DAT_INVALID_PARAMETER);
      CHECK_TYPE_OR(lmr_create(DAT_MEM_TYPE_VIRTUAL, DAT_MEM_PRIV_ALL_FLAG,
                               not_an_enumerator<DAT_VA_TYPE>(value)),
                    DAT_INVALID_PARAMETER, DAT_MODEL_NOT_SUPPORTED);
      if (value != 0x40U)  // the privilege for remote atomics
        CHECK_TYPE(lmr_create(DAT_MEM_TYPE_VIRTUAL, not_an_enumerator<DAT_MEM_PRIV_FLAGS>(value),
                              DAT_VA_TYPE_VA),
                   DAT_INVALID_PARAMETER);
      if (value > 0x1000U)  // beyond the streams
        CHECK_TYPE(dat_evd_create(pair.ia, 8, DAT_HANDLE_NULL,
                                  not_an_enumerator<DAT_EVD_FLAGS>(value), &out),
                   DAT_INVALID_PARAMETER);
      End idle;
      idle.create(pair.ia, pair.pz, nullptr);
      const auto connect = [&](DAT_QOS qos, DAT_CONNECT_FLAGS how) {
        return dat_ep_connect(idle.ep, pair.ia.attr.ia_address_ptr, pair.conn_qual, kPatience, 0,
                              nullptr, qos, how);
      };
      CHECK_TYPE_OR(connect(not_an_enumerator<DAT_QOS>(value), DAT_CONNECT_DEFAULT_FLAG),
                    DAT_INVALID_PARAMETER, DAT_MODEL_NOT_SUPPORTED);
      CHECK_TYPE(connect(DAT_QOS_BEST_EFFORT, not_an_enumerator<DAT_CONNECT_FLAGS>(value)),
                 DAT_INVALID_PARAMETER);
      BOOST_CHECK_EQUAL(ep_state(idle.ep), DAT_EP_STATE_UNCONNECTED);
    }
  }
  BOOST_CHECK_EQUAL(ep_state(ep), DAT_EP_STATE_CONNECTED);
  // Masks with bits that no field has.
  const auto beyond = [](auto mask) {
    return not_an_enumerator<decltype(mask)>(static_cast<unsigned>(mask) | 0x40000000U);
  };
  DAT_EVD_PARAM evd_param{};
  CHECK_TYPE(dat_evd_query(pair.cr_evd, beyond(DAT_EVD_FIELD_ALL), &evd_param),
             DAT_INVALID_PARAMETER);
  DAT_PZ_PARAM pz_param{};
  CHECK_TYPE(dat_pz_query(pair.pz, beyond(DAT_PZ_FIELD_ALL), &pz_param), DAT_INVALID_PARAMETER);
  DAT_LMR_PARAM lmr_param{};
  CHECK_TYPE(dat_lmr_query(buffer.lmr, beyond(DAT_LMR_FIELD_ALL), &lmr_param),
             DAT_INVALID_PARAMETER);
  DAT_PSP_PARAM psp_param{};
  CHECK_TYPE(dat_psp_query(pair.psp, beyond(DAT_PSP_FIELD_ALL), &psp_param), DAT_INVALID_PARAMETER);
}

// Every descriptor that the provider opens is closed in a program that the application starts.
BOOST_AUTO_TEST_CASE(rob_fork_exec) {
  const auto descriptors = [] {
    std::set<int> result;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
      result.insert(std::atoi(entry.path().filename().c_str()));
    return result;
  };
  const std::set<int> before = descriptors();
  Pair pair;
  pair.connect();
  Cno cno;
  DAT_FD fd = -1;
  const DAT_RETURN rc = dat_cno_fd_create(pair.ia, &fd, cno.out());
  BOOST_CHECK(rc == DAT_SUCCESS || is_lacking(rc));
  int opened = 0;
  for (const int descriptor : descriptors()) {
    const int flags = ::fcntl(descriptor, F_GETFD);
    if (before.count(descriptor) != 0 || flags == -1) continue;  // not ours, or of the listing
    ++opened;
    BOOST_CHECK_MESSAGE((flags & FD_CLOEXEC) != 0,
                        "descriptor " << descriptor << " is inherited: "
                                      << std::filesystem::read_symlink("/proc/self/fd/" +
                                                                       std::to_string(descriptor)));
  }
  if (fd >= 0) BOOST_CHECK_GE(opened, 1);
}

BOOST_AUTO_TEST_CASE(rob_stub_entries, *covers("ofa_1_stubs_exported")) {
  // All functions of the API are exported, those of 2.0 that other libraries lack too.
  for (const char* const name : {"dat_cno_create",
                                 "dat_cno_fd_create",
                                 "dat_cno_free",
                                 "dat_cno_modify_agent",
                                 "dat_cno_query",
                                 "dat_cno_trigger",
                                 "dat_cno_wait",
                                 "dat_cr_accept",
                                 "dat_cr_handoff",
                                 "dat_cr_query",
                                 "dat_cr_reject",
                                 "dat_csp_create",
                                 "dat_csp_free",
                                 "dat_csp_query",
                                 "dat_ep_common_connect",
                                 "dat_ep_connect",
                                 "dat_ep_create",
                                 "dat_ep_create_with_srq",
                                 "dat_ep_disconnect",
                                 "dat_ep_dup_connect",
                                 "dat_ep_free",
                                 "dat_ep_get_status",
                                 "dat_ep_modify",
                                 "dat_ep_post_rdma_read",
                                 "dat_ep_post_rdma_read_to_rmr",
                                 "dat_ep_post_rdma_write",
                                 "dat_ep_post_recv",
                                 "dat_ep_post_send",
                                 "dat_ep_post_send_with_invalidate",
                                 "dat_ep_query",
                                 "dat_ep_recv_query",
                                 "dat_ep_reset",
                                 "dat_ep_set_watermark",
                                 "dat_evd_clear_unwaitable",
                                 "dat_evd_create",
                                 "dat_evd_dequeue",
                                 "dat_evd_disable",
                                 "dat_evd_enable",
                                 "dat_evd_free",
                                 "dat_evd_modify_cno",
                                 "dat_evd_post_se",
                                 "dat_evd_query",
                                 "dat_evd_resize",
                                 "dat_evd_set_unwaitable",
                                 "dat_evd_wait",
                                 "dat_extension_op",
                                 "dat_get_consumer_context",
                                 "dat_get_handle_type",
                                 "dat_ia_close",
                                 "dat_ia_openv",
                                 "dat_ia_query",
                                 "dat_lmr_create",
                                 "dat_lmr_free",
                                 "dat_lmr_query",
                                 "dat_lmr_sync_rdma_read",
                                 "dat_lmr_sync_rdma_write",
                                 "dat_psp_create",
                                 "dat_psp_create_any",
                                 "dat_psp_free",
                                 "dat_psp_query",
                                 "dat_pz_create",
                                 "dat_pz_free",
                                 "dat_pz_query",
                                 "dat_registry_add_provider",
                                 "dat_registry_list_providers",
                                 "dat_registry_providers_related",
                                 "dat_registry_remove_provider",
                                 "dat_rmr_bind",
                                 "dat_rmr_create",
                                 "dat_rmr_create_for_ep",
                                 "dat_rmr_free",
                                 "dat_rmr_query",
                                 "dat_rsp_create",
                                 "dat_rsp_free",
                                 "dat_rsp_query",
                                 "dat_set_consumer_context",
                                 "dat_srq_create",
                                 "dat_srq_free",
                                 "dat_srq_post_recv",
                                 "dat_srq_query",
                                 "dat_srq_resize",
                                 "dat_srq_set_lw",
                                 "dat_strerror"})
    BOOST_CHECK_MESSAGE(::dlsym(RTLD_DEFAULT, name) != nullptr, name << " is not exported");
}

// What an IA says it lacks, and nothing else, is refused as lacking.
BOOST_AUTO_TEST_CASE(rob_lacking_is_consistent) {
  Pair pair;
  Rmr rmr;
  BOOST_CHECK_EQUAL(is_lacking(dat_rmr_create(pair.pz, rmr.out())), pair.ia.attr.max_rmrs == 0);
  Srq srq;
  DAT_SRQ_ATTR attr{8, 1, DAT_SRQ_LW_DEFAULT};
  BOOST_CHECK_EQUAL(is_lacking(dat_srq_create(pair.ia, pair.pz, &attr, srq.out())),
                    pair.ia.attr.max_srqs == 0);
  DAT_COUNT count = 0;
  BOOST_CHECK_EQUAL(is_lacking(dat_ep_recv_query(pair.active.ep, &count, &count)),
                    pair.ia.provider().ep_recv_info_supported == 0);
  BOOST_CHECK_EQUAL(is_lacking(dat_ep_set_watermark(pair.active.ep, DAT_WATERMARK_INFINITE, 4)),
                    (pair.ia.provider().srq_watermarks_supported & 6) == 0);
  if (srq != DAT_HANDLE_NULL)
    BOOST_CHECK_EQUAL(is_lacking(dat_srq_set_lw(srq, 1)),
                      (pair.ia.provider().srq_watermarks_supported & 1) == 0);
  // No provider has these operations.
  for (const int operation : {0x0800, 0x0FFF, 0x7FFF0FFF})
    BOOST_CHECK(
        is_lacking(dat_extension_op(pair.active.ep, static_cast<DAT_EXTENDED_OP>(operation))));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
