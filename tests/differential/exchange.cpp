/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
// Exchange: posts, waits, queries, and their order.
#include "exchange.h"

#include <algorithm>
#include <cstring>
#include <thread>

// ---- posts --------------------------------------------------------------------------------------

std::vector<DAT_LMR_TRIPLET> Exchange::segments(Side& side, unsigned offset, std::string* text) {
  const Region& region = side.regions[0];
  std::vector<DAT_LMR_TRIPLET> result;
  const unsigned count = w_.random.of({1U, 1U, 1U, 2U, 0U, 4U});
  for (unsigned i = 0; i < count; i++) {
    const unsigned length = w_.random.of({16U, 64U, 0U, 100U, 1000U, 4000U});
    result.push_back({region.address + offset + i * 4096, length, region.lmr_context});
    *text += " +" + std::to_string(length);
  }
  return result;
}

void Exchange::receive(Side& side, DAT_EP_HANDLE ep) {
  std::string list;
  std::vector<DAT_LMR_TRIPLET> iov = segments(side, 0, &list);
  const bool large = w_.random.percent(70);  // for what most Sends are
  if (large && !iov.empty()) {
    iov.resize(1);
    iov[0].segment_length = 16384;
    list = " large";
  }
  const auto count = static_cast<DAT_COUNT>(iov.size());
  if (side.srq[0] != DAT_HANDLE_NULL) {
    iov.resize(std::min<std::size_t>(iov.size(), 1));
    w_.begin(text("srq_post_recv", side.srq[0]) + list);
    w_.end(dat_srq_post_recv(side.srq[0], static_cast<DAT_COUNT>(iov.size()), iov.data(),
                             next_cookie()));
    return;
  }
  w_.begin(text("post_recv", ep) + list);
  w_.end(dat_ep_post_recv(ep, count, iov.data(), next_cookie(), DAT_COMPLETION_DEFAULT_FLAG));
}

void Exchange::send(Side& side, DAT_EP_HANDLE ep) {
  std::string list;
  std::vector<DAT_LMR_TRIPLET> iov = segments(side, 16384, &list);
  const auto flags = static_cast<DAT_COMPLETION_FLAGS>(w_.random.of({0, 0, 2, 1, 4, 8, 3}));
  w_.begin(text("post_send", ep) + list + " flags=" + std::to_string(flags));
  w_.end(
      dat_ep_post_send(ep, static_cast<DAT_COUNT>(iov.size()), iov.data(), next_cookie(), flags));
  w_.settle(15);
}

void Exchange::access(Side& side, DAT_EP_HANDLE ep) {
  std::string list;
  std::vector<DAT_LMR_TRIPLET> iov = segments(side, 16384, &list);
  const Region& there = w_.other(side).regions[0];
  const bool wrong = w_.random.percent(4);
  const DAT_RMR_TRIPLET remote{there.address + 32768, 16384,
                               wrong ? there.rmr_context ^ 0x00100000U : there.rmr_context};
  const bool read = w_.random.percent(40);
  const auto flags = static_cast<DAT_COMPLETION_FLAGS>(w_.random.of({0, 0, 1, 8}));
  const auto count =
      static_cast<DAT_COUNT>(read ? std::min<std::size_t>(iov.size(), 1) : iov.size());
  w_.begin(text(read ? "rdma_read" : "rdma_write", ep) + list + (wrong ? " wrong" : "") +
           " flags=" + std::to_string(flags));
  w_.end(read ? dat_ep_post_rdma_read(ep, count, iov.data(), next_cookie(), &remote, flags)
              : dat_ep_post_rdma_write(ep, count, iov.data(), next_cookie(), &remote, flags));
  w_.settle(25);
}

// ---- waits and queries --------------------------------------------------------------------------

void Exchange::wait(Side& side) {
  DAT_EVD_HANDLE evd = side.evd[w_.random.of<Queue>({kRecv, kRecv, kRequest, kConnect})];
  const DAT_TIMEOUT timeout = w_.random.of({0U, 1000U, 60000U});
  const DAT_COUNT threshold = w_.random.of({1, 1, 1, 2, 3});
  DAT_EVENT event;
  std::memset(&event, 0, sizeof event);
  DAT_COUNT more = 0;
  w_.begin(text("evd_wait", evd) + " timeout=" + std::to_string(timeout) +
           " threshold=" + std::to_string(threshold));
  if (w_.end(dat_evd_wait(evd, timeout, threshold, &event, &more))) {
    w_.event(event, w_.name(evd));
  }
}

