// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dat/registry.h"

#include <algorithm>
#include <utility>

#include "common/tracing/cause.h"
#include "common/tracing/trace.h"
#include "dat/advice.h"
#include "dat/cause.h"
#include "dat/provider_of.h"
#include "dat/strerror.h"
#include "dat/text.h"

namespace udapl::dat {

Registry::Registry(ConfFile file, Loader& loader, IaTable& table)
    : file_(std::move(file)), loader_(loader), table_(table), report_(file_), tables_(file_.conf) {
  for (const ConfAttempt& attempt : file_.attempts)
    UDAPL_TRACE(kNormal, "%s: %s", attempt.path.c_str(),
                attempt.failure.empty() ? "read" : attempt.failure.c_str());
  for (const ConfDiagnostic& diagnostic : file_.conf.diagnostics)
    UDAPL_TRACE(kNormal, "%s line %zu: %s", file_.path()->c_str(), diagnostic.line,
                diagnostic.reason.c_str());
}

bool Registry::has_open_ias(const ProviderLease& lease) {
  ScopedLock lock(mutex_);
  return lease.entry_ != nullptr && lease.entry_->open_ias != 0;
}

Result<ProviderLease> Registry::with_provider(const IaKey& wanted, const Attempt& attempt) {
  if (in_turn()) {
    UDAPL_EXPLAIN(kNormal, dat_error(DAT_INVALID_STATE),
                  "open of %s from inside a provider's init or fini refused",
                  in_quotes(wanted.name).c_str());
    return failure(DAT_INVALID_STATE);
  }
  std::vector<Candidate> candidates;
  {
    ScopedLock lock(mutex_);
    candidates = tables_.candidates(wanted);
  }
  std::vector<PassedOver> passed_over;  // not reported yet
  std::vector<PassedOver> tried;        // all that failed
  Status first_failure;
  for (const Candidate& candidate : candidates) {
    const std::size_t previous = passed_over.size();
    ProviderLease lease = acquire(candidate, wanted, passed_over);
    tried.insert(tried.end(), passed_over.begin() + static_cast<std::ptrdiff_t>(previous),
                 passed_over.end());
    if (!lease) continue;
    write_report(report_.explain(std::string(wanted.name), std::exchange(passed_over, {})));
    cause::clear();
    const Status status = attempt(lease.registration());
    if (status.ok()) return lease;
    tried.push_back(refusal(candidate, status));
    if (first_failure.ok()) first_failure = status;
    // With the next candidate, the new IA would use another adapter than the open IAs of the same
    // name.
    if (has_open_ias(lease)) break;
  }
  NotFound failure = describe_failure(wanted, first_failure);
  failure.passed_over = std::move(passed_over);
  failure.tried = std::move(tried);
  write_report(first_failure.ok() ? report_.explain(failure)
                                  : report_.explain(failure.ia_name, failure.passed_over));
  cause::set(failure.code, cause_of(file_, failure));
  return Status(failure.code);
}

// One attempt with one provider; modifies `opened` only on success.
Status Registry::open_ia(const Registration& registration, const OpenRequest& request,
                         OpenedIa& opened) {
  DAT_EVD_HANDLE async_evd = request.async_evd != nullptr ? *request.async_evd : nullptr;
  DAT_IA_HANDLE ia = nullptr;
  const DAT_RETURN code =
      registration.open(request.name, request.async_evd_min_qlen,
                        request.async_evd != nullptr ? &async_evd : nullptr, &ia);
  if (code != DAT_SUCCESS) {
    UDAPL_TRACE(kNormal, "the provider's open of %s returned 0x%x (%s)",
                in_quotes(request.name).c_str(), code, error_text(code).c_str());
    return Status(code);
  }
  if (IaTable::is_number(ia)) {
    UDAPL_EXPLAIN(kError, dat_error(DAT_INTERNAL_ERROR),
                  "the provider of %s reported success without an IA handle: %p",
                  in_quotes(request.name).c_str(), ia);
    return failure(DAT_INTERNAL_ERROR);
  }
  Result<DAT_IA_HANDLE> number = table_.insert(ia);
  if (!number.ok()) {
    call_slot<&DAT_PROVIDER::ia_close_func>("dat_ia_close", ia, DAT_CLOSE_ABRUPT_FLAG);
    return number.status();
  }
  opened = {*number, async_evd};
  DAT_IA_ATTR attr{};
  if (provider_of(ia).ia_query_func != nullptr &&
      provider_of(ia).ia_query_func(ia, nullptr, DAT_IA_FIELD_ALL, &attr, DAT_PROVIDER_FIELD_NONE,
                                    nullptr) == DAT_SUCCESS &&
      attr.extension_supported != DAT_EXTENSION_NONE)
    extensions_in_use_.store(true, std::memory_order_relaxed);
  return {};
}

Result<OpenedIa> Registry::open(const OpenRequest& request) {
  // Allocated first, because after the provider has opened the IA nothing here may fail.
  std::list<OpenIa> record(1);
  OpenedIa opened;
  Result<ProviderLease> lease = with_provider(
      {request.name, request.major, request.minor, request.thread_safe},
      [&](const Registration& provider) { return open_ia(provider, request, opened); });
  if (!lease.ok()) return lease.status();
  record.front().number = opened.ia;
  record.front().lease = std::move(*lease);
  ScopedLock lock(mutex_);
  if (record.front().lease.entry_ != nullptr) ++record.front().lease.entry_->open_ias;
  open_ias_.splice(open_ias_.end(), record);
  return opened;
}

Status Registry::close(DAT_IA_HANDLE ia, DAT_CLOSE_FLAGS flags) {
  if (in_turn()) {
    UDAPL_EXPLAIN(kNormal, dat_error(DAT_INVALID_STATE),
                  "close from inside a provider's init or fini refused");
    return failure(DAT_INVALID_STATE);
  }
  const DAT_IA_HANDLE number = IaTable::is_number(ia) ? ia : table_.number_of(ia);
  if (!table_.begin_close(number)) {
    UDAPL_EXPLAIN(kNormal, dat_error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA),
                  "%p is not an open IA", ia);
    return failure(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA);
  }
  std::list<OpenIa>::iterator record;
  {
    ScopedLock lock(mutex_);
    record = std::find_if(open_ias_.begin(), open_ias_.end(),
                          [&](const OpenIa& open) { return open.number == number; });
    // No open has returned this IA yet: the caller has guessed the handle.
    if (record == open_ias_.end()) {
      table_.cancel_close(number);
      return failure(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA);
    }
    record->closing = true;
    while (record->pins != 0) changed_.wait(mutex_);
  }
  const DAT_IA_HANDLE provider_ia = table_.pointer_of(number);
  const DAT_RETURN code =
      call_slot<&DAT_PROVIDER::ia_close_func>("dat_ia_close", provider_ia, flags);
  std::list<OpenIa> closed;
  {
    ScopedLock lock(mutex_);
    if (code != DAT_SUCCESS) {
      UDAPL_TRACE(kNormal, "the provider's close of IA %p returned 0x%x", ia, code);
      record->closing = false;
      table_.cancel_close(number);
      return Status(code);
    }
    if (record->lease.entry_ != nullptr) --record->lease.entry_->open_ias;
    closed.splice(closed.end(), open_ias_, record);
  }
  table_.remove(number);
  return {};
}

