// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dat/tables.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <unordered_set>
#include <utility>

namespace udapl::dat {

namespace {

DAT_PROVIDER_INFO info_of(const ConfEntry& entry) {
  DAT_PROVIDER_INFO info{};
  // The parser rejects longer names; the rest of the array is zero.
  entry.ia_name.copy(info.ia_name, sizeof info.ia_name - 1);
  info.dapl_version_major = entry.major;
  info.dapl_version_minor = entry.minor;
  info.is_thread_safe = entry.thread_safe ? DAT_TRUE : DAT_FALSE;
  return info;
}

bool matches(const IaKey& offered, const IaKey& wanted) {
  return offered.name == wanted.name && offered.major == wanted.major &&
         offered.thread_safe == wanted.thread_safe && offered.minor >= wanted.minor;
}

// A list without duplicates, with a fast search: files may have tens of thousands of entries.
class Unique {
 public:
  void add(std::string text) {
    const auto [place, is_new] = known_.insert(std::move(text));
    if (is_new) list_.push_back(*place);
  }
  [[nodiscard]] std::vector<std::string> take() { return std::move(list_); }

 private:
  std::unordered_set<std::string> known_;
  std::vector<std::string> list_;
};

struct HashKey {
  std::size_t operator()(const IaKey& key) const noexcept {
    const std::size_t version = (std::size_t{key.major} << 32U | key.minor) * 2 + key.thread_safe;
    return std::hash<std::string_view>()(key.name) ^ (version * 0x9e3779b97f4a7c15U);
  }
};

}  // namespace

IaKey key_of(const DAT_PROVIDER_INFO& info) noexcept {
  return {std::string_view(info.ia_name, ::strnlen(info.ia_name, sizeof info.ia_name)),
          info.dapl_version_major, info.dapl_version_minor, info.is_thread_safe != DAT_FALSE};
}

Tables::Tables(const Conf& conf) {
  for (const ConfEntry& line : conf.entries) {
    Entry& entry = entries_.emplace_back();
    entry.conf = line;
    entry.info = info_of(line);
  }
}

template <class Visit>
void Tables::for_each_key(Visit&& visit) const {
  for (const Entry& entry : entries_) visit(key_of(entry.info));
  for (const Registration& registration : registrations_) visit(key_of(registration.info));
}

std::vector<Candidate> Tables::candidates(const IaKey& wanted) {
  std::vector<Candidate> found;
  for (Entry& entry : entries_)
    if (matches(key_of(entry.info), wanted))
      found.push_back({&entry, entry.info.dapl_version_minor});
  for (const Registration& registration : registrations_) {
    const IaKey key = key_of(registration.info);
    if (matches(key, wanted) && unowned(key) == &registration)
      found.push_back({nullptr, key.minor});
  }
  std::stable_sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) {
    if (a.minor != b.minor) return a.minor < b.minor;
    const bool a_active = a.entry != nullptr && a.entry->open_ias != 0;
    const bool b_active = b.entry != nullptr && b.entry->open_ias != 0;
    return a_active && !b_active;
  });
  return found;
}

DAT_RETURN Tables::not_found_code(const IaKey& wanted) const {
  // A candidate that matches but could not be used counts as not registered, like an unknown name.
  bool usable = false, name = false, major = false, safety_only = false;
  for_each_key([&](const IaKey& key) {
    if (key.name != wanted.name) return;
    name = true;
    if (key.major != wanted.major) return;
    major = true;
    if (key.minor < wanted.minor) return;
    (key.thread_safe == wanted.thread_safe ? usable : safety_only) = true;
  });
  DAT_RETURN_SUBTYPE subtype = DAT_NAME_NOT_REGISTERED;
  if (usable || !name)
    subtype = DAT_NAME_NOT_REGISTERED;
  else if (!major)
    subtype = DAT_MAJOR_NOT_FOUND;
  else
    subtype = safety_only ? DAT_THREAD_SAFETY_NOT_FOUND : DAT_MINOR_NOT_FOUND;
  return dat_error(DAT_PROVIDER_NOT_FOUND, subtype);
}

std::vector<std::string> Tables::alternatives(std::string_view name) const {
  Unique found;
  for_each_key([&](const IaKey& key) {
    if (key.name != name) return;
    found.add("version " + std::to_string(key.major) + '.' + std::to_string(key.minor) +
              (key.thread_safe ? " threadsafe" : " nonthreadsafe"));
  });
  return found.take();
}

std::vector<std::string> Tables::names() const {
  Unique found;
  for_each_key([&](const IaKey& key) { found.add(std::string(key.name)); });
  return found.take();
}

bool Tables::contains(std::string_view name) const {
  bool known = false;
  for_each_key([&](const IaKey& key) { known = known || key.name == name; });
  return known;
}

Status Tables::add(const DAT_PROVIDER& provider, const DAT_PROVIDER_INFO& info, Entry* owner) {
  for (const Registration& other : registrations_) {
    if (!(key_of(other.info) == key_of(info))) continue;
    // Two entries of one chain may each have a registration of their own.
    const auto defines_key = [&](const Entry* entry) {
      return entry != nullptr && key_of(entry->info) == key_of(info);
    };
    if (owner == other.owner || !defines_key(owner) || !defines_key(other.owner))
      return failure(DAT_PROVIDER_ALREADY_REGISTERED);
  }
  Registration& added = registrations_.emplace_back();
  added.info = info;
  added.provider = &provider;
  added.open = provider.ia_open_func;
  added.extension = provider.handle_extendedop_func;
  added.owner = owner;
  return {};
}

Status Tables::remove(const DAT_PROVIDER& provider, const DAT_PROVIDER_INFO& info,
                      const Entry* caller) {
  auto best = registrations_.end();
  for (auto it = registrations_.begin(); it != registrations_.end(); ++it) {
    if (!(key_of(it->info) == key_of(info))) continue;
    // Of the alternatives of one chain, prefers the caller's own, then one of that provider.
    const bool own = caller != nullptr && it->owner == caller;
    if (best == registrations_.end() || own || it->provider == &provider) best = it;
    if (own) break;
  }
  if (best == registrations_.end()) return failure(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
  if (best->users != 0) return failure(DAT_PROVIDER_IN_USE);
  // If it was removed outside of fini, the next open must call init again.
  if (best->owner != nullptr && best->owner->users == 0) best->owner->initialised = false;
  registrations_.erase(best);
  return {};
}

bool Tables::has_any(const Entry& owner) const {
  return std::any_of(registrations_.begin(), registrations_.end(),
                     [&](const Registration& r) { return r.owner == &owner; });
}

void Tables::remove_all(const Entry& owner) {
  registrations_.remove_if([&](const Registration& r) { return r.owner == &owner; });
}

Registration* Tables::registration_of(const Entry& entry) {
  for (Registration& registration : registrations_)
    if (registration.owner == &entry && key_of(registration.info) == key_of(entry.info))
      return &registration;
  return unowned(key_of(entry.info));
}

Registration* Tables::unowned(const IaKey& key) {
  for (Registration& registration : registrations_)
    if (key_of(registration.info) == key &&
        (registration.owner == nullptr || !(key_of(registration.owner->info) == key)))
      return &registration;
  return nullptr;
}

std::vector<DAT_PROVIDER_INFO> Tables::list() const {
  std::vector<DAT_PROVIDER_INFO> providers;
  std::unordered_set<IaKey, HashKey> listed;  // its names refer to the entries
  for (const Entry& entry : entries_)
    if (listed.insert(key_of(entry.info)).second) providers.push_back(entry.info);
  return providers;
}

}  // namespace udapl::dat
