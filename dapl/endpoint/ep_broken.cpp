// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Reports of broken connections. Evd::explain_broken() tells the application the reason.
#include "common/tracing/trace.h"
#include "common/tracing/trace_limit.h"
#include "dapl/endpoint/ep.h"

#include <array>

namespace udapl::dapl {

void Ep::Sink::on_broken(transport::BreakCause cause) noexcept {
  const trace::About about(&ep_);
  static constinit std::array<trace::RateLimit, transport::kBreakReasons> limits;
  const char* const reason = text_of(cause.why);
  UDAPL_TRACE_LIMITED(limits[static_cast<std::size_t>(cause.why)], kError,
                      "ep %p: connection broken: %s%s%s", static_cast<void*>(&ep_), reason,
                      *cause.detail != '\0' ? ": " : "", cause.detail);
  ep_.note_break(reason, cause.detail);
  ep_.report(EpInput::kBroken, {});
}

}  // namespace udapl::dapl
