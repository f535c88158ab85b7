// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "harness.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

namespace conformance {

namespace {

Options run_options;
std::string skip_reasons;

}  // namespace

const Options& options() { return run_options; }
void set_options(const Options& options) { run_options = options; }

std::string take_skip_reasons() { return std::exchange(skip_reasons, {}); }

bool skip_unless(bool condition, std::string_view reason) {
  if (condition) return false;
  const auto& name = boost::unit_test::framework::current_test_case().full_name();
  std::printf("SKIPPED %s: %.*s\n", name.c_str(), static_cast<int>(reason.size()), reason.data());
  std::fflush(stdout);
  if (!skip_reasons.empty()) skip_reasons += "; ";
  skip_reasons += reason;
  BOOST_TEST_MESSAGE("skipped");
  BOOST_CHECK(true);  // or Boost.Test would complain about a test without assertions
  return true;
}

std::string describe(DAT_RETURN rc) {
  const char* major = "?";
  const char* minor = "";
  dat_strerror(rc, &major, &minor);
  char text[160];
  std::snprintf(text, sizeof text, "%s %s (0x%08x)", major, minor, static_cast<unsigned>(rc));
  return text;
}

bool is_unsupported(DAT_RETURN rc) {
  return DAT_GET_TYPE(rc) == DAT_MODEL_NOT_SUPPORTED ||
         DAT_GET_TYPE(rc) == static_cast<DAT_RETURN>(DAT_NOT_IMPLEMENTED);
}

void require_ok(DAT_RETURN rc, const char* where) {
  BOOST_REQUIRE_MESSAGE(rc == DAT_SUCCESS, where << " -> " << describe(rc));
}

void check_type(DAT_RETURN rc, DAT_RETURN type, const char* name, const char* where) {
  BOOST_CHECK_MESSAGE(DAT_GET_TYPE(rc) == type,
                      where << " -> " << describe(rc) << ", expected " << name);
}

void check_type_or(DAT_RETURN rc, DAT_RETURN type1, DAT_RETURN type2, const char* names,
                   const char* where) {
  BOOST_CHECK_MESSAGE(DAT_GET_TYPE(rc) == type1 || DAT_GET_TYPE(rc) == type2,
                      where << " -> " << describe(rc) << ", expected " << names);
}

Promptly::Promptly() : start_(std::chrono::steady_clock::now()) {}
Promptly::~Promptly() {
  const auto took = std::chrono::steady_clock::now() - start_;
  BOOST_CHECK_MESSAGE(took < std::chrono::microseconds(kPatience * 3 / 4),
                      "something has waited in vain: it took "
                          << std::chrono::duration<double>(took).count() << " s");
}

Ia::Ia(std::string name) {
  REQUIRE_OK(dat_ia_openv(name.data(), 16, &async_evd, &handle, DAT_VERSION_MAJOR,
                          DAT_VERSION_MINOR, options().thread_safe));
  REQUIRE_OK(dat_ia_query(handle, nullptr, DAT_IA_FIELD_ALL, &attr, DAT_PROVIDER_FIELD_ALL,
                          reinterpret_cast<DAT_PROVIDER_ATTR*>(provider_bytes_)));
}

Ia::~Ia() {
  if (handle == DAT_HANDLE_NULL) return;
  const DAT_RETURN rc = dat_ia_close(handle, DAT_CLOSE_GRACEFUL_FLAG);
  BOOST_CHECK_MESSAGE(rc == DAT_SUCCESS, "graceful dat_ia_close -> " << describe(rc));
  if (rc != DAT_SUCCESS) dat_ia_close(handle, DAT_CLOSE_ABRUPT_FLAG);
}

DAT_RETURN Ia::close(DAT_CLOSE_FLAGS flags) {
  const DAT_RETURN rc = dat_ia_close(handle, flags);
  if (rc == DAT_SUCCESS) handle = DAT_HANDLE_NULL;
  return rc;
}

Evd make_evd(DAT_IA_HANDLE ia, DAT_EVD_FLAGS flags, DAT_COUNT qlen, DAT_CNO_HANDLE cno) {
  Evd evd;
  REQUIRE_OK(dat_evd_create(ia, qlen, cno, flags, evd.out()));
  return evd;
}

Pz make_pz(DAT_IA_HANDLE ia) {
  Pz pz;
  REQUIRE_OK(dat_pz_create(ia, pz.out()));
  return pz;
}

Buffer::Buffer(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, std::size_t size, DAT_MEM_PRIV_FLAGS privileges)
    : memory(static_cast<std::uint8_t*>(std::calloc(size, 1))), bytes(memory.get(), size) {
  BOOST_REQUIRE(memory != nullptr || size == 0);
  DAT_REGION_DESCRIPTION region{};
  region.for_va = bytes.data();
  DAT_VLEN registered_length = 0;
  DAT_VADDR registered_address = 0;
  REQUIRE_OK(dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, size, pz, privileges, DAT_VA_TYPE_VA,
                            lmr.out(), &lmr_context, &rmr_context, &registered_length,
                            &registered_address));
}

