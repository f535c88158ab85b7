// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "run.h"

#include <dat/dat_ib_extensions.h>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

namespace faults {

namespace {

constexpr DAT_TIMEOUT kConnectTime = 5'000'000;  // us
constexpr auto kPatience = std::chrono::seconds(4);

std::string describe(DAT_RETURN code) {
  const char* major = "?";
  const char* minor = "?";
  dat_strerror(code, &major, &minor);
  char text[160];
  std::snprintf(text, sizeof text, "%s %s (0x%x)", major, minor, code);
  return text;
}

// Whether the API defines this error.
bool documented(DAT_RETURN code) {
  const char* major = nullptr;
  const char* minor = nullptr;
  return DAT_GET_TYPE(code) != DAT_SUCCESS &&
         DAT_GET_TYPE(dat_strerror(code, &major, &minor)) == DAT_SUCCESS;
}

}  // namespace

bool Run::ok(DAT_RETURN code, const char* call) {
  if (code == DAT_SUCCESS) return true;
  note(std::string(call) + ": " + describe(code));
  if (!documented(code)) complain(std::string("not an error of the API from ") + call);
  return false;
}

bool Run::open() {
  if (!ok(dat_ia_openv(const_cast<char*>(adapter), 8, &async_evd, &ia, 2, 0,
                       threadsafe ? DAT_TRUE : DAT_FALSE),
          "dat_ia_open")) {
    ia = DAT_HANDLE_NULL;
    return false;
  }
  return ok(dat_ia_query(ia, nullptr, DAT_IA_FIELD_ALL, &attr, 0, nullptr), "dat_ia_query");
}

void Run::finish() {
  bool all_free = true;
  for (; !cleanups_.empty(); cleanups_.pop_back()) {
    const DAT_RETURN code = cleanups_.back().second();
    if (code == DAT_SUCCESS) continue;
    all_free = false;
    if (!documented(code))
      complain(std::string(cleanups_.back().first) + " fails without an error: " + describe(code));
  }
  if (ia == DAT_HANDLE_NULL) return;
  const DAT_CLOSE_FLAGS how = all_free ? DAT_CLOSE_GRACEFUL_FLAG : DAT_CLOSE_ABRUPT_FLAG;
  DAT_RETURN code = dat_ia_close(ia, how);
  if (code != DAT_SUCCESS && all_free) code = dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG);
  if (code != DAT_SUCCESS) complain("dat_ia_close: " + describe(code));
  ia = DAT_HANDLE_NULL;
}

