// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "connection.h"
#include "../names.h"
#include "../program.h"

#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstdlib>

namespace dattx {

// ---- Connection: set-up ------------------------------------------------------------------------

void Connection::Free::operator()(std::byte* memory) const { std::free(memory); }

bool Connection::create(const Hello& hello) {
  hello_ = hello;
  const DAT_IA_ATTR& limits = adapter_.attributes();
  if (hello.slot_size > std::min(limits.max_message_size, limits.max_rdma_size)) {
    tools::print(stderr, "dattx: the adapter transfers at most {} bytes at once\n",
                 std::min(limits.max_message_size, limits.max_rdma_size));
    return false;
  }
  if (!ok(dat_pz_create(adapter_.handle(), pz_.out()), "creating a protection zone") ||
      !create_memory() || !create_endpoint()) {
    return false;
  }
  for (std::uint32_t slot = 0; slot < slots(); ++slot) {
    if (!post_receive(slot)) {
      return false;
    }
  }
  return true;
}

bool Connection::create_memory() {
  // A power of two that suits every adapter; page alignment also keeps the two regions apart.
  constexpr std::size_t kAlignment = 4096;
  const auto allocate = [](std::size_t size) {
    const std::size_t rounded = (size + kAlignment - 1) / kAlignment * kAlignment;
    return Memory(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)));
  };
  const std::size_t slot_bytes = std::size_t{slots() + hello_.window} * hello_.slot_size;
  const std::size_t size = slot_bytes + slots() * Words::kSize;
  messages_ = allocate(size);
  region_ = allocate(hello_.slot_size);
  if (!messages_ || !region_) {
    tools::print(stderr, "dattx: no memory for {} bytes\n", size + hello_.slot_size);
    return false;
  }
  std::fill_n(messages_.get(), size, std::byte{0});
  std::fill_n(region_.get(), hello_.slot_size, std::byte{0});

  const auto enroll = [&](std::byte* start, std::size_t length, int privileges, Lmr& lmr,
                          DAT_LMR_CONTEXT& lmr_context, DAT_RMR_CONTEXT& rmr_context) {
    DAT_REGION_DESCRIPTION description{};
    description.for_va = start;
    DAT_VLEN registered_length = 0;
    DAT_VADDR registered_address = 0;
    return ok(
        dat_lmr_create(adapter_.handle(), DAT_MEM_TYPE_VIRTUAL, description, length, pz_.get(),
                       static_cast<DAT_MEM_PRIV_FLAGS>(privileges), DAT_VA_TYPE_VA, lmr.out(),
                       &lmr_context, &rmr_context, &registered_length, &registered_address),
        "registering memory");
  };
  DAT_LMR_CONTEXT unused_local = 0;
  DAT_RMR_CONTEXT unused_remote = 0;
  return enroll(messages_.get(), size, DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG,
                messages_lmr_, messages_context_, unused_remote) &&
         enroll(region_.get(), hello_.slot_size, DAT_MEM_PRIV_ALL_FLAG, region_lmr_, unused_local,
                region_context_);
}

bool Connection::create_endpoint() {
  const DAT_IA_HANDLE ia = adapter_.handle();
  const DAT_IA_ATTR& limits = adapter_.attributes();
  const auto requests = static_cast<DAT_COUNT>(slots());
  max_reads_ = static_cast<std::uint32_t>(
      std::clamp(std::min(limits.max_rdma_read_per_ep_in, limits.max_rdma_read_per_ep_out), 1, 8));

  DAT_EP_ATTR attributes{};
  attributes.service_type = DAT_SERVICE_TYPE_RC;
  attributes.max_message_size = hello_.slot_size;
  attributes.max_rdma_size = hello_.slot_size;
  attributes.qos = DAT_QOS_BEST_EFFORT;
  attributes.recv_completion_flags = DAT_COMPLETION_EVD_THRESHOLD_FLAG;
  attributes.request_completion_flags = DAT_COMPLETION_EVD_THRESHOLD_FLAG;
  attributes.max_recv_dtos = requests;
  attributes.max_request_dtos = requests;
  attributes.max_recv_iov = 1;
  attributes.max_request_iov = 1;
  attributes.max_rdma_read_in = static_cast<DAT_COUNT>(max_reads_);
  attributes.max_rdma_read_out = static_cast<DAT_COUNT>(max_reads_);
  attributes.max_rdma_read_iov = 1;
  attributes.max_rdma_write_iov = 1;

  return ok(dat_evd_create(ia, requests, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, recv_evd_.out()),
            "creating an event dispatcher") &&
         ok(dat_evd_create(ia, requests, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, request_evd_.out()),
            "creating an event dispatcher") &&
         ok(dat_evd_create(ia, 4, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG, connect_evd_.out()),
            "creating an event dispatcher") &&
         ok(dat_ep_create(ia, pz_.get(), recv_evd_.get(), request_evd_.get(), connect_evd_.get(),
                          &attributes, ep_.out()),
            "creating an endpoint");
}

