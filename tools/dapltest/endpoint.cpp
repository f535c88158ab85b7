// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "endpoint.h"
#include "../names.h"

#include <algorithm>
#include <string_view>
#include <thread>

namespace dapltest {
namespace {

constexpr std::uint32_t kEndPatienceMs = 5000;   // for the end of a connection
constexpr std::uint32_t kCheckIntervalMs = 200;  // how often to check whether a client has gone
// The pause between attempts to connect doubles each time.
constexpr auto kFirstRetryPause = std::chrono::milliseconds(20);
constexpr auto kLastRetryPause = std::chrono::milliseconds(1000);
constexpr auto kRetryLimit = std::chrono::seconds(10);

const char* end_reason(DAT_EVENT_NUMBER number) {
  switch (number) {
    case DAT_CONNECTION_EVENT_PEER_REJECTED:
      return "the server rejected it";
    case DAT_CONNECTION_EVENT_NON_PEER_REJECTED:
      return "no server listens there";
    case DAT_CONNECTION_EVENT_UNREACHABLE:
      return "the server cannot be reached";
    case DAT_CONNECTION_EVENT_TIMED_OUT:
      return "no answer in time";
    case DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR:
      return "the peer gave up";
    case DAT_CONNECTION_EVENT_DISCONNECTED:
      return "the peer ended the connection";
    case DAT_CONNECTION_EVENT_BROKEN:
      return "the connection broke";
    default:
      return "an unexpected event";
  }
}

}  // namespace

// ---- Endpoint: making

bool Endpoint::create(const Adapter& adapter, const EndpointPlan& plan, std::size_t memory_size) {
  ia_ = adapter.handle();
  from_ = adapter.address();
  plan_ = plan;
  const DAT_IA_ATTR& limits = adapter.attributes();
  const auto most =
      static_cast<std::uint64_t>(std::min(limits.max_message_size, limits.max_rdma_size));
  if (plan.largest > most) {
    return fail(
        fmt::format("the adapter transfers at most {} bytes at once, not {}", most, plan.largest));
  }
  if (plan.segments > static_cast<std::uint32_t>(limits.max_iov_segments_per_dto)) {
    return fail(fmt::format("the adapter takes at most {} segments, not {}",
                            limits.max_iov_segments_per_dto, plan.segments));
  }
  segments_.resize(plan.segments);
  if (!ok(dat_pz_create(ia_, pz_.out()), "creating a protection zone") ||
      !create_events(adapter, plan) || !memory_.create(adapter, pz_.get(), memory_size)) {
    return false;
  }
  const DAT_COUNT reads =
      std::clamp(std::min(limits.max_rdma_read_per_ep_in, limits.max_rdma_read_per_ep_out), 1, 16);
  const auto segments = static_cast<DAT_COUNT>(plan.segments);
  DAT_EP_ATTR attributes{};
  attributes.service_type = DAT_SERVICE_TYPE_RC;
  attributes.max_message_size = static_cast<DAT_SEG_LENGTH>(plan.largest);
  attributes.max_rdma_size = static_cast<DAT_SEG_LENGTH>(plan.largest);
  attributes.qos = plan.qos;
  attributes.recv_completion_flags = DAT_COMPLETION_EVD_THRESHOLD_FLAG;
  attributes.request_completion_flags = DAT_COMPLETION_EVD_THRESHOLD_FLAG;
  attributes.max_recv_dtos = static_cast<DAT_COUNT>(plan.receives);
  attributes.max_request_dtos = static_cast<DAT_COUNT>(plan.requests);
  attributes.max_recv_iov = segments;
  attributes.max_request_iov = segments;
  attributes.max_rdma_read_in = reads;
  attributes.max_rdma_read_out = reads;
  attributes.max_rdma_read_iov = std::min(segments, limits.max_iov_segments_per_rdma_read);
  attributes.max_rdma_write_iov = std::min(segments, limits.max_iov_segments_per_rdma_write);
  return ok(dat_ep_create(ia_, pz_.get(), receive_evd_.get(), request_evd_.get(),
                          connection_evd_.get(), &attributes, ep_.out()),
            "creating an endpoint");
}

bool Endpoint::create_events(const Adapter& adapter, const EndpointPlan& plan) {
  if (plan.cno && !ok(dat_cno_create(adapter.handle(), DAT_OS_WAIT_PROXY_AGENT_NULL, cno_.out()),
                      "creating a CNO")) {
    return false;
  }
  const auto evd = [&](std::uint32_t length, DAT_HANDLE cno, int flags, Evd& to) {
    return ok(dat_evd_create(ia_, static_cast<DAT_COUNT>(length), cno,
                             static_cast<DAT_EVD_FLAGS>(flags), to.out()),
              "creating an event dispatcher");
  };
  return evd(plan.receives, cno_.get(), DAT_EVD_DTO_FLAG, receive_evd_) &&
         evd(plan.requests, cno_.get(), DAT_EVD_DTO_FLAG, request_evd_) &&
         evd(8, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG, connection_evd_) &&
         evd(8, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, cr_evd_);
}

// ---- Endpoint: connecting

bool Endpoint::connect(Address& address, std::uint32_t port, std::string_view private_data,
                       bool patient) {
  std::string data(private_data);
  const Clock::time_point limit =
      Clock::now() + std::min<Clock::duration>(kRetryLimit, std::chrono::seconds(plan_.timeout_s));
  std::chrono::milliseconds pause = kFirstRetryPause;
  while (true) {
    if (!ok(dat_ep_connect(ep_.get(), address.get(), port, patience_ms() * 1000,
                           static_cast<DAT_COUNT>(data.size()),
                           data.empty() ? nullptr : data.data(), plan_.qos,
                           DAT_CONNECT_DEFAULT_FLAG),
            fmt::format("connecting to {} port {}", address.text(), port))) {
      return false;
    }
    const auto event =
        next_event(connection_evd_.get(), patience_ms() + 1000, "the connection to be set up");
    if (!event) {
      return false;
    }
    if (event->event_number == DAT_CONNECTION_EVENT_ESTABLISHED) {
      connected_ = true;
      return true;
    }
    // The server may reject the request until it has room for another client.
    const bool again = event->event_number == DAT_CONNECTION_EVENT_PEER_REJECTED ||
                       (patient && event->event_number == DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
    if (!again || Clock::now() > limit) {
      return fail(fmt::format("connecting from {} to {} port {}: {}", from_, address.text(), port,
                              end_reason(event->event_number)));
    }
    if (pause == 8 * kFirstRetryPause) {
      say(fmt::format("the server at {} port {} does not accept; trying again", address.text(),
                      port));
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLastRetryPause);
    if (!ok(dat_ep_reset(ep_.get()), "resetting an endpoint")) {
      return false;
    }
  }
}

Endpoint::Listening Endpoint::listen(std::uint32_t port, bool reserved_point) {
  port_ = port;
  reserved_ = reserved_point;
  const DAT_RETURN status =
      reserved_point ? dat_rsp_create(ia_, port, ep_.get(), cr_evd_.get(), rsp_.out())
                     : dat_psp_create(ia_, port, cr_evd_.get(), DAT_PSP_CONSUMER_FLAG, psp_.out());
  if (DAT_GET_TYPE(status) == DAT_CONN_QUAL_IN_USE) {
    return Listening::kInUse;
  }
  return ok(status, fmt::format("listening on port {}", port)) ? Listening::kDone
                                                               : Listening::kFailed;
}

void Endpoint::stop_listening() {
  psp_.reset();
  rsp_.reset();
}

bool Endpoint::accept() {
  const auto event = next_event(cr_evd_.get(), patience_ms(), "a connection request");
  if (!event) {
    return false;
  }
  if (reserved_) {
    rsp_.release();  // an RSP ends with its one request
  }
  const bool accepted = accept(event->event_data.cr_arrival_event_data.cr_handle);
  psp_.reset();
  return accepted;
}

bool Endpoint::accept(DAT_CR_HANDLE cr) {
  // A request that arrived at an RSP already has the EP of that RSP.
  if (!ok(dat_cr_accept(cr, reserved_ ? DAT_HANDLE_NULL : ep_.get(), 0, nullptr),
          "accepting a connection")) {
    return false;
  }
  const auto event = next_event(connection_evd_.get(), patience_ms(), "an accepted connection");
  if (!event) {
    return false;
  }
  connected_ = event->event_number == DAT_CONNECTION_EVENT_ESTABLISHED;
  return connected_ ||
         fail(fmt::format("accepting a connection: {}", end_reason(event->event_number)));
}

void Endpoint::disconnect() {
  if (!connected_) {
    return;
  }
  const DAT_RETURN status = dat_ep_disconnect(ep_.get(), DAT_CLOSE_GRACEFUL_FLAG);
  // If the connection has ended already, its event is already queued.
  if (status == DAT_SUCCESS || DAT_GET_TYPE(status) == DAT_INVALID_STATE) {
    await_disconnect();
  }
  connected_ = false;
}

bool Endpoint::ended() {
  DAT_EVENT event{};
  if (connected_ && dat_evd_dequeue(connection_evd_.get(), &event) == DAT_SUCCESS) {
    connected_ = false;
  }
  return !connected_;
}

void Endpoint::await_disconnect() {
  if (!connected_) {
    return;
  }
  DAT_EVENT event{};
  DAT_COUNT more = 0;
  // The result does not matter: the EP is freed next in any case.
  static_cast<void>(dat_evd_wait(connection_evd_.get(), kEndPatienceMs * 1000, 1, &event, &more));
  connected_ = false;
}

// ---- Endpoint: transfers

std::span<DAT_LMR_TRIPLET> Endpoint::segments(std::span<std::byte> data, std::uint32_t count) {
  const std::size_t size = data.size() / count;
  for (std::uint32_t i = 0; i < count; ++i) {
    segments_[i] = memory_.segment(data.subspan(i * size, size));
  }
  return std::span(segments_).first(count);
}

bool Endpoint::post_receive(std::span<std::byte> data, std::uint32_t count) {
  DAT_DTO_COOKIE cookie{};
  return ok(dat_ep_post_recv(ep_.get(), static_cast<DAT_COUNT>(count), segments(data, count).data(),
                             cookie, DAT_COMPLETION_DEFAULT_FLAG),
            "posting a receive");
}

bool Endpoint::post_send(std::span<std::byte> data, std::uint32_t count) {
  DAT_DTO_COOKIE cookie{};
  return ok(dat_ep_post_send(ep_.get(), static_cast<DAT_COUNT>(count), segments(data, count).data(),
                             cookie, DAT_COMPLETION_DEFAULT_FLAG),
            "posting a send");
}

bool Endpoint::post_rdma(Transfer transfer, std::span<std::byte> data, std::uint32_t count,
                         std::uint32_t rmr_context, std::uint64_t address) {
  DAT_DTO_COOKIE cookie{};
  DAT_RMR_TRIPLET remote{};
  remote.rmr_context = rmr_context;
  remote.virtual_address = address;
  remote.segment_length = static_cast<DAT_SEG_LENGTH>(data.size());
  auto* const post = transfer == Transfer::kRead ? dat_ep_post_rdma_read : dat_ep_post_rdma_write;
  return ok(post(ep_.get(), static_cast<DAT_COUNT>(count), segments(data, count).data(), cookie,
                 &remote, DAT_COMPLETION_DEFAULT_FLAG),
            transfer == Transfer::kRead ? "posting an RDMA read" : "posting an RDMA write");
}

bool Endpoint::reap_request() { return reap(request_evd_.get(), std::nullopt, "a request"); }

bool Endpoint::reap_receive(std::uint64_t bytes, const char* what) {
  return reap(receive_evd_.get(), bytes, what);
}

bool Endpoint::reap(DAT_EVD_HANDLE evd, std::optional<std::uint64_t> bytes, const char* what) {
  const auto event = next_event(evd, patience_ms(), what);
  if (!event) {
    return false;
  }
  const DAT_DTO_COMPLETION_EVENT_DATA& done = event->event_data.dto_completion_event_data;
  if (event->event_number != DAT_DTO_COMPLETION_EVENT) {
    return fail(fmt::format("waiting for {}: {}", what, tools::event_name(event->event_number)));
  }
  if (done.status == DAT_DTO_ERR_FLUSHED) {
    connected_ = false;
    return fail(fmt::format("waiting for {}: the connection has ended", what));
  }
  if (done.status != DAT_DTO_SUCCESS) {
    connected_ = false;
    return fail(
        fmt::format("waiting for {}: it failed with {}", what, tools::status_name(done.status)));
  }
  if (bytes && done.transfered_length != *bytes) {
    return fail(fmt::format("{} has {} bytes, not {}", what,
                            static_cast<std::uint64_t>(done.transfered_length), *bytes));
  }
  return true;
}

// Looks for an event once, by a wait of that length or, if the plan polls or uses a CNO, by a
// dequeue. Then QUEUE_EMPTY means that there was none, and the CNO has been waited on.
DAT_RETURN Endpoint::look_for_event(DAT_EVD_HANDLE evd, DAT_TIMEOUT wait, DAT_EVENT* event) const {
  const bool through_cno = cno_.get() != DAT_HANDLE_NULL && evd != connection_evd_.get();
  if (!plan_.poll && !through_cno) {
    DAT_COUNT more = 0;
    return dat_evd_wait(evd, wait, 1, event, &more);
  }
  const DAT_RETURN status = dat_evd_dequeue(evd, event);
  if (DAT_GET_TYPE(status) == DAT_QUEUE_EMPTY && !plan_.poll && wait != 0) {
    DAT_EVD_HANDLE ready = DAT_HANDLE_NULL;
    // Ignore which EVD the CNO names: the caller looks into `evd` in any case.
    static_cast<void>(dat_cno_wait(cno_.get(), wait, &ready));
  }
  return status;
}

// A timeout of 0 means no time limit.
std::optional<DAT_EVENT> Endpoint::next_event(DAT_EVD_HANDLE evd, std::uint32_t timeout_ms,
                                              const char* of_what) {
  const Clock::time_point limit = Clock::now() + std::chrono::milliseconds(timeout_ms);
  const bool may_give_up = plan_.peer_gone != nullptr && evd == cr_evd_.get();
  DAT_EVENT event{};
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::microseconds>(limit - Clock::now());
    const bool expired = timeout_ms != 0 && left.count() <= 0;
    DAT_TIMEOUT wait = timeout_ms == 0
                           ? DAT_TIMEOUT_INFINITE
                           : static_cast<DAT_TIMEOUT>(std::max<std::int64_t>(left.count(), 0));
    if (may_give_up) {
      if (*plan_.peer_gone) {
        fail(fmt::format("waiting for {}: the client has gone", of_what));
        return std::nullopt;
      }
      wait = std::min(wait, kCheckIntervalMs * 1000);
    }
    const DAT_RETURN status = look_for_event(evd, wait, &event);
    const DAT_RETURN type = DAT_GET_TYPE(status);
    const bool looks_again = type == DAT_INTERRUPTED_CALL ||
                             (!expired && type == DAT_QUEUE_EMPTY) ||
                             (!expired && type == DAT_TIMEOUT_EXPIRED && may_give_up);
    if (looks_again) {
      continue;
    }
    if (type == DAT_QUEUE_EMPTY || type == DAT_TIMEOUT_EXPIRED) {
      fail(fmt::format("waiting for {}: nothing arrived within {} s", of_what, timeout_ms / 1000));
      return std::nullopt;
    }
    if (!ok(status, fmt::format("waiting for {}", of_what))) {
      return std::nullopt;
    }
    return event;
  }
}

}  // namespace dapltest