namespace {

std::uint8_t pattern(std::uint8_t seed, std::size_t place) {
  return static_cast<std::uint8_t>(seed + place * 7 + (place >> 8) * 13);
}

}  // namespace

void Buffer::fill(std::uint8_t seed) {
  std::uint8_t* const to = memory.get();  // operator[] is slow, because tests are not optimized
  for (std::size_t i = 0, size = bytes.size(); i < size; ++i) to[i] = pattern(seed, i);
}

bool Buffer::holds(std::uint8_t seed, std::size_t length, std::size_t offset) const {
  const std::uint8_t* const from = memory.get() + offset;
  for (std::size_t i = 0; i < length; ++i)
    if (from[i] != pattern(seed, i)) return false;
  return true;
}

DAT_LMR_TRIPLET Buffer::local(std::size_t length, std::size_t offset) const {
  DAT_LMR_TRIPLET triplet{};
  triplet.virtual_address = reinterpret_cast<DAT_VADDR>(bytes.data()) + offset;
  triplet.segment_length = static_cast<DAT_SEG_LENGTH>(length);
  triplet.lmr_context = lmr_context;
  return triplet;
}

DAT_RMR_TRIPLET Buffer::remote(std::size_t length, std::size_t offset) const {
  DAT_RMR_TRIPLET triplet{};
  triplet.virtual_address = reinterpret_cast<DAT_VADDR>(bytes.data()) + offset;
  triplet.segment_length = static_cast<DAT_SEG_LENGTH>(length);
  triplet.rmr_context = rmr_context;
  return triplet;
}

DAT_DTO_COOKIE cookie(std::uint64_t value) {
  DAT_DTO_COOKIE result{};
  result.as_64 = value;
  return result;
}

DAT_EP_ATTR default_ep_attr(const Ia& ia) {
  DAT_EP_ATTR attr{};
  attr.service_type = DAT_SERVICE_TYPE_RC;
  attr.max_message_size = ia.attr.max_message_size;
  attr.max_rdma_size = ia.attr.max_rdma_size;
  attr.qos = DAT_QOS_BEST_EFFORT;
  attr.recv_completion_flags = DAT_COMPLETION_EVD_THRESHOLD_FLAG;
  attr.request_completion_flags = DAT_COMPLETION_EVD_THRESHOLD_FLAG;
  attr.max_recv_dtos = 16;
  attr.max_request_dtos = 16;
  attr.max_recv_iov = 4;
  attr.max_request_iov = 4;
  attr.max_rdma_read_in = 4;
  attr.max_rdma_read_out = 4;
  attr.srq_soft_hw = DAT_WATERMARK_INFINITE;
  attr.max_rdma_read_iov = 1;
  attr.max_rdma_write_iov = 4;
  return attr;
}

void Sleeper::announce() { thread_ = static_cast<int>(::syscall(SYS_gettid)); }

void Sleeper::until_asleep() const {
  while (thread_ == 0) std::this_thread::yield();
  const std::string file = "/proc/self/task/" + std::to_string(thread_) + "/stat";
  int looks_asleep = 0;  // times in a row; a single time may be a lock on the way to the wait
  for (int i = 0; i < 1000 && looks_asleep < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::ifstream stat(file);
    std::string line;
    std::getline(stat, line);
    const std::size_t name_end = line.rfind(") ");
    const bool asleep = name_end != std::string::npos && line[name_end + 2] == 'S';
    looks_asleep = asleep ? looks_asleep + 1 : 0;
  }
}

std::optional<DAT_EVENT> next_event(DAT_EVD_HANDLE evd, DAT_TIMEOUT timeout) {
  DAT_EVENT event;
  std::memset(&event, 0xA5, sizeof event);  // so that fields the provider does not write look wrong
  DAT_COUNT more = 0;
  const DAT_RETURN rc = dat_evd_wait(evd, timeout, 1, &event, &more);
  if (DAT_GET_TYPE(rc) == DAT_TIMEOUT_EXPIRED) return std::nullopt;
  REQUIRE_OK(rc);
  BOOST_CHECK(event.evd_handle == evd);
  return event;
}

