// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/dat_registry.h>

#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "dat/conf.h"
#include "dat/library.h"

namespace udapl::dat {

// The key that an application requests, and under which a provider is registered.
struct IaKey {
  std::string_view name;
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  bool thread_safe = false;

  friend bool operator==(const IaKey&, const IaKey&) = default;
};
// The view in the result refers to `info`.
[[nodiscard]] IaKey key_of(const DAT_PROVIDER_INFO& info) noexcept;

// A line of dat.conf: a provider that can be loaded.
struct Entry {
  ConfEntry conf;
  DAT_PROVIDER_INFO info{};          // passed to the provider's init and fini
  bool loaded = false;               // entry_points are known
  ProviderEntryPoints entry_points;  // fini only if there is an init
  bool initialised = false;          // init was called, and fini not since
  int users = 0;                     // uses of its registrations; fini is due when it drops to 0
  int open_ias = 0;                  // those uses that are open IAs
};

// A registration by dat_registry_add_provider: a provider that can be opened.
struct Registration {
  DAT_PROVIDER_INFO info{};
  const DAT_PROVIDER* provider = nullptr;  // identity only, not dereferenced once registered
  DAT_IA_OPEN_FUNC open = nullptr;
  DAT_HANDLE_EXTENDEDOP_FUNC extension = nullptr;
  Entry* owner = nullptr;  // whose init added it; null: the application, or a constructor
  int users = 0;
};

// One way to serve a request: an entry or, if that is null, a registration of this minor version
// without owner.
struct Candidate {
  Entry* entry = nullptr;
  std::uint32_t minor = 0;
};

// The static table (dat.conf) and the dynamic one (registrations), and how requests match them. Not
// thread safe: guarded by its owner, Registry. Entries and registrations never move; an entry lives
// as long as the tables, a registration until it is removed.
//
// Several entries may have the same key (a chain): alternatives, in file order. Each may have a
// registration of its own under that key at the same time, when one is tried while another fails.
class Tables {
 public:
  explicit Tables(const Conf& conf);
  Tables(const Tables&) = delete;
  Tables& operator=(const Tables&) = delete;

  // Candidates for a request, best first: name, major and thread safety equal, minor the requested
  // or the next higher one; an entry with open IAs before the others of its chain.
  [[nodiscard]] std::vector<Candidate> candidates(const IaKey& wanted);

  // PROVIDER_NOT_FOUND, with the subtype that states how the nearest provider differs.
  [[nodiscard]] DAT_RETURN not_found_code(const IaKey& wanted) const;
  // The existing versions of a name, as text, and all existing names.
  [[nodiscard]] std::vector<std::string> alternatives(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] bool contains(std::string_view name) const;

  // PROVIDER_ALREADY_REGISTERED if the key is taken. `owner` may be null. REQUIRES: pointers valid.
  Status add(const DAT_PROVIDER& provider, const DAT_PROVIDER_INFO& info, Entry* owner);
  // PROVIDER_IN_USE; PROVIDER_NOT_FOUND. `caller` is the entry whose init or fini calls, or null.
  Status remove(const DAT_PROVIDER& provider, const DAT_PROVIDER_INFO& info, const Entry* caller);
  // Whether an entry registered anything, under whatever key.
  [[nodiscard]] bool has_any(const Entry& owner) const;
  // Removes the registrations of an entry that its fini did not remove. REQUIRES: none of them is
  // in use.
  void remove_all(const Entry& owner);

  // The registration through which an entry is opened; null if there is none.
  [[nodiscard]] Registration* registration_of(const Entry& entry);
  // A registration with this key that no entry with the same key owns.
  [[nodiscard]] Registration* unowned(const IaKey& key);

  // The static table, each key once, in file order.
  [[nodiscard]] std::vector<DAT_PROVIDER_INFO> list() const;

 private:
  template <class Visit>
  void for_each_key(Visit&& visit) const;

  std::list<Entry> entries_;
  std::list<Registration> registrations_;
};

}  // namespace udapl::dat
