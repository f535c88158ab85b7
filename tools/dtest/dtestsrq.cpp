// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// dtestsrq - messages of many connections into one shared receive queue. A rewrite: the command
// line, the protocol and the printed results are those of the program of that name in dapl2-utils.
//
// Protocol: each connection request and its answer carry the number of the connection. A message is
// 0x55 (from the client) or 0xaa (from the server), three unused bytes, the number of the
// connection, and the number of the message on it. Numbers have 32 bits, big-endian.
#include "../names.h"
#include "connection.h"

#include <endian.h>
#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include <algorithm>

namespace dtest {
namespace {

constexpr std::uint32_t kMaxCount = 100;
constexpr std::uint32_t kHeader = 12;

struct Options {
  Common common;
  std::uint32_t connections = 1;
  std::uint32_t burst = 1;
  std::uint32_t bursts = 3;
  std::uint32_t length = 0;  // 0: the adapter's MTU
  unsigned port = 45248;
  unsigned srq = 1;
  std::string lid;
  std::string qpn;
  bool datagrams = false;

  [[nodiscard]] std::uint32_t messages() const { return connections * burst; }
};

std::uint32_t number_at(const std::byte* at) {
  std::uint32_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return be32toh(value);
}
void put_number(std::byte* at, std::uint32_t value) {
  value = htobe32(value);
  std::memcpy(at, &value, sizeof value);
}

class Messages {
 public:
  Messages(const Options& options, const Adapter& adapter)
      : options_(options),
        adapter_(adapter),
        eps_(options.connections),
        received_counts_(options.connections) {
    const auto room = static_cast<DAT_COUNT>(options.messages()) + 8;
    cr_evd_ = adapter.evd(room, DAT_EVD_CR_FLAG);
    // Clients that arrive while the memory is being prepared wait for their answer.
    if (options.common.server())
      must(dat_psp_create(adapter.ia(), options.port, cr_evd_, DAT_PSP_CONSUMER_FLAG, &psp_),
           fmt::format("listening on port {}", options.port));
    connect_evd_ = adapter.evd(2 * room, DAT_EVD_CONNECTION_FLAG);
    request_evd_ = adapter.evd(room, DAT_EVD_DTO_FLAG);
    receive_evd_ = adapter.evd(room, DAT_EVD_DTO_FLAG);
    inbox_.create(adapter, std::size_t{options.messages()} * options.length);
    outbox_.create(adapter, std::size_t{options.messages()} * options.length);
    if (options.srq != 0) {
      DAT_SRQ_ATTR attributes{static_cast<DAT_COUNT>(options.messages()), 1, DAT_SRQ_LW_DEFAULT};
      must(dat_srq_create(adapter.ia(), adapter.pz(), &attributes, &srq_),
           "creating a shared receive queue");
    }
    for (DAT_EP_HANDLE& ep : eps_) ep = create_ep();
    for (std::uint32_t slot = 0; slot < options.messages(); ++slot) post_receive(slot);
  }

  void serve() {
    tools::print(" server ready on port {}\n Accepting...\n", options_.port);
    tools::flush();
    for (std::uint32_t i = 0; i < options_.connections; ++i) {
      // The first client may take any time to arrive.
      accept(events_.expect(cr_evd_, DAT_CONNECTION_REQUEST_EVENT, "waiting for the client",
                            i == 0 ? std::chrono::hours(24 * 365) : kPatience));
    }
  }

