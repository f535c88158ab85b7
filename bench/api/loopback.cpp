// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "loopback.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <unistd.h>

namespace bench {

namespace {

std::string ia_name = "soft";
DAT_BOOLEAN thread_safe = DAT_THREADSAFE;

constexpr DAT_TIMEOUT kPatience = 10'000'000;  // us: a step that takes longer has failed

void check_dto(const DAT_EVENT& event) {
  const auto& dto = event.event_data.dto_completion_event_data;
  if (event.event_number != DAT_DTO_COMPLETION_EVENT || dto.status != DAT_DTO_SUCCESS) {
    // Prints numbers, because dat_cost also uses this file and runs on libraries without the names.
    std::fprintf(stderr,
                 "dat_bench: event 0x%x with status %d instead of a successful completion\n",
                 static_cast<unsigned>(event.event_number), static_cast<int>(dto.status));
    std::exit(1);
  }
}

}  // namespace

void set_ia_name(std::string name) { ia_name = std::move(name); }

void set_thread_safe(bool wanted) { thread_safe = wanted ? DAT_TRUE : DAT_FALSE; }

void check(DAT_RETURN rc, const char* what) {
  if (rc == DAT_SUCCESS) return;
  const char* major = "?";
  const char* minor = "?";
  dat_strerror(rc, &major, &minor);
  std::fprintf(stderr, "dat_bench: %s: %s %s\n", what, major, minor);
  std::exit(1);
}

void create_evd(const Adapter& adapter, DAT_COUNT depth, DAT_EVD_FLAGS flags, DAT_EVD_HANDLE* evd) {
  check(dat_evd_create(adapter.ia, depth, DAT_HANDLE_NULL, flags, evd), "dat_evd_create");
}

Adapter::Adapter() {
  std::string name = ia_name;
  check(dat_ia_openv(name.data(), 8, &async_evd, &ia, DAT_VERSION_MAJOR, DAT_VERSION_MINOR,
                     thread_safe),
        "dat_ia_openv");
  check(dat_ia_query(ia, nullptr, DAT_IA_FIELD_ALL, &attr, 0, nullptr), "dat_ia_query");
  check(dat_pz_create(ia, &pz), "dat_pz_create");
}

Adapter::~Adapter() {
  check(dat_pz_free(pz), "dat_pz_free");
  check(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG), "dat_ia_close");
}

Buffer::Buffer(const Adapter& adapter, std::size_t size) : bytes(size) {
  DAT_REGION_DESCRIPTION region{};
  region.for_va = bytes.data();
  DAT_VLEN registered_length = 0;
  DAT_VADDR registered_address = 0;
  check(dat_lmr_create(adapter.ia, DAT_MEM_TYPE_VIRTUAL, region, size, adapter.pz,
                       DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &lmr, &lmr_context, &rmr_context,
                       &registered_length, &registered_address),
        "dat_lmr_create");
}

Buffer::~Buffer() { check(dat_lmr_free(lmr), "dat_lmr_free"); }

DAT_LMR_TRIPLET Buffer::local(std::size_t length) const {
  DAT_LMR_TRIPLET triplet{};
  triplet.virtual_address = reinterpret_cast<DAT_VADDR>(bytes.data());
  triplet.segment_length = static_cast<DAT_SEG_LENGTH>(length);
  triplet.lmr_context = lmr_context;
  return triplet;
}

DAT_RMR_TRIPLET Buffer::remote(std::size_t length) const {
  DAT_RMR_TRIPLET triplet{};
  triplet.virtual_address = reinterpret_cast<DAT_VADDR>(bytes.data());
  triplet.segment_length = static_cast<DAT_SEG_LENGTH>(length);
  triplet.rmr_context = rmr_context;
  return triplet;
}

void End::create(const Adapter& adapter, DAT_COUNT depth) {
  create_evd(adapter, depth, DAT_EVD_DTO_FLAG, &recv_evd);
  create_evd(adapter, depth, static_cast<DAT_EVD_FLAGS>(DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG),
             &request_evd);
  create_evd(adapter, 8, DAT_EVD_CONNECTION_FLAG, &connect_evd);
  create_ep(adapter, depth);
}

void End::create_ep(const Adapter& adapter, DAT_COUNT depth) {
  DAT_EP_ATTR attr{};
  attr.service_type = DAT_SERVICE_TYPE_RC;
  attr.max_message_size = adapter.attr.max_message_size;
  attr.max_rdma_size = adapter.attr.max_rdma_size;
  attr.qos = DAT_QOS_BEST_EFFORT;
  attr.recv_completion_flags = DAT_COMPLETION_EVD_THRESHOLD_FLAG;
  attr.request_completion_flags = DAT_COMPLETION_EVD_THRESHOLD_FLAG;
  attr.max_recv_dtos = depth;
  attr.max_request_dtos = depth;
  attr.max_recv_iov = 4;
  attr.max_request_iov = 4;
  attr.max_rdma_read_in = 4;
  attr.max_rdma_read_out = 4;
  attr.max_rdma_read_iov = 1;
  attr.max_rdma_write_iov = 1;
  attr.srq_soft_hw = DAT_WATERMARK_INFINITE;
  if (srq != DAT_HANDLE_NULL)
    check(dat_ep_create_with_srq(adapter.ia, adapter.pz, recv_evd, request_evd, connect_evd, srq,
                                 &attr, &ep),
          "dat_ep_create_with_srq");
  else
    check(dat_ep_create(adapter.ia, adapter.pz, recv_evd, request_evd, connect_evd, &attr, &ep),
          "dat_ep_create");
}

