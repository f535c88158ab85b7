// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/io/peer_watch.h"

#include <algorithm>
#include <cstdint>

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace udapl::soft {

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr int kLooks = 8;  // per time limit
constexpr seconds kKeepIdle(20);
constexpr seconds kMinKeepInterval(5);
constexpr int kKeepCount = 4;
// TCP_RTO_MAX_MS (Linux 6.15) and its range; the C library's header may be older.
constexpr int kRtoMaxOption = 44;
constexpr milliseconds kMinRtoMax(1000);
constexpr milliseconds kMaxRtoMax(120'000);

void set_option(int fd, int level, int option, std::int64_t value) noexcept {
  const int number = static_cast<int>(value);
  ::setsockopt(fd, level, option, &number, sizeof number);
}

}  // namespace

void PeerWatch::start(milliseconds limit) noexcept {
  const seconds rest = std::chrono::ceil<seconds>(limit) - kKeepIdle;
  set_option(socket_, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket_, IPPROTO_TCP, TCP_KEEPIDLE, kKeepIdle.count());
  set_option(socket_, IPPROTO_TCP, TCP_KEEPINTVL,
             std::max(kMinKeepInterval, rest / kKeepCount).count());
  set_option(socket_, IPPROTO_TCP, TCP_KEEPCNT, kKeepCount);
  limit_ = limit;
  if (limit == milliseconds::zero()) return;
  // So that the peer is asked at least twice within the limit. By default the pauses between two
  // probes of a closed window grow to two minutes.
  set_option(socket_, IPPROTO_TCP, kRtoMaxOption,
             std::clamp(limit / 2, kMinRtoMax, kMaxRtoMax).count());
  watches_.store(false, std::memory_order_release);
}

void PeerWatch::begin() noexcept {
  if (watches_.exchange(true, std::memory_order_acq_rel)) return;
  silent_since_ = Clock::now();
  timer_.start(silent_since_ + limit_ / kLooks);
}

// A program that has stopped reading closes the window, and its host still answers. So the peer has
// gone only if it owes an answer: to a retransmission, or to two probes, as the last one may have
// been sent just now, and a host need not answer two within half a second.
void PeerWatch::look() noexcept {
  watches_.store(false, std::memory_order_seq_cst);  // bytes that are sent from now on are seen
  if (!has_unacknowledged() || watches_.exchange(true, std::memory_order_acq_rel)) return;
  tcp_info info{};
  socklen_t size = sizeof info;
  ::getsockopt(socket_, IPPROTO_TCP, TCP_INFO, &info, &size);
  const Clock::time_point now = Clock::now();
  const milliseconds heard(std::min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv));
  silent_since_ = std::max(silent_since_, now - heard);
  const Clock::duration silent = now - silent_since_;
  if (silent >= limit_ && (info.tcpi_retransmits != 0 || info.tcpi_probes > 1)) {
    gave_up_.store(true, std::memory_order_relaxed);
    ::shutdown(socket_, SHUT_RDWR);
    return;
  }
  const Clock::duration pause = limit_ / kLooks;
  timer_.start(now + (silent < limit_ ? std::min<Clock::duration>(pause, limit_ - silent) : pause));
}

bool PeerWatch::has_unacknowledged() const noexcept {
  int bytes = 0;
  return ::ioctl(socket_, SIOCOUTQ, &bytes) == 0 && bytes > 0;
}

}  // namespace udapl::soft
