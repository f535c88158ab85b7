// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// dtestcm - measures connections per second. A rewrite: the command line, the protocol and the
// printed results are those of the program of that name in dapl2-utils. A connection request has 48
// bytes of private data; the answer returns each byte plus one.
#include "../names.h"
#include "connection.h"
#include "rendezvous.h"

#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <numeric>
#include <set>
#include <thread>

namespace dtest {
namespace {

constexpr std::size_t kPrivateData = 48;

struct Options {
  Common common;
  std::uint32_t connections = 1000;
  std::uint32_t burst = 100;
  unsigned port = 45248;
  unsigned delay_s = 0;
  bool many_ports = false;
  bool wait = false;
  bool datagrams = false;
};

class Connections {
 public:
  Connections(const Options& options, const Adapter& adapter)
      : options_(options), adapter_(adapter), eps_(options.connections) {
    events_.poll = !options.wait;
    const auto room = static_cast<DAT_COUNT>(options.connections) + 8;
    evd_create_us_ = timed([&] {
      cr_evd_ = adapter.evd(room, DAT_EVD_CR_FLAG);
      connect_evd_ = adapter.evd(2 * room, DAT_EVD_CONNECTION_FLAG);
      dto_evd_ = adapter.evd(8, DAT_EVD_DTO_FLAG);
    });
    ep_create_us_ = timed([&] {
      for (DAT_EP_HANDLE& ep : eps_)
        must(dat_ep_create(adapter.ia(), adapter.pz(), dto_evd_, dto_evd_, connect_evd_, nullptr,
                           &ep),
             "creating an endpoint");
    });
  }

  void serve() {
    const std::uint32_t ports = options_.many_ports ? options_.burst : 1;
    for (std::uint32_t i = 0; i < ports; ++i) {
      psps_.push_back(DAT_HANDLE_NULL);
      must(dat_psp_create(adapter_.ia(), options_.port + i, cr_evd_, DAT_PSP_CONSUMER_FLAG,
                          &psps_.back()),
           fmt::format("listening on port {}", options_.port + i));
      tools::print(" Server ready on port {}\n", options_.port + i);
    }
    std::optional<DAT_EVENT> first;
    {
      Rendezvous rendezvous(Record::of(adapter_), false);
      tools::print("{} Conn server waiting for client, port {} \n", ::getpid(), Record::kPort);
      tools::flush();
      static_cast<void>(rendezvous.serve([&] {
        DAT_EVENT event{};
        if (dat_evd_dequeue(cr_evd_, &event) == DAT_SUCCESS) first = event;
        return first.has_value();
      }));
    }
    tools::print(" Accepting...\n");
    tools::flush();
    for (std::uint32_t i = 0; i < options_.connections; ++i) {
      const DAT_EVENT event = i == 0 ? *first
                                     : events_.expect(cr_evd_, DAT_CONNECTION_REQUEST_EVENT,
                                                      fmt::format("connection request {}", i + 1));
      if (options_.delay_s > 0) std::this_thread::sleep_for(std::chrono::seconds(options_.delay_s));
      accept(event.event_data.cr_arrival_event_data.cr_handle, eps_[i]);
    }
    tools::print(" Completing...\n");
    for (std::uint32_t i = 0; i < options_.connections; ++i) established();
    tools::print("\n ALL {} CONNECTED on Server!\n\n", options_.connections);
  }

  void call(const sockaddr_storage& address) {
    tools::print(" Connecting...\n");
    tools::flush();
    connect_us_ = timed([&] {
      std::uint32_t under_way = 0;
      for (std::uint32_t i = 0; i < options_.connections; ++i) {
        if (under_way == options_.burst) {
          established();
          --under_way;
        }
        connect(address, options_.port + (options_.many_ports ? i % options_.burst : 0), eps_[i]);
        ++under_way;
      }
      for (; under_way > 0; --under_way) established();
    });
    tools::print("\n ALL {} CONNECTED on Client!\n\n", options_.connections);
    tools::flush();
  }

