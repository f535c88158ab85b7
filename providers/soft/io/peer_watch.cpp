// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/io/peer_watch.h"

#include <algorithm>
#include <cstdint>

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "providers/soft/io/reset_connection.h"

namespace udapl::soft {

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr int kLooks = 8;         // per time limit
constexpr int kQuestions = 4;     // per time limit: the kernel asks the peer's host as often
constexpr int kMinQuestions = 2;  // a host need not answer two probes within half a second
constexpr seconds kAnswerTime(5);
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
  // By default the pauses between two questions grow to two minutes. They must not become too short
  // either, because the kernel ends a connection after a number of questions (tcp_retries2).
  set_option(socket_, IPPROTO_TCP, kRtoMaxOption,
             std::clamp(limit / kQuestions, kMinRtoMax, kMaxRtoMax).count());
  watches_.store(false, std::memory_order_release);
}

void PeerWatch::begin() noexcept {
  if (watches_.exchange(true, std::memory_order_acq_rel)) return;
  silent_since_ = Clock::now();
  not_due();
  timer_.start(silent_since_ + limit_ / kLooks);
}

void PeerWatch::not_due() noexcept {
  asked_when_due_.reset();
  asked_once_more_ = false;
}

// The kernel's questions are retransmissions and window probes. A host answers them even if its
// program has stopped reading. When the limit has passed, the last question may have been sent long
// ago, and the host may be back. So the connection is reset only after one more question has
// remained unanswered.
void PeerWatch::look() noexcept {
  watches_.store(false, std::memory_order_seq_cst);  // sent() now begins another watch
  if (!has_unacknowledged() || watches_.exchange(true, std::memory_order_acq_rel)) return;
  tcp_info info{};
  socklen_t size = sizeof info;
  ::getsockopt(socket_, IPPROTO_TCP, TCP_INFO, &info, &size);
  const Clock::time_point now = Clock::now();
  const milliseconds heard(std::min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv));
  silent_since_ = std::max(silent_since_, now - heard);
  const Clock::duration silent = now - silent_since_;
  const Clock::duration pause = limit_ / kLooks;
  if (silent < limit_) {
    not_due();
    return timer_.start(now + std::min(pause, limit_ - silent));
  }
  const int asked = info.tcpi_retransmits + info.tcpi_probes;
  if (asked_once_more_ && asked >= kMinQuestions) return give_up();
  asked_when_due_ = asked_when_due_.value_or(asked);
  asked_once_more_ = asked > *asked_when_due_;
  timer_.start(now + std::min<Clock::duration>(pause, kAnswerTime));
}

// Resets the connection, because a peer that can be reached again would take an ordinary end of the
// stream for a disconnect by this side's consumer.
void PeerWatch::give_up() noexcept {
  gave_up_.store(true, std::memory_order_relaxed);
  reset_connection(socket_);
}

bool PeerWatch::has_unacknowledged() const noexcept {
  int bytes = 0;
  return ::ioctl(socket_, SIOCOUTQ, &bytes) == 0 && bytes > 0;
}

}  // namespace udapl::soft