void End::create_srq(const Adapter& adapter, DAT_COUNT depth) {
  DAT_SRQ_ATTR attr{};
  attr.max_recv_dtos = depth;
  attr.max_recv_iov = 4;
  attr.low_watermark = DAT_SRQ_LW_DEFAULT;
  check(dat_srq_create(adapter.ia, adapter.pz, &attr, &srq), "dat_srq_create");
}

void End::destroy() {
  check(dat_ep_free(ep), "dat_ep_free");
  if (srq != DAT_HANDLE_NULL) check(dat_srq_free(srq), "dat_srq_free");
  check(dat_evd_free(recv_evd), "dat_evd_free");
  check(dat_evd_free(request_evd), "dat_evd_free");
  check(dat_evd_free(connect_evd), "dat_evd_free");
}

void End::post_recv(const Buffer& buffer, std::size_t length) const {
  DAT_LMR_TRIPLET segment = buffer.local(length);
  if (srq != DAT_HANDLE_NULL)
    check(dat_srq_post_recv(srq, 1, &segment, DAT_DTO_COOKIE{}), "dat_srq_post_recv");
  else
    check(dat_ep_post_recv(ep, 1, &segment, DAT_DTO_COOKIE{}, DAT_COMPLETION_DEFAULT_FLAG),
          "dat_ep_post_recv");
}

void End::post_send(const Buffer& buffer, std::size_t length, DAT_COMPLETION_FLAGS flags) const {
  DAT_LMR_TRIPLET segment = buffer.local(length);
  check(dat_ep_post_send(ep, 1, &segment, DAT_DTO_COOKIE{}, flags), "dat_ep_post_send");
}

void poll_one(DAT_EVD_HANDLE evd) {
  DAT_EVENT event;
  DAT_RETURN rc = dat_evd_dequeue(evd, &event);
  while (DAT_GET_TYPE(rc) == DAT_QUEUE_EMPTY) rc = dat_evd_dequeue(evd, &event);
  check(rc, "dat_evd_dequeue");
  check_dto(event);
}

void wait_one(DAT_EVD_HANDLE evd) {
  DAT_EVENT event;
  DAT_COUNT more = 0;
  check(dat_evd_wait(evd, kPatience, 1, &event, &more), "dat_evd_wait");
  check_dto(event);
}

void wait_connection(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number) {
  DAT_EVENT event;
  DAT_COUNT more = 0;
  check(dat_evd_wait(evd, kPatience, 1, &event, &more), "dat_evd_wait");
  if (event.event_number == number) return;
  std::fprintf(stderr, "dat_bench: event 0x%x instead of 0x%x\n",
               static_cast<unsigned>(event.event_number), static_cast<unsigned>(number));
  std::exit(1);
}

DAT_CONN_QUAL listen(DAT_IA_HANDLE ia, DAT_EVD_HANDLE requests, DAT_PSP_HANDLE* psp) {
  // Derived from the process id so that concurrent runs do not collide; another socket may still
  // occupy the port.
  static std::atomic<unsigned> next{0};
  for (unsigned tries = 0;; ++tries) {
    const unsigned start = 20000 + static_cast<unsigned>(::getpid()) % 20000;
    const DAT_CONN_QUAL conn_qual = start + next.fetch_add(1) % 1000;
    const DAT_RETURN rc = dat_psp_create(ia, conn_qual, requests, DAT_PSP_CONSUMER_FLAG, psp);
    if (DAT_GET_TYPE(rc) == DAT_CONN_QUAL_IN_USE && tries < 100) continue;
    check(rc, "dat_psp_create");
    return conn_qual;
  }
}

Loopback::Loopback(DAT_COUNT depth) {
  create_evd(adapter, 8, DAT_EVD_CR_FLAG, &request_arrivals);
  conn_qual = listen(adapter.ia, request_arrivals, &psp);
  active.create(adapter, depth);
  passive.create(adapter, depth);
}

Loopback::~Loopback() {
  active.destroy();
  passive.destroy();
  check(dat_psp_free(psp), "dat_psp_free");
  check(dat_evd_free(request_arrivals), "dat_evd_free");
}

void Loopback::connect() {
  check(dat_ep_connect(active.ep, adapter.attr.ia_address_ptr, conn_qual, kPatience, 0, nullptr,
                       DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
        "dat_ep_connect");
  DAT_EVENT event;
  DAT_COUNT more = 0;
  check(dat_evd_wait(request_arrivals, kPatience, 1, &event, &more), "dat_evd_wait");
  check(dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, passive.ep, 0, nullptr),
        "dat_cr_accept");
  wait_connection(active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  wait_connection(passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}

void Loopback::disconnect(DAT_CLOSE_FLAGS how) {
  check(dat_ep_disconnect(active.ep, how), "dat_ep_disconnect");
  wait_connection(active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
  wait_connection(passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
}

void Loopback::reset() {
  check(dat_ep_reset(active.ep), "dat_ep_reset");
  check(dat_ep_reset(passive.ep), "dat_ep_reset");
}

}  // namespace bench
