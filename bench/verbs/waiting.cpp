// SPDX-License-Identifier: MIT OR GPL-2.0-only
// verbs_waiting [--rounds=N] [--count=N] IA...
//
// Ping-pong of messages between two threads that sleep until one arrives, with raw verbs (a
// completion channel per CQ) and with DAT (an IA per thread), side by side on one device: in each
// round every side does the same, and each round begins with another side. IA and the output are as
// for verbs_bench. A thread sleeps in dat_evd_wait; if the name ends with "+cno", in dat_cno_wait,
// and with "+fd" in poll, on the descriptor of a CNO. bench/verbs/run.py --waiting makes a table of
// the output.
#include "loopback.h"
#include "raw_link.h"
#include "sides.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

#include <poll.h>

namespace {

constexpr std::size_t kLengths[] = {8, 4096, 65536};
constexpr std::size_t kBuffer = 65536;
constexpr std::size_t kStop = 1;  // a message of this length ends the echo
constexpr int kDepth = 16;
constexpr int kReceives = 4;
constexpr DAT_TIMEOUT kPatience = 10'000'000;  // us

// One end of a connection, used by one thread.
class End {
 public:
  End() = default;
  virtual ~End() = default;
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  virtual void post_recv() = 0;
  virtual void post_send(std::size_t length) = 0;
  virtual std::size_t wait_recv() = 0;  // the length of the message
  virtual void wait_send() = 0;

  void send(std::size_t length) {
    post_send(length);
    wait_send();
  }
  std::size_t receive() {
    const std::size_t length = wait_recv();
    post_recv();
    return length;
  }
};

class RawEnd final : public End {
 public:
  RawEnd(const bench::RawLink& link, const bench::RawEnd& end) : link_(link), end_(end) {
    for (int i = 0; i < kReceives; ++i) post_recv();
  }
  void post_recv() override { end_.post_recv(link_.segment(kBuffer)); }
  void post_send(std::size_t length) override {
    end_.post_send(link_.segment(length), link_.flags(length));
  }
  std::size_t wait_recv() override { return wait(end_.recv_cq); }
  void wait_send() override { wait(end_.send_cq); }

 private:
  static std::size_t wait(ibv_cq* cq) {
    ibv_wc completion;
    for (bool armed = false;; armed = !armed) {
      const int count = ::ibv_poll_cq(cq, 1, &completion);
      bench::must(count >= 0 && (count == 0 || completion.status == IBV_WC_SUCCESS), "ibv_poll_cq");
      if (count == 1) return completion.byte_len;
      if (!armed) {
        bench::must(::ibv_req_notify_cq(cq, 0) == 0, "ibv_req_notify_cq");
        continue;
      }
      ibv_cq* fired = nullptr;
      void* context = nullptr;
      bench::must(::ibv_get_cq_event(cq->channel, &fired, &context) == 0, "ibv_get_cq_event");
      ::ibv_ack_cq_events(fired, 1);
    }
  }

  const bench::RawLink& link_;
  const bench::RawEnd& end_;
};

class DatEnd final : public End {
 public:
  enum class How { kEvd, kCno, kDescriptor };

  explicit DatEnd(How how) : in_(adapter, kBuffer), out_(adapter, kBuffer), how_(how) {
    if (how == How::kCno)
      bench::check(dat_cno_create(adapter.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno_),
                   "dat_cno_create");
    else if (how == How::kDescriptor)
      bench::check(dat_cno_fd_create(adapter.ia, &descriptor_, &cno_), "dat_cno_fd_create");
    for (DAT_EVD_HANDLE* const evd : {&end.recv_evd, &end.request_evd})
      bench::check(dat_evd_create(adapter.ia, kDepth, cno_, DAT_EVD_DTO_FLAG, evd),
                   "dat_evd_create");
    bench::create_evd(adapter, 8, DAT_EVD_CONNECTION_FLAG, &end.connect_evd);
    end.create_ep(adapter, kDepth);
    for (int i = 0; i < kReceives; ++i) post_recv();
  }
  ~DatEnd() override {
    end.destroy();
    if (cno_ != DAT_HANDLE_NULL) bench::check(dat_cno_free(cno_), "dat_cno_free");
  }

  void post_recv() override { end.post_recv(in_, kBuffer); }
  void post_send(std::size_t length) override { end.post_send(out_, length); }
  std::size_t wait_recv() override { return wait(end.recv_evd); }
  void wait_send() override { wait(end.request_evd); }

  bench::Adapter adapter;
  bench::End end;