bool Run::expect(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number, DAT_EVENT* event,
                 DAT_EVD_HANDLE also) {
  if (kept_from_ == evd && evd != DAT_HANDLE_NULL) {
    *event = kept_;
    kept_from_ = DAT_HANDLE_NULL;
    if (event->event_number == number) return true;
  }
  const auto end = std::chrono::steady_clock::now() + kPatience;
  do {
    for (const DAT_EVD_HANDLE from : {evd, also, async_evd}) {
      if (from == DAT_HANDLE_NULL) continue;
      const DAT_RETURN code = dat_evd_dequeue(from, event);
      if (DAT_GET_TYPE(code) == DAT_QUEUE_EMPTY) continue;
      if (!ok(code, "dat_evd_dequeue")) return false;
      if (from == evd && event->event_number == number) return true;
      if (from == also && number == DAT_CONNECTION_EVENT_ESTABLISHED &&
          event->event_number == number && kept_from_ == DAT_HANDLE_NULL) {
        kept_ = *event;  // the other side was notified first
        kept_from_ = from;
        continue;
      }
      char text[80];
      std::snprintf(text, sizeof text, "event 0x%x instead of 0x%x",
                    static_cast<unsigned>(event->event_number), static_cast<unsigned>(number));
      note(text);
      return false;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  } while (std::chrono::steady_clock::now() < end);
  char text[80];
  std::snprintf(text, sizeof text, "event 0x%x does not come", static_cast<unsigned>(number));
  note(text);
  complain(text);
  return false;
}

bool Run::expect_done(DAT_EVD_HANDLE evd, DAT_EVD_HANDLE also) {
  DAT_EVENT event{};
  const auto number = static_cast<unsigned>(DAT_DTO_COMPLETION_EVENT);
  if (!expect(evd, static_cast<DAT_EVENT_NUMBER>(number), &event, also)) return false;
  if (event.event_data.dto_completion_event_data.status == DAT_DTO_SUCCESS) return true;
  note("a transfer with status " +
       std::to_string(event.event_data.dto_completion_event_data.status));
  return false;
}

// ---- Pair --------------------------------------------------------------------------------------

namespace {

bool make_evd(Run& run, DAT_COUNT length, int flags, DAT_EVD_HANDLE* evd,
              DAT_CNO_HANDLE cno = DAT_HANDLE_NULL) {
  if (!FAULTS_OK(run, dat_evd_create(run.ia, length, cno, static_cast<DAT_EVD_FLAGS>(flags), evd)))
    return false;
  run.on_finish("dat_evd_free", [evd = *evd] { return dat_evd_free(evd); });
  return true;
}

DAT_EP_ATTR ep_attributes(const Run& run) {
  DAT_EP_ATTR attr{};
  attr.service_type = DAT_SERVICE_TYPE_RC;
  attr.max_message_size = run.attr.max_message_size;
  attr.max_rdma_size = run.attr.max_rdma_size;
  attr.qos = DAT_QOS_BEST_EFFORT;
  attr.recv_completion_flags = DAT_COMPLETION_EVD_THRESHOLD_FLAG;
  attr.request_completion_flags = DAT_COMPLETION_EVD_THRESHOLD_FLAG;
  attr.max_recv_dtos = attr.max_request_dtos = 16;
  attr.max_recv_iov = attr.max_request_iov = 2;
  attr.max_rdma_read_in = attr.max_rdma_read_out = 4;
  attr.max_rdma_read_iov = attr.max_rdma_write_iov = 1;
  attr.srq_soft_hw = DAT_WATERMARK_INFINITE;
  return attr;
}

bool make(Run& run, DAT_PZ_HANDLE pz, DAT_SRQ_HANDLE srq, End& end,
          DAT_CNO_HANDLE cno = DAT_HANDLE_NULL) {
  if (!make_evd(run, 16, DAT_EVD_DTO_FLAG, &end.recv_evd, cno) ||
      !make_evd(run, 16, DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG, &end.request_evd) ||
      !make_evd(run, 8, DAT_EVD_CONNECTION_FLAG, &end.connect_evd))
    return false;
  DAT_EP_ATTR attr = ep_attributes(run);
  const DAT_RETURN code = srq == DAT_HANDLE_NULL
                              ? dat_ep_create(run.ia, pz, end.recv_evd, end.request_evd,
                                              end.connect_evd, &attr, &end.ep)
                              : dat_ep_create_with_srq(run.ia, pz, end.recv_evd, end.request_evd,
                                                       end.connect_evd, srq, &attr, &end.ep);
  if (!run.ok(code, "dat_ep_create")) return false;
  run.on_finish("dat_ep_free", [ep = end.ep] { return dat_ep_free(ep); });
  return true;
}

}  // namespace

Pair::Pair(Run& owner) : run(owner), memory(4096) {
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(i + 1);
}

bool Pair::create(bool shared) {
  if (!run.open() || !FAULTS_OK(run, dat_pz_create(run.ia, &pz))) return false;
  run.on_finish("dat_pz_free", [this] { return dat_pz_free(pz); });
  DAT_REGION_DESCRIPTION region{};
  region.for_va = memory.data();
  DAT_VLEN size = 0;
  DAT_VADDR address = 0;
  const auto privileges = static_cast<DAT_MEM_PRIV_FLAGS>(
      DAT_MEM_PRIV_ALL_FLAG | static_cast<int>(DAT_IB_MEM_PRIV_REMOTE_ATOMIC));
  if (!FAULTS_OK(run,
                 dat_lmr_create(run.ia, DAT_MEM_TYPE_VIRTUAL, region, memory.size(), pz, privileges,
                                DAT_VA_TYPE_VA, &lmr, &lmr_context, &rmr_context, &size, &address)))
    return false;
  run.on_finish("dat_lmr_free", [this] { return dat_lmr_free(lmr); });
  if (shared) {
    DAT_SRQ_ATTR attr{};
    attr.max_recv_dtos = 16;
    attr.max_recv_iov = 1;
    attr.low_watermark = DAT_SRQ_LW_DEFAULT;
    if (!FAULTS_OK(run, dat_srq_create(run.ia, pz, &attr, &srq))) return false;
    run.on_finish("dat_srq_free", [this] { return dat_srq_free(srq); });
  }
  if (with_cno) {
    if (!FAULTS_OK(run, dat_cno_create(run.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno))) return false;
    run.on_finish("dat_cno_free", [this] { return dat_cno_free(cno); });
  }
  if (!make(run, pz, DAT_HANDLE_NULL, active) || !make(run, pz, srq, passive, cno) ||
      !make_evd(run, 8, DAT_EVD_CR_FLAG, &cr_evd))
    return false;
  if (!FAULTS_OK(run, dat_psp_create(run.ia, conn_qual(), cr_evd, DAT_PSP_CONSUMER_FLAG, &psp)))
    return false;
  run.on_finish("dat_psp_free", [this] { return dat_psp_free(psp); });
  return true;
}

bool Pair::make_end(End& end) { return make(run, pz, DAT_HANDLE_NULL, end); }

namespace {

// Whether `data` is what was sent; complains if not. `where`: for the complaint.
bool same(Run& run, DAT_COUNT sent, const void* from, DAT_COUNT size, const void* data,
          const char* where) {
  if (size == sent && (size == 0 || std::memcmp(from, data, static_cast<std::size_t>(size)) == 0))
    return true;
  run.complain(std::to_string(size) + " bytes of private data " + where + ", or others than the " +
               std::to_string(sent) + " that were sent");
  return false;
}

}  // namespace

bool Pair::request(DAT_COUNT size) {
  DAT_EVENT event{};
  if (!FAULTS_OK(run,
                 dat_ep_connect(active.ep, run.attr.ia_address_ptr, conn_qual(), kConnectTime, size,
                                memory.data(), DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG)) ||
      !run.expect(cr_evd, DAT_CONNECTION_REQUEST_EVENT, &event, active.connect_evd))
    return false;
  cr = event.event_data.cr_arrival_event_data.cr_handle;
  DAT_CR_PARAM param{};
  return FAULTS_OK(run, dat_cr_query(cr, DAT_CR_FIELD_ALL, &param)) &&
         same(run, size, memory.data(), param.private_data_size, param.private_data, "in the CR");
}

bool Pair::connect(DAT_COUNT size) {
  if (!request(size)) return false;
  if (!FAULTS_OK(run, dat_cr_accept(cr, passive.ep, size, memory.data()))) {
    (void)dat_cr_reject(cr, 0, nullptr);  // if it still exists
    return false;
  }
  DAT_EVENT event{};
  if (!run.expect(active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED, &event,
                  passive.connect_evd))
    return false;
  const DAT_CONNECTION_EVENT_DATA& reply = event.event_data.connect_event_data;
  return same(run, size, memory.data(), reply.private_data_size, reply.private_data,
              "in the reply") &&
         run.expect(passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED, &event,
                    active.connect_evd);
}

bool Pair::reject() {
  DAT_EVENT event{};
  if (!request()) return false;
  if (!FAULTS_OK(run, dat_cr_reject(cr, 4, memory.data()))) {
    (void)dat_cr_reject(cr, 0, nullptr);
    return false;
  }
  return run.expect(active.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED, &event);
}

bool Pair::disconnect(DAT_CLOSE_FLAGS how) {
  DAT_EVENT event{};
  return FAULTS_OK(run, dat_ep_disconnect(active.ep, how)) &&
         run.expect(active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED, &event) &&
         run.expect(passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED, &event);
}

DAT_LMR_TRIPLET Pair::local(std::size_t offset, DAT_SEG_LENGTH length) const {
  DAT_LMR_TRIPLET triplet{};
  triplet.virtual_address = reinterpret_cast<DAT_VADDR>(memory.data() + offset);
  triplet.segment_length = length;
  triplet.lmr_context = lmr_context;
  return triplet;
}

DAT_RMR_TRIPLET Pair::remote(std::size_t offset, DAT_SEG_LENGTH length) const {
  DAT_RMR_TRIPLET triplet{};
  triplet.virtual_address = reinterpret_cast<DAT_VADDR>(memory.data() + offset);
  triplet.segment_length = length;
  triplet.rmr_context = rmr_context;
  return triplet;
}

std::array<verbs_mock_connection, 2> both_ends() {
  std::array<verbs_mock_connection, 2> ends{};
  BOOST_REQUIRE_EQUAL(verbs_mock_connections(ends.data(), 2), 2U);
  return ends;
}

}  // namespace faults