Status Registry::add(const DAT_PROVIDER* provider, const DAT_PROVIDER_INFO* info) {
  DAT_RETURN_SUBTYPE wrong = DAT_NO_SUBTYPE;
  if (provider == nullptr || provider->ia_open_func == nullptr)
    wrong = DAT_INVALID_ARG1;
  else if (info == nullptr || key_of(*info).name.size() == sizeof info->ia_name)
    wrong = DAT_INVALID_ARG2;
  if (wrong != DAT_NO_SUBTYPE) {
    UDAPL_EXPLAIN(kNormal, dat_error(DAT_INVALID_PARAMETER, wrong), "argument %d is invalid",
                  wrong - DAT_INVALID_ARG1 + 1);
    return failure(DAT_INVALID_PARAMETER, wrong);
  }
  ScopedLock lock(mutex_);
  Entry* owner = turn_thread_ == std::this_thread::get_id() ? turn_entry_ : nullptr;
  const Status status = tables_.add(*provider, *info, owner);
  if (!status.ok())
    UDAPL_EXPLAIN(kNormal, status.code(), "provider of %s: %s",
                  in_quotes(key_of(*info).name).c_str(), error_text(status.code()).c_str());
  return status;
}

Status Registry::remove(const DAT_PROVIDER* provider, const DAT_PROVIDER_INFO* info) {
  if (provider == nullptr || info == nullptr) {
    const DAT_RETURN code =
        dat_error(DAT_INVALID_PARAMETER, provider == nullptr ? DAT_INVALID_ARG1 : DAT_INVALID_ARG2);
    UDAPL_EXPLAIN(kNormal, code, "null argument");
    return Status(code);
  }
  ScopedLock lock(mutex_);
  const Entry* caller = turn_thread_ == std::this_thread::get_id() ? turn_entry_ : nullptr;
  const Status status = tables_.remove(*provider, *info, caller);
  if (!status.ok())
    UDAPL_EXPLAIN(kNormal, status.code(), "provider of %s: %s",
                  in_quotes(key_of(*info).name).c_str(), error_text(status.code()).c_str());
  return status;
}

std::vector<DAT_PROVIDER_INFO> Registry::list() {
  ScopedLock lock(mutex_);
  return tables_.list();
}

}  // namespace udapl::dat
