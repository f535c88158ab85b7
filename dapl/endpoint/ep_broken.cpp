// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Reports of broken connections, and how the application learns the reason.
#include <array>

#include "common/tracing/cause.h"
#include "common/tracing/trace.h"
#include "common/tracing/trace_limit.h"
#include "dapl/endpoint/ep.h"
#include "dapl/events/evd.h"

namespace udapl::dapl {

void Ep::Sink::on_broken(transport::BreakCause cause) noexcept {
  const trace::About about(&ep_);
  static constinit std::array<trace::RateLimit, transport::kBreakReasons> limits;
  const char* const reason = text_of(cause.why);
  UDAPL_TRACE_LIMITED(limits[static_cast<std::size_t>(cause.why)], kError,
                      "ep %p: connection broken: %s%s%s", static_cast<void*>(&ep_), reason,
                      *cause.detail != '\0' ? ": " : "", cause.detail);
  ep_.break_detail_.store(cause.detail, std::memory_order_relaxed);
  ep_.broken_by_.store(reason, std::memory_order_release);
  ep_.report(EpInput::kBroken, {});
}

void Evd::explain_broken(const DAT_EVENT& event) noexcept {
  const DAT_EP_HANDLE handle = event.event_data.connect_event_data.ep_handle;
  const Ep* const ep = handle_cast<Ep>(handle);
  if (ep == nullptr || *ep->break_reason() == '\0') return;
  cause::note(static_cast<DAT_RETURN>(event.event_number), "ep %p: connection broken: %s%s%s",
              handle, ep->break_reason(), *ep->break_detail() != '\0' ? ": " : "",
              ep->break_detail());
}

}  // namespace udapl::dapl
