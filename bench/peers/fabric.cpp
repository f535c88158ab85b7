// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// libfabric between two processes that poll, each on a processor of its own; tagged messages over
// reliable datagrams. Prints one number, from the median of many.
//
//   peers_fabric shm|tcp latency BYTES        microseconds one way
//   peers_fabric shm|tcp rate BYTES WINDOW    millions of messages per second, with up to WINDOW
//                                             uncompleted and twice as many unacknowledged sends
#include "two_processes.h"

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr std::size_t kMaxAddress = 256;
constexpr char kContent = 1;  // of every byte sent

void must(ssize_t result, const char* call) {
  if (result >= 0) return;
  std::fprintf(stderr, "peers_fabric: %s: %s\n", call, ::fi_strerror(static_cast<int>(-result)));
  std::exit(1);
}

// The address of an end, exchanged in shared memory.
struct Address {
  std::atomic<bool> known{false};
  std::size_t size = kMaxAddress;
  std::array<char, kMaxAddress> bytes{};
};
using Addresses = std::array<Address, 2>;

// The end of one process. Used by one thread; what it opens stays open until the process exits.
class End {
 public:
  End(const std::string& provider, Addresses& addresses, std::size_t me, std::size_t size,
      int receives)
      : out_(size, kContent), in_(size) {
    open(provider);
    enable();
    exchange(addresses[me], addresses[1 - me]);
    for (int i = 0; i < receives; ++i) post_receive();
  }

  void send(int window) {
    while (sends_ >= window) progress();
    const bool inject = out_.size() <= inject_size_;
    while (true) {
      const ssize_t result =
          inject ? ::fi_tinject(ep_, out_.data(), out_.size(), peer_, 0)
                 : ::fi_tsend(ep_, out_.data(), out_.size(), nullptr, peer_, 0, nullptr);
      if (result == 0) break;
      if (result != -FI_EAGAIN) must(result, "fi_tsend");
      progress();
    }
    if (!inject) ++sends_;
  }
  // Receives one message and posts the receive again.
  void receive() {
    while (received_ == 0) progress();
    --received_;
    if (in_.front() != kContent || in_.back() != kContent) must(-FI_EIO, "the content");
    post_receive();
  }

 private:
  void open(const std::string& provider) {
    fi_info* const hints = ::fi_allocinfo();
    hints->caps = FI_TAGGED;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = ::strdup(provider.c_str());
    const bool loopback = provider == "tcp";
    must(::fi_getinfo(FI_VERSION(1, 15), loopback ? "127.0.0.1" : nullptr, nullptr,
                      loopback ? FI_SOURCE : 0, hints, &info_),
         "fi_getinfo");
    ::fi_freeinfo(hints);
    inject_size_ = info_->tx_attr->inject_size;
    must(::fi_fabric(info_->fabric_attr, &fabric_, nullptr), "fi_fabric");
    must(::fi_domain(fabric_, info_, &domain_, nullptr), "fi_domain");
    must(::fi_endpoint(domain_, info_, &ep_, nullptr), "fi_endpoint");
  }
  void enable() {
    fi_av_attr table{};
    must(::fi_av_open(domain_, &table, &av_, nullptr), "fi_av_open");
    must(::fi_ep_bind(ep_, &av_->fid, 0), "fi_ep_bind");
    fi_cq_attr queue{};
    queue.format = FI_CQ_FORMAT_CONTEXT;
    queue.wait_obj = FI_WAIT_NONE;
    must(::fi_cq_open(domain_, &queue, &sent_queue_, nullptr), "fi_cq_open");
    must(::fi_cq_open(domain_, &queue, &received_queue_, nullptr), "fi_cq_open");
    must(::fi_ep_bind(ep_, &sent_queue_->fid, FI_TRANSMIT), "fi_ep_bind");
    must(::fi_ep_bind(ep_, &received_queue_->fid, FI_RECV), "fi_ep_bind");
    must(::fi_enable(ep_), "fi_enable");
  }
  void exchange(Address& own, Address& other) {
    must(::fi_getname(&ep_->fid, own.bytes.data(), &own.size), "fi_getname");
    own.known = true;
    while (!other.known) {
    }
    if (::fi_av_insert(av_, other.bytes.data(), 1, &peer_, 0, nullptr) != 1)
      must(-FI_EINVAL, "fi_av_insert");
  }
  void post_receive() {
    ssize_t result = 0;
    while ((result = ::fi_trecv(ep_, in_.data(), in_.size(), nullptr, peer_, 0, 0, nullptr)) ==
           -FI_EAGAIN)
      progress();
    must(result, "fi_trecv");
  }
  void progress() {
    sends_ -= take(sent_queue_);
    received_ += take(received_queue_);
  }
  static int take(fid_cq* queue) {
    std::array<fi_cq_entry, 16> entries{};
    const ssize_t count = ::fi_cq_read(queue, entries.data(), entries.size());
    if (count == -FI_EAGAIN) return 0;
    must(count, "fi_cq_read");
    return static_cast<int>(count);
  }