// Sends while another thread waits for what arrives.
void Exchange::wait_in_a_thread(Side& side, DAT_EP_HANDLE peer) {
  DAT_EVD_HANDLE evd = side.evd[kRecv];
  const DAT_COUNT threshold = w_.random.of({1, 1, 2, 3});
  const unsigned messages = w_.random.below(4);
  DAT_EVENT event;
  std::memset(&event, 0, sizeof event);
  DAT_COUNT more = 0;
  DAT_RETURN code = DAT_SUCCESS;
  std::thread waiter([&] { code = dat_evd_wait(evd, 400000, threshold, &event, &more); });
  w_.settle(30);
  for (unsigned i = 0; i < messages; i++) {
    send(w_.other(side), peer);
  }
  waiter.join();
  w_.begin(text("evd_wait in a thread", evd) + " threshold=" + std::to_string(threshold));
  if (w_.end(code)) {
    w_.event(event, w_.name(evd));
  }
}

void Exchange::wait_for_cno(Side& side) {
  DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
  if (side.cno[0] == DAT_HANDLE_NULL) {
    return;
  }
  w_.begin(text("cno_wait", side.cno[0]));
  if (w_.end(dat_cno_wait(side.cno[0], w_.random.of({0U, 1000U, 30000U}), &evd))) {
    w_.field("evd", w_.name(evd));
    w_.flush_fields(". cno");
  }
}

void Exchange::look(Side& side, DAT_EP_HANDLE ep) {
  DAT_EP_STATE state{};
  DAT_BOOLEAN receives{};
  DAT_BOOLEAN requests{};
  w_.begin(text("ep_get_status", ep));
  if (w_.end(dat_ep_get_status(ep, &state, &receives, &requests))) {
    w_.field("state", state);
    w_.flush_fields(". status");
  }
  if (side.srq[0] != DAT_HANDLE_NULL) {
    DAT_SRQ_PARAM param;
    std::memset(&param, 0, sizeof param);
    w_.begin(text("srq_query", side.srq[0]));
    if (w_.end(dat_srq_query(side.srq[0], DAT_SRQ_FIELD_ALL, &param))) {
      w_.field("outstanding", static_cast<unsigned>(param.outstanding_dto_count));
      w_.flush_fields(". srq");
    }
  }
}

// Queries of few fields, or none, and without places for the results where they may be left out.
void Exchange::queries(Side& side, DAT_EP_HANDLE ep) {
  w_.begin(text("ep_get_status of nothing", ep));
  w_.end(dat_ep_get_status(ep, nullptr, nullptr, nullptr));
  w_.begin("ia_query of nothing");
  w_.end(dat_ia_query(side.ia, nullptr, 0, nullptr, 0, nullptr));
  DAT_EP_PARAM param;
  std::memset(&param, 0, sizeof param);
  const auto mask = static_cast<DAT_EP_PARAM_MASK>(
      w_.random.of({DAT_EP_FIELD_EP_STATE, DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE,
                    DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS}));
  w_.begin(text("ep_query", ep) + " mask=" + Protocol::hex(mask));
  if (w_.end(dat_ep_query(ep, mask, &param))) {
    w_.field("state", param.ep_state);
    w_.field("pz", w_.name(param.pz_handle));
    w_.field("srq", w_.name(param.srq_handle));
    w_.flush_fields(". ep");
  }
  DAT_EVD_PARAM evd;
  std::memset(&evd, 0, sizeof evd);
  w_.begin(text("evd_query", side.evd[kRecv]));
  if (w_.end(dat_evd_query(side.evd[kRecv], DAT_EVD_FIELD_EVD_FLAGS, &evd))) {
    w_.field("flags", evd.evd_flags);
    w_.flush_fields(". evd");
  }
  DAT_LMR_PARAM lmr;
  std::memset(&lmr, 0, sizeof lmr);
  w_.begin(text("lmr_query", side.lmr[0]));
  if (w_.end(dat_lmr_query(side.lmr[0], DAT_LMR_FIELD_LENGTH, &lmr))) {
    w_.field("length", lmr.length);
    w_.flush_fields(". lmr");
  }
}

