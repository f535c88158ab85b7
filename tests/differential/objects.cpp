/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
// IAs, protection zones, memory, SRQs, and what all handles have.
#include <cstring>

#include "world.h"

namespace {

constexpr std::array<Places Side::*, 10> kKinds = {&Side::pz,  &Side::cno, &Side::evd, &Side::lmr,
                                                   &Side::rmr, &Side::srq, &Side::ep,  &Side::psp,
                                                   &Side::rsp, &Side::cr};

}  // namespace

void forget(Side& side) {
  for (Places Side::*kind : kKinds) {
    for (DAT_HANDLE& handle : side.*kind) {
      handle = DAT_HANDLE_NULL;
    }
  }
  side.ia = DAT_HANDLE_NULL;
  side.async = DAT_HANDLE_NULL;
}

void create_pz(World& w, Side& side) {
  const int place = w.free_place(side.pz);
  if (place < 0) {
    return;
  }
  w.begin(std::string("pz_create ") + side.letter);
  DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
  if (w.end(dat_pz_create(side.ia, &pz))) {
    side.pz[static_cast<std::size_t>(place)] = pz;
    w.named(pz, side, "pz", place);
  }
}

void create_lmr(World& w, Side& side, int index, unsigned privileges) {
  const auto place = static_cast<std::size_t>(index);
  DAT_REGION_DESCRIPTION region{};
  const unsigned offset = w.random.of({0U, 0U, 0U, 1U, 4096U});
  const unsigned length = w.random.of({32768U, 32768U, 32768U, 8192U, 100U});
  region.for_va = side.memory->data() + offset;
  DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
  DAT_VLEN registered = 0;
  DAT_VADDR address = 0;
  const bool no_outputs = w.random.percent(15);
  DAT_PZ_HANDLE pz = w.maybe(side, &Side::pz, 1);
  w.begin(std::string("lmr_create ") + side.letter + " privileges=" + Protocol::hex(privileges) +
          " offset=" + std::to_string(offset) + " length=" + std::to_string(length) +
          " pz=" + w.name(pz) + (no_outputs ? " no-outputs" : ""));
  const DAT_RETURN code =
      dat_lmr_create(side.ia, DAT_MEM_TYPE_VIRTUAL, region, length, pz,
                     static_cast<DAT_MEM_PRIV_FLAGS>(privileges), DAT_VA_TYPE_VA, &lmr,
                     &side.regions.at(place).lmr_context,
                     no_outputs ? nullptr : &side.regions.at(place).rmr_context,
                     no_outputs ? nullptr : &registered, no_outputs ? nullptr : &address);
  if (w.end(code)) {
    side.lmr.at(place) = lmr;
    side.regions.at(place).address = reinterpret_cast<std::uintptr_t>(region.for_va);
    side.regions.at(place).length = length;
    w.named(lmr, side, "lmr", index);
    if (!no_outputs) {
      w.field("registered", registered);
      w.field("same_address", address == reinterpret_cast<std::uintptr_t>(region.for_va) ? 1U : 0U);
      w.flush_fields(". outputs");
    }
  }
}

void open_side(World& w, Side& side) {
  w.begin(std::string("ia_open ") + side.letter);
  const DAT_COUNT length = w.random.of({8, 8, 1, 64});
  DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
  if (!w.end(dat_ia_open(w.adapter.data(), length, &async, &side.ia))) {
    side.ia = DAT_HANDLE_NULL;
    return;
  }
  side.async = async;
  w.named(async, side, "async", 0);
  w.named(side.ia, side, "ia", 0);
  create_pz(w, side);
  const std::array<unsigned, 7> flags = {
      DAT_EVD_DTO_FLAG,        DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG,
      DAT_EVD_CONNECTION_FLAG, DAT_EVD_CR_FLAG,
      DAT_EVD_SOFTWARE_FLAG,   DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG,
      DAT_EVD_DTO_FLAG};
  for (int i = 0; i < 7; i++) {
    create_evd(w, side, i, flags.at(static_cast<std::size_t>(i)));
  }
  create_lmr(w, side, 0, DAT_MEM_PRIV_ALL_FLAG);
  create_lmr(w, side, 1, DAT_MEM_PRIV_ALL_FLAG);
  create_ep(w, side);
  create_ep(w, side);
  create_psp(w, side);
}

