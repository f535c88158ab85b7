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

Lease::~Lease() {
  if (registry_ != nullptr) registry_->release(entry_, *registration_);
}

// Waits until no provider is being initialised or finalised, then holds that state.
class UDAPL_SCOPED_CAPABILITY Registry::Turn {
 public:
  Turn(Registry& registry, Entry& entry) UDAPL_EXCLUDES(registry.mutex_) : registry_(registry) {
    ScopedLock lock(registry_.mutex_);
    while (registry_.turn_thread_ != std::thread::id()) registry_.changed_.wait(registry_.mutex_);
    registry_.turn_thread_ = std::this_thread::get_id();
    registry_.turn_entry_ = &entry;
  }
  ~Turn() {
    ScopedLock lock(registry_.mutex_);
    registry_.turn_thread_ = std::thread::id();
    registry_.turn_entry_ = nullptr;
    registry_.changed_.notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Registry& registry_;
};

Registry::Registry(ConfFile file, Loader& loader, IaTable& table)
    : file_(std::move(file)), loader_(loader), table_(table), report_(file_), tables_(file_.conf) {
  for (const ConfAttempt& attempt : file_.attempts)
    UDAPL_TRACE(kNormal, "%s: %s", attempt.path.c_str(),
                attempt.failure.empty() ? "read" : attempt.failure.c_str());
  for (const ConfDiagnostic& diagnostic : file_.conf.diagnostics)
    UDAPL_TRACE(kNormal, "%s line %zu: %s", file_.path()->c_str(), diagnostic.line,
                diagnostic.reason.c_str());
}

bool Registry::in_turn() {
  ScopedLock lock(mutex_);
  return turn_thread_ == std::this_thread::get_id();
}

Lease Registry::take(Entry* entry, Registration& registration) {
  ++registration.users;
  if (entry != nullptr) ++entry->users;
  if (registration.owner != nullptr && registration.owner != entry) ++registration.owner->users;
  return Lease(*this, entry, registration);
}

void Registry::release(Entry* entry, Registration& registration) noexcept {
  Entry* idle[2] = {nullptr, nullptr};
  {
    ScopedLock lock(mutex_);
    Entry* owner = registration.owner == entry ? nullptr : registration.owner;
    --registration.users;
    if (entry != nullptr && --entry->users == 0) idle[0] = entry;
    if (owner != nullptr && --owner->users == 0) idle[1] = owner;
  }
  for (Entry* unused : idle)
    if (unused != nullptr) finalise(*unused);
}

void Registry::finalise(Entry& entry) noexcept {
  Turn turn(*this, entry);
  {
    ScopedLock lock(mutex_);
    // A provider without fini stays as it is. Another thread may have opened, or finalised, first.
    if (entry.users != 0 || !entry.initialised || entry.entry_points.fini == nullptr) return;
    entry.initialised = false;
  }
  entry.entry_points.fini(&entry.info);
  ScopedLock lock(mutex_);
  tables_.remove_all(entry);
}

Lease Registry::lease_if_ready(Entry& entry) {
  Registration* registration = entry.initialised ? tables_.registration_of(entry) : nullptr;
  return registration != nullptr ? take(&entry, *registration) : Lease();
}

Lease Registry::acquire(const Candidate& candidate, const IaKey& wanted,
                        std::vector<PassedOver>& passed_over) {
  if (candidate.entry == nullptr) {
    ScopedLock lock(mutex_);
    Registration* registration =
        tables_.unowned({wanted.name, wanted.major, candidate.minor, wanted.thread_safe});
    return registration != nullptr ? take(nullptr, *registration) : Lease();
  }
  {
    ScopedLock lock(mutex_);
    Lease lease = lease_if_ready(*candidate.entry);
    if (lease) return lease;
  }
  if (!load(*candidate.entry, passed_over)) return {};
  return initialise(*candidate.entry, passed_over);
}

std::string Registry::place_of(const Entry& entry) const {
  return *file_.path() + " line " + std::to_string(entry.conf.line);
}

// Outside of any turn, because the dynamic linker has a lock of its own: a thread that is in it may
// run a constructor that opens an IA.
bool Registry::load(Entry& entry, std::vector<PassedOver>& passed_over) {
  {
    ScopedLock lock(mutex_);
    if (entry.loaded) return true;
  }
  LoadResult result = loader_.load(entry.conf.library_path);
  if (!result.loaded) {
    UDAPL_TRACE(kNormal, "%s: %s", place_of(entry).c_str(), result.failure.c_str());
    passed_over.push_back({entry.conf.library_path, place_of(entry) + ": " + result.failure,
                           advice_for_library(entry.conf.library_path, result.failure)});
    return false;
  }
  ScopedLock lock(mutex_);
  if (entry.loaded) return true;  // another thread was faster, and may be calling them
  entry.loaded = true;
  entry.entry_points = result.entry_points;
  if (entry.entry_points.init == nullptr) entry.entry_points.fini = nullptr;
  return true;
}

// After an init that did not register what it was asked for. An init that registered nothing at all
// has failed: existing providers crash in the fini of a name that they did not register.
void Registry::undo_init(Entry& entry) {
  {
    ScopedLock lock(mutex_);
    if (!tables_.has_any(entry)) return;
  }
  if (entry.entry_points.fini != nullptr) entry.entry_points.fini(&entry.info);
  ScopedLock lock(mutex_);
  tables_.remove_all(entry);
}

Lease Registry::initialise(Entry& entry, std::vector<PassedOver>& passed_over) {
  Turn turn(*this, entry);
  bool call_init = false;
  {
    ScopedLock lock(mutex_);
    Lease lease = lease_if_ready(entry);  // another thread was faster
    if (lease) return lease;
    call_init = !entry.initialised && entry.entry_points.init != nullptr;
  }
  if (call_init) {
    cause::clear();
    entry.entry_points.init(&entry.info, entry.conf.ia_params.c_str());
  }
  {
    ScopedLock lock(mutex_);
    Registration* registration = tables_.registration_of(entry);
    if (registration != nullptr) {
      entry.initialised = true;
      return take(&entry, *registration);
    }
  }
  const std::string library = quoted(entry.conf.library_path);
  const bool has_init = entry.entry_points.init != nullptr;
  std::string reason = library + " has no function dat_provider_init";
  if (has_init)
    reason = library + " did not register this name and version; are its ia_params " +
             quoted(entry.conf.ia_params) + " what it wants?";
  if (call_init && *cause::text() != '\0') reason += std::string(" It says: ") + cause::text();
  UDAPL_TRACE(kNormal, "%s: %s", place_of(entry).c_str(), reason.c_str());
  passed_over.push_back({entry.conf.ia_name + '\n' + entry.conf.library_path,
                         place_of(entry) + ": " + reason,
                         has_init ? advice_for_no_registration()
                                  : advice_for_no_entry_points(entry.conf.library_path)});
  if (call_init) undo_init(entry);
  return {};
}

bool Registry::has_open_ias(const Lease& lease) {
  ScopedLock lock(mutex_);
  return lease.entry_ != nullptr && lease.entry_->open_ias != 0;
}

Result<Lease> Registry::with_provider(const IaKey& wanted, const Attempt& attempt) {
  if (in_turn()) {
    UDAPL_EXPLAIN(kNormal, dat_error(DAT_INVALID_STATE),
                  "open of %s from inside a provider's init or fini refused",
                  quoted(wanted.name).c_str());
    return failure(DAT_INVALID_STATE);
  }
  std::vector<Candidate> candidates;
  {
    ScopedLock lock(mutex_);
    candidates = tables_.candidates(wanted);
  }
  std::vector<PassedOver> passed_over;  // not told yet
  std::vector<PassedOver> tried;        // all that failed
  Status first_failure;
  for (const Candidate& candidate : candidates) {
    const std::size_t told = passed_over.size();
    Lease lease = acquire(candidate, wanted, passed_over);
    tried.insert(tried.end(), passed_over.begin() + static_cast<std::ptrdiff_t>(told),
                 passed_over.end());
    if (!lease) continue;
    tell(report_.explain(std::string(wanted.name), std::exchange(passed_over, {})));
    cause::clear();
    const Status status = attempt(lease.registration());
    if (status.ok()) return lease;
    tried.push_back(refusal(candidate, status));
    if (first_failure.ok()) first_failure = status;
    // Its IAs that are open would have another adapter than this one under the same name.
    if (has_open_ias(lease)) break;
  }
  NotFound failure = describe_failure(wanted, first_failure);
  failure.passed_over = std::move(passed_over);
  failure.tried = std::move(tried);
  tell(first_failure.ok() ? report_.explain(failure)
                          : report_.explain(failure.ia_name, failure.passed_over));
  cause::set(failure.code, cause_of(file_, failure));
  return Status(failure.code);
}

// One attempt with one provider; touches `opened` only on success.
Status Registry::open_ia(const Registration& registration, const OpenRequest& request,
                         OpenedIa& opened) {
  DAT_EVD_HANDLE async_evd = request.async_evd != nullptr ? *request.async_evd : nullptr;
  DAT_IA_HANDLE ia = nullptr;
  const DAT_RETURN code =
      registration.open(request.name, request.async_evd_min_qlen,
                        request.async_evd != nullptr ? &async_evd : nullptr, &ia);
  if (code != DAT_SUCCESS) {
    UDAPL_TRACE(kNormal, "the provider's open of %s returned 0x%x (%s)",
                quoted(request.name).c_str(), code, error_text(code).c_str());
    return Status(code);
  }
  if (IaTable::is_number(ia)) {
    UDAPL_EXPLAIN(kError, dat_error(DAT_INTERNAL_ERROR),
                  "the provider of %s opened it and gave no IA: %p", quoted(request.name).c_str(),
                  ia);
    return failure(DAT_INTERNAL_ERROR);
  }
  Result<DAT_IA_HANDLE> number = table_.insert(ia);
  if (!number.ok()) {
    provider_of(ia).ia_close_func(ia, DAT_CLOSE_ABRUPT_FLAG);
    return number.status();
  }
  opened = {*number, async_evd};
  DAT_IA_ATTR attr{};
  if (provider_of(ia).ia_query_func(ia, nullptr, DAT_IA_FIELD_ALL, &attr, DAT_PROVIDER_FIELD_NONE,
                                    nullptr) == DAT_SUCCESS &&
      attr.extension_supported != DAT_EXTENSION_NONE)
    extensions_in_use_.store(true, std::memory_order_relaxed);
  return {};
}

Result<OpenedIa> Registry::open(const OpenRequest& request) {
  std::list<OpenIa> record(1);  // first: once the provider has opened, nothing here may fail
  OpenedIa opened;
  Result<Lease> lease = with_provider(
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
    if (record == open_ias_.end()) {  // its open has not returned yet: the caller made it up
      table_.cancel_close(number);
      return failure(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA);
    }
    record->closing = true;
    while (record->pins != 0) changed_.wait(mutex_);
  }
  const DAT_IA_HANDLE provider_ia = table_.pointer_of(number);
  const DAT_RETURN code = provider_of(provider_ia).ia_close_func(provider_ia, flags);
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
    UDAPL_EXPLAIN(kNormal, status.code(), "provider of %s: %s", quoted(key_of(*info).name).c_str(),
                  error_text(status.code()).c_str());
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
    UDAPL_EXPLAIN(kNormal, status.code(), "provider of %s: %s", quoted(key_of(*info).name).c_str(),
                  error_text(status.code()).c_str());
  return status;
}

std::vector<DAT_PROVIDER_INFO> Registry::list() {
  ScopedLock lock(mutex_);
  return tables_.list();
}

}  // namespace udapl::dat
