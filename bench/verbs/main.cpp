// SPDX-License-Identifier: MIT OR GPL-2.0-only
// verbs_bench [--rounds=N] [--count=N] IA...
//
// Posts and reaps with raw verbs and with DAT, side by side on one device: in each round every side
// does every operation, and each round begins with another side. One thread of one process uses
// both ends of each connection and polls for completions. IA is a name of dat.conf, followed by
// "/threadsafe" for the entry of that kind; raw verbs use the address of the first IA. Prints one
// line of JSON per measurement; bench/verbs/run.py makes a table of them.
#include "loopback.h"
#include "raw_link.h"
#include "sides.h"

#include <chrono>
#include <cstdio>
#include <string>

namespace {

constexpr std::size_t kLengths[] = {8, 4096};  // one sent inline, one not
constexpr std::size_t kBuffer = 4096;
constexpr int kDepth = 16;

// One of the measured sides; each call repeats its operation `count` times.
class Side {
 public:
  explicit Side(std::string name) : name_(std::move(name)) {}
  virtual ~Side() = default;
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  // A message in one direction, then one back.
  virtual void ping_pong(std::size_t length, int count) = 0;
  // A write and its completion.
  virtual void write(std::size_t length, int count) = 0;

 private:
  std::string name_;
};

class Raw final : public Side {
 public:
  explicit Raw(const sockaddr& address) : Side("raw"), link_(address, kDepth, kBuffer) {}

  void ping_pong(std::size_t length, int count) override {
    const ibv_sge segment = link_.segment(length);
    const unsigned flags = link_.flags(length);
    for (int i = 0; i < count; ++i) {
      message(link_.active, link_.passive, segment, flags);
      message(link_.passive, link_.active, segment, flags);
    }
  }

  void write(std::size_t length, int count) override {
    const ibv_sge segment = link_.segment(length);
    const unsigned flags = link_.flags(length);
    for (int i = 0; i < count; ++i) {
      link_.active.post_write(segment, segment.addr, link_.rkey(), flags);
      bench::poll_one(link_.active.send_cq);
    }
  }

 private:
  static void message(const bench::RawEnd& from, const bench::RawEnd& to, const ibv_sge& segment,
                      unsigned flags) {
    to.post_recv(segment);
    from.post_send(segment, flags);
    bench::poll_one(to.recv_cq);
    bench::poll_one(from.send_cq);
  }

  bench::RawLink link_;
};

class Dat final : public Side {
 public:
  explicit Dat(const std::string& name)
      : Side(name), link_(kDepth), buffer_(link_.adapter, kBuffer) {
    link_.connect();
  }
  ~Dat() override { link_.disconnect(); }

  [[nodiscard]] const sockaddr& address() const { return *link_.adapter.attr.ia_address_ptr; }

  void ping_pong(std::size_t length, int count) override {
    for (int i = 0; i < count; ++i) {
      message(link_.active, link_.passive, length);
      message(link_.passive, link_.active, length);
    }
  }

  void write(std::size_t length, int count) override {
    DAT_LMR_TRIPLET segment = buffer_.local(length);
    const DAT_RMR_TRIPLET remote = buffer_.remote(length);
    for (int i = 0; i < count; ++i) {
      bench::check(dat_ep_post_rdma_write(link_.active.ep, 1, &segment, DAT_DTO_COOKIE{}, &remote,
                                          DAT_COMPLETION_DEFAULT_FLAG),
                   "dat_ep_post_rdma_write");
      bench::poll_one(link_.active.request_evd);
    }
  }

 private:
  void message(const bench::End& from, const bench::End& to, std::size_t length) {
    to.post_recv(buffer_, length);
    from.post_send(buffer_, length);
    bench::poll_one(to.recv_evd);
    bench::poll_one(from.request_evd);
  }

  bench::Loopback link_;
  bench::Buffer buffer_;
};

void measure(Side& side, int round, int count) {
  const auto timed = [&](const char* operation, std::size_t length, int per_count, auto&& run) {
    run(length, count / 10 + 1);  // warms up the caches for this side
    const auto begin = std::chrono::steady_clock::now();
    run(length, count);
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
    std::printf(R"({"side": "%s", "round": %d, "operation": "%s", "bytes": %zu, "ns": %.1f})"
                "\n",
                side.name().c_str(), round, operation, length, time.count() / count / per_count);
    std::fflush(stdout);
  };
  for (const std::size_t length : kLengths) {
    timed("message", length, 2, [&](std::size_t l, int n) { side.ping_pong(l, n); });
    timed("RDMA write", length, 1, [&](std::size_t l, int n) { side.write(l, n); });
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto wanted = bench::parse_comparison(argc, argv, "verbs_bench");
  if (!wanted) return 2;
  bench::compare<Side, Raw, Dat>(
      *wanted, [&](Side& side, int round) { measure(side, round, wanted->count); });
  return 0;
}
