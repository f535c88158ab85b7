// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include <string>
#include <string_view>

#include "common/tracing/trace.h"
#include "dat/advice.h"
#include "dat/cause.h"
#include "dat/registry.h"
#include "dat/strerror.h"
#include "dat/text.h"

namespace udapl::dat {

// Describes a provider's failed open, with the reason that the provider left in this thread, if
// any.
PassedOver Registry::refusal(const Candidate& candidate, Status status) const {
  const std::string_view reason = cause::text();
  PassedOver refused;
  if (candidate.entry != nullptr) {
    const ConfEntry& conf = candidate.entry->conf;
    refused.subject = conf.library_path;
    refused.reason = place_of(*candidate.entry) + ": " + in_quotes(conf.library_path, 256) +
                     " did not open " + in_quotes(conf.ia_params) + ": ";
  } else {
    refused.reason = "the provider that the program registered did not open: ";
  }
  if (!reason.empty())
    refused.reason += reason;
  else
    refused.reason += "it returned " + error_text(status.code()) + " and gave no reason";
  if (reason.find("\ntry: ") == std::string_view::npos)
    refused.advice = advice_for_status(status.code(), !reason.empty());
  return refused;
}

// `status` is the code of the first provider whose open failed; success: no provider was tried.
NotFound Registry::describe_failure(const IaKey& wanted, Status status) {
  NotFound failure;
  failure.ia_name = wanted.name;
  failure.major = wanted.major;
  failure.minor = wanted.minor;
  failure.thread_safe = wanted.thread_safe;
  failure.code = status.code();
  if (!status.ok()) return failure;
  {
    ScopedLock lock(mutex_);
    failure.code = tables_.not_found_code(wanted);
    failure.alternatives = tables_.alternatives(wanted.name);
    failure.known_names = tables_.names();
  }
  UDAPL_TRACE(kNormal, "%s %u.%u: %s", in_quotes(wanted.name).c_str(), wanted.major, wanted.minor,
              error_text(failure.code).c_str());
  return failure;
}

}  // namespace udapl::dat
