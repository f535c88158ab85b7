// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/dat_registry.h>

#include <atomic>
#include <condition_variable>
#include <cstdarg>
#include <functional>
#include <list>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "common/result.h"
#include "dat/conf_file.h"
#include "dat/ia_table.h"
#include "dat/library.h"
#include "dat/report.h"
#include "dat/tables.h"

namespace udapl::dat {

class Registry;

// One use of a provider: while it exists, the provider is not finalised and its registration cannot
// be removed. Movable. The destructor may call the provider's fini: run it with no lock held.
class ProviderLease {
 public:
  ProviderLease() noexcept = default;
  ProviderLease(Registry& registry, Entry* entry, Registration& registration) noexcept
      : registry_(&registry), entry_(entry), registration_(&registration) {}
  ProviderLease(ProviderLease&& other) noexcept { swap(other); }
  ProviderLease& operator=(ProviderLease&& other) noexcept {
    ProviderLease(std::move(other)).swap(*this);
    return *this;
  }
  ~ProviderLease();

  explicit operator bool() const noexcept { return registry_ != nullptr; }
  [[nodiscard]] const Registration& registration() const noexcept { return *registration_; }

 private:
  friend class Registry;
  void swap(ProviderLease& other) noexcept {
    std::swap(registry_, other.registry_);
    std::swap(entry_, other.entry_);
    std::swap(registration_, other.registration_);
  }

  Registry* registry_ = nullptr;
  Entry* entry_ = nullptr;  // the entry it was acquired through; null: none
  Registration* registration_ = nullptr;
};

// The arguments of dat_ia_openv. REQUIRES: `name` fits DAT_NAME_MAX_LENGTH, the strings and
// *async_evd outlive the call; `async_evd` may be null.
struct OpenRequest {
  DAT_NAME_PTR name = nullptr;
  DAT_COUNT async_evd_min_qlen = 0;
  const DAT_EVD_HANDLE* async_evd = nullptr;
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  bool thread_safe = false;
};

struct OpenedIa {
  DAT_IA_HANDLE ia = nullptr;  // the application's handle
  DAT_EVD_HANDLE async_evd = nullptr;
};

// Finds, loads, initialises, opens and closes providers. The API layer owns the registry of the
// process; tests make their own, with their own Loader.
//
// Thread safe. Provider code is called with no lock held that a registry function acquires.
// dat_provider_init and dat_provider_fini run one at a time (OpenFabrics providers rely on that)
// and may call add and remove; open and close from inside them are refused with INVALID_STATE.
class Registry {
 public:
  // REQUIRES: `loader` and `table` outlive the registry.
  Registry(ConfFile file, Loader& loader, IaTable& table);
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // Opens the IA by the best provider that can be loaded, is registered after its init, and opens.
  // Entries with the same key are alternatives: they are tried in file order, and those that fail
  // are passed over. Fails with the unchanged code of the first provider whose open failed, or with
  // PROVIDER_NOT_FOUND and an explanation on stderr; in both cases the full explanation becomes the
  // thread's last cause. May block.
  Result<OpenedIa> open(const OpenRequest& request) UDAPL_EXCLUDES(mutex_);

  // Closes an IA; returns the provider's code if the provider refuses. The last close of an entry
  // also calls its fini. May block. `ia` is a number or a provider's pointer.
  Status close(DAT_IA_HANDLE ia, DAT_CLOSE_FLAGS flags) UDAPL_EXCLUDES(mutex_);

  // dat_registry_add_provider and dat_registry_remove_provider.
  Status add(const DAT_PROVIDER* provider, const DAT_PROVIDER_INFO* info) UDAPL_EXCLUDES(mutex_);
  Status remove(const DAT_PROVIDER* provider, const DAT_PROVIDER_INFO* info) UDAPL_EXCLUDES(mutex_);

  // The providers of dat.conf.
  [[nodiscard]] std::vector<DAT_PROVIDER_INFO> list() UDAPL_EXCLUDES(mutex_);

