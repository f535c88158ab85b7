// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "handle_calls.h"

namespace conformance {

namespace {

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

// Calls with handles as arguments of dat_*_create.
void add_ep_and_evd_creates(std::vector<Call>& calls) {
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
}

void add_memory_creates(std::vector<Call>& calls) {
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
}

void add_service_point_creates(std::vector<Call>& calls) {
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
  evd("dat_evd_post_se", [](World&, DAT_HANDLE h) { return post_software(h); });
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

}  // namespace

std::vector<Call> all_calls() {
  std::vector<Call> calls;
  add_ia_calls(calls);
  add_ep_and_evd_creates(calls);
  add_memory_creates(calls);
  add_service_point_creates(calls);
  add_event_calls(calls);
  add_ep_calls(calls);
  add_post_calls(calls);
  add_other_calls(calls);
  return calls;
}

}  // namespace conformance
