// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "tests/fake_transport/registry.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

namespace udapl::fake {

namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::pair<std::string, bool>, const DAT_PROVIDER*> providers;
  std::map<DAT_IA_HANDLE, std::uintptr_t> numbers;
  DAT_RETURN next_code = DAT_SUCCESS;
};

Registry& registry() {
  static auto* const one = new Registry;
  return *one;
}

std::pair<std::string, bool> key(const DAT_PROVIDER_INFO& info) {
  return {info.ia_name, info.is_thread_safe != DAT_FALSE};
}

}  // namespace

const DAT_PROVIDER* registered(const std::string& ia_name, bool thread_safe) {
  const std::scoped_lock lock(registry().mutex);
  const auto found = registry().providers.find({ia_name, thread_safe});
  return found == registry().providers.end() ? nullptr : found->second;
}

void refuse_registration(DAT_RETURN code) {
  const std::scoped_lock lock(registry().mutex);
  registry().next_code = code;
}

DAT_IA_HANDLE note_open(DAT_IA_HANDLE raw) {
  const std::scoped_lock lock(registry().mutex);
  std::uintptr_t number = 1;
  for (const auto& [ia, taken] : registry().numbers)
    if (taken >= number) number = taken + 1;
  registry().numbers[raw] = number;
  return reinterpret_cast<DAT_IA_HANDLE>(number);
}

void note_close(DAT_IA_HANDLE raw) {
  const std::scoped_lock lock(registry().mutex);
  registry().numbers.erase(raw);
}

}  // namespace udapl::fake

DAT_RETURN dat_registry_add_provider(const DAT_PROVIDER* provider, const DAT_PROVIDER_INFO* info) {
  auto& registry = udapl::fake::registry();
  const std::scoped_lock lock(registry.mutex);
  if (const DAT_RETURN code = std::exchange(registry.next_code, DAT_SUCCESS); code != DAT_SUCCESS)
    return code;
  registry.providers[udapl::fake::key(*info)] = provider;
  return DAT_SUCCESS;
}

DAT_RETURN dat_registry_remove_provider(const DAT_PROVIDER* provider,
                                        const DAT_PROVIDER_INFO* info) {
  static_cast<void>(provider);
  auto& registry = udapl::fake::registry();
  const std::scoped_lock lock(registry.mutex);
  return registry.providers.erase(udapl::fake::key(*info)) == 1 ? DAT_SUCCESS
                                                                : DAT_PROVIDER_NOT_FOUND;
}

DAT_RETURN dats_get_ia_handle(DAT_IA_HANDLE handle, DAT_IA_HANDLE* number) {
  auto& registry = udapl::fake::registry();
  const std::scoped_lock lock(registry.mutex);
  const auto found = registry.numbers.find(handle);
  if (found == registry.numbers.end()) return DAT_INVALID_HANDLE;
  *number = reinterpret_cast<DAT_IA_HANDLE>(found->second);
  return DAT_SUCCESS;
}
