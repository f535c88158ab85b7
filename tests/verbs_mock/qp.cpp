// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Queue pairs and shared receive queues: life, states and posts.
#include "device.h"

#include "mock_control.h"

#include <algorithm>
#include <cerrno>

namespace verbs_mock {

namespace {

constexpr int kInitMask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kRtrMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                         IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kRtsMask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                         IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

// Whether the transition is legal and all attributes that it requires are in `mask`.
[[nodiscard]] bool legal(ibv_qp_state from, ibv_qp_state to, int mask) {
  const auto has = [mask](int needed) { return (mask & needed) == needed; };
  switch (to) {
    case IBV_QPS_RESET:
    case IBV_QPS_ERR:
      return true;
    case IBV_QPS_INIT:
      return from == IBV_QPS_INIT || (from == IBV_QPS_RESET && has(kInitMask));
    case IBV_QPS_RTR:
      return from == IBV_QPS_INIT && has(kRtrMask);
    case IBV_QPS_RTS:
      return from == IBV_QPS_RTS || (from == IBV_QPS_RTR && has(kRtsMask));
    default:
      return false;
  }
}

void note(ibv_qp_attr& all, const ibv_qp_attr& some, int mask) {
  if ((mask & IBV_QP_PKEY_INDEX) != 0) all.pkey_index = some.pkey_index;
  if ((mask & IBV_QP_PORT) != 0) all.port_num = some.port_num;
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0) all.qp_access_flags = some.qp_access_flags;
  if ((mask & IBV_QP_AV) != 0) all.ah_attr = some.ah_attr;
  if ((mask & IBV_QP_PATH_MTU) != 0) all.path_mtu = some.path_mtu;
  if ((mask & IBV_QP_DEST_QPN) != 0) all.dest_qp_num = some.dest_qp_num;
  if ((mask & IBV_QP_RQ_PSN) != 0) all.rq_psn = some.rq_psn;
  if ((mask & IBV_QP_SQ_PSN) != 0) all.sq_psn = some.sq_psn;
  if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0) all.max_dest_rd_atomic = some.max_dest_rd_atomic;
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0) all.max_rd_atomic = some.max_rd_atomic;
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0) all.min_rnr_timer = some.min_rnr_timer;
  if ((mask & IBV_QP_TIMEOUT) != 0) all.timeout = some.timeout;
  if ((mask & IBV_QP_RETRY_CNT) != 0) all.retry_cnt = some.retry_cnt;
  if ((mask & IBV_QP_RNR_RETRY) != 0) all.rnr_retry = some.rnr_retry;
}

ibv_qp* create(ibv_context* context, ibv_pd* pd, void* qp_context, ibv_cq* send_cq, ibv_cq* recv_cq,
               ibv_srq* srq, const ibv_qp_cap& cap, ibv_qp_type type, bool all_signalled) {
  if (type != IBV_QPT_RC || cap.max_send_wr > kMaxWr || cap.max_recv_wr > kMaxWr ||
      cap.max_send_sge > kMaxSge || cap.max_recv_sge > kMaxSge ||
      cap.max_inline_data > kMaxInline) {
    errno = type == IBV_QPT_RC ? EINVAL : EOPNOTSUPP;
    return nullptr;
  }
  auto* const qp = new Qp{};
  qp->context = context;
  qp->qp_context = qp_context;
  qp->pd = pd;
  qp->send_cq = send_cq;
  qp->recv_cq = recv_cq;
  qp->srq = srq;
  qp->qp_type = type;
  qp->state = IBV_QPS_RESET;
  qp->cap = cap;
  qp->all_signalled = all_signalled;
  const Lock lock(device().mutex);
  qp->handle = device().next_handle++;
  qp->qp_num = device().next_qp++;
  device().qps.emplace(qp->qp_num, qp);
  ++static_cast<Pd*>(pd)->uses;
  ++Cq::of(send_cq).uses;
  ++Cq::of(recv_cq).uses;
  if (srq != nullptr) ++static_cast<Srq*>(srq)->uses;
  verbs_mock_count(Kind::kQp, 1);
  return qp;
}

