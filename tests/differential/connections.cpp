/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
// Service points, connecting, accepting, disconnecting.
#include <netinet/in.h>

#include <cstring>

#include "world.h"

namespace {

DAT_COUNT some_size(World& w) { return w.random.of({0, 8, 1, 48, 56}); }

DAT_SOCK_ADDR6 address_of(Side& side) {
  DAT_IA_ATTR attr;
  std::memset(&attr, 0, sizeof attr);
  dat_ia_query(side.ia, nullptr, DAT_IA_FIELD_ALL, &attr, 0, nullptr);
  DAT_SOCK_ADDR6 address;
  std::memset(&address, 0, sizeof address);
  std::memcpy(&address, attr.ia_address_ptr, sizeof address);
  return address;
}

bool connect(World& w, Side& side, DAT_EP_HANDLE ep, DAT_CONN_QUAL qual, DAT_TIMEOUT timeout) {
  DAT_SOCK_ADDR6 address = address_of(side);
  const DAT_COUNT size = some_size(w);
  std::vector<unsigned char> data = private_data(size);
  w.begin("ep_connect " + w.name(ep) +
          " qual=" + std::to_string(static_cast<long>(qual - w.qualifiers)) +
          " timeout=" + std::to_string(timeout) + " private=" + std::to_string(size));
  const bool started = w.end(dat_ep_connect(ep, reinterpret_cast<DAT_IA_ADDRESS_PTR>(&address),
                                            qual, timeout, size, size == 0 ? nullptr : data.data(),
                                            DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
  if (started) {
    w.state_of(ep);
  }
  return started;
}

void accept(World& w, Side& side, int index, DAT_EP_HANDLE ep) {
  DAT_CR_HANDLE cr = side.cr[static_cast<std::size_t>(index)];
  const DAT_COUNT size = some_size(w);
  std::vector<unsigned char> data = private_data(size);
  w.begin("cr_accept " + w.name(cr) + " ep=" + w.name(ep) + " private=" + std::to_string(size));
  if (w.end(dat_cr_accept(cr, ep, size, size == 0 ? nullptr : data.data()))) {
    side.cr[static_cast<std::size_t>(index)] = DAT_HANDLE_NULL;
    w.state_of(ep);
  }
  w.after(60);
}

DAT_EVD_HANDLE cr_evd(World& w, Side& side) { return w.evd_for(side, DAT_EVD_CR_FLAG, 2); }

}  // namespace

void create_psp(World& w, Side& side) {
  const int place = w.free_place(side.psp);
  if (place < 0 || side.ia == DAT_HANDLE_NULL) {
    return;
  }
  const DAT_PSP_FLAGS flags = w.random.percent(8) ? DAT_PSP_PROVIDER_FLAG : DAT_PSP_CONSUMER_FLAG;
  const auto index = static_cast<std::size_t>(place);
  DAT_EVD_HANDLE evd = cr_evd(w, side);
  DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
  w.begin(std::string("psp_create ") + side.letter + " evd=" + w.name(evd) +
          " flags=" + std::to_string(flags));
  if (w.end(dat_psp_create(side.ia, side.qual.at(index), evd, flags, &psp))) {
    side.psp.at(index) = psp;
    w.named(psp, side, "psp", place);
  }
}

namespace {

void psp_create(World& w) { create_psp(w, w.any_side()); }

void psp_free(World& w) {
  Side& side = w.any_side();
  int index = 0;
  DAT_PSP_HANDLE psp = w.pick(side, &Side::psp, &index);
  if (psp == DAT_HANDLE_NULL) {
    return;
  }
  w.begin("psp_free " + w.name(psp));
  if (w.end(dat_psp_free(psp))) {
    side.psp[static_cast<std::size_t>(index)] = DAT_HANDLE_NULL;
  }
  w.after(10);
}

void psp_query(World& w) {
  Side& side = w.any_side();
  DAT_PSP_HANDLE psp = w.pick(side, &Side::psp);
  if (psp == DAT_HANDLE_NULL) {
    return;
  }
  DAT_PSP_PARAM param{};
  w.begin("psp_query " + w.name(psp));
  if (w.end(dat_psp_query(psp, DAT_PSP_FIELD_ALL, &param))) {
    w.field("ia", w.name(param.ia_handle));
    w.field("qual", param.conn_qual - w.qualifiers);
    w.field("evd", w.name(param.evd_handle));
    w.field("flags", param.psp_flags);
    w.flush_fields(". psp");
  }
}

void rsp_create(World& w) {
  Side& side = w.any_side();
  DAT_EP_HANDLE ep = w.pick(side, &Side::ep);
  if (side.rsp[0] != DAT_HANDLE_NULL || ep == DAT_HANDLE_NULL) {
    return;
  }
  DAT_EVD_HANDLE evd = cr_evd(w, side);
  DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
  w.begin(std::string("rsp_create ep=") + w.name(ep) + " evd=" + w.name(evd));
  if (w.end(dat_rsp_create(side.ia, side.qual[2], ep, evd, &rsp))) {
    side.rsp[0] = rsp;
    w.named(rsp, side, "rsp", 0);
  }
}

void rsp_query(World& w) {
  Side& side = w.any_side();
  if (side.rsp[0] == DAT_HANDLE_NULL) {
    return;
  }
  DAT_RSP_PARAM param{};
  w.begin("rsp_query " + w.name(side.rsp[0]));
  if (w.end(dat_rsp_query(side.rsp[0], DAT_RSP_FIELD_ALL, &param))) {
    w.field("qual", param.conn_qual - w.qualifiers);
    w.field("evd", w.name(param.evd_handle));
    w.field("ep", w.name(param.ep_handle));
    w.flush_fields(". rsp");
  }
}

void rsp_free(World& w) {
  Side& side = w.any_side();
  if (side.rsp[0] == DAT_HANDLE_NULL) {
    return;
  }
  w.begin("rsp_free " + w.name(side.rsp[0]));
  if (w.end(dat_rsp_free(side.rsp[0]))) {
    side.rsp[0] = DAT_HANDLE_NULL;
  }
  w.after(10);
}

/// A connect to any of the peer's qualifiers, whether or not it listens there.
void ep_connect(World& w) {
  Side& side = w.any_side();
  DAT_EP_HANDLE ep = w.pick(side, &Side::ep);
  if (ep == DAT_HANDLE_NULL) {
    return;
  }
  Side& peer = w.random.percent(10) ? side : w.other(side);
  const DAT_CONN_QUAL qual =
      w.random.percent(10) ? w.qualifiers + 30U : peer.qual.at(w.random.below(3));
  const DAT_TIMEOUT timeout = w.random.of({60000000U, DAT_TIMEOUT_INFINITE, 60000000U, 0U});
  connect(w, side, ep, qual, timeout);
  w.after(200);
}

void cr_query(World& w) {
  Side& side = w.any_side();
  DAT_CR_HANDLE cr = w.pick(side, &Side::cr);
  if (cr == DAT_HANDLE_NULL) {
    return;
  }
  DAT_CR_PARAM param;
  std::memset(&param, 0, sizeof param);
  w.begin("cr_query " + w.name(cr));
  if (w.end(dat_cr_query(cr, DAT_CR_FIELD_ALL, &param))) {
    w.field("family", param.remote_ia_address_ptr == nullptr
                          ? 0xffU
                          : param.remote_ia_address_ptr->sa_family);
    w.field("first", param.private_data == nullptr
                         ? 0x100U
                         : *static_cast<unsigned char*>(param.private_data));
    w.field("ep", w.name(param.local_ep_handle));
    w.flush_fields(". cr");
  }
}

void cr_accept(World& w) {
  Side& side = w.any_side();
  int index = 0;
  if (w.pick(side, &Side::cr, &index) != DAT_HANDLE_NULL) {
    accept(w, side, index, w.maybe(side, &Side::ep, 15));
  }
}

void cr_reject(World& w) {
  Side& side = w.any_side();
  int index = 0;
  DAT_CR_HANDLE cr = w.pick(side, &Side::cr, &index);
  if (cr == DAT_HANDLE_NULL) {
    return;
  }
  const DAT_COUNT size = some_size(w);
  std::vector<unsigned char> data = private_data(size);
  w.begin("cr_reject " + w.name(cr) + " private=" + std::to_string(size));
  if (w.end(dat_cr_reject(cr, size, size == 0 ? nullptr : data.data()))) {
    side.cr[static_cast<std::size_t>(index)] = DAT_HANDLE_NULL;
  }
  w.after(60);
}

/// What programs do most: connect to a listening peer, which accepts.
void establish(World& w) {
  Side& side = w.any_side();
  Side& peer = w.other(side);
  DAT_EP_HANDLE ep = w.pick(side, &Side::ep);
  if (ep == DAT_HANDLE_NULL || peer.ia == DAT_HANDLE_NULL) {
    return;
  }
  int index = 0;
  if (w.pick(peer, &Side::psp, &index) == DAT_HANDLE_NULL) {
    create_psp(w, peer);
  }
  for (DAT_CR_HANDLE& cr : peer.cr) {
    cr = DAT_HANDLE_NULL;  // left unanswered
  }
  peer.next_cr = 0;
  connect(w, side, ep, peer.qual.at(static_cast<std::size_t>(index)), 60000000);
  w.settle(80);
  w.drain_all();
  if (peer.cr[0] == DAT_HANDLE_NULL) {
    return;
  }
  DAT_CR_PARAM param;
  std::memset(&param, 0, sizeof param);
  dat_cr_query(peer.cr[0], DAT_CR_FIELD_ALL, &param);
  DAT_EP_HANDLE acceptor =
      param.local_ep_handle != DAT_HANDLE_NULL ? DAT_HANDLE_NULL : w.pick(peer, &Side::ep);
  accept(w, peer, 0, acceptor);
}

void ep_disconnect(World& w) {
  Side& side = w.any_side();
  DAT_EP_HANDLE ep = w.pick(side, &Side::ep);
  if (ep == DAT_HANDLE_NULL) {
    return;
  }
  const bool abrupt = w.random.percent(50);
  w.begin(std::string("ep_disconnect ") + (abrupt ? "abrupt " : "graceful ") + w.name(ep));
  if (w.end(dat_ep_disconnect(ep, abrupt ? DAT_CLOSE_ABRUPT_FLAG : DAT_CLOSE_GRACEFUL_FLAG))) {
    w.state_of(ep);
  }
  w.after(60);
}

void ep_dup_connect(World& w) {
  Side& side = w.any_side();
  DAT_EP_HANDLE ep = w.pick(side, &Side::ep);
  DAT_EP_HANDLE model = w.pick(side, &Side::ep);
  if (ep == DAT_HANDLE_NULL) {
    return;
  }
  w.begin("ep_dup_connect " + w.name(ep) + " as " + w.name(model));
  w.end(dat_ep_dup_connect(ep, model, 60000000, 0, nullptr, DAT_QOS_BEST_EFFORT));
  w.after(200);
}

}  // namespace

const std::vector<Step>& connection_steps() {
  static const std::vector<Step> steps = {
      {"psp_create", 3, psp_create},        {"psp_free", 2, psp_free},
      {"psp_query", 1, psp_query},          {"rsp_create", 2, rsp_create},
      {"rsp_query", 1, rsp_query},          {"rsp_free", 1, rsp_free},
      {"ep_connect", 4, ep_connect},        {"cr_query", 3, cr_query},
      {"cr_accept", 4, cr_accept},          {"cr_reject", 2, cr_reject},
      {"establish", 14, establish},         {"ep_disconnect", 4, ep_disconnect},
      {"ep_dup_connect", 1, ep_dup_connect}};
  return steps;
}