DAT_EVENT expect_event(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number) {
  const auto event = next_event(evd);
  BOOST_REQUIRE_MESSAGE(event, "no event 0x" << std::hex << number << " came");
  BOOST_REQUIRE_MESSAGE(event->event_number == number,
                        "event 0x" << std::hex << event->event_number << ", expected 0x" << number);
  return *event;
}

DAT_DTO_COMPLETION_EVENT_DATA expect_dto(DAT_EVD_HANDLE evd, DAT_DTO_COMPLETION_STATUS status,
                                         std::uint64_t cookie_value) {
  const DAT_EVENT event = expect_event(evd, DAT_DTO_COMPLETION_EVENT);
  const auto& dto = event.event_data.dto_completion_event_data;
  BOOST_CHECK_MESSAGE(dto.status == status, "DTO status " << dto.status << ", expected " << status);
  BOOST_CHECK_EQUAL(dto.user_cookie.as_64, cookie_value);
  return dto;
}

DAT_DTO_COMPLETION_STATUS expect_dto_failure(DAT_EVD_HANDLE evd, std::uint64_t cookie_value) {
  const DAT_EVENT event = expect_event(evd, DAT_DTO_COMPLETION_EVENT);
  const auto& dto = event.event_data.dto_completion_event_data;
  BOOST_CHECK_NE(dto.status, DAT_DTO_SUCCESS);
  BOOST_CHECK_NE(dto.status, DAT_DTO_ERR_FLUSHED);
  BOOST_CHECK_EQUAL(dto.user_cookie.as_64, cookie_value);
  return dto.status;
}

void expect_silence(DAT_EVD_HANDLE evd) {
  const auto event = next_event(evd, kQuiet);
  BOOST_CHECK_MESSAGE(!event, "unexpected event 0x" << std::hex << event->event_number);
}

DAT_EVENT_NUMBER expect_connection_end(DAT_EVD_HANDLE evd) {
  const auto event = next_event(evd);
  BOOST_REQUIRE_MESSAGE(event, "the connection did not end");
  BOOST_CHECK_MESSAGE(
      event->event_number == DAT_CONNECTION_EVENT_DISCONNECTED ||
          event->event_number == DAT_CONNECTION_EVENT_BROKEN,
      "event 0x" << std::hex << event->event_number << " instead of the end of a connection");
  return event->event_number;
}

DAT_EP_PARAM query_ep(DAT_EP_HANDLE ep) {
  DAT_EP_PARAM param{};
  REQUIRE_OK(dat_ep_query(ep, DAT_EP_FIELD_ALL, &param));
  return param;
}

DAT_EVENT software_event(std::uintptr_t number) {
  DAT_EVENT event{};
  event.event_number = DAT_SOFTWARE_EVENT;
  event.event_data.software_event_data.pointer = reinterpret_cast<DAT_PVOID>(number);
  return event;
}

DAT_RETURN post_software(DAT_EVD_HANDLE evd, std::uintptr_t number) {
  const DAT_EVENT event = software_event(number);
  return dat_evd_post_se(evd, &event);
}

std::uintptr_t number_of(const DAT_EVENT& event) {
  return reinterpret_cast<std::uintptr_t>(event.event_data.software_event_data.pointer);
}

DAT_EVD_PARAM query_evd(DAT_EVD_HANDLE evd) {
  DAT_EVD_PARAM param{};
  REQUIRE_OK(dat_evd_query(evd, DAT_EVD_FIELD_ALL, &param));
  return param;
}

DAT_EP_STATE ep_state(DAT_EP_HANDLE ep) {
  DAT_EP_STATE state{};
  DAT_BOOLEAN recv_idle{};
  DAT_BOOLEAN request_idle{};
  REQUIRE_OK(dat_ep_get_status(ep, &state, &recv_idle, &request_idle));
  return state;
}

void End::create(const Ia& ia, DAT_PZ_HANDLE pz, const DAT_EP_ATTR* attr, DAT_SRQ_HANDLE srq) {
  recv_evd = make_evd(ia, DAT_EVD_DTO_FLAG);
  request_evd = make_evd(ia, static_cast<DAT_EVD_FLAGS>(DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG));
  connect_evd = make_evd(ia, DAT_EVD_CONNECTION_FLAG, 8);
  if (srq == nullptr)
    REQUIRE_OK(dat_ep_create(ia, pz, recv_evd, request_evd, connect_evd, attr, ep.out()));
  else
    REQUIRE_OK(
        dat_ep_create_with_srq(ia, pz, recv_evd, request_evd, connect_evd, srq, attr, ep.out()));
}