 private:
  std::size_t wait(DAT_EVD_HANDLE evd) const {
    DAT_EVENT event;
    DAT_COUNT more = 0;
    if (how_ == How::kEvd)
      bench::check(dat_evd_wait(evd, DAT_TIMEOUT_INFINITE, 1, &event, &more), "dat_evd_wait");
    else
      while (DAT_GET_TYPE(dat_evd_dequeue(evd, &event)) == DAT_QUEUE_EMPTY) wait_for_cno();
    const auto& dto = event.event_data.dto_completion_event_data;
    bench::must(dto.status == DAT_DTO_SUCCESS, "a completion");
    return static_cast<std::size_t>(dto.transfered_length);
  }
  void wait_for_cno() const {
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    if (how_ == How::kCno) {
      bench::check(dat_cno_wait(cno_, DAT_TIMEOUT_INFINITE, &evd), "dat_cno_wait");
      return;
    }
    pollfd readable{descriptor_, POLLIN, 0};
    bench::must(::poll(&readable, 1, -1) == 1, "poll");
    bench::check(dat_cno_trigger(cno_, &evd), "dat_cno_trigger");
  }

  bench::Buffer in_;
  bench::Buffer out_;
  const How how_;
  DAT_FD descriptor_ = -1;
  DAT_CNO_HANDLE cno_ = DAT_HANDLE_NULL;
};

// One of the measured sides: an end in this thread, and an end from which another thread answers.
class Side {
 public:
  explicit Side(std::string name) : name_(std::move(name)) {}
  virtual ~Side() = default;
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  void ping_pong(std::size_t length, int count) {
    for (int i = 0; i < count; ++i) {
      here_->send(length);
      here_->receive();
    }
  }

 protected:
  void start(End& here, End& there) {
    here_ = &here;
    echo_ = std::thread([&there] {
      for (std::size_t length = there.receive(); length != kStop; length = there.receive())
        there.send(length);
    });
  }
  void stop() {
    here_->send(kStop);
    echo_.join();
  }

 private:
  const std::string name_;
  End* here_ = nullptr;
  std::thread echo_;
};

class Raw final : public Side {
 public:
  explicit Raw(const sockaddr& address)
      : Side("raw"),
        link_(address, kDepth, kBuffer, bench::Reap::kWait),
        active_(link_, link_.active),
        passive_(link_, link_.passive) {
    start(active_, passive_);
  }
  ~Raw() override { stop(); }

 private:
  bench::RawLink link_;
  RawEnd active_;
  RawEnd passive_;
};

class Dat final : public Side {
 public:
  explicit Dat(const std::string& name)
      : Side(name), active_(how_of(name)), passive_(how_of(name)) {
    connect();
    start(active_, passive_);
  }
  ~Dat() override {
    stop();
    bench::check(dat_ep_disconnect(active_.end.ep, DAT_CLOSE_ABRUPT_FLAG), "dat_ep_disconnect");
    bench::wait_connection(active_.end.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    bench::wait_connection(passive_.end.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
  }

  [[nodiscard]] const sockaddr& address() const { return *active_.adapter.attr.ia_address_ptr; }

 private:
  static DatEnd::How how_of(std::string_view name) {
    return name.ends_with("+cno")  ? DatEnd::How::kCno
           : name.ends_with("+fd") ? DatEnd::How::kDescriptor
                                   : DatEnd::How::kEvd;
  }
  void connect() {
    DAT_EVD_HANDLE requests = DAT_HANDLE_NULL;
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    bench::check(
        dat_evd_create(passive_.adapter.ia, 8, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &requests),
        "dat_evd_create");
    const DAT_CONN_QUAL conn_qual = bench::listen(passive_.adapter.ia, requests, &psp);
    bench::check(
        dat_ep_connect(active_.end.ep, passive_.adapter.attr.ia_address_ptr, conn_qual, kPatience,
                       0, nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
        "dat_ep_connect");
    DAT_EVENT event;
    DAT_COUNT more = 0;
    bench::check(dat_evd_wait(requests, kPatience, 1, &event, &more), "dat_evd_wait");
    bench::check(dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, passive_.end.ep, 0,
                               nullptr),
                 "dat_cr_accept");
    bench::wait_connection(active_.end.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    bench::wait_connection(passive_.end.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    bench::check(dat_psp_free(psp), "dat_psp_free");
    bench::check(dat_evd_free(requests), "dat_evd_free");
  }

  DatEnd active_;
  DatEnd passive_;
};

void measure(Side& side, int round, int count) {
  for (const std::size_t length : kLengths) {
    side.ping_pong(length, count / 10 + 1);  // warms up the caches for this side
    const auto begin = std::chrono::steady_clock::now();
    side.ping_pong(length, count);
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
    std::printf(
        R"({"side": "%s", "round": %d, "operation": "waiting ping-pong", "bytes": %zu, "ns": %.1f})"
        "\n",
        side.name().c_str(), round, length, time.count() / count);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto wanted = bench::parse_comparison(argc, argv, "verbs_waiting");
  if (!wanted) return 2;
  bench::compare<Side, Raw, Dat>(
      *wanted, [&](Side& side, int round) { measure(side, round, wanted->count); });
  return 0;
}