  void end() {
    if (!options_.common.server()) {
      if (options_.delay_s > 0) std::this_thread::sleep_for(std::chrono::seconds(options_.delay_s));
      for (const DAT_EP_HANDLE ep : eps_)
        must(dat_ep_disconnect(ep, DAT_CLOSE_GRACEFUL_FLAG), "disconnecting");
    }
    for (std::uint32_t i = ended_; i < options_.connections; ++i)
      static_cast<void>(events_.expect(connect_evd_, DAT_CONNECTION_EVENT_DISCONNECTED,
                                       fmt::format("end {} of a connection", i + 1)));
    ep_free_us_ = timed([&] {
      for (const DAT_EP_HANDLE ep : eps_) must(dat_ep_free(ep), "freeing an endpoint");
    });
    for (const DAT_PSP_HANDLE psp : psps_) must(dat_psp_free(psp), "closing the listener");
    evd_free_us_ = timed([&] {
      for (const DAT_EVD_HANDLE evd : {cr_evd_, connect_evd_, dto_evd_})
        must(dat_evd_free(evd), "freeing an event dispatcher");
    });
  }

  void print_times(double total_us) const {
    const double count = options_.connections;
    tools::print("\n DAPL Connection Test Complete.\n");
    const std::pair<const char*, double> rows[] = {{"open:      ", adapter_.open_us},
                                                   {"close:     ", adapter_.close_us},
                                                   {"PZ create: ", adapter_.pz_create_us},
                                                   {"PZ free:   ", adapter_.pz_free_us},
                                                   {"LMR create:", 0},
                                                   {"LMR free:  ", 0},
                                                   {"EVD create:", evd_create_us_},
                                                   {"EVD free:  ", evd_free_us_}};
    for (const auto& [name, us] : rows) tools::print(" {} {:10.2f} usec\n", name, us);
    tools::print(" EP create:  {:10.2f} usec avg\n EP free:    {:10.2f} usec avg\n",
                 ep_create_us_ / count, ep_free_us_ / count);
    if (!options_.common.server())
      tools::print(
          " Connections: {:8.2f} usec, CPS {:7.2f} Total {:4.2f} secs, poll_cnt={}, Num={}\n",
          connect_us_ / count, count / connect_us_ * 1e6, connect_us_ / 1e6, events_.polls,
          options_.connections);
    tools::print(" TOTAL: {:8.2f} sec\n", total_us / 1e6);
  }

 private:
  static void accept(DAT_CR_HANDLE cr, DAT_EP_HANDLE ep) {
    DAT_CR_PARAM request{};
    must(dat_cr_query(cr, DAT_CR_FIELD_ALL, &request), "querying the connection request");
    const auto* bytes = static_cast<const std::uint8_t*>(request.private_data);
    std::vector<std::uint8_t> data(
        bytes, bytes + std::min<std::size_t>(kPrivateData,
                                             static_cast<std::size_t>(request.private_data_size)));
    for (std::uint8_t& byte : data) ++byte;
    must(dat_cr_accept(cr, ep, static_cast<DAT_COUNT>(data.size()), data.data()),
         "accepting a connection");
  }