// Removes the completions of a QP that is reset or destroyed.
void purge(Cq& cq, std::uint32_t qp_num) {
  std::uint32_t kept = cq.head;
  for (std::uint32_t i = cq.head; i != cq.tail; ++i)
    if (cq.ring[i & cq.mask].qp_num != qp_num) cq.ring[kept++ & cq.mask] = cq.ring[i & cq.mask];
  cq.tail = kept;
}

void clear(Qp& qp) {
  qp.requests.clear();
  qp.receives.clear();
  purge(Cq::of(qp.send_cq), qp.qp_num);
  purge(Cq::of(qp.recv_cq), qp.qp_num);
}

int check_request(const Qp& qp, const ibv_send_wr& wr) {
  if (qp.now != IBV_QPS_RTS && qp.now != IBV_QPS_ERR) return EINVAL;
  if (qp.requests.size() >= qp.cap.max_send_wr) return ENOMEM;
  if (wr.num_sge < 0 || static_cast<std::uint32_t>(wr.num_sge) > qp.cap.max_send_sge) return EINVAL;
  if ((wr.send_flags & IBV_SEND_INLINE) == 0) return 0;
  if (wr.opcode != IBV_WR_SEND && wr.opcode != IBV_WR_SEND_WITH_IMM &&
      wr.opcode != IBV_WR_SEND_WITH_INV && wr.opcode != IBV_WR_RDMA_WRITE &&
      wr.opcode != IBV_WR_RDMA_WRITE_WITH_IMM)
    return EINVAL;
  std::uint64_t bytes = 0;
  for (int i = 0; i < wr.num_sge; ++i) bytes += wr.sg_list[i].length;
  return bytes <= qp.cap.max_inline_data ? 0 : EINVAL;
}

[[nodiscard]] Request copy(const ibv_send_wr& wr) {
  Request request{wr, {wr.sg_list, wr.sg_list + wr.num_sge}, {}};
  request.wr.next = nullptr;
  if (wr.opcode == IBV_WR_BIND_MW) request.window_key = wr.bind_mw.mw->rkey;
  if ((wr.send_flags & IBV_SEND_INLINE) != 0) {
    for (const ibv_sge& segment : request.segments) {
      const auto* const from = reinterpret_cast<const std::byte*>(segment.addr);
      request.data.insert(request.data.end(), from, from + segment.length);
    }
    request.segments.clear();
  }
  return request;
}

int post_send(ibv_qp* handle, ibv_send_wr* wr, ibv_send_wr** bad) {
  Qp& qp = *static_cast<Qp*>(handle);
  for (; wr != nullptr; wr = wr->next) {
    *bad = wr;
    if (verbs_mock_fault("post_send", ENOMEM)) return ENOMEM;
    const Lock lock(device().mutex);
    const int error = check_request(qp, *wr);
    if (error != 0) return error;
    qp.requests.push_back(copy(*wr));
    if (qp.now == IBV_QPS_ERR)
      break_qp(qp);
    else
      advance(qp);
  }
  return 0;
}

// Checks the number of segments of a receive. libsiw requires one, and negates its errors.
[[nodiscard]] int check_segments(const ibv_recv_wr& wr, std::uint32_t most) {
  if (verbs_mock_is_siw() && wr.num_sge == 0) return -EINVAL;
  return wr.num_sge < 0 || static_cast<std::uint32_t>(wr.num_sge) > most ? EINVAL : 0;
}

int post_recv(ibv_qp* handle, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  Qp& qp = *static_cast<Qp*>(handle);
  for (; wr != nullptr; wr = wr->next) {
    *bad = wr;
    if (verbs_mock_fault("post_recv", ENOMEM)) return ENOMEM;
    hold_at(VERBS_MOCK_HOLD_BEFORE);
    const Lock lock(device().mutex);
    if (qp.now == IBV_QPS_RESET || qp.srq != nullptr) return EINVAL;
    if (const int error = check_segments(*wr, qp.cap.max_recv_sge); error != 0) return error;
    if (qp.receives.size() >= qp.cap.max_recv_wr) return ENOMEM;
    qp.receives.push_back({wr->wr_id, {wr->sg_list, wr->sg_list + wr->num_sge}});
    if (qp.now != IBV_QPS_ERR)
      wake_senders(qp);
    else if (!flushes_lazily())
      break_qp(qp);
  }
  return 0;
}

