// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/table/provider.h"

#include "common/mutex.h"
#include "common/tracing/trace.h"
#include "dapl/objects/boundary.h"
#include "dapl/objects/refuse.h"
#include "dapl/objects/trace_points.h"
#include "dapl/table/open_ia.h"

#include <cstring>
#include <vector>

namespace udapl::dapl {

namespace {

bool same(const DAT_PROVIDER_INFO& a, const DAT_PROVIDER_INFO& b) noexcept {
  return a.dapl_version_major == b.dapl_version_major &&
         a.dapl_version_minor == b.dapl_version_minor && a.is_thread_safe == b.is_thread_safe &&
         std::strncmp(a.ia_name, b.ia_name, DAT_NAME_MAX_LENGTH) == 0;
}

// All providers that this library ever registered. An unregistered one is kept, because handles
// point at its table, and is used again if the same name is registered again.
class Providers {
 public:
  static Providers& instance() {
    static auto* const all = new Providers;  // outlives every static destructor on purpose
    return *all;
  }

  Provider& enter(const ProviderKit& kit, const DAT_PROVIDER_INFO& info, std::string_view ia_params)
      UDAPL_EXCLUDES(lock_) {
    const ScopedLock lock(lock_);
    for (Entry& entry : entries_) {
      if (same(entry.provider->info(), info) && entry.provider->ia_params() == ia_params) {
        entry.registered = true;
        return *entry.provider;
      }
    }
    entries_.push_back({std::make_unique<Provider>(kit, info, ia_params), true});
    return *entries_.back().provider;
  }

  // Marks the registered provider as unregistered and returns it; null if there is none.
  Provider* withdraw(const DAT_PROVIDER_INFO& info) UDAPL_EXCLUDES(lock_) {
    const ScopedLock lock(lock_);
    for (Entry& entry : entries_) {
      if (!entry.registered || !same(entry.provider->info(), info)) continue;
      entry.registered = false;
      return entry.provider.get();
    }
    return nullptr;
  }

  Provider* find(std::string_view ia_name, bool thread_safe) UDAPL_EXCLUDES(lock_) {
    const ScopedLock lock(lock_);
    for (const Entry& entry : entries_) {
      const DAT_PROVIDER_INFO& info = entry.provider->info();
      if (entry.registered && (info.is_thread_safe != DAT_FALSE) == thread_safe &&
          ia_name == info.ia_name)
        return entry.provider.get();
    }
    return nullptr;
  }

 private:
  struct Entry {
    std::unique_ptr<Provider> provider;
    bool registered;
  };
  Mutex lock_;
  std::vector<Entry> entries_ UDAPL_GUARDED_BY(lock_);
};

DAT_RETURN ia_open(bool thread_safe, const char* name, DAT_COUNT async_evd_min_qlen,
                   DAT_EVD_HANDLE* async_evd, DAT_IA_HANDLE* ia) noexcept {
  return boundary([&]() -> Status {
    Provider* const provider = name == nullptr ? nullptr : find_provider(name, thread_safe);
    if (provider == nullptr)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1, "no IA \"%s\" here",
                   name == nullptr ? "" : name);
    if (async_evd == nullptr)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3, "null async EVD pointer");
    if (ia == nullptr) UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG4, "null IA pointer");
    return OpenIa::open(*provider, async_evd_min_qlen, async_evd, ia);
  });
}

}  // namespace

Provider::Provider(const ProviderKit& kit, const DAT_PROVIDER_INFO& info,
                   std::string_view ia_params)
    : info_(info), ia_params_(ia_params), open_adapter_(kit.open_adapter), table_{} {
  table_.original = info.is_thread_safe != DAT_FALSE ? kit.threadsafe : kit.nonthreadsafe;
  table_.slots = *table_.original;
  info_.ia_name[DAT_NAME_MAX_LENGTH - 1] = '\0';
  table_.slots.device_name = info_.ia_name;
  guard_in_children(table_);
}

void register_provider(const ProviderKit& kit, const DAT_PROVIDER_INFO* info,
                       const char* ia_params) noexcept {
  trace::set_describe(&identify);
  const DAT_RETURN code = boundary([&]() -> Status {
    if (info == nullptr)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1, "null provider info");
    const Provider& provider =
        Providers::instance().enter(kit, *info, ia_params == nullptr ? "" : ia_params);
    const Status status(::dat_registry_add_provider(&provider.table(), info));
    if (!status.ok() && status.type() != DAT_PROVIDER_ALREADY_REGISTERED)
      Providers::instance().withdraw(*info);
    return status;
  });
  if (code != DAT_SUCCESS)
    UDAPL_TRACE(kError, "IA \"%s\" could not be registered: 0x%x",
                info == nullptr ? "" : info->ia_name, code);
}

void unregister_provider(const DAT_PROVIDER_INFO* info) noexcept {
  const DAT_RETURN code = boundary([&]() -> Status {
    if (info == nullptr)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1, "null provider info");
    const Provider* const provider = Providers::instance().withdraw(*info);
    if (provider == nullptr)
      UDAPL_REFUSE(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED, "\"%s\" is not registered",
                   info->ia_name);
    return Status(::dat_registry_remove_provider(&provider->table(), info));
  });
  if (code != DAT_SUCCESS)
    UDAPL_TRACE(kNormal, "IA \"%s\" could not be unregistered: 0x%x",
                info == nullptr ? "" : info->ia_name, code);
}

Provider* find_provider(std::string_view ia_name, bool thread_safe) noexcept {
  return Providers::instance().find(ia_name, thread_safe);
}

namespace calls {

DAT_RETURN ia_open_threadsafe(const DAT_NAME_PTR name, DAT_COUNT async_evd_min_qlen,
                              DAT_EVD_HANDLE* async_evd, DAT_IA_HANDLE* ia) {
  return ia_open(true, name, async_evd_min_qlen, async_evd, ia);
}

DAT_RETURN ia_open_nonthreadsafe(const DAT_NAME_PTR name, DAT_COUNT async_evd_min_qlen,
                                 DAT_EVD_HANDLE* async_evd, DAT_IA_HANDLE* ia) {
  return ia_open(false, name, async_evd_min_qlen, async_evd, ia);
}

}  // namespace calls
}  // namespace udapl::dapl
