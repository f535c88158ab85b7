// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/io/tcp_stream.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <string_view>

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "common/fork.h"
#include "common/not_cancelled.h"
#include "providers/connecting/socket_address.h"
#include "providers/soft/io/lingering_close.h"
#include "providers/soft/io/reset_connection.h"
#include "providers/soft/io/socket_calls.h"
#include "providers/soft/shm/kernel_copy.h"

namespace udapl::soft {

static_assert(sizeof(iwarp::IoSpan) == sizeof(iovec) &&
                  offsetof(iwarp::IoSpan, data) == offsetof(iovec, iov_base) &&
                  offsetof(iwarp::IoSpan, size) == offsetof(iovec, iov_len),
              "a span list is given to sendmsg as it is");

namespace {

constexpr std::size_t kMaxSpans = 1024;  // UIO_MAXIOV
constexpr std::uint32_t kMinMss = 536;   // RFC 9293 §3.7.1
constexpr std::uint32_t kHalfWindow = 16384;
constexpr std::uint32_t kMaxHeaders = 40 + 20 + 12;  // IPv6, TCP, timestamps

// Whether the errno value is a usual reason for a call to fail. Such a call must not be repeated: a
// socket returns a pending error only once.
bool is_final(int error) noexcept {
  switch (error) {
    case EAGAIN:
    case EINTR:
    case ECONNRESET:
    case ECONNABORTED:
    case ECONNREFUSED:
    case EPIPE:
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENETDOWN:
    case EBADF:
      return true;
    default:
      return false;
  }
}

IoResult outcome(ssize_t moved) noexcept {
  if (moved >= 0) return {IoResult::kDone, 0, static_cast<std::size_t>(moved)};
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return {IoResult::kBlocked, 0, 0};
  return {IoResult::kBroken, errno, 0};
}

// Returns the result of `call`. Calls it again if it fails for an unusual reason, because a signal
// handler of the program may have changed errno.
template <class Call>
[[gnu::always_inline]] inline ssize_t moved_by(Call&& call) noexcept {
  const ssize_t moved = call();
  if (moved >= 0 || is_final(errno)) [[likely]]
    return moved;
  return call();
}

}  // namespace

TcpStream::TcpStream(Reactor& reactor, UnsharedFd socket,
                     const transport::Endpoints& endpoints) noexcept
    : reactor_(reactor),
      socket_(std::move(socket)),
      endpoints_(endpoints),
      peer_watch_(reactor, socket_.get()) {
  const int on = 1;
  ::setsockopt(fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

TcpStream::~TcpStream() {
  unwatch();
  if (forks::descriptors_may_be_shared()) end_without_close();
}

// A child that has just been forked may still keep the socket open when this process closes it. So
// this sends the FIN or RST that close() would send.
void TcpStream::end_without_close() noexcept {
  int unread = 0;
  if (!aborts_ && (::ioctl(fd(), FIONREAD, &unread) != 0 || unread == 0)) {
    ::shutdown(fd(), SHUT_WR);
    return;
  }
  reset_connection(fd());
}

Status TcpStream::watch(std::uint32_t events, Handler& handler) noexcept {
  unwatch();
  handler_ = &handler;
  events_ = events;
  // From here on the handler may run, and destroy this.
  const Status status = reactor_.watch(fd(), events, handler);
  if (!status.ok()) handler_ = nullptr;
  return status;
}

void TcpStream::set_events(std::uint32_t events) noexcept {
  if (handler_ == nullptr || events == events_) return;
  events_ = events;
  reactor_.rewatch(fd(), events, *handler_);
}

void TcpStream::unwatch() noexcept {
  if (handler_ != nullptr) reactor_.unwatch(fd(), *std::exchange(handler_, nullptr));
}

IoResult TcpStream::send(std::span<const iwarp::IoSpan> spans, std::size_t) noexcept {
  if (spans.size() == 1)
    return send({static_cast<const std::byte*>(spans.front().data), spans.front().size});
  msghdr message{};
  // sendmsg only reads the list and what it points to.
  message.msg_iov = const_cast<iovec*>(reinterpret_cast<const iovec*>(spans.data()));
  message.msg_iovlen = std::min(spans.size(), kMaxSpans);
  const NotCancelled scope;
  const IoResult result =
      outcome(moved_by([&] { return ::sendmsg(fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT); }));
  peer_watch_.sent();
  return result;
}

IoResult TcpStream::send(std::span<const std::byte> bytes) noexcept {
  const IoResult result = outcome(moved_by(
      [&] { return send_to(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT); }));
  peer_watch_.sent();
  return result;
}

// After a pause, the kernel copies what is sent to the beginning of a page: a header, and then
// payload, which often lies at a slow distance from its source (common/copy_bytes.h). Behind the
// second header it no longer does.
std::size_t TcpStream::copied_first() const noexcept {
  constexpr std::size_t kTwoFrames = 96 * 1024;
  return shm::copy_costs().detours_pay() ? kTwoFrames : 0;
}

IoResult TcpStream::outcome_of_receive(ssize_t moved, bool had_room) noexcept {
  if (moved == 0 && had_room) return {IoResult::kEnd, 0, 0};
  IoResult result = outcome(moved);
  if (result.kind == IoResult::kBroken && peer_watch_.gave_up()) result.error = ETIMEDOUT;
  return result;
}

IoResult TcpStream::receive(std::span<std::byte> room) noexcept {
  return outcome_of_receive(
      moved_by([&] { return receive_from(fd(), room.data(), room.size(), MSG_DONTWAIT); }),
      !room.empty());
}

IoResult TcpStream::receive_both(std::span<std::byte> room, std::span<std::byte> behind) noexcept {
  iovec pieces[] = {{room.data(), room.size()}, {behind.data(), behind.size()}};
  msghdr message{};
  message.msg_iov = pieces;
  message.msg_iovlen = behind.empty() ? 1 : 2;
  return outcome_of_receive(moved_by([&] { return ::recvmsg(fd(), &message, MSG_DONTWAIT); }),
                            !room.empty());
}

IoResult TcpStream::peek(std::span<std::byte> room) noexcept {
  return outcome_of_receive(
      moved_by([&] { return ::recv(fd(), room.data(), room.size(), MSG_DONTWAIT | MSG_PEEK); }),
      !room.empty());
}

void TcpStream::shutdown_write() noexcept {
  ::shutdown(fd(), SHUT_WR);
  finished_ = true;
}

void TcpStream::end_gently_as(std::unique_ptr<ByteStream> self, KeptBytes rest) noexcept {
  static_cast<void>(self.release());  // it is this
  close_gently(std::unique_ptr<TcpStream>(this), LingerKind::kConnection, kLinger, std::move(rest));
}

void TcpStream::abort_on_close() noexcept {
  const linger hard{1, 0};
  ::setsockopt(fd(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  aborts_ = true;
}

std::uint32_t TcpStream::effective_mss() const noexcept {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(fd(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return kMinMss;
  // While the peer's window is small, the kernel limits the segment size to half of the window, and
  // for our purposes never raises it again. So with segments that large, as on the loopback device,
  // the path MTU determines the frame size, and a frame need not fit a segment.
  if (info.tcpi_snd_mss >= kHalfWindow && info.tcpi_pmtu > kMaxHeaders)
    return std::max(info.tcpi_snd_mss, info.tcpi_pmtu - kMaxHeaders);
  return std::max(info.tcpi_snd_mss, kMinMss);
}

std::size_t TcpStream::unacknowledged() noexcept {
  int bytes = 0;
  if (::ioctl(fd(), SIOCOUTQ, &bytes) != 0 || bytes < 0) return 0;
  return static_cast<std::size_t>(bytes);
}

// The kernel counts the FIN as a byte.
std::size_t TcpStream::undelivered() noexcept {
  const std::size_t bytes = unacknowledged();
  return finished_ && bytes != 0 ? bytes - 1 : bytes;
}

int TcpStream::pending_error() noexcept {
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(fd(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  return error;
}

void TcpStream::refresh_endpoints() noexcept {
  transport::SocketAddress address;
  socklen_t size = sizeof address.storage;
  if (::getsockname(fd(), address.get(), &size) == 0) {
    endpoints_.local = address;
    endpoints_.local_port = address.port();
  }
  size = sizeof address.storage;
  if (::getpeername(fd(), address.get(), &size) == 0) {
    endpoints_.remote = address;
    endpoints_.remote_port = address.port();
  }
  if (same_host(endpoints_.local, endpoints_.remote)) choose_unpaced(fd());
}

// If the call is not permitted, the system's congestion control stays.
void TcpStream::choose_unpaced(int socket) noexcept {
  constexpr std::string_view kUnpaced = "reno";
  ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, kUnpaced.data(), kUnpaced.size());
}

}  // namespace udapl::soft
