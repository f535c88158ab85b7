// SPDX-License-Identifier: MIT OR GPL-2.0-only
// dat_evd_free. It is in this layer because it rejects requests whose events are still queued.
#include "common/backoff.h"
#include "dapl/events/evd.h"
#include "dapl/objects/boundary.h"
#include "dapl/objects/calls.h"
#include "dapl/objects/ending.h"
#include "dapl/objects/ia.h"
#include "dapl/objects/require.h"
#include "dapl/service/cr.h"

namespace udapl::dapl {

namespace {

// No further event can be queued, as nothing uses the EVD any more. The program can no longer learn
// of queued requests, whose peers are waiting.
void reject_queued_requests(Evd& evd) noexcept {
  DAT_EVENT event;
  while (evd.dequeue_from_ring(&event))
    if (event.event_number == DAT_CONNECTION_REQUEST_EVENT)
      reject_lost(event.event_data.cr_arrival_event_data.cr_handle);
}

}  // namespace

DAT_RETURN calls::evd_free(DAT_EVD_HANDLE handle) {
  return boundary([&]() -> Status {
    const auto evd = require<Evd>(handle);
    if (evd == nullptr) return evd.refusal();
    Backoff backoff;
    while (evd->uses.load(std::memory_order_acquire) != 0 && Ending::any()) backoff.wait();
    if (const Status status = evd->check_free(); !status.ok()) return status;
    reject_queued_requests(*evd);
    evd->ia->destroy(*evd);
    return Status();
  });
}

}  // namespace udapl::dapl