bool Connection::connect(const std::string& host, const Hello& hello) {
  // An adapter reaches addresses of its own family.
  const int family = adapter_.attributes().ia_address_ptr->sa_family;
  addrinfo hints{};
  hints.ai_family = family == AF_INET || family == AF_INET6 ? family : AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
    tools::print(stderr, "dattx: {}: {}\n", host, gai_strerror(error));
    return false;
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> address(found, &freeaddrinfo);

  std::byte data[Words::kSize];
  hello.encode().write(data);
  const Settings& settings = adapter_.settings();
  return ok(dat_ep_connect(ep_.get(), address->ai_addr, settings.port,
                           settings.timeout_s * 1'000'000, sizeof data, data, DAT_QOS_BEST_EFFORT,
                           DAT_CONNECT_DEFAULT_FLAG),
            fmt::format("connecting to {}", host)) &&
         wait_established();
}

bool Connection::accept(DAT_CR_HANDLE cr) {
  std::byte data[Words::kSize];
  Invitation{reinterpret_cast<std::uintptr_t>(region_.get()), region_context_}.encode().write(data);
  return ok(dat_cr_accept(cr, ep_.get(), sizeof data, data), "accepting a client") &&
         wait_established();
}

bool Connection::wait_established() {
  const auto event = adapter_.next_event(connect_evd_.get(), "the connection");
  if (!event) {
    return false;
  }
  const char* reason = nullptr;
  switch (event->event_number) {
    case DAT_CONNECTION_EVENT_ESTABLISHED:
      break;
    case DAT_CONNECTION_EVENT_PEER_REJECTED:
      reason = "the server refused";
      break;
    case DAT_CONNECTION_EVENT_NON_PEER_REJECTED:
      reason = "no server listens there";
      break;
    case DAT_CONNECTION_EVENT_UNREACHABLE:
      reason = "the address cannot be reached";
      break;
    case DAT_CONNECTION_EVENT_TIMED_OUT:
      reason = "no answer in time";
      break;
    default:
      reason = "it broke while being set up";
      break;
  }
  if (reason != nullptr) {
    tools::print(stderr, "dattx: no connection: {} ({})\n", reason,
                 tools::event_name(event->event_number));
    return false;
  }
  const DAT_CONNECTION_EVENT_DATA& data = event->event_data.connect_event_data;
  if (data.private_data_size > 0) {  // on the active side: the server's Invitation
    const auto words = Words::read({static_cast<const std::byte*>(data.private_data),
                                    static_cast<std::size_t>(data.private_data_size)});
    if (!words) {
      tools::print(stderr, "dattx: the peer is not a dattx server of this version\n");
      return false;
    }
    invitation_ = Invitation::decode(*words);
  }
  return true;
}

bool Connection::was_disconnected() {
  const auto event = adapter_.next_event(connect_evd_.get(), "the end of the connection");
  if (event && event->event_number != DAT_CONNECTION_EVENT_DISCONNECTED) {
    tools::print(stderr, "dattx: the connection broke ({})\n",
                 tools::event_name(event->event_number));
  }
  return event && event->event_number == DAT_CONNECTION_EVENT_DISCONNECTED;
}

bool Connection::disconnect() {
  if (!drain() || !ok(dat_ep_disconnect(ep_.get(), DAT_CLOSE_GRACEFUL_FLAG), "disconnecting")) {
    return false;
  }
  return adapter_.next_event(connect_evd_.get(), "the end of the connection").has_value();
}

// ---- Connection: transfers ---------------------------------------------------------------------

DAT_LMR_TRIPLET Connection::segment(std::span<const std::byte> data) const {
  return {reinterpret_cast<std::uintptr_t>(data.data()), static_cast<DAT_SEG_LENGTH>(data.size()),
          messages_context_};
}

