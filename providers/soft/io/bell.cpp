// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/io/bell.h"

#include "common/backoff.h"
#include "common/errno_text.h"
#include "common/not_cancelled.h"
#include "common/tracing/trace.h"

#include <array>
#include <cerrno>
#include <cstddef>

#include <poll.h>
#include <sys/socket.h>

namespace udapl::soft {

namespace {

constexpr int kRingTries = 200;  // with the pauses of Backoff, these take some milliseconds
constexpr std::uint32_t kReportsPerDrain = 8;
constexpr std::uint32_t kRestsPerDrain = 32;

// ThreadSanitizer cannot order accesses through two mappings of the same page. It can order the
// send and the read of a ring, so each ring is read.
#ifdef __SANITIZE_THREAD__
constexpr bool kReadsEachRing = true;
#else
constexpr bool kReadsEachRing = false;
#endif

}  // namespace

// Only the bell wakes a sleeping peer, so a failure is retried. If the buffer is full, unread rings
// wake the peer already. Other failures may be temporary: memory is short, or a signal handler has
// changed errno.
void Bell::ring() const noexcept {
  const NotCancelled scope;
  Backoff backoff;
  for (int tries = 0; tries != kRingTries; ++tries) {
    if (::send(socket_, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0 || errno == EAGAIN) return;
    if (errno == EPIPE || errno == ECONNRESET || errno == EBADF) return;  // the peer has left
    backoff.wait();
  }
  UDAPL_TRACE(kError, "cannot wake the peer: %s", ErrnoText(errno).c_str());
}

bool Bell::on_report() noexcept {
  return (++reports_since_drained_ < kReportsPerDrain && !kReadsEachRing) || drain();
}

bool Bell::on_rest() noexcept { return ++rests_since_drained_ < kRestsPerDrain || drain(); }

// Reads once, so a peer that rings all the time does not keep this thread; the next call reads
// more.
bool Bell::drain() noexcept {
  reports_since_drained_ = rests_since_drained_ = 0;
  const NotCancelled scope;
  std::array<std::byte, 512> rings;
  const auto is_lost = [&] {
    const ssize_t got = ::recv(socket_, rings.data(), rings.size(), MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
  };
  return !is_lost() || !is_lost();  // twice: a signal handler may have changed errno
}

bool Bell::ended() const noexcept {
  const NotCancelled scope;
  pollfd bell{socket_, POLLRDHUP, 0};
  return ::poll(&bell, 1, 0) > 0;
}

}  // namespace udapl::soft