int post_srq_recv(ibv_srq* handle, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  Srq& srq = *static_cast<Srq*>(handle);
  for (; wr != nullptr; wr = wr->next) {
    *bad = wr;
    if (verbs_mock_fault("post_srq_recv", ENOMEM)) return ENOMEM;
    {
      const Lock lock(device().mutex);
      if (const int error = check_segments(*wr, srq.max_sge); error != 0) return error;
      if (srq.receives.size() >= srq.max_wr) return ENOMEM;
      srq.receives.push_back({wr->wr_id, {wr->sg_list, wr->sg_list + wr->num_sge}});
      for (const auto& [number, qp] : device().qps)
        if (qp->srq == handle) wake_senders(*qp);
    }
    hold_at(VERBS_MOCK_HOLD_AFTER);
  }
  return 0;
}

}  // namespace

const DataPath kWorks = {&post_send, &post_recv, &post_srq_recv, &poll_cq, &request_notification};

int bind_mw(ibv_qp* handle, ibv_mw* mw, ibv_mw_bind* request) {
  if (verbs_mock_fault("bind_mw", ENOMEM)) return ENOMEM;
  if (mw->type != IBV_MW_TYPE_1) return EINVAL;
  Qp& qp = *static_cast<Qp*>(handle);
  ibv_send_wr wr{};
  wr.wr_id = request->wr_id;
  wr.opcode = IBV_WR_BIND_MW;
  wr.send_flags = request->send_flags;
  wr.bind_mw.mw = mw;
  wr.bind_mw.bind_info = request->bind_info;
  const Lock lock(device().mutex);
  const int error = check_request(qp, wr);
  if (error != 0) return error;
  wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
  qp.requests.push_back(copy(wr));
  if (qp.now == IBV_QPS_ERR)
    break_qp(qp);
  else
    advance(qp);
  mw->rkey = wr.bind_mw.rkey;  // whatever becomes of the request
  return 0;
}

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* init) {
  VERBS_MOCK_FAULT(ENOMEM, nullptr);
  constexpr std::uint32_t kKnown = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
  if ((init->comp_mask & ~kKnown) != 0 || (init->comp_mask & IBV_QP_INIT_ATTR_PD) == 0 ||
      ((init->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && init->create_flags != 0)) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  return create(context, init->pd, init->qp_context, init->send_cq, init->recv_cq, init->srq,
                init->cap, init->qp_type, init->sq_sig_all != 0);
}

}  // namespace verbs_mock

using namespace verbs_mock;

extern "C" {

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* init) {
  VERBS_MOCK_FAULT(ENOMEM, nullptr);
  return create(pd->context, pd, init->qp_context, init->send_cq, init->recv_cq, init->srq,
                init->cap, init->qp_type, init->sq_sig_all != 0);
}

// Devices may wait here for ever until no type 2 window is bound through the QP.
int ibv_destroy_qp(ibv_qp* handle) {
  Qp& qp = *static_cast<Qp*>(handle);
  Lock lock(device().mutex);
  for (const auto& [index, window] : device().windows)
    if (window->bound != nullptr && window->region.qp_num == qp.qp_num) return EBUSY;
  drain_events(lock, qp.context, qp);
  clear(qp);
  device().qps.erase(qp.qp_num);
  --static_cast<Pd*>(qp.pd)->uses;
  --Cq::of(qp.send_cq).uses;
  --Cq::of(qp.recv_cq).uses;
  if (qp.srq != nullptr) --static_cast<Srq*>(qp.srq)->uses;
  delete &qp;
  verbs_mock_count(Kind::kQp, -1);
  return 0;
}

