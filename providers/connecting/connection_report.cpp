// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/connecting/connection_report.h"

namespace udapl {

void make_call(transport::ConnectionSink& sink, SinkCall call, transport::PrivateData from_peer,
               transport::BreakCause cause) noexcept {
  switch (call) {
    case SinkCall::kEstablished:
      return sink.on_established(from_peer);
    case SinkCall::kRejected:
      return sink.on_rejected(from_peer);
    case SinkCall::kRefused:
      return sink.on_refused();
    case SinkCall::kUnreachable:
      return sink.on_unreachable();
    case SinkCall::kTimedOut:
      return sink.on_timed_out();
    case SinkCall::kAcceptFailed:
      return sink.on_accept_failed();
    case SinkCall::kAsyncError:
      return sink.on_async_error();
    case SinkCall::kDisconnected:
      return sink.on_disconnected();
    case SinkCall::kBroken:
      return sink.on_broken(cause);
    case SinkCall::kSoftWatermark:
      return sink.on_soft_watermark();
    case SinkCall::kSrqReleased:
      return sink.on_srq_released();
    case SinkCall::kNoCall:
      return;
  }
}

}  // namespace udapl
