// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/connecting/listening.h"

#include <new>
#include <utility>

namespace udapl {

namespace {

constexpr unsigned kRequestCall = 0;

}  // namespace

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
