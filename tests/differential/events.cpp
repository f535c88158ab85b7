/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
// EVDs and CNOs.
#include <cstring>

#include "world.h"

void create_evd(World& w, Side& side, int index, unsigned flags) {
  const auto place = static_cast<std::size_t>(index);
  const DAT_COUNT length = w.random.of({32, 64, 100, 16, 8, 1, 256});
  DAT_CNO_HANDLE cno = w.maybe(side, &Side::cno, 60);
  DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
  w.begin(std::string("evd_create ") + side.letter + " " + std::to_string(index) + " flags=" +
          Protocol::hex(flags) + " length=" + std::to_string(length) + " cno=" + w.name(cno));
  if (w.end(dat_evd_create(side.ia, length, cno, static_cast<DAT_EVD_FLAGS>(flags), &evd))) {
    side.evd.at(place) = evd;
    side.evd_flags.at(place) = static_cast<DAT_EVD_FLAGS>(flags);
    w.named(evd, side, "evd", index);
  }
}

namespace {

DAT_EVD_HANDLE some_evd(World& w, Side& side, int* index = nullptr) {
  return w.pick(side, &Side::evd, index);
}

void evd_create(World& w) {
  Side& side = w.any_side();
  const int place = w.free_place(side.evd);
  if (side.ia != DAT_HANDLE_NULL && place >= 0) {
    create_evd(
        w, side, place,
        w.random.of<unsigned>({0x20, 0xa0, 0x40, 0x10, 0x01, 0x50, 0x51,  0x21,  0xa1, 0x11, 0x41,
                               0x80, 0x60, 0x30, 0x70, 0xb0, 0xf0, 0x1f0, 0x100, 0x00, 0x200}));
  }
}

void evd_free(World& w) {
  Side& side = w.any_side();
  int index = 0;
  DAT_EVD_HANDLE evd = some_evd(w, side, &index);
  if (evd == DAT_HANDLE_NULL) {
    return;
  }
  w.begin("evd_free " + w.name(evd));
  if (w.end(dat_evd_free(evd))) {
    side.evd[static_cast<std::size_t>(index)] = DAT_HANDLE_NULL;
  }
}

void evd_query(World& w) {
  Side& side = w.any_side();
  DAT_EVD_HANDLE evd = w.random.percent(10) ? side.async : some_evd(w, side);
  if (evd == DAT_HANDLE_NULL) {
    return;
  }
  DAT_EVD_PARAM param{};
  w.begin("evd_query " + w.name(evd));
  if (w.end(dat_evd_query(evd, DAT_EVD_FIELD_ALL, &param))) {
    w.field("ia", w.name(param.ia_handle));
    w.field("state", param.evd_state);
    w.field("cno", w.name(param.cno_handle));
    w.field("flags", param.evd_flags);
    w.field("positive_length", param.evd_qlen > 0 ? 1U : 0U);
    w.flush_fields(". evd");
  }
}

void evd_wait(World& w) {
  Side& side = w.any_side();
  DAT_EVD_HANDLE evd = w.random.percent(5) ? side.async : some_evd(w, side);
  if (evd == DAT_HANDLE_NULL) {
    return;
  }
  const DAT_TIMEOUT timeout = w.random.of({0U, 1000U, 20000U});
  const DAT_COUNT threshold = w.random.of({1, 1, 1, 1, 2, 3, 0});
  DAT_EVENT event;
  std::memset(&event, 0, sizeof event);
  DAT_COUNT more = 0;
  w.begin("evd_wait " + w.name(evd) + " timeout=" + std::to_string(timeout) +
          " threshold=" + std::to_string(threshold));
  if (w.end(dat_evd_wait(evd, timeout, threshold, &event, &more))) {
    w.event(event, w.name(evd));
  }
}

void evd_dequeue(World& w) {
  Side& side = w.any_side();
  DAT_EVD_HANDLE evd = some_evd(w, side);
  if (evd == DAT_HANDLE_NULL) {
    return;
  }
  DAT_EVENT event;
  std::memset(&event, 0, sizeof event);
  w.begin("evd_dequeue " + w.name(evd));
  if (w.end(dat_evd_dequeue(evd, &event))) {
    w.event(event, w.name(evd));
  }
}

void evd_resize(World& w) {
  Side& side = w.any_side();
  int index = 0;
  DAT_EVD_HANDLE evd = some_evd(w, side, &index);
  if (evd == DAT_HANDLE_NULL || (side.evd_flags.at(static_cast<std::size_t>(index)) & 0xa0) != 0) {
    return;  // the packaged library deadlocks if the EVD has DTOs
  }
  const DAT_COUNT length = w.random.of({300, 500, 1000});
  w.begin("evd_resize " + w.name(evd) + " " + std::to_string(length));
  w.end(dat_evd_resize(evd, length));
}

void evd_state(World& w) {
  Side& side = w.any_side();
  DAT_EVD_HANDLE evd = some_evd(w, side);
  if (evd == DAT_HANDLE_NULL) {
    return;
  }
  struct Call {
    const char* name;
    DAT_RETURN (*function)(DAT_EVD_HANDLE);
  };
  const Call call = w.random.of<Call>({{"evd_enable", dat_evd_enable},
                                       {"evd_disable", dat_evd_disable},
                                       {"evd_set_unwaitable", dat_evd_set_unwaitable},
                                       {"evd_clear_unwaitable", dat_evd_clear_unwaitable},
                                       {"evd_clear_unwaitable", dat_evd_clear_unwaitable},
                                       {"evd_enable", dat_evd_enable}});
  w.begin(std::string(call.name) + " " + w.name(evd));
  w.end(call.function(evd));
}

void evd_modify_cno(World& w) {
  Side& side = w.any_side();
  DAT_EVD_HANDLE evd = some_evd(w, side);
  if (evd == DAT_HANDLE_NULL) {
    return;
  }
  DAT_CNO_HANDLE cno = w.maybe(side, &Side::cno, 30);
  w.begin("evd_modify_cno " + w.name(evd) + " " + w.name(cno));
  w.end(dat_evd_modify_cno(evd, cno));
}

void evd_post_se(World& w) {
  Side& side = w.any_side();
  DAT_EVD_HANDLE evd =
      w.random.percent(60) ? w.evd_for(side, DAT_EVD_SOFTWARE_FLAG, 0) : some_evd(w, side);
  if (evd == DAT_HANDLE_NULL) {
    return;
  }
  DAT_EVENT event;
  std::memset(&event, 0, sizeof event);
  event.event_number = w.random.percent(90) ? DAT_SOFTWARE_EVENT : DAT_DTO_COMPLETION_EVENT;
  event.event_data.software_event_data.pointer =
      reinterpret_cast<DAT_PVOID>(std::uintptr_t{w.random.below(100000)});
  w.begin("evd_post_se " + w.name(evd));
  w.end(dat_evd_post_se(evd, &event));
}

void cno_create(World& w) {
  Side& side = w.any_side();
  const int place = w.free_place(side.cno);
  if (side.ia == DAT_HANDLE_NULL || place < 0) {
    return;
  }
  DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
  w.begin(std::string("cno_create ") + side.letter);
  if (w.end(dat_cno_create(side.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno))) {
    side.cno[static_cast<std::size_t>(place)] = cno;
    w.named(cno, side, "cno", place);
  }
}

void cno_free(World& w) {
  Side& side = w.any_side();
  int index = 0;
  DAT_CNO_HANDLE cno = w.pick(side, &Side::cno, &index);
  if (cno == DAT_HANDLE_NULL) {
    return;
  }
  w.begin("cno_free " + w.name(cno));
  if (w.end(dat_cno_free(cno))) {
    side.cno[static_cast<std::size_t>(index)] = DAT_HANDLE_NULL;
  }
}

void cno_query(World& w) {
  Side& side = w.any_side();
  DAT_CNO_HANDLE cno = w.pick(side, &Side::cno);
  if (cno == DAT_HANDLE_NULL) {
    return;
  }
  DAT_CNO_PARAM param{};
  w.begin("cno_query " + w.name(cno));
  if (w.end(dat_cno_query(cno, static_cast<DAT_CNO_PARAM_MASK>(w.random.of({3, 4, 7})), &param))) {
    w.field("ia", w.name(param.ia_handle));
    w.field("type", param.proxy_type);
    w.field("agent", param.proxy.agent.proxy_agent_func == nullptr ? 0U : 1U);
    w.flush_fields(". cno");
  }
}

void cno_wait(World& w) {
  Side& side = w.any_side();
  DAT_CNO_HANDLE cno = w.pick(side, &Side::cno);
  if (cno == DAT_HANDLE_NULL) {
    return;
  }
  DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
  w.begin("cno_wait " + w.name(cno));
  if (w.end(dat_cno_wait(cno, w.random.of({0U, 1000U, 20000U}), &evd))) {
    w.field("evd", w.name(evd));
    w.flush_fields(". cno");
  }
}

void agent(DAT_PVOID /*data*/, DAT_EVD_HANDLE /*evd*/) {}

void cno_modify_agent(World& w) {
  Side& side = w.any_side();
  DAT_CNO_HANDLE cno = w.pick(side, &Side::cno);
  if (cno == DAT_HANDLE_NULL) {
    return;
  }
  DAT_OS_WAIT_PROXY_AGENT value = DAT_OS_WAIT_PROXY_AGENT_NULL;
  value.proxy_agent_func = w.random.percent(30) ? agent : nullptr;
  w.begin("cno_modify_agent " + w.name(cno) +
          (value.proxy_agent_func == nullptr ? " none" : " agent"));
  w.end(dat_cno_modify_agent(cno, value));
}

void drain(World& w) {
  w.begin("drain");
  w.end(DAT_SUCCESS);
  w.settle(20);
  w.drain_all();
}

}  // namespace

const std::vector<Step>& event_steps() {
  static const std::vector<Step> steps = {{"evd_create", 5, evd_create},
                                          {"evd_free", 3, evd_free},
                                          {"evd_query", 3, evd_query},
                                          {"evd_wait", 7, evd_wait},
                                          {"evd_dequeue", 3, evd_dequeue},
                                          {"evd_resize", 1, evd_resize},
                                          {"evd_state", 3, evd_state},
                                          {"evd_modify_cno", 2, evd_modify_cno},
                                          {"evd_post_se", 4, evd_post_se},
                                          {"cno_create", 3, cno_create},
                                          {"cno_free", 1, cno_free},
                                          {"cno_query", 1, cno_query},
                                          {"cno_wait", 3, cno_wait},
                                          {"cno_modify_agent", 1, cno_modify_agent},
                                          {"drain", 6, drain}};
  return steps;
}