DAT_RETURN End::post_recv(const Buffer& buffer, std::size_t length, std::uint64_t cookie_value,
                          DAT_COMPLETION_FLAGS flags) {
  DAT_LMR_TRIPLET segment = buffer.local(length);
  return dat_ep_post_recv(ep, 1, &segment, cookie(cookie_value), flags);
}

DAT_RETURN End::post_send(const Buffer& buffer, std::size_t length, std::uint64_t cookie_value,
                          DAT_COMPLETION_FLAGS flags) {
  DAT_LMR_TRIPLET segment = buffer.local(length);
  return dat_ep_post_send(ep, 1, &segment, cookie(cookie_value), flags);
}

DAT_RETURN End::post_write(const Buffer& from, const DAT_RMR_TRIPLET& to,
                           std::uint64_t cookie_value, DAT_COMPLETION_FLAGS flags) {
  DAT_LMR_TRIPLET segment = from.local(to.segment_length);
  return dat_ep_post_rdma_write(ep, 1, &segment, cookie(cookie_value), &to, flags);
}

DAT_RETURN End::post_read(const Buffer& into, const DAT_RMR_TRIPLET& from,
                          std::uint64_t cookie_value, DAT_COMPLETION_FLAGS flags) {
  DAT_LMR_TRIPLET segment = into.local(from.segment_length);
  return dat_ep_post_rdma_read(ep, 1, &segment, cookie(cookie_value), &from, flags);
}

Pair::Pair(const DAT_EP_ATTR* attr)
    : pz(make_pz(ia)), cr_evd(make_evd(ia, DAT_EVD_CR_FLAG, 8)), conn_qual(fresh_conn_qual()) {
  REQUIRE_OK(dat_psp_create(ia, conn_qual, cr_evd, DAT_PSP_CONSUMER_FLAG, psp.out()));
  active.create(ia, pz, attr);
  passive.create(ia, pz, attr);
}

Pair::~Pair() = default;  // members in the order of docs/semantics.md#teardown

DAT_CR_HANDLE Pair::connect_and_take_cr(DAT_TIMEOUT timeout, std::string_view private_data) {
  REQUIRE_OK(dat_ep_connect(active.ep, ia.attr.ia_address_ptr, conn_qual, timeout,
                            static_cast<DAT_COUNT>(private_data.size()),
                            const_cast<char*>(private_data.empty() ? nullptr : private_data.data()),
                            DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
  const DAT_EVENT event = expect_event(cr_evd, DAT_CONNECTION_REQUEST_EVENT);
  return event.event_data.cr_arrival_event_data.cr_handle;
}

void Pair::connect(std::string_view private_data, std::string_view accept_data) {
  const DAT_CR_HANDLE cr = connect_and_take_cr(kPatience, private_data);
  REQUIRE_OK(dat_cr_accept(cr, passive.ep, static_cast<DAT_COUNT>(accept_data.size()),
                           const_cast<char*>(accept_data.empty() ? nullptr : accept_data.data())));
  expect_event(active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  expect_event(passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}

void Pair::connect(const End& from, const End& to) {
  REQUIRE_OK(dat_ep_connect(from.ep, ia.attr.ia_address_ptr, conn_qual, kPatience, 0, nullptr,
                            DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
  const DAT_EVENT request = expect_event(cr_evd, DAT_CONNECTION_REQUEST_EVENT);
  REQUIRE_OK(dat_cr_accept(request.event_data.cr_arrival_event_data.cr_handle, to.ep, 0, nullptr));
  expect_event(from.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  expect_event(to.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}

void Pair::disconnect(DAT_CLOSE_FLAGS flags) {
  REQUIRE_OK(dat_ep_disconnect(active.ep, flags));
  expect_event(active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
  expect_connection_end(passive.connect_evd);
}

int drain(DAT_EVD_HANDLE evd) {
  DAT_EVENT event;
  int count = 0;
  while (dat_evd_dequeue(evd, &event) == DAT_SUCCESS) ++count;
  return count;
}

void send_many(const End& end, const Buffer& from, DAT_COUNT count) {
  DAT_LMR_TRIPLET segment = from.local(1);
  for (DAT_COUNT sent = 0; sent < count && ep_state(end.ep) == DAT_EP_STATE_CONNECTED;) {
    if (dat_ep_post_send(end.ep, 1, &segment, cookie(1), DAT_COMPLETION_DEFAULT_FLAG) ==
        DAT_SUCCESS)
      ++sent;
    drain(end.request_evd);
  }
}

}  // namespace conformance
