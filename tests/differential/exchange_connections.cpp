/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
// Exchange: its objects, its connections and their ends.
#include <algorithm>
#include <array>
#include <cstring>

#include "exchange.h"

// ---- set-up -------------------------------------------------------------------------------------

void Exchange::open_queues(Side& side) {
  const unsigned merged = w_.random.of({0U, 0U, 1U});
  const std::array<unsigned, 4> flags = {DAT_EVD_DTO_FLAG, DAT_EVD_DTO_FLAG,
                                         merged != 0
                                             ? unsigned{DAT_EVD_CR_FLAG} | DAT_EVD_CONNECTION_FLAG
                                             : unsigned{DAT_EVD_CONNECTION_FLAG},
                                         DAT_EVD_CR_FLAG};
  DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
  w_.begin(std::string("cno_create ") + side.letter);
  if (w_.end(dat_cno_create(side.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno))) {
    side.cno[0] = cno;
    w_.named(cno, side, "cno", 0);
  }
  for (std::size_t i = 0; i < flags.size(); i++) {
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    DAT_CNO_HANDLE used = w_.random.percent(30) ? cno : DAT_HANDLE_NULL;
    w_.begin(std::string("evd_create ") + side.letter + " " + std::to_string(i) +
             " cno=" + w_.name(used));
    if (w_.end(dat_evd_create(side.ia, 64, used, static_cast<DAT_EVD_FLAGS>(flags.at(i)), &evd))) {
      side.evd[i] = evd;
      w_.named(evd, side, "evd", static_cast<int>(i));
    }
  }
}

bool Exchange::open(Side& side) {
  w_.begin(std::string("ia_open ") + side.letter);
  DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
  if (!w_.end(dat_ia_open(w_.adapter.data(), 8, &async, &side.ia))) {
    side.ia = DAT_HANDLE_NULL;
    return false;
  }
  side.async = async;
  w_.named(async, side, "async", 0);
  w_.named(side.ia, side, "ia", 0);
  create_pz(w_, side);
  open_queues(side);
  Region& region = side.regions[0];
  DAT_REGION_DESCRIPTION memory{};
  memory.for_va = side.memory->data();
  DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
  DAT_VLEN size = 0;
  w_.begin(std::string("lmr_create ") + side.letter);
  if (!w_.end(dat_lmr_create(side.ia, DAT_MEM_TYPE_VIRTUAL, memory, kBuffer, side.pz[0],
                             DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &lmr, &region.lmr_context,
                             &region.rmr_context, &size, &region.address))) {
    return false;
  }
  region.address = reinterpret_cast<std::uintptr_t>(side.memory->data());
  side.lmr[0] = lmr;
  w_.named(lmr, side, "lmr", 0);
  if (w_.random.percent(40)) {
    DAT_SRQ_ATTR attr{w_.random.of({16, 8, 32}), w_.random.of({1, 2, 4}), 0};
    DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
    w_.begin(std::string("srq_create ") + side.letter);
    if (w_.end(dat_srq_create(side.ia, side.pz[0], &attr, &srq))) {
      side.srq[0] = srq;
      w_.named(srq, side, "srq", 0);
    }
  }
  return true;
}

void Exchange::create(Side& side, std::size_t index) {
  DAT_EP_ATTR attr;
  std::memset(&attr, 0, sizeof attr);
  attr.service_type = DAT_SERVICE_TYPE_RC;
  attr.max_message_size = attr.max_rdma_size = kBuffer;
  attr.recv_completion_flags = static_cast<DAT_COMPLETION_FLAGS>(w_.random.of({0, 0x10, 2, 4}));
  attr.request_completion_flags = static_cast<DAT_COMPLETION_FLAGS>(w_.random.of({0, 0x10, 4}));
  attr.max_recv_dtos = attr.max_request_dtos = 16;
  attr.max_recv_iov = attr.max_request_iov = 4;
  attr.max_rdma_read_in = attr.max_rdma_read_out = w_.random.of({4, 1});
  attr.srq_soft_hw = -1;
  const bool plain = w_.random.percent(40);
  DAT_EVD_HANDLE request = side.evd[w_.random.percent(30) ? kRecv : kRequest];
  DAT_SRQ_HANDLE srq = side.srq[0];
  DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
  w_.begin(std::string("ep_create ") + side.letter + " srq=" + w_.name(srq));
  const DAT_RETURN code =
      srq == DAT_HANDLE_NULL ? dat_ep_create(side.ia, side.pz[0], side.evd[kRecv], request,
                                             side.evd[kConnect], plain ? nullptr : &attr, &ep)
                             : dat_ep_create_with_srq(side.ia, side.pz[0], side.evd[kRecv], request,
                                                      side.evd[kConnect], srq, &attr, &ep);
  if (w_.end(code)) {
    side.ep.at(index) = ep;
    w_.named(ep, side, "ep", static_cast<int>(index));
  }
}