  // Queries an open IA of each name about the other name. UNKNOWN if no IA of either name is open.
  // PROVIDER_NOT_FOUND for a name that does not exist; MODEL_NOT_SUPPORTED if no provider could
  // answer.
  Result<DAT_HA_RELATIONSHIP> related(DAT_NAME_PTR name_a, DAT_NAME_PTR name_b)
      UDAPL_EXCLUDES(mutex_);

  // dat_extension_op: the operations that open and close by name, and all others.
  DAT_RETURN extension_op(DAT_HANDLE handle, DAT_EXTENDED_OP op, va_list args)
      UDAPL_EXCLUDES(mutex_);

 private:
  friend class ProviderLease;

  // The exclusive right to call init and fini, held on behalf of an entry.
  class UDAPL_SCOPED_CAPABILITY Turn;

  struct OpenIa {
    DAT_IA_HANDLE number = nullptr;
    ProviderLease lease;
    int pins = 0;  // calls of related() that are querying it: close waits for them
    bool closing = false;
  };

  // Acquires a lease on the first candidate with which `attempt` succeeds.
  using Attempt = std::function<Status(const Registration&)>;
  Result<ProviderLease> with_provider(const IaKey& wanted, const Attempt& attempt)
      UDAPL_EXCLUDES(mutex_);
  ProviderLease acquire(const Candidate& candidate, const IaKey& wanted,
                        std::vector<PassedOver>& passed_over) UDAPL_EXCLUDES(mutex_);
  bool load(Entry& entry, std::vector<PassedOver>& passed_over) UDAPL_EXCLUDES(mutex_);
  ProviderLease initialise(Entry& entry, std::vector<PassedOver>& passed_over)
      UDAPL_EXCLUDES(mutex_);
  void undo_init(Entry& entry) UDAPL_EXCLUDES(mutex_);
  ProviderLease lease_if_ready(Entry& entry) UDAPL_REQUIRES(mutex_);
  ProviderLease take(Entry* entry, Registration& registration) UDAPL_REQUIRES(mutex_);
  void release(Entry* entry, Registration& registration) noexcept UDAPL_EXCLUDES(mutex_);
  void finalise(Entry& entry) noexcept UDAPL_EXCLUDES(mutex_);

  Status open_ia(const Registration& registration, const OpenRequest& request, OpenedIa& opened);
  NotFound describe_failure(const IaKey& wanted, Status status) UDAPL_EXCLUDES(mutex_);
  [[nodiscard]] PassedOver refusal(const Candidate& candidate, Status status) const;
  [[nodiscard]] std::string place_of(const Entry& entry) const;
  [[nodiscard]] bool in_turn() UDAPL_EXCLUDES(mutex_);
  [[nodiscard]] bool has_open_ias(const ProviderLease& lease) UDAPL_EXCLUDES(mutex_);
  Status query_related(DAT_NAME_PTR queried, DAT_NAME_PTR about, DAT_BOOLEAN& answer)
      UDAPL_EXCLUDES(mutex_);

  DAT_RETURN extension_open(DAT_NAME_PTR name, DAT_EXTENDED_OP op, va_list args);
  DAT_RETURN extension_close(DAT_HANDLE handle, DAT_EXTENDED_OP op, va_list args);

  const ConfFile file_;
  Loader& loader_;
  IaTable& table_;
  Report report_;
  std::atomic<bool> extensions_in_use_{false};  // some provider with extensions was opened

  Mutex mutex_;                          // guards the tables; held briefly, never while calling out
  std::condition_variable_any changed_;  // the turn or a pin was released
  Tables tables_ UDAPL_GUARDED_BY(mutex_);
  std::list<OpenIa> open_ias_ UDAPL_GUARDED_BY(mutex_);
  // Opened by extension operations.
  std::list<ProviderLease> extension_leases_ UDAPL_GUARDED_BY(mutex_);
  std::thread::id turn_thread_ UDAPL_GUARDED_BY(mutex_);  // the holder of the turn, or none
  Entry* turn_entry_ UDAPL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace udapl::dat