namespace {

void pz_create(World& w) {
  Side& side = w.any_side();
  if (side.ia != DAT_HANDLE_NULL) {
    create_pz(w, side);
  }
}

void pz_query(World& w) {
  Side& side = w.any_side();
  DAT_PZ_HANDLE pz = w.pick(side, &Side::pz);
  if (pz == DAT_HANDLE_NULL) {
    return;
  }
  DAT_PZ_PARAM param{};
  w.begin("pz_query " + w.name(pz));
  if (w.end(dat_pz_query(pz, DAT_PZ_FIELD_ALL, &param))) {
    w.field("ia", w.name(param.ia_handle));
    w.flush_fields(". pz");
  }
}

/// Frees an object with the function for its kind; refused if it is in use, which must change
/// nothing.
void free_one(World& w, Places Side::*kind, const char* call, DAT_RETURN (*function)(DAT_HANDLE)) {
  Side& side = w.any_side();
  int index = 0;
  DAT_HANDLE handle = w.pick(side, kind, &index);
  if (handle == DAT_HANDLE_NULL) {
    return;
  }
  w.begin(std::string(call) + " " + w.name(handle));
  if (w.end(function(handle))) {
    (side.*kind)[static_cast<std::size_t>(index)] = DAT_HANDLE_NULL;
  }
}

void pz_free(World& w) { free_one(w, &Side::pz, "pz_free", dat_pz_free); }
void lmr_free(World& w) { free_one(w, &Side::lmr, "lmr_free", dat_lmr_free); }
void rmr_free(World& w) { free_one(w, &Side::rmr, "rmr_free", dat_rmr_free); }
void srq_free(World& w) { free_one(w, &Side::srq, "srq_free", dat_srq_free); }

void lmr_create(World& w) {
  Side& side = w.any_side();
  const int place = w.free_place(side.lmr);
  if (side.ia != DAT_HANDLE_NULL && place >= 0) {
    create_lmr(w, side, place,
               w.random.of<unsigned>({0x33, 0x33, 0x11, 0x13, 0x10, 0x01, 0x31, 0x00, 0x12}));
  }
}

void lmr_query(World& w) {
  Side& side = w.any_side();
  DAT_LMR_HANDLE lmr = w.pick(side, &Side::lmr);
  if (lmr == DAT_HANDLE_NULL) {
    return;
  }
  DAT_LMR_PARAM param{};
  w.begin("lmr_query " + w.name(lmr));
  if (w.end(dat_lmr_query(lmr, DAT_LMR_FIELD_ALL, &param))) {
    w.field("ia", w.name(param.ia_handle));
    w.field("type", param.mem_type);
    w.field("length", param.length);
    w.field("pz", w.name(param.pz_handle));
    w.field("priv", param.mem_priv);
    w.field("va_type", param.va_type);
    w.field("offset", reinterpret_cast<std::uintptr_t>(param.region_desc.for_va) -
                          reinterpret_cast<std::uintptr_t>(side.memory->data()));
    w.field("registered", param.registered_size);
    w.field("roffset",
            param.registered_address - reinterpret_cast<std::uintptr_t>(side.memory->data()));
    w.flush_fields(". lmr");
  }
}

void lmr_sync(World& w) {
  Side& side = w.any_side();
  if (side.ia == DAT_HANDLE_NULL) {
    return;
  }
  DAT_LMR_TRIPLET segment{reinterpret_cast<std::uintptr_t>(side.memory->data()),
                          w.random.of({0U, 16U, 100000U}), side.regions[0].lmr_context};
  w.begin("lmr_sync");
  w.end(w.random.percent(50) ? dat_lmr_sync_rdma_read(side.ia, &segment, 1)
                             : dat_lmr_sync_rdma_write(side.ia, &segment, 1));
}

void rmr_create(World& w) {
  Side& side = w.any_side();
  const int place = w.free_place(side.rmr);
  DAT_PZ_HANDLE pz = w.pick(side, &Side::pz);
  if (place < 0 || pz == DAT_HANDLE_NULL) {
    return;
  }
  DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
  w.begin("rmr_create " + w.name(pz));
  if (w.end(dat_rmr_create(pz, &rmr))) {
    side.rmr[static_cast<std::size_t>(place)] = rmr;
    w.named(rmr, side, "rmr", place);
  }
}

void srq_create(World& w) {
  Side& side = w.any_side();
  const int place = w.free_place(side.srq);
  DAT_PZ_HANDLE pz = w.pick(side, &Side::pz);
  if (place < 0 || pz == DAT_HANDLE_NULL) {
    return;
  }
  DAT_SRQ_ATTR attr{w.random.of({16, 16, 1, 3, 100}), w.random.of({1, 4, 2, 0}),
                    w.random.of({0, 0, 0, 2})};
  DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
  w.begin("srq_create " + w.name(pz) + " dtos=" + std::to_string(attr.max_recv_dtos) + " iov=" +
          std::to_string(attr.max_recv_iov) + " lw=" + std::to_string(attr.low_watermark));
  if (w.end(dat_srq_create(side.ia, pz, &attr, &srq))) {
    side.srq[static_cast<std::size_t>(place)] = srq;
    w.named(srq, side, "srq", place);
  }
}

void srq_query(World& w) {
  Side& side = w.any_side();
  DAT_SRQ_HANDLE srq = w.pick(side, &Side::srq);
  if (srq == DAT_HANDLE_NULL) {
    return;
  }
  DAT_SRQ_PARAM param{};
  w.begin("srq_query " + w.name(srq));
  if (w.end(dat_srq_query(srq, DAT_SRQ_FIELD_ALL, &param))) {
    w.field("ia", w.name(param.ia_handle));
    w.field("state", param.srq_state);
    w.field("pz", w.name(param.pz_handle));
    w.field("dtos", static_cast<unsigned>(param.max_recv_dtos));
    w.field("iov", static_cast<unsigned>(param.max_recv_iov));
    w.field("lw", static_cast<unsigned>(param.low_watermark));
    w.field("available", static_cast<unsigned>(param.available_dto_count));
    w.field("outstanding", static_cast<unsigned>(param.outstanding_dto_count));
    w.flush_fields(". srq");
  }
}

void srq_resize(World& w) {
  Side& side = w.any_side();
  DAT_SRQ_HANDLE srq = w.pick(side, &Side::srq);
  if (srq == DAT_HANDLE_NULL) {
    return;
  }
  const DAT_COUNT count = w.random.of({32, 16, 200, 1, 0});
  w.begin("srq_resize " + w.name(srq) + " " + std::to_string(count));
  w.end(dat_srq_resize(srq, count));
}

void ia_query(World& w) {
  Side& side = w.any_side();
  if (side.ia == DAT_HANDLE_NULL) {
    return;
  }
  DAT_IA_ATTR attr{};
  DAT_PROVIDER_ATTR provider{};
  DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
  const bool with_async = w.random.percent(50);
  w.begin(std::string("ia_query ") + side.letter);
  if (w.end(dat_ia_query(side.ia, with_async ? &async : nullptr, DAT_IA_FIELD_ALL, &attr,
                         DAT_PROVIDER_FIELD_ALL, &provider))) {
    w.field("async", with_async ? w.name(async) : "unasked");
    w.field("extensions", attr.extension_supported);
    w.field("family", attr.ia_address_ptr->sa_family);
    w.field("vendor_attrs", static_cast<unsigned>(attr.num_vendor_attr));
    w.field("transport_attrs", static_cast<unsigned>(attr.num_transport_attr));
    w.field("pz_support", provider.pz_support);
    w.field("iov_ownership", provider.iov_ownership_on_return);
    w.field("qos", provider.dat_qos_supported);
    w.field("multipath", provider.supports_multipath);
    w.flush_fields(". ia");
  }
}

void ia_close(World& w) {
  Side& side = w.any_side();
  if (side.ia == DAT_HANDLE_NULL) {
    return;
  }
  const bool abrupt = w.random.percent(40);
  w.begin(std::string("ia_close ") + (abrupt ? "abrupt " : "graceful ") + side.letter);
  if (w.end(dat_ia_close(side.ia, abrupt ? DAT_CLOSE_ABRUPT_FLAG : DAT_CLOSE_GRACEFUL_FLAG))) {
    forget(side);
  }
  w.after(60);
}

void ia_open(World& w) {
  for (Side& side : w.sides) {
    if (side.ia == DAT_HANDLE_NULL) {
      open_side(w, side);
    }
  }
}

void handle_type(World& w) {
  Side& side = w.any_side();
  DAT_HANDLE handle = w.pick(side, kKinds.at(w.random.below(10)));
  if (handle == DAT_HANDLE_NULL) {
    return;
  }
  DAT_HANDLE_TYPE type{};
  w.begin("get_handle_type " + w.name(handle));
  if (w.end(dat_get_handle_type(handle, &type))) {
    w.field("type", type);
    w.flush_fields(". handle");
  }
}

void context(World& w) {
  Side& side = w.any_side();
  DAT_HANDLE handle = w.random.percent(10) ? side.ia : w.pick(side, kKinds.at(w.random.below(10)));
  if (handle == DAT_HANDLE_NULL) {
    return;
  }
  DAT_CONTEXT value{};
  w.begin("context " + w.name(handle));
  if (w.random.percent(60)) {
    value.as_64 = w.random.below(1000000);
    w.end(dat_set_consumer_context(handle, value));
  } else if (w.end(dat_get_consumer_context(handle, &value))) {
    w.field("value", value.as_64);
    w.flush_fields(". context");
  }
}

}  // namespace

const std::vector<Step>& object_steps() {
  static const std::vector<Step> steps = {
      {"pz_create", 2, pz_create},   {"pz_query", 1, pz_query},       {"pz_free", 2, pz_free},
      {"lmr_create", 4, lmr_create}, {"lmr_query", 3, lmr_query},     {"lmr_free", 3, lmr_free},
      {"lmr_sync", 1, lmr_sync},     {"rmr_create", 1, rmr_create},   {"rmr_free", 1, rmr_free},
      {"srq_create", 3, srq_create}, {"srq_query", 3, srq_query},     {"srq_resize", 2, srq_resize},
      {"srq_free", 1, srq_free},     {"ia_query", 2, ia_query},       {"ia_close", 2, ia_close},
      {"ia_open", 2, ia_open},       {"handle_type", 2, handle_type}, {"context", 3, context}};
  return steps;
}