  void call() {
    const sockaddr_storage address = resolve(options_.common.host);
    tools::print(" Connecting to Server: {} \n Address: {} port {}\n Connecting...\n",
                 options_.common.host, numeric(reinterpret_cast<const sockaddr*>(&address)),
                 options_.port);
    for (std::uint32_t i = 0; i < options_.connections; ++i) {
      sockaddr_storage copy = address;
      std::uint32_t number = htobe32(i);
      must(dat_ep_connect(eps_[i], reinterpret_cast<DAT_IA_ADDRESS_PTR>(&copy), options_.port,
                          static_cast<DAT_TIMEOUT>(std::chrono::microseconds(kPatience).count()),
                          sizeof number, &number, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
           fmt::format("connecting to {} port {}",
                       numeric(reinterpret_cast<const sockaddr*>(&address)), options_.port));
    }
  }

  void established() {
    tools::print(" Completing...\n");
    for (std::uint32_t i = 0; i < options_.connections; ++i)
      static_cast<void>(events_.expect(connect_evd_, DAT_CONNECTION_EVENT_ESTABLISHED, "connecting",
                                       kPatience + std::chrono::seconds(5)));
    tools::print("\n ALL {} CONNECTED on {}!\n\n", options_.connections, options_.common.role());
    tools::flush();
  }

  void transfer() {
    for (std::uint32_t round = 0; round < options_.bursts; ++round) {
      if (!options_.common.server()) send(round);
      receive();
      if (options_.common.server()) send(round);
    }
  }

  void end() {
    if (!options_.common.server()) {
      for (const DAT_EP_HANDLE ep : eps_)
        must(dat_ep_disconnect(ep, DAT_CLOSE_GRACEFUL_FLAG), "disconnecting");
    }
    for (std::uint32_t i = ends_seen_; i < options_.connections; ++i)
      static_cast<void>(
          events_.expect(connect_evd_, DAT_CONNECTION_EVENT_DISCONNECTED, "disconnecting"));
    for (const DAT_EP_HANDLE ep : eps_) must(dat_ep_free(ep), "freeing an endpoint");
    if (psp_ != DAT_HANDLE_NULL) must(dat_psp_free(psp_), "closing the listener");
    if (srq_ != DAT_HANDLE_NULL) must(dat_srq_free(srq_), "freeing the shared receive queue");
    for (const DAT_EVD_HANDLE evd : {cr_evd_, connect_evd_, request_evd_, receive_evd_})
      must(dat_evd_free(evd), "freeing an event dispatcher");
    inbox_.free();
    outbox_.free();
  }

 private:
  DAT_EP_HANDLE create_ep() const {
    DAT_EP_ATTR attributes{};
    attributes.service_type = DAT_SERVICE_TYPE_RC;
    attributes.max_message_size = options_.length;
    attributes.qos = DAT_QOS_BEST_EFFORT;
    attributes.max_recv_dtos =
        static_cast<DAT_COUNT>(options_.srq != 0 ? options_.messages() : options_.burst);
    attributes.max_request_dtos = static_cast<DAT_COUNT>(options_.burst);
    attributes.max_recv_iov = 1;
    attributes.max_request_iov = 1;
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    must(srq_ != DAT_HANDLE_NULL
             ? dat_ep_create_with_srq(adapter_.ia(), adapter_.pz(), receive_evd_, request_evd_,
                                      connect_evd_, srq_, &attributes, &ep)
             : dat_ep_create(adapter_.ia(), adapter_.pz(), receive_evd_, request_evd_, connect_evd_,
                             &attributes, &ep),
         "creating an endpoint");
    return ep;
  }

  // Without an SRQ, each connection has the slots of one burst.
  void post_receive(std::uint32_t slot) const {
    DAT_LMR_TRIPLET segment = inbox_.segment(std::size_t{slot} * options_.length, options_.length);
    must(srq_ != DAT_HANDLE_NULL ? dat_srq_post_recv(srq_, 1, &segment, cookie(slot))
                                 : dat_ep_post_recv(eps_[slot / options_.burst], 1, &segment,
                                                    cookie(slot), DAT_COMPLETION_DEFAULT_FLAG),
         "posting a receive");
  }

  // Accepts a request for the connection whose number is in the private data.
  void accept(const DAT_EVENT& event) {
    const DAT_CR_HANDLE cr = event.event_data.cr_arrival_event_data.cr_handle;
    DAT_CR_PARAM request{};
    must(dat_cr_query(cr, DAT_CR_FIELD_ALL, &request), "querying the connection request");
    if (static_cast<std::size_t>(request.private_data_size) < sizeof(std::uint32_t))
      fail("the request does not say which connection it is for: is the client dtestsrq?");
    const std::uint32_t index = number_at(static_cast<const std::byte*>(request.private_data));
    if (index >= options_.connections)
      fail(fmt::format(
          "the client has a connection {}, this server {}: use the same -c on both sides",
          index + 1, options_.connections));
    std::uint32_t answer = htobe32(index);
    must(dat_cr_accept(cr, eps_[index], sizeof answer, &answer), "accepting a connection");
  }

  void send(std::uint32_t round) {
    for (std::uint32_t slot = 0; slot < options_.messages(); ++slot) {
      const std::uint32_t connection = slot / options_.burst;
      std::byte* at = outbox_.at(std::size_t{slot} * options_.length);
      *at = std::byte{options_.common.server() ? std::uint8_t{0xaa} : std::uint8_t{0x55}};
      put_number(at + 4, connection);
      put_number(at + 8, round * options_.burst + slot % options_.burst + 1);
      DAT_LMR_TRIPLET segment =
          outbox_.segment(std::size_t{slot} * options_.length, options_.length);
      must(dat_ep_post_send(eps_[connection], 1, &segment, cookie(slot),
                            DAT_COMPLETION_DEFAULT_FLAG),
           "posting a send");
    }
    for (std::uint32_t i = 0; i < options_.messages(); ++i)
      static_cast<void>(done(request_evd_, "sending"));
  }

  void receive() {
    for (std::uint32_t i = 0; i < options_.messages(); ++i) {
      const DAT_DTO_COMPLETION_EVENT_DATA event = done(receive_evd_, "receiving");
      const auto slot = static_cast<std::uint32_t>(event.user_cookie.as_64);
      const std::byte* at = inbox_.at(std::size_t{slot} * options_.length);
      const std::uint32_t connection = number_at(at + 4);
      const std::uint32_t message = number_at(at + 8);
      if (event.transfered_length != options_.length)
        fail(fmt::format("a message has {} bytes, not {}: use the same -b on both sides",
                         event.transfered_length, options_.length));
      if (std::to_integer<int>(*at) != (options_.common.server() ? 0x55 : 0xaa) ||
          connection >= options_.connections || event.ep_handle != eps_[connection])
        fail("a message arrived over the wrong connection, or is not from dtestsrq");
      if (message != ++received_counts_[connection])
        fail(fmt::format("connection {}: got message {} instead of {}", connection, message,
                         received_counts_[connection]));
      if (options_.common.verbose)
        tools::print(" {}: recv index {}: ep num {}, ep msg num {}\n",
                     options_.common.upper_case_role(), slot, connection, message);
      post_receive(slot);
    }
  }

  // Waits for a completion. The receives of a shared queue outlive their connections, so nothing
  // would complete if the peer has gone: the events of connections are looked at as well.
  DAT_EVENT completion(DAT_EVD_HANDLE evd, std::string_view what) const {
    constexpr std::chrono::milliseconds kStep{100};
    const Clock::time_point deadline = Clock::now() + kPatience;
    while (Clock::now() < deadline) {
      std::optional<DAT_EVENT> event = events_.next(evd, kStep);
      if (!event) {
        DAT_EVENT end{};
        if (dat_evd_dequeue(connect_evd_, &end) != DAT_SUCCESS) continue;
        event = events_.next(evd, std::chrono::microseconds(0));
        if (!event)
          fail(fmt::format("{}: the connection has ended: {}", what,
                           tools::event_name(end.event_number)));
        ++ends_seen_;
      }
      return *event;
    }
    fail(fmt::format("{}: timed out", what));
  }

  DAT_DTO_COMPLETION_EVENT_DATA done(DAT_EVD_HANDLE evd, std::string_view what) const {
    const DAT_EVENT event = completion(evd, what);
    const DAT_DTO_COMPLETION_EVENT_DATA& data = event.event_data.dto_completion_event_data;
    if (data.status != DAT_DTO_SUCCESS)
      fail(fmt::format("{}: {}", what, tools::status_name(data.status)));
    return data;
  }

  const Options& options_;
  const Adapter& adapter_;
  Events events_;
  std::vector<DAT_EP_HANDLE> eps_;
  std::vector<std::uint32_t> received_counts_;  // messages of each connection
  mutable std::uint32_t ends_seen_ = 0;         // events that completion() took
  Memory inbox_;
  Memory outbox_;
  DAT_SRQ_HANDLE srq_ = DAT_HANDLE_NULL;
  DAT_PSP_HANDLE psp_ = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE cr_evd_ = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE connect_evd_ = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE request_evd_ = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE receive_evd_ = DAT_HANDLE_NULL;
};

void run(Options& options) {
  Adapter adapter;
  adapter.open(options.common.provider);
  tools::print(
      " Running RC {}SRQ test as {}: on {} with {} connections, {} bursts of {} messages\n",
      options.srq != 0 ? "" : "none ", options.common.upper_case_role(), adapter.name(),
      options.connections, options.bursts, options.burst);
  tools::print(" Local Address {}\n", family_and_address(adapter.address(), options.port));
  if (options.datagrams && !adapter.has(DAT_IB_ATTR_UD))
    fail(fmt::format("the adapter '{}' has no datagrams (DAT_IB_UD)", adapter.name()));
  if (options.datagrams) fail("this program does not test datagrams");
  if (options.length == 0) {
    const std::string mtu = adapter.named("DAT_IB_TRANSPORT_MTU");
    options.length =
        static_cast<std::uint32_t>(std::clamp(std::atol(mtu.c_str()), long{kHeader}, 1L << 20));
  }
  Messages test(options, adapter);
  if (options.common.server())
    test.serve();
  else
    test.call();
  test.established();
  test.transfer();
  test.end();
  // For each endpoint with an SRQ, the provider reports that its last message has been consumed.
  adapter.check_async("DAT_ASYNC_ERROR_EP_BROKEN");
  adapter.close();
  tools::print(" DAPL RC {}SRQ Test Complete.\n\n", options.srq != 0 ? "" : "none ");
}

}  // namespace
}  // namespace dtest

int main(int argc, char** argv) {
  dtest::program = "dtestsrq";
  CLI::App app{"Tests messages of many connections into one shared receive queue."};
  dtest::Options options;
  dtest::add_common(app, options.common);
  app.add_option("-c", options.connections, "Connections (1)")
      ->check(CLI::Range(1U, dtest::kMaxCount));
  app.add_option("-B", options.burst, "Messages of a burst and connection (1)")
      ->check(CLI::Range(1U, dtest::kMaxCount));
  app.add_option("-t", options.bursts, "Bursts (3)")->check(CLI::Range(1U, 1U << 30));
  app.add_option("-b", options.length, "Bytes of a message (DAT_IB_TRANSPORT_MTU of the adapter)")
      ->check(CLI::Range(dtest::kHeader, 1U << 20));
  app.add_option("-p", options.port, "Port of the server (45248)")->check(CLI::Range(1U, 65535U));
  app.add_option("-S", options.srq, "1: with a shared receive queue, 0: without (1)")
      ->check(CLI::Range(0U, 1U));
  app.add_flag("-u", options.datagrams,
               "Datagrams, which the adapters of this project do not have");
  app.add_option("-l", options.lid, "Of another provider (ucm); no effect here");
  app.add_option("-q", options.qpn, "Of another provider (ucm); no effect here");
  app.footer(
      "Start one without -h, and one with -h and the address of the adapter of the first. Both "
      "need the same\n"
      "-c, -B, -t, -b and -p. Exit status: 0 passed; 1 something failed; 2 bad arguments.");
  if (const auto status = dtest::parse(app, argc, argv)) return *status;
  dtest::failed_line = "\n DAPL RC SRQ Test FAILED.\n";
  dtest::run(options);
  return tools::ended("dtestsrq", 0);
}