  std::vector<char> out_;
  std::vector<char> in_;
  fi_info* info_ = nullptr;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_ep* ep_ = nullptr;
  fid_av* av_ = nullptr;
  fid_cq* sent_queue_ = nullptr;
  fid_cq* received_queue_ = nullptr;
  fi_addr_t peer_ = FI_ADDR_UNSPEC;
  std::size_t inject_size_ = 0;
  int sends_ = 0;     // not completed
  int received_ = 0;  // not yet returned by receive()
};

Addresses& share() {
  void* const pages =
      ::mmap(nullptr, sizeof(Addresses), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) peers::fail("mmap");
  return *new (pages) Addresses;
}

// An End that is created at its first use, so that each process opens libfabric after the fork.
class Lazy {
 public:
  Lazy(std::string provider, Addresses& addresses, std::size_t me, std::size_t size, int receives)
      : make_([=, &addresses] {
          return std::make_unique<End>(provider, addresses, me, size, receives);
        }) {}
  End& operator*() {
    if (!end_) end_ = make_();
    return *end_;
  }

 private:
  const std::function<std::unique_ptr<End>()> make_;
  std::unique_ptr<End> end_;
};

double latency(const std::string& provider, std::size_t size) {
  Addresses& addresses = share();
  Lazy here(provider, addresses, 0, size, 4);
  Lazy there(provider, addresses, 1, size, 4);
  return peers::measure(
             [&] {
               (*there).receive();
               (*there).send(4);
             },
             [&] {
               (*here).send(4);
               (*here).receive();
             }) /
         2;
}

double rate(const std::string& provider, std::size_t size, int window) {
  Addresses& addresses = share();
  Lazy here(provider, addresses, 0, size, 4);
  Lazy there(provider, addresses, 1, size, 2 * window);
  bool first = true;
  const double time = peers::measure(
      [&] {
        for (int i = 0; i < window; ++i) (*there).receive();
        (*there).send(4);
      },
      [&] {
        for (int i = 0; i < window; ++i) (*here).send(window);
        if (!first) (*here).receive();  // the acknowledgement of the previous window
        first = false;
      });
  return window / time;
}

template <class Number>
Number number(const char* text) {
  Number value = 0;
  std::from_chars(text, text + std::strlen(text), value);
  return value;
}

}  // namespace

int main(int count, char** words) {
  const std::string provider = count > 1 ? words[1] : "";
  const std::string_view what = count > 2 ? words[2] : "";
  const auto size = count > 3 ? number<std::size_t>(words[3]) : 0;
  const int window = count > 4 ? number<int>(words[4]) : 0;
  if ((provider != "shm" && provider != "tcp") || size == 0 ||
      !(what == "latency" || (what == "rate" && window > 0))) {
    std::fputs("peers_fabric shm|tcp latency BYTES | rate BYTES WINDOW\n", stderr);
    return 2;
  }
  std::printf("%.6f\n", what == "latency" ? latency(provider, size) : rate(provider, size, window));
  std::fflush(stdout);
  ::_exit(0);  // the other end is gone, so there is nothing to close in order
}
