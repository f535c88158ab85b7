// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "connection.h"
#include "../names.h"

#include <fmt/core.h>

#include <algorithm>

namespace dtest {
namespace {

// The flags of an EVD for completions, including those of extensions if requested.
DAT_EVD_FLAGS completions(bool extensions) {
  return static_cast<DAT_EVD_FLAGS>(unsigned{DAT_EVD_DTO_FLAG} |
                                    (extensions ? unsigned{DAT_IB_EVD_EXTENSION_FLAG} : 0U));
}

DAT_EP_ATTR ep_attributes(const Adapter& adapter, const Connection::Shape& shape) {
  DAT_EP_ATTR attributes{};
  attributes.service_type = DAT_SERVICE_TYPE_RC;
  attributes.max_message_size = static_cast<DAT_SEG_LENGTH>(shape.longest);
  attributes.max_rdma_size = static_cast<DAT_SEG_LENGTH>(shape.longest);
  attributes.qos = DAT_QOS_BEST_EFFORT;
  attributes.recv_completion_flags = DAT_COMPLETION_DEFAULT_FLAG;
  attributes.request_completion_flags = DAT_COMPLETION_DEFAULT_FLAG;
  attributes.max_recv_dtos = shape.receives;
  attributes.max_request_dtos = shape.requests;
  attributes.max_recv_iov = 1;
  attributes.max_request_iov = 1;
  attributes.max_rdma_read_in =
      std::min<DAT_COUNT>(4, adapter.attributes().max_rdma_read_per_ep_in);
  attributes.max_rdma_read_out =
      std::min<DAT_COUNT>(4, adapter.attributes().max_rdma_read_per_ep_out);
  attributes.max_rdma_read_iov = 1;
  attributes.max_rdma_write_iov = 1;
  return attributes;
}

bool no_event(DAT_RETURN status) {
  const auto type = DAT_GET_TYPE(status);
  return type == DAT_QUEUE_EMPTY || type == DAT_TIMEOUT_EXPIRED || type == DAT_INTERRUPTED_CALL;
}

}  // namespace

// ---- Events ------------------------------------------------------------------------------------

std::optional<DAT_EVENT> Events::next(DAT_EVD_HANDLE evd,
                                      std::chrono::microseconds patience) const {
  const Clock::time_point deadline = Clock::now() + patience;
  DAT_EVENT event{};
  for (;;) {
    const auto left = std::max<std::int64_t>(
        0, std::chrono::duration_cast<std::chrono::microseconds>(deadline - Clock::now()).count());
    DAT_COUNT more = 0;
    DAT_RETURN status = poll || cno != DAT_HANDLE_NULL
                            ? dat_evd_dequeue(evd, &event)
                            : dat_evd_wait(evd, static_cast<DAT_TIMEOUT>(left), 1, &event, &more);
    if (status == DAT_SUCCESS) return event;
    if (!no_event(status)) must(status, "dequeuing an event");
    if (left == 0) return std::nullopt;
    if (poll) {
      ++polls;
    } else if (cno != DAT_HANDLE_NULL) {
      DAT_EVD_HANDLE triggered = DAT_HANDLE_NULL;
      status = dat_cno_wait(cno, static_cast<DAT_TIMEOUT>(left), &triggered);
      if (status != DAT_SUCCESS && !no_event(status)) must(status, "waiting for a notification");
    }
  }
}

DAT_EVENT Events::expect(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number, std::string_view what,
                         std::chrono::microseconds patience) const {
  const std::optional<DAT_EVENT> event = next(evd, patience);
  if (!event) fail(fmt::format("{}: timed out", what));
  if (event->event_number != number)
    fail(fmt::format("{}: unexpected {}", what, tools::event_name(event->event_number)));
  return *event;
}

// ---- Connection --------------------------------------------------------------------------------

void Connection::create(const Adapter& adapter, const Shape& shape, Events& events) {
  adapter_ = &adapter;
  events_ = &events;
  if (shape.with_cno) {
    must(dat_cno_create(adapter.ia(), DAT_OS_WAIT_PROXY_AGENT_NULL, &cno_),
         "creating a notifier (CNO)");
    events.cno = cno_;
  }
  evd_create_us = timed([&] {
    cr_evd_ = adapter.evd(8, DAT_EVD_CR_FLAG, cno_);
    connect_evd_ = adapter.evd(8, DAT_EVD_CONNECTION_FLAG, cno_);
    request_evd_ = adapter.evd(shape.requests, completions(shape.extensions), cno_);
    receive_evd_ = adapter.evd(shape.receives, completions(shape.extensions), cno_);
  });
  const DAT_EP_ATTR attributes = ep_attributes(adapter, shape);
  ep_create_us = timed([&] {
    must(dat_ep_create(adapter.ia(), adapter.pz(), receive_evd_, request_evd_, connect_evd_,
                       &attributes, &ep_),
         "creating an endpoint");
  });
}

void Connection::listen(DAT_CONN_QUAL port) {
  must(dat_psp_create(adapter_->ia(), port, cr_evd_, DAT_PSP_CONSUMER_FLAG, &psp_),
       fmt::format("listening on port {}", port));
}

bool Connection::called() {
  DAT_EVENT event{};
  if (cr_ == DAT_HANDLE_NULL && dat_evd_dequeue(cr_evd_, &event) == DAT_SUCCESS)
    cr_ = event.event_data.cr_arrival_event_data.cr_handle;
  return cr_ != DAT_HANDLE_NULL;
}

void Connection::accept(
    const std::function<std::vector<std::uint8_t>(std::vector<std::uint8_t>)>& reply) {
  DAT_CR_PARAM request{};
  must(dat_cr_query(cr_, DAT_CR_FIELD_ALL, &request), "querying the connection request");
  const auto* bytes = static_cast<const std::uint8_t*>(request.private_data);
  std::vector<std::uint8_t> data = reply({bytes, bytes + request.private_data_size});
  must(dat_cr_accept(cr_, ep_, static_cast<DAT_COUNT>(data.size()), data.data()),
       "accepting the client");
}

void Connection::connect(const sockaddr_storage& address, DAT_CONN_QUAL port,
                         std::span<const std::uint8_t> private_data) {
  sockaddr_storage copy = address;
  std::vector<std::uint8_t> data(private_data.begin(), private_data.end());
  must(dat_ep_connect(ep_, reinterpret_cast<DAT_IA_ADDRESS_PTR>(&copy), port,
                      static_cast<DAT_TIMEOUT>(std::chrono::microseconds(kPatience).count()),
                      static_cast<DAT_COUNT>(data.size()), data.data(), DAT_QOS_BEST_EFFORT,
                      DAT_CONNECT_DEFAULT_FLAG),
       fmt::format("connecting to {} port {}", numeric(reinterpret_cast<const sockaddr*>(&address)),
                   port));
}

std::vector<std::uint8_t> Connection::established() {
  const Clock::time_point start = Clock::now();
  const DAT_EVENT event = events_->expect(connect_evd_, DAT_CONNECTION_EVENT_ESTABLISHED,
                                          "connecting", kPatience + std::chrono::seconds(5));
  connect_us = us_since(start);
  const DAT_CONNECTION_EVENT_DATA& data = event.event_data.connect_event_data;
  const auto* bytes = static_cast<const std::uint8_t*>(data.private_data);
  return {bytes, bytes + (bytes == nullptr ? 0 : data.private_data_size)};
}

void Connection::disconnect(bool first) {
  // Only one side disconnects; the other one waits for the event.
  if (first) must(dat_ep_disconnect(ep_, DAT_CLOSE_GRACEFUL_FLAG), "disconnecting");
  const auto event = events_->next(connect_evd_, kPatience);
  if (!event) fail("disconnecting: timed out");
  if (event->event_number != DAT_CONNECTION_EVENT_DISCONNECTED)
    fail(fmt::format("disconnecting: unexpected {}", tools::event_name(event->event_number)));
}

void Connection::free() {
  ep_free_us = timed([&] { must(dat_ep_free(ep_), "freeing the endpoint"); });
  if (psp_ != DAT_HANDLE_NULL) must(dat_psp_free(psp_), "closing the listener");
  evd_free_us = timed([&] {
    for (const DAT_EVD_HANDLE evd : {cr_evd_, connect_evd_, request_evd_, receive_evd_})
      must(dat_evd_free(evd), "freeing an event dispatcher");
  });
  if (cno_ != DAT_HANDLE_NULL) must(dat_cno_free(cno_), "freeing the notifier");
}

// ---- Transfers ---------------------------------------------------------------------------------

void Connection::post_receive(const Memory& memory, std::size_t offset, std::size_t length,
                              std::uint64_t id) const {
  DAT_LMR_TRIPLET segment = memory.segment(offset, length);
  must(dat_ep_post_recv(ep_, 1, &segment, cookie(id), DAT_COMPLETION_DEFAULT_FLAG),
       "posting a receive");
}

void Connection::post_send(const Memory& memory, std::size_t offset, std::size_t length,
                           std::uint64_t id, DAT_COMPLETION_FLAGS flags) const {
  DAT_LMR_TRIPLET segment = memory.segment(offset, length);
  must(dat_ep_post_send(ep_, 1, &segment, cookie(id), flags), "posting a send");
}

// If the connection has ended while a request was in flight, says why.
std::string Connection::end_reason() const {
  DAT_EVENT event{};
  if (dat_evd_dequeue(connect_evd_, &event) != DAT_SUCCESS) return {};
  return fmt::format("; the connection has ended: {}", tools::event_name(event.event_number));
}

void Connection::check(const DAT_EVENT& event, std::uint64_t id, std::string_view what) const {
  if (event.event_number != DAT_DTO_COMPLETION_EVENT &&
      event.event_number != static_cast<DAT_EVENT_NUMBER>(DAT_IB_DTO_EVENT))
    fail(fmt::format("{}: unexpected {}", what, tools::event_name(event.event_number)));
  const DAT_DTO_COMPLETION_EVENT_DATA& done = event.event_data.dto_completion_event_data;
  if (done.status != DAT_DTO_SUCCESS)
    fail(fmt::format("{}: {}{}", what, tools::status_name(done.status), end_reason()));
  if (done.user_cookie.as_64 != id)
    fail(fmt::format("{}: got the completion of request {:#x} instead of {:#x}", what,
                     done.user_cookie.as_64, id));
}

DAT_EVENT Connection::received(std::uint64_t id, std::size_t length, std::string_view what) {
  const auto event = events_->next(receive_evd_, kPatience);
  if (!event) fail(fmt::format("{}: timed out{}", what, end_reason()));
  check(*event, id, what);
  const auto got = event->event_data.dto_completion_event_data.transfered_length;
  if (got != length) fail(fmt::format("{}: got {} bytes instead of {}", what, got, length));
  return *event;
}

DAT_EVENT Connection::completed(std::uint64_t id, std::string_view what) {
  const auto event = events_->next(request_evd_, kPatience);
  if (!event) fail(fmt::format("{}: not completed in time{}", what, end_reason()));
  check(*event, id, what);
  return *event;
}

DAT_EP_PARAM Connection::query() const {
  DAT_EP_PARAM param{};
  must(dat_ep_query(ep_, DAT_EP_FIELD_ALL, &param), "querying the addresses of the endpoint");
  return param;
}

}  // namespace dtest
