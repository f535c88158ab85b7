// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "common/unshared_fd.h"

#include "common/not_cancelled.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

namespace udapl {

constinit Mutex UnsharedFd::lock_;
constinit UnsharedFd* UnsharedFd::first_ = nullptr;

UnsharedFd::UnsharedFd(Fd fd) noexcept {
  detect_forks();
  const ScopedLock guard(lock_);
  fd_ = std::move(fd);
  enter();
}

UnsharedFd& UnsharedFd::operator=(UnsharedFd&& other) noexcept {
  if (this == &other || !(valid() || other.valid())) return *this;
  const ScopedLock guard(lock_);
  leave();
  const bool entered = other.entered_;
  other.leave();
  fd_ = std::move(other.fd_);
  if (entered) enter();
  return *this;
}

void UnsharedFd::open(Call call, void* argument) noexcept {
  detect_forks();
  const NotCancelled scope;
  const ScopedLock guard(lock_);
  fd_ = Fd::made(call(argument));
  enter();
}

// Closes the descriptor under the lock, because a child that is forked between leaving the list and
// the close would keep it.
void UnsharedFd::reset() noexcept {
  if (!valid()) return;
  const ScopedLock guard(lock_);
  leave();
  fd_.reset();
}

// ---- the list -----------------------------------------------------------------------------------

// Preserves errno if there is no descriptor.
void UnsharedFd::enter() noexcept {
  struct stat file {};
  if (!fd_.valid() || ::fstat(fd_.get(), &file) != 0) return;
  device_ = file.st_dev;
  inode_ = file.st_ino;
  entered_ = true;
  previous_ = nullptr;
  next_ = first_;
  if (next_ != nullptr) next_->previous_ = this;
  first_ = this;
}

void UnsharedFd::leave() noexcept {
  if (!std::exchange(entered_, false)) return;
  if (next_ != nullptr) next_->previous_ = previous_;
  if (previous_ != nullptr)
    previous_->next_ = next_;
  else
    first_ = next_;
}

// False if a program that closes descriptors which it does not own has reused the number.
bool UnsharedFd::is_still_ours() const noexcept {
  struct stat file {};
  return ::fstat(fd_.get(), &file) == 0 && file.st_dev == device_ && file.st_ino == inode_;
}

// ---- forks --------------------------------------------------------------------------------------

namespace {

// Makes descriptor numbers of this process refer to /dev/null. Makes only calls that are permitted
// in a child of a process with several threads.
class StandIn {
 public:
  StandIn() noexcept = default;
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;
  ~StandIn() {
    if (fd_ >= 0 && !keeps_) ::close(fd_);
  }

  void replace(int number) noexcept {
    if (fd_ < 0) open();
    if (fd_ < 0) {  // no other descriptor may be free
      ::close(number);
      open();
      keeps_ = fd_ == number;
    }
    if (fd_ >= 0 && fd_ != number) ::dup3(fd_, number, O_CLOEXEC);
  }

 private:
  void open() noexcept {
    fd_ = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd_ < 0) fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  }

  int fd_ = -1;
  bool keeps_ = false;  // fd_ is one of the numbers
};

}  // namespace

// The handlers are removed when the library is unloaded. Fails only for lack of memory; children
// then share the descriptors.
void UnsharedFd::detect_forks() noexcept {
  [[maybe_unused]] static const int error = ::pthread_atfork(&before_fork, &in_parent, &in_child);
}

void UnsharedFd::before_fork() noexcept { lock_.lock(); }

void UnsharedFd::in_parent() noexcept { lock_.unlock(); }

// The list is empty afterwards: the child may close the numbers, and reuse them, before it forks.
void UnsharedFd::in_child() noexcept {
  {
    const NotCancelled scope;
    StandIn nothing;
    while (first_ != nullptr) {
      UnsharedFd& fd = *first_;
      if (fd.is_still_ours()) nothing.replace(fd.get());
      fd.leave();
    }
  }
  lock_.unlock();
}

}  // namespace udapl
