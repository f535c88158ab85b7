/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
// Posts and binds.
#include <cstring>

#include "world.h"

namespace {

/// Mostly within a region of the side.
std::vector<DAT_LMR_TRIPLET> segments(World& w, Side& side, std::string* text) {
  const unsigned count = w.random.of({1U, 1U, 1U, 1U, 2U, 4U, 0U});
  std::vector<DAT_LMR_TRIPLET> result;
  for (unsigned i = 0; i < count; i++) {
    int index = 0;
    const bool registered = w.pick(side, &Side::lmr, &index) != DAT_HANDLE_NULL;
    const Region& region = side.regions.at(static_cast<std::size_t>(index));
    const bool careless = w.random.percent(3);
    const unsigned offset = w.random.of({0U, 64U, 512U});
    unsigned length = w.random.of({16U, 64U, 100U, 0U, 1000U, 4096U});
    if (!careless && offset + length > region.length) {
      length = 0;
    }
    if (!careless && !registered) {
      continue;
    }
    result.push_back({region.address + offset, length, region.lmr_context});
    *text +=
        " " + std::to_string(index) + ":" + std::to_string(offset) + "+" + std::to_string(length);
  }
  return result;
}

DAT_COMPLETION_FLAGS flags(World& w) {
  return static_cast<DAT_COMPLETION_FLAGS>(w.random.of({0, 0, 0, 0, 1, 2, 4, 8}));
}

DAT_DTO_COOKIE next_cookie(World& w) {
  DAT_DTO_COOKIE cookie{};
  cookie.as_64 = w.step * 100 + ++w.cookie % 100;
  return cookie;
}

void post_recv(World& w) {
  Side& side = w.any_side();
  DAT_EP_HANDLE ep = w.pick(side, &Side::ep);
  const unsigned count = w.random.of({1U, 1U, 2U, 5U});
  for (unsigned i = 0; i < count && ep != DAT_HANDLE_NULL; i++) {
    std::string text;
    std::vector<DAT_LMR_TRIPLET> iov = segments(w, side, &text);
    const DAT_COMPLETION_FLAGS flag = w.random.percent(90) ? DAT_COMPLETION_DEFAULT_FLAG : flags(w);
    w.begin("post_recv " + w.name(ep) + text + " flags=" + std::to_string(flag));
    w.end(
        dat_ep_post_recv(ep, static_cast<DAT_COUNT>(iov.size()), iov.data(), next_cookie(w), flag));
  }
  w.after(5);
}

void post_send(World& w) {
  Side& side = w.any_side();
  DAT_EP_HANDLE ep = w.pick(side, &Side::ep);
  if (ep == DAT_HANDLE_NULL) {
    return;
  }
  std::string text;
  std::vector<DAT_LMR_TRIPLET> iov = segments(w, side, &text);
  const DAT_COMPLETION_FLAGS flag = flags(w);
  w.begin("post_send " + w.name(ep) + text + " flags=" + std::to_string(flag));
  w.end(dat_ep_post_send(ep, static_cast<DAT_COUNT>(iov.size()), iov.data(), next_cookie(w), flag));
  w.after(20);
}

void rdma(World& w) {
  Side& side = w.any_side();
  Side& peer = w.other(side);
  DAT_EP_HANDLE ep = w.pick(side, &Side::ep);
  if (ep == DAT_HANDLE_NULL) {
    return;
  }
  const bool read = w.random.percent(40);
  std::string text;
  std::vector<DAT_LMR_TRIPLET> iov = segments(w, side, &text);
  int region = 0;
  w.pick(peer, &Side::lmr, &region);
  const Region& target = peer.regions.at(static_cast<std::size_t>(region));
  const DAT_RMR_TRIPLET remote{target.address, w.random.of({4096U, 4096U, 0U, 16U}),
                               target.rmr_context};
  const DAT_COMPLETION_FLAGS flag = flags(w);
  w.begin(std::string(read ? "rdma_read " : "rdma_write ") + w.name(ep) + text +
          " remote=" + std::to_string(region) + "+" + std::to_string(remote.segment_length) +
          " flags=" + std::to_string(flag));
  const auto count = static_cast<DAT_COUNT>(iov.size());
  w.end(read ? dat_ep_post_rdma_read(ep, count, iov.data(), next_cookie(w), &remote, flag)
             : dat_ep_post_rdma_write(ep, count, iov.data(), next_cookie(w), &remote, flag));
  w.after(30);
}

void srq_post_recv(World& w) {
  Side& side = w.any_side();
  DAT_SRQ_HANDLE srq = w.pick(side, &Side::srq);
  if (srq == DAT_HANDLE_NULL) {
    return;
  }
  std::string text;
  std::vector<DAT_LMR_TRIPLET> iov = segments(w, side, &text);
  w.begin("srq_post_recv " + w.name(srq) + text);
  w.end(dat_srq_post_recv(srq, static_cast<DAT_COUNT>(iov.size()), iov.data(), next_cookie(w)));
}

void rmr_bind(World& w) {
  Side& side = w.any_side();
  DAT_RMR_HANDLE rmr = w.pick(side, &Side::rmr);
  DAT_EP_HANDLE ep = w.pick(side, &Side::ep);
  int index = 0;
  DAT_LMR_HANDLE lmr = w.pick(side, &Side::lmr, &index);
  if (rmr == DAT_HANDLE_NULL || ep == DAT_HANDLE_NULL || lmr == DAT_HANDLE_NULL) {
    return;
  }
  const DAT_LMR_TRIPLET segment{side.regions.at(static_cast<std::size_t>(index)).address,
                                w.random.of({64U, 0U, 100000U}),
                                side.regions.at(static_cast<std::size_t>(index)).lmr_context};
  DAT_RMR_CONTEXT context = 0;
  w.begin("rmr_bind " + w.name(rmr) + " " + w.name(lmr) + " " + w.name(ep) +
          " length=" + std::to_string(segment.segment_length));
  w.end(dat_rmr_bind(rmr, lmr, &segment,
                     static_cast<DAT_MEM_PRIV_FLAGS>(w.random.of({0x22, 0x02, 0x33})),
                     DAT_VA_TYPE_VA, ep, next_cookie(w), flags(w), &context));
  w.after(10);
}

}  // namespace

const std::vector<Step>& transfer_steps() {
  static const std::vector<Step> steps = {{"post_recv", 12, post_recv},
                                          {"post_send", 12, post_send},
                                          {"rdma", 8, rdma},
                                          {"srq_post_recv", 3, srq_post_recv},
                                          {"rmr_bind", 1, rmr_bind}};
  return steps;
}