DAT_RMR_TRIPLET Connection::remote(std::size_t size) const {
  return {invitation_.address, static_cast<DAT_SEG_LENGTH>(size), invitation_.rmr_context};
}

std::span<std::byte> Connection::out_slot(std::uint32_t index, std::size_t size) {
  const std::size_t slot = slots() + index % hello_.window;
  return {messages_.get() + slot * hello_.slot_size, size};
}

bool Connection::post_receive(std::uint32_t slot) {
  DAT_LMR_TRIPLET local = segment(
      {messages_.get() + std::size_t{slot} * hello_.slot_size, std::size_t{hello_.slot_size}});
  DAT_DTO_COOKIE cookie{};
  cookie.as_64 = slot;
  return ok(dat_ep_post_recv(ep_.get(), 1, &local, cookie, DAT_COMPLETION_DEFAULT_FLAG),
            "posting a receive");
}

bool Connection::release(const Received& received) { return post_receive(received.slot); }

std::optional<Connection::Received> Connection::receive() {
  const auto event = adapter_.next_event(recv_evd_.get(), "a message");
  if (!event) {
    return std::nullopt;
  }
  const DAT_DTO_COMPLETION_EVENT_DATA& done = event->event_data.dto_completion_event_data;
  if (done.status == DAT_DTO_ERR_FLUSHED) {
    closed_ = true;
    return std::nullopt;
  }
  if (done.status != DAT_DTO_SUCCESS) {
    tools::print(stderr, "dattx: a receive failed: {}\n", tools::status_name(done.status));
    return std::nullopt;
  }
  const auto slot = static_cast<std::uint32_t>(done.user_cookie.as_64);
  return Received{
      {messages_.get() + std::size_t{slot} * hello_.slot_size, std::size_t{done.transfered_length}},
      slot};
}

bool Connection::drain(std::uint32_t outstanding) {
  while (outstanding_ > outstanding) {
    const auto event = adapter_.next_event(request_evd_.get(), "a completion");
    if (!event) {
      return false;
    }
    --outstanding_;
    const DAT_DTO_COMPLETION_EVENT_DATA& done = event->event_data.dto_completion_event_data;
    if (done.status != DAT_DTO_SUCCESS) {
      tools::print(stderr, "dattx: a request failed: {}\n", tools::status_name(done.status));
      return false;
    }
  }
  return true;
}

template <typename Post>
bool Connection::request(std::span<const std::byte> data, const char* what, Post post) {
  if (!drain(slots() - 1)) {
    return false;
  }
  DAT_LMR_TRIPLET local = segment(data);
  if (!ok(post(&local), what)) {
    return false;
  }
  ++outstanding_;
  return true;
}

bool Connection::send(std::span<std::byte> data) {
  return request(data, "posting a send", [&](DAT_LMR_TRIPLET* local) {
    return dat_ep_post_send(ep_.get(), 1, local, DAT_DTO_COOKIE{}, DAT_COMPLETION_DEFAULT_FLAG);
  });
}

bool Connection::send(const Message& message) {
  if (!drain(slots() - 1)) {  // so that the oldest of slots() command buffers is free again
    return false;
  }
  const std::size_t slot_bytes = std::size_t{slots() + hello_.window} * hello_.slot_size;
  const std::span<std::byte> place{
      messages_.get() + slot_bytes + next_message_++ % slots() * Words::kSize, Words::kSize};
  message.encode().write(place);
  return send(place);
}

bool Connection::write(std::span<std::byte> data) {
  return request(data, "posting an RDMA Write", [&](DAT_LMR_TRIPLET* local) {
    const DAT_RMR_TRIPLET target = remote(data.size());
    return dat_ep_post_rdma_write(ep_.get(), 1, local, DAT_DTO_COOKIE{}, &target,
                                  DAT_COMPLETION_DEFAULT_FLAG);
  });
}

bool Connection::read(std::span<std::byte> data) {
  return request(data, "posting an RDMA Read", [&](DAT_LMR_TRIPLET* local) {
    const DAT_RMR_TRIPLET source = remote(data.size());
    return dat_ep_post_rdma_read(ep_.get(), 1, local, DAT_DTO_COOKIE{}, &source,
                                 DAT_COMPLETION_DEFAULT_FLAG);
  });
}

}  // namespace dattx
