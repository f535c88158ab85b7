// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/connecting/listening.h"

#include <cerrno>
#include <new>
#include <utility>

namespace udapl {

namespace {

constexpr unsigned kRequestCall = 0;

}  // namespace

Status listen_failure(int error, bool any_port) noexcept {
  switch (error) {
    case EADDRINUSE:
    case EBUSY:  // of rdma_cm
      return failure(any_port ? DAT_CONN_QUAL_UNAVAILABLE : DAT_CONN_QUAL_IN_USE);
    case EACCES:
      return failure(DAT_CONN_QUAL_UNAVAILABLE);  // a privileged port
    case EADDRNOTAVAIL:  // the adapter's address has gone from this machine
    case ENODEV:         // so has the interface, of a link-local address or with rdma_cm
    case EAFNOSUPPORT:
    case EINVAL:
      return failure(DAT_INVALID_ADDRESS);
    default:
      return failure(DAT_INSUFFICIENT_RESOURCES);
  }
}

bool RequestQueue::add(Request& request) noexcept {
  try {
    const ScopedLock guard(lock_);
    waiting_.push_back(std::move(request));
  } catch (const std::bad_alloc&) {
    return false;
  }
  gate_.post(kRequestCall);
  return true;
}

// The sink may destroy this queue.
void RequestQueue::deliver(unsigned) noexcept {
  Request request;
  transport::ListenSink& sink = sink_;
  {
    const ScopedLock guard(lock_);
    if (waiting_.empty()) return;
    request = std::move(waiting_.front());
    waiting_.pop_front();
    if (!waiting_.empty()) gate_.post(kRequestCall);
  }
  sink.on_request(std::move(request));
}

}  // namespace udapl
