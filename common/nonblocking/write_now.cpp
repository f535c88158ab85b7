// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "common/nonblocking/write_now.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <ctime>

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fd.h"

namespace udapl {

namespace {

// During its lifetime, a write of this thread raises no signal that the application could see.
class BlockSignals {
 public:
  BlockSignals() noexcept {
    sigset_t ours;
    ::sigemptyset(&ours);
    for (const int signal : {SIGPIPE, SIGXFSZ, SIGTTOU}) ::sigaddset(&ours, signal);
    ::pthread_sigmask(SIG_BLOCK, &ours, &mask_);
    ::sigpending(&pending_);
  }
  ~BlockSignals() { ::pthread_sigmask(SIG_SETMASK, &mask_, nullptr); }
  BlockSignals(const BlockSignals&) = delete;
  BlockSignals& operator=(const BlockSignals&) = delete;

  // Consumes the signal that was raised by a write that failed with `error`.
  void consume(int error) const noexcept {
    const int raised = error == EPIPE ? SIGPIPE : error == EFBIG ? SIGXFSZ : 0;
    if (raised == 0 || ::sigismember(&pending_, raised) == 1) return;
    sigset_t one;
    ::sigemptyset(&one);
    ::sigaddset(&one, raised);
    const timespec now{};
    while (::sigtimedwait(&one, nullptr, &now) < 0 && errno == EINTR) {
    }
  }

 private:
  sigset_t mask_;
  sigset_t pending_;
};

// Opens a pipe or a terminal again, to get an open file description of our own: the original one
// must not be made non-blocking, because other processes may share it. The new one is closed after
// the write, so that readers of a pipe do not wait for its end.
Fd own_description(int fd) noexcept {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return Fd::made(::open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

bool has_room(int fd) noexcept {
  pollfd entry{fd, POLLOUT, 0};
  return ::poll(&entry, 1, 0) == 1 && entry.revents == POLLOUT;
}

ssize_t write_stream(int fd, const char* text, std::size_t length) noexcept {
  if (!has_room(fd)) {
    errno = EAGAIN;
    return -1;
  }
  if (const Fd own = own_description(fd); own.valid()) return ::write(own.get(), text, length);
  // It cannot be opened again: another user's terminal, no /proc, or no descriptor left. There was
  // room a moment ago, so a write of at most PIPE_BUF waits only if another process has filled the
  // pipe since.
  return ::write(fd, text, length);
}

}  // namespace

ssize_t write_now(int fd, mode_t mode, const char* text, std::size_t length) noexcept {
  if (S_ISSOCK(mode)) return ::send(fd, text, length, MSG_DONTWAIT | MSG_NOSIGNAL);
  const BlockSignals guard;
  const ssize_t written =
      S_ISFIFO(mode) || S_ISCHR(mode) ? write_stream(fd, text, length) : ::write(fd, text, length);
  if (written < 0) {
    const int error = errno;
    guard.consume(error);
    errno = error;
  }
  return written;
}

}  // namespace udapl
