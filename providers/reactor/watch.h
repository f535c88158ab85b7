// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/call.h"
#include "common/result.h"
#include "providers/reactor/reactor.h"

#include <sys/epoll.h>

namespace udapl {

// Calls back whenever a descriptor is readable: a Handler for descriptors that are watched only for
// input. The rules of Handler::on_ready apply. Thread-safe, but start() and stop() must not run
// concurrently. The destructor waits for a call that runs in another thread: destroy it without
// holding a lock that the call takes.
class Watch final : private Handler {
 public:
  // Handler::can_be_left().
  struct CanBeLeft {
    bool (*function)(const void* object) = nullptr;
    const void* object = nullptr;
  };

  Watch(Reactor& reactor, Call call) noexcept : Watch(reactor, call, CanBeLeft()) {}
  Watch(Reactor& reactor, Call call, CanBeLeft can_be_left) noexcept
      : reactor_(reactor), call_(call), can_be_left_(can_be_left) {
    watch_slot.only_reads = true;
  }
  ~Watch() { stop(); }

  // `fd` stays open until stop(). INSUFFICIENT_RESOURCES.
  Status start(int fd) noexcept {
    fd_ = fd;
    return reactor_.watch(fd, EPOLLIN, *this);
  }
  // No call begins after this. Waits for a call that runs in another thread. Idempotent.
  void stop() noexcept {
    reactor_.unwatch(fd_, *this);
    reactor_.quiesce(*this);
  }

 private:
  void on_ready(std::uint32_t) noexcept override { call_.function(call_.object); }

  [[nodiscard]] bool can_be_left() const noexcept override {
    return can_be_left_.function != nullptr && can_be_left_.function(can_be_left_.object);
  }

  Reactor& reactor_;
  const Call call_;
  const CanBeLeft can_be_left_;
  int fd_ = -1;
};

}  // namespace udapl