void Exchange::listen() {
  DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
  w_.begin("psp_create b");
  if (w_.end(dat_psp_create(b().ia, b().qual[0], b().evd[kCr], DAT_PSP_CONSUMER_FLAG, &psp))) {
    b().psp[0] = psp;
    w_.named(psp, b(), "psp", 0);
  }
}

// ---- connections --------------------------------------------------------------------------------

DAT_CR_HANDLE Exchange::take_request() {
  for (DAT_CR_HANDLE& cr : b().cr) {
    cr = DAT_HANDLE_NULL;
  }
  b().next_cr = 0;
  w_.settle(80);
  w_.drain_all();
  return b().cr[0];
}

void Exchange::answer(std::size_t index, DAT_CR_HANDLE cr) {
  DAT_CR_PARAM param;
  std::memset(&param, 0, sizeof param);
  w_.begin(text("cr_query", cr));
  if (w_.end(dat_cr_query(cr, DAT_CR_FIELD_ALL, &param))) {
    w_.field("private", private_size(param.private_data));
    w_.field("ep", w_.name(param.local_ep_handle));
    w_.flush_fields(". cr");
  }
  const bool rejects = w_.random.percent(12);
  const auto size = static_cast<DAT_COUNT>(w_.random.below(rejects ? 113 : 161));
  std::vector<unsigned char> data = private_data(size);
  DAT_EP_HANDLE ep = param.local_ep_handle != DAT_HANDLE_NULL ? DAT_HANDLE_NULL : b().ep.at(index);
  w_.begin(text(rejects ? "cr_reject" : "cr_accept", cr) + " " + std::to_string(size));
  w_.end(rejects ? dat_cr_reject(cr, size, data.data()) : dat_cr_accept(cr, ep, size, data.data()));
  b().cr[0] = DAT_HANDLE_NULL;
  w_.settle(80);
  w_.drain_all();
}

void Exchange::establish(std::size_t index) {
  DAT_EP_HANDLE ep = a().ep.at(index);
  if (ep == DAT_HANDLE_NULL || b().ep.at(index) == DAT_HANDLE_NULL) {
    return;
  }
  DAT_CONN_QUAL qual = b().qual[0];
  DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
  if (w_.random.percent(20)) {
    w_.begin(text("rsp_create", b().ep.at(index)));
    if (w_.end(dat_rsp_create(b().ia, b().qual[2], b().ep.at(index), b().evd[kCr], &rsp))) {
      qual = b().qual[2];
      w_.named(rsp, b(), "rsp", 0);
    }
  }
  DAT_IA_ATTR attr;
  std::memset(&attr, 0, sizeof attr);
  dat_ia_query(b().ia, nullptr, DAT_IA_FIELD_ALL, &attr, 0, nullptr);
  const auto size = static_cast<DAT_COUNT>(w_.random.below(57));
  std::vector<unsigned char> data = private_data(size);
  w_.begin(text("ep_connect", ep) + " private=" + std::to_string(size));
  if (!w_.end(dat_ep_connect(ep, attr.ia_address_ptr, qual, 60000000, size, data.data(),
                             DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG))) {
    return;
  }
  w_.state_of(ep);
  if (DAT_CR_HANDLE cr = take_request(); cr != DAT_HANDLE_NULL) {
    answer(index, cr);
  }
  if (rsp != DAT_HANDLE_NULL) {
    w_.begin(text("rsp_free", rsp));
    w_.end(dat_rsp_free(rsp));
  }
}

// Returns false if the IA of b is closed.
bool Exchange::end(std::size_t index) {
  Side& side = either();
  DAT_EP_HANDLE ep = side.ep.at(index);
  if (ep == DAT_HANDLE_NULL) {
    return true;
  }
  const unsigned how = w_.random.below(10);
  if (how == 0) {
    w_.begin("ia_close b");
    w_.end(dat_ia_close(b().ia, DAT_CLOSE_ABRUPT_FLAG));
    forget(b());
    drain("closed");
    return false;
  }
  if (how == 1) {
    w_.begin(text("ep_free", ep));
    if (w_.end(dat_ep_free(ep))) {
      side.ep.at(index) = DAT_HANDLE_NULL;
    }
  } else {
    const bool abrupt = w_.random.percent(50);
    w_.begin(text("ep_disconnect", ep) + (abrupt ? " abrupt" : " graceful"));
    if (w_.end(dat_ep_disconnect(ep, abrupt ? DAT_CLOSE_ABRUPT_FLAG : DAT_CLOSE_GRACEFUL_FLAG))) {
      w_.state_of(ep);
    }
  }
  drain("ended");
  return true;
}

void Exchange::begin_again() {
  for (Side& side : w_.sides) {
    for (std::size_t i = 0; i < kEps; i++) {
      DAT_EP_HANDLE ep = side.ep.at(i);
      if (ep == DAT_HANDLE_NULL) {
        continue;
      }
      if (w_.random.percent(20)) {
        send(side, ep);
        receive(side, ep);
        drain("posted after the end");
      }
      w_.begin(text("ep_reset", ep));
      w_.end(dat_ep_reset(ep));
    }
  }
  drain("reset");
}
