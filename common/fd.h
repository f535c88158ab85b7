// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "common/not_cancelled.h"

namespace udapl {

// Owns a file descriptor and closes it. Movable, not copyable. -1 is "none".
class Fd {
 public:
  Fd() noexcept = default;
  explicit Fd(int fd) noexcept : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~Fd() { reset(); }

  // Owns the descriptor that a system call has just returned. If it is 0, 1 or 2, it is moved to a
  // higher number: in a program that runs without these three, the program's own output would go to
  // our descriptor. If the result is not valid(), errno holds the reason. Close-on-exec.
  [[nodiscard]] static Fd made(int fd) noexcept {
    if (fd < 0 || fd > STDERR_FILENO) [[likely]]
      return Fd(fd);
    const int moved = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    const int error = errno;
    const NotCancelled scope;
    ::close(fd);
    errno = error;
    return Fd(moved);
  }

  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] bool valid() const noexcept { return fd_ >= 0; }
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }
  void reset(int fd = -1) noexcept {
    if (fd_ >= 0) {
      const NotCancelled scope;  // close() is a cancellation point
      ::close(fd_);
    }
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace udapl
