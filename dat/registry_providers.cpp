// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The registry's providers: loading them, their init and fini, and leases on them.
#include <utility>

#include "common/tracing/cause.h"
#include "common/tracing/trace.h"
#include "dat/advice.h"
#include "dat/cause.h"
#include "dat/registry.h"
#include "dat/text.h"

namespace udapl::dat {

ProviderLease::~ProviderLease() {
  if (registry_ != nullptr) registry_->release(entry_, *registration_);
}

// Waits until no provider is being initialised or finalised, and then keeps other threads from
// initialising or finalising one.
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

bool Registry::in_turn() {
  ScopedLock lock(mutex_);
  return turn_thread_ == std::this_thread::get_id();
}

ProviderLease Registry::take(Entry* entry, Registration& registration) {
  ++registration.users;
  if (entry != nullptr) ++entry->users;
  if (registration.owner != nullptr && registration.owner != entry) ++registration.owner->users;
  return ProviderLease(*this, entry, registration);
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
    // A provider without fini stays initialised. Another thread may have opened or finalised this
    // one meanwhile.
    if (entry.users != 0 || !entry.initialised || entry.entry_points.fini == nullptr) return;
    entry.initialised = false;
  }
  entry.entry_points.fini(&entry.info);
  ScopedLock lock(mutex_);
  tables_.remove_all(entry);
}

ProviderLease Registry::lease_if_ready(Entry& entry) {
  Registration* registration = entry.initialised ? tables_.registration_of(entry) : nullptr;
  return registration != nullptr ? take(&entry, *registration) : ProviderLease();
}

ProviderLease Registry::acquire(const Candidate& candidate, const IaKey& wanted,
                                std::vector<PassedOver>& passed_over) {
  if (candidate.entry == nullptr) {
    ScopedLock lock(mutex_);
    Registration* registration =
        tables_.unowned({wanted.name, wanted.major, candidate.minor, wanted.thread_safe});
    return registration != nullptr ? take(nullptr, *registration) : ProviderLease();
  }
  {
    ScopedLock lock(mutex_);
    ProviderLease lease = lease_if_ready(*candidate.entry);
    if (lease) return lease;
  }
  if (!load(*candidate.entry, passed_over)) return {};
  return initialise(*candidate.entry, passed_over);
}

std::string Registry::place_of(const Entry& entry) const {
  return *file_.path() + " line " + std::to_string(entry.conf.line);
}

// Called outside of any turn, because the dynamic linker has a lock of its own: a thread that holds
// it may run a constructor that opens an IA.
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
  if (entry.loaded) return true;  // another thread has loaded it meanwhile
  entry.loaded = true;
  entry.entry_points = result.entry_points;
  if (entry.entry_points.init == nullptr) entry.entry_points.fini = nullptr;
  return true;
}

// Called after an init that did not register the requested key. An init that registered nothing at
// all has failed: OpenFabrics providers crash in the fini of a name that they did not register.
void Registry::undo_init(Entry& entry) {
  {
    ScopedLock lock(mutex_);
    if (!tables_.has_any(entry)) return;
  }
  if (entry.entry_points.fini != nullptr) entry.entry_points.fini(&entry.info);
  ScopedLock lock(mutex_);
  tables_.remove_all(entry);
}

ProviderLease Registry::initialise(Entry& entry, std::vector<PassedOver>& passed_over) {
  Turn turn(*this, entry);
  bool call_init = false;
  {
    ScopedLock lock(mutex_);
    ProviderLease lease = lease_if_ready(entry);  // another thread may have initialised it
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
  const std::string library = in_quotes(entry.conf.library_path);
  const bool has_init = entry.entry_points.init != nullptr;
  std::string reason = library + " has no function dat_provider_init";
  if (has_init)
    reason = library + " did not register this name and version; does it accept its ia_params " +
             in_quotes(entry.conf.ia_params) + "?";
  if (call_init && *cause::text() != '\0') reason += std::string(" It says: ") + cause::text();
  UDAPL_TRACE(kNormal, "%s: %s", place_of(entry).c_str(), reason.c_str());
  passed_over.push_back({entry.conf.ia_name + '\n' + entry.conf.library_path,
                         place_of(entry) + ": " + reason,
                         has_init ? advice_for_no_registration()
                                  : advice_for_no_entry_points(entry.conf.library_path)});
  if (call_init) undo_init(entry);
  return {};
}

}  // namespace udapl::dat
