// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A misbehaving peer that does not use our libraries, but rdma_cm directly.
//
//   vm_stranger MODE ADDRESS PORT COUNT
//
// abandon: requests with private data of any length and content, each abandoned immediately.
// silent: requests whose answers it never reads, until it is killed.
// leave: connections that it ends as soon as they are established.
//
// Prints a line when it has sent its requests. Exit status 0: done, 1: failed.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string_view>
#include <vector>

namespace {

constexpr int kPatienceMs = 5000;
constexpr std::size_t kMaxPrivateData = 56;  // InfiniBand's request without librdmacm's header

[[noreturn]] void give_up(const char* what) {
  std::perror(what);
  std::exit(1);
}

class Stranger {
 public:
  Stranger() : channel_(::rdma_create_event_channel()) {
    if (channel_ == nullptr) give_up("rdma_create_event_channel");
    if (::rdma_create_id(channel_, &id_, nullptr, RDMA_PS_TCP) != 0) give_up("rdma_create_id");
  }
  ~Stranger() {
    if (id_->qp != nullptr) ::rdma_destroy_qp(id_);
    ::rdma_destroy_id(id_);
    ::rdma_destroy_event_channel(channel_);
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

  void request(sockaddr_in& server, std::minstd_rand& random) {
    sockaddr_in own{};
    own.sin_family = AF_INET;
    ::inet_pton(AF_INET, "192.0.2.2", &own.sin_addr);
    if (::rdma_resolve_addr(id_, reinterpret_cast<sockaddr*>(&own),
                            reinterpret_cast<sockaddr*>(&server), kPatienceMs) != 0 ||
        next() != RDMA_CM_EVENT_ADDR_RESOLVED || ::rdma_resolve_route(id_, kPatienceMs) != 0 ||
        next() != RDMA_CM_EVENT_ROUTE_RESOLVED)
      give_up("resolving");
    ibv_qp_init_attr attr{};
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {4, 4, 1, 1, 0};
    if (::rdma_create_qp(id_, nullptr, &attr) != 0) give_up("rdma_create_qp");
    std::uint8_t data[kMaxPrivateData];
    for (std::uint8_t& byte : data) byte = static_cast<std::uint8_t>(random());
    rdma_conn_param how{};
    how.private_data = data;
    how.private_data_len = static_cast<std::uint8_t>(random() % (sizeof data + 1));
    how.responder_resources = static_cast<std::uint8_t>(random() % 16);
    how.initiator_depth = static_cast<std::uint8_t>(random() % 16);
    how.retry_count = static_cast<std::uint8_t>(random() % 8);
    how.rnr_retry_count = static_cast<std::uint8_t>(random() % 8);
    how.flow_control = static_cast<std::uint8_t>(random() % 2);
    if (::rdma_connect(id_, &how) != 0) give_up("rdma_connect");
  }

  // Waits for the next event; -1 if none arrives.
  int next() {
    pollfd ready{channel_->fd, POLLIN, 0};
    rdma_cm_event* event = nullptr;
    if (::poll(&ready, 1, kPatienceMs) != 1 || ::rdma_get_cm_event(channel_, &event) != 0)
      return -1;
    const int what = event->event;
    ::rdma_ack_cm_event(event);
    return what;
  }

  void leave() { ::rdma_disconnect(id_); }

 private:
  rdma_event_channel* channel_;
  rdma_cm_id* id_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (argc != 5) return 1;
  const std::string_view mode(argv[1]);
  sockaddr_in server{};
  server.sin_family = AF_INET;
  server.sin_port = htons(static_cast<std::uint16_t>(std::atoi(argv[3])));
  if (::inet_pton(AF_INET, argv[2], &server.sin_addr) != 1) return 1;
  const int count = std::atoi(argv[4]);
  std::minstd_rand random(7);
  if (mode == "silent") {
    std::vector<Stranger> strangers(static_cast<std::size_t>(count));
    for (Stranger& stranger : strangers) stranger.request(server, random);
    std::puts("out");
    std::fflush(stdout);
    for (;;) ::pause();
  }
  for (int i = 0; i < count; ++i) {
    Stranger stranger;
    stranger.request(server, random);
    if (mode == "leave" && stranger.next() == RDMA_CM_EVENT_ESTABLISHED) stranger.leave();
  }
  std::puts("out");
  return 0;
}
