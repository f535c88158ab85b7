// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "wire.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>

namespace wire {

using namespace conformance;

void run(const std::string& command) {
  const int status = std::system(command.c_str());
  BOOST_REQUIRE_MESSAGE(status == 0, command << " -> " << status);
}

std::string output_of(const std::string& command) {
  std::string text;
  FILE* const pipe = ::popen(command.c_str(), "r");
  BOOST_REQUIRE(pipe != nullptr);
  std::array<char, 4096> block;
  while (const std::size_t count = std::fread(block.data(), 1, block.size(), pipe))
    text.append(block.data(), count);
  BOOST_REQUIRE_EQUAL(::pclose(pipe), 0);
  return text;
}

Disturbance::Disturbance(const std::string& netem) {
  for (const char* device : {"d0", "d1"})
    run(std::string("tc qdisc add dev ") + device + " root netem " + netem);
}

Disturbance::~Disturbance() {
  for (const char* device : {"d0", "d1"}) run(std::string("tc qdisc del dev ") + device + " root");
}

LinkDown::LinkDown() { run("ip link set d0 down"); }

LinkDown::~LinkDown() {
  run("ip link set d0 up && ip route replace 192.0.2.2 dev d0 table 10");
  run("for i in $(seq 100); do"
      " grep -q ACTIVE /sys/class/infiniband/rxe0/ports/1/state &&"
      " grep -q ACTIVE /sys/class/infiniband/rxe1/ports/1/state && exit 0; sleep 0.1; done; exit "
      "1");
}

namespace {

// How many objects of each kind this process has: "cm-idn 0\ncqn 2\n...". Uses one process, because
// the start of one is slow on an emulated processor.
std::string own_objects() {
  const std::string pid = " pid " + std::to_string(::getpid()) + " ";
  std::map<std::string, int> counts;
  for (const char* kind : {"lqpn", "cqn", "mrn", "pdn", "cm-idn"}) counts[kind] = 0;
  // Lines like "dev rxe0 cqn 1 cqe 63 users 1 ctxn 1 pid 181 comm dapltest".
  std::istringstream lines(output_of("printf 'resource show %s\\n' qp cq mr pd cm_id | rdma -b -"));
  for (std::string line; std::getline(lines, line);) {
    if (line.find(pid) == std::string::npos) continue;
    std::istringstream words(line);
    std::string kind;
    words >> kind >> kind >> kind;
    ++counts[kind];
  }
  std::string text;
  for (const auto& [kind, count] : counts) text += kind + " " + std::to_string(count) + "\n";
  return text;
}

// The open descriptors, one per line, sorted.
std::string open_descriptors() {
  std::multiset<std::string> targets;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code closed;  // meanwhile
    const std::string target = std::filesystem::read_symlink(entry, closed);
    if (!closed && !target.starts_with("pipe:")) targets.insert(target);
  }
  std::string text;
  for (const std::string& target : targets) text += target + "\n";
  return text;
}

}  // namespace

NothingLeft::NothingLeft() {
  // Descriptors that the first connection of a process opens permanently are no leak: the devices
  // of librdmacm, and the socket with which the harness reserves its conn quals.
  static const bool once = [] {
    Hosts hosts;
    Connection connection(hosts);
    // Otherwise no leak would ever be found.
    BOOST_REQUIRE_NE(own_objects().find("lqpn 2\n"), std::string::npos);
    connection.disconnect();
    return true;
  }();
  BOOST_REQUIRE(once);
  objects_ = own_objects();
  descriptors_ = open_descriptors();
}

NothingLeft::~NothingLeft() {
  BOOST_CHECK_EQUAL(own_objects(), objects_);
  BOOST_CHECK_EQUAL(open_descriptors(), descriptors_);
}

Hosts::Hosts() : cr_evd(make_evd(server.ia, DAT_EVD_CR_FLAG, 1024)), conn_qual(fresh_conn_qual()) {
  REQUIRE_OK(dat_psp_create(server.ia, conn_qual, cr_evd, DAT_PSP_CONSUMER_FLAG, psp.out()));
}

void Hosts::connect(DAT_EP_HANDLE ep, DAT_TIMEOUT timeout, const sockaddr* address,
                    DAT_CONN_QUAL qual) const {
  if (address == nullptr) address = server.ia.attr.ia_address_ptr;
  REQUIRE_OK(dat_ep_connect(ep, const_cast<sockaddr*>(address), qual == 0 ? conn_qual : qual,
                            timeout, 0, nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
}

DAT_CR_HANDLE Hosts::take_request() const {
  return expect_event(cr_evd, DAT_CONNECTION_REQUEST_EVENT)
      .event_data.cr_arrival_event_data.cr_handle;
}

Connection::Connection(Hosts& all) : hosts(all) {
  active.create(hosts.client.ia, hosts.client.pz, nullptr);
  passive.create(hosts.server.ia, hosts.server.pz, nullptr);
  hosts.connect(active.ep);
  REQUIRE_OK(dat_cr_accept(hosts.take_request(), passive.ep, 0, nullptr));
  expect_event(active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  expect_event(passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}

void Connection::disconnect() {
  REQUIRE_OK(dat_ep_disconnect(active.ep, DAT_CLOSE_GRACEFUL_FLAG));
  expect_event(active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
  expect_connection_end(passive.connect_evd);
}

}  // namespace wire