void Exchange::resize(Side& side) {
  DAT_EVD_HANDLE evd = side.evd[kConnect];  // one without DTOs: see events.cpp
  const DAT_COUNT length = w_.random.of({100, 64, 200, 32});
  w_.begin(text("evd_resize", evd) + " " + std::to_string(length));
  w_.end(dat_evd_resize(evd, length));
}

namespace {

// Kinds of memory: what each accepts.
void register_memory(World& w, Side& side) {
  DAT_REGION_DESCRIPTION region{};
  const bool of_lmr = w.random.percent(50);
  if (of_lmr) {
    region.for_lmr_handle = side.lmr[0];
  } else {
    region.for_va = side.memory->data();
  }
  const DAT_MEM_TYPE type = of_lmr ? DAT_MEM_TYPE_LMR : DAT_MEM_TYPE_VIRTUAL;
  const DAT_VLEN length = of_lmr ? kBuffer : w.random.of({0U, 1U, 4096U, 5000U});
  const auto privileges = static_cast<DAT_MEM_PRIV_FLAGS>(w.random.of({0, 1, 0x10, 0x33, 2, 0x20}));
  DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
  DAT_LMR_CONTEXT context = 0;
  w.begin(std::string("lmr_create ") + side.letter + " type=" + std::to_string(type) +
          " length=" + std::to_string(length) + " privileges=" + Protocol::hex(privileges));
  if (w.end(dat_lmr_create(side.ia, type, region, length, side.pz[0], privileges, DAT_VA_TYPE_VA,
                           &lmr, &context, nullptr, nullptr, nullptr))) {
    w.begin("lmr_free");
    w.end(dat_lmr_free(lmr));
  }
}

}  // namespace

// ---- a program ----------------------------------------------------------------------------------

void Exchange::drain(const char* why) {
  w_.begin(std::string("drain ") + why);
  w_.end(DAT_SUCCESS);
  w_.settle(80);
  w_.drain_all();
}

void Exchange::transfer() {
  Side& side = either();
  std::size_t index = w_.random.below(kEps);
  DAT_EP_HANDLE ep = side.ep.at(index);
  DAT_EP_HANDLE peer = w_.other(side).ep.at(index);
  if (ep == DAT_HANDLE_NULL || peer == DAT_HANDLE_NULL) {
    return;
  }
  switch (w_.random.below(16)) {
    case 0:
    case 1:
    case 2:
      return receive(side, ep);
    case 3:
    case 4:
    case 5:
    case 6:
      return send(side, ep);
    case 7:
    case 8:
      return access(side, ep);
    case 9:
      return wait(side);
    case 10:
      return wait_in_a_thread(side, peer);
    case 11:
      return wait_for_cno(side);
    case 12:
      return look(side, ep);
    case 13:
      return queries(side, ep);
    case 14:
      return w_.random.percent(50) ? resize(side) : register_memory(w_, side);
    default:
      return drain("now");
  }
}

void Exchange::run() {
  if (!open(a()) || !open(b())) {
    return;
  }
  for (std::size_t i = 0; i < 1 + w_.random.below(kEps); i++) {
    create(a(), i);
    create(b(), i);
  }
  listen();
  for (unsigned round = 0; round < 2; round++) {
    for (std::size_t i = 0; i < kEps; i++) {
      for (unsigned j = 0; j < 3 && b().ep.at(i) != DAT_HANDLE_NULL; j++) {
        receive(b(), b().ep.at(i));
      }
      establish(i);
    }
    for (unsigned i = 0; i < 16; i++) {
      w_.step++;
      transfer();
    }
    drain("before the end");
    for (std::size_t i = 0; i < kEps; i++) {
      if (!end(i)) {
        return;
      }
    }
    begin_again();
  }
}

void World::exchange() {
  random = Random(seed_);
  Exchange(*this).run();
  close();
}