int ibv_modify_qp(ibv_qp* handle, ibv_qp_attr* attr, int mask) {
  VERBS_MOCK_FAULT(ENOMEM, ENOMEM);
  Qp& qp = *static_cast<Qp*>(handle);
  const Lock lock(device().mutex);
  const ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? attr->qp_state : qp.now;
  if (!legal(qp.now, to, mask)) return EINVAL;
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0 && attr->max_rd_atomic > kMaxReads) return EINVAL;
  if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0 && attr->max_dest_rd_atomic > kMaxReads)
    return EINVAL;
  if ((mask & IBV_QP_PATH_MTU) != 0 && attr->path_mtu > kActiveMtu) return EINVAL;
  note(qp.attr, *attr, mask);
  if (to == IBV_QPS_ERR) {
    qp.now = qp.state = to;
    break_qp(qp);
    return 0;
  }
  if (to == IBV_QPS_RESET) {
    clear(qp);
    qp.drained = false;
  }
  qp.now = qp.state = to;
  if (to == IBV_QPS_RTR) wake_senders(qp);
  return 0;
}

int ibv_query_qp(ibv_qp* handle, ibv_qp_attr* attr, int, ibv_qp_init_attr* init) {
  VERBS_MOCK_FAULT(ENOMEM, ENOMEM);
  Qp& qp = *static_cast<Qp*>(handle);
  const Lock lock(device().mutex);
  *attr = qp.attr;
  attr->qp_state = attr->cur_qp_state = qp.now;
  attr->cap = qp.cap;
  *init = {.qp_context = qp.qp_context,
           .send_cq = qp.send_cq,
           .recv_cq = qp.recv_cq,
           .srq = qp.srq,
           .cap = qp.cap,
           .qp_type = qp.qp_type,
           .sq_sig_all = qp.all_signalled};
  return 0;
}

unsigned verbs_mock_connections(verbs_mock_connection* connections, unsigned room) {
  const Lock lock(device().mutex);
  unsigned count = 0;
  for (const auto& [number, qp] : device().qps) {
    if (qp->now != IBV_QPS_RTS) continue;
    if (count < room)
      connections[count] = {qp->attr.pkey_index,    128U << qp->attr.path_mtu,
                            qp->attr.timeout,       qp->attr.retry_cnt,
                            qp->attr.rnr_retry,     qp->attr.min_rnr_timer,
                            qp->cap.max_inline_data};
    ++count;
  }
  return count;
}

ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* init) {
  VERBS_MOCK_FAULT(ENOMEM, nullptr);
  if (init->attr.max_wr > kMaxWr || init->attr.max_sge > kMaxSge) {
    errno = EINVAL;
    return nullptr;
  }
  auto* const srq = new Srq{};
  srq->context = pd->context;
  srq->srq_context = init->srq_context;
  srq->pd = pd;
  srq->max_wr = init->attr.max_wr;
  srq->max_sge = init->attr.max_sge;
  const Lock lock(device().mutex);
  srq->handle = device().next_handle++;
  ++static_cast<Pd*>(pd)->uses;
  verbs_mock_count(Kind::kSrq, 1);
  return srq;
}

int ibv_modify_srq(ibv_srq* handle, ibv_srq_attr* attr, int mask) {
  VERBS_MOCK_FAULT(ENOMEM, ENOMEM);
  Srq& srq = *static_cast<Srq*>(handle);
  const Lock lock(device().mutex);
  if ((mask & IBV_SRQ_MAX_WR) != 0) {
    if (attr->max_wr > kMaxWr || attr->max_wr < srq.receives.size()) return EINVAL;
    srq.max_wr = attr->max_wr;
  }
  if ((mask & IBV_SRQ_LIMIT) != 0) {
    if (attr->srq_limit > srq.max_wr) return EINVAL;
    srq.limit = attr->srq_limit;
  }
  return 0;
}

int ibv_query_srq(ibv_srq* handle, ibv_srq_attr* attr) {
  VERBS_MOCK_FAULT(ENOMEM, ENOMEM);
  const Srq& srq = *static_cast<Srq*>(handle);
  const Lock lock(device().mutex);
  *attr = {.max_wr = srq.max_wr, .max_sge = srq.max_sge, .srq_limit = srq.limit};
  return 0;
}

int ibv_destroy_srq(ibv_srq* handle) {
  Srq& srq = *static_cast<Srq*>(handle);
  Lock lock(device().mutex);
  if (srq.uses != 0) return EBUSY;
  drain_events(lock, srq.context, srq);
  --static_cast<Pd*>(srq.pd)->uses;
  delete &srq;
  verbs_mock_count(Kind::kSrq, -1);
  return 0;
}

}  // extern "C"