  static void connect(sockaddr_storage address, DAT_CONN_QUAL port, DAT_EP_HANDLE ep) {
    std::vector<std::uint8_t> data(kPrivateData);
    std::iota(data.begin(), data.end(), std::uint8_t{1});
    must(dat_ep_connect(ep, reinterpret_cast<DAT_IA_ADDRESS_PTR>(&address), port,
                        static_cast<DAT_TIMEOUT>(std::chrono::microseconds(kPatience).count()),
                        kPrivateData, data.data(), DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
         fmt::format("connecting to {} port {}",
                     numeric(reinterpret_cast<const sockaddr*>(&address)), port));
  }

  // The client disconnects the first connections as soon as it has seen all of them established, so
  // on the server their ends may arrive before the last connection is established.
  DAT_EVENT next_established() {
    for (;;) {
      const auto event = events_.next(connect_evd_, kPatience + std::chrono::seconds(5));
      if (!event) fail("connecting: timed out");
      const DAT_EP_HANDLE ep = event->event_data.connect_event_data.ep_handle;
      if (event->event_number == DAT_CONNECTION_EVENT_ESTABLISHED) {
        established_.insert(ep);
        return *event;
      }
      if (event->event_number != DAT_CONNECTION_EVENT_DISCONNECTED || established_.count(ep) == 0)
        fail(fmt::format("connecting: unexpected {}", tools::event_name(event->event_number)));
      ++ended_;
    }
  }

  void established() {
    const DAT_EVENT event = next_established();
    if (options_.common.server()) return;
    const DAT_CONNECTION_EVENT_DATA& data = event.event_data.connect_event_data;
    const auto* bytes = static_cast<const std::uint8_t*>(data.private_data);
    for (std::size_t i = 0; i < kPrivateData; ++i) {
      if (static_cast<std::size_t>(data.private_data_size) <= i || bytes[i] != i + 2)
        fail(fmt::format("byte {} of the server's private data is wrong", i));
    }
  }

  const Options& options_;
  const Adapter& adapter_;
  Events events_;
  std::vector<DAT_EP_HANDLE> eps_;
  std::set<DAT_EP_HANDLE> established_;
  std::uint32_t ended_ = 0;  // connections that ended before all were established
  std::vector<DAT_PSP_HANDLE> psps_;
  DAT_EVD_HANDLE cr_evd_ = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE connect_evd_ = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE dto_evd_ = DAT_HANDLE_NULL;
  double connect_us_ = 0;
  double evd_create_us_ = 0;
  double evd_free_us_ = 0;
  double ep_create_us_ = 0;
  double ep_free_us_ = 0;
};

void run(Options& options) {
  const Clock::time_point start = Clock::now();
  Record record;
  if (!options.common.server()) {
    record = ask(options.common.host);
    if (options.common.provider.empty()) options.common.provider = record.provider;
  }
  Adapter adapter;
  adapter.open(options.common.provider);
  tools::print(" Running {} on {} with {} RC connections\n", options.common.role(), adapter.name(),
               options.connections);
  tools::print("{} Local IA Address - {} port {}\n", ::getpid(), numeric(adapter.address()),
               options.port);
  if (options.datagrams && !adapter.has(DAT_IB_ATTR_UD))
    fail(fmt::format("the adapter '{}' has no datagrams (DAT_IB_UD)", adapter.name()));
  if (options.datagrams) fail("this program does not test datagrams");
  Connections test(options, adapter);
  if (options.common.server()) {
    test.serve();
  } else {
    const sockaddr_storage address = server_address(record, options.common.host);
    tools::print(" Connecting to Server: {} \n Address: {} port {}\n", options.common.host,
                 numeric(reinterpret_cast<const sockaddr*>(&address)), options.port);
    test.call(address);
  }
  test.end();
  adapter.check_async();
  adapter.close();
  test.print_times(us_since(start));
}

}  // namespace
}  // namespace dtest

int main(int argc, char** argv) {
  dtest::program = "dtestcm";
  CLI::App app{"Measures how fast connections are made between two processes."};
  dtest::Options options;
  dtest::add_common(app, options.common);
  app.add_option("-c", options.connections, "Connections (1000)")->check(CLI::Range(1U, 1000000U));
  app.add_option("-b", options.burst, "Connections that are asked for at a time (100)")
      ->check(CLI::Range(1U, 10000U));
  app.add_option("-p", options.port, "Port of the server, the first one with -m (45248)")
      ->check(CLI::Range(1U, 65535U));
  app.add_flag("-m", options.many_ports, "Listen on as many ports as -b says");
  app.add_flag("-w", options.wait, "Wait for events instead of polling");
  app.add_option("-d", options.delay_s,
                 "Seconds before accepting each; client: before disconnecting")
      ->check(CLI::Range(0U, 3600U));
  app.add_flag("-u", options.datagrams,
               "Datagrams, which the adapters of this project do not have");
  app.footer(
      "Start one without -h, and one with -h and the name of the machine of the first. Both need "
      "the same\n"
      "-c, -b, -p and -m. Exit status: 0 passed; 1 something failed; 2 bad arguments.");
  if (const auto status = dtest::parse(app, argc, argv)) return *status;
  dtest::failed_line = "\n DAPL Connection Test FAILED.\n";
  dtest::run(options);
  return tools::ended("dtestcm", 0);
}
