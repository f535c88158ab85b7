// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "tests/unit/dat/fake_provider.h"

#include <boost/test/unit_test.hpp>
#include <utility>

namespace fake {

namespace {

// The target of an IA handle: the first word is DAT's, the rest is ours.
struct Ia {
  const DAT_PROVIDER* table;
  Provider* provider;
};

Provider& provider_of(DAT_HANDLE ia) { return *static_cast<Ia*>(ia)->provider; }

DAT_RETURN ia_open(DAT_NAME_PTR name, DAT_COUNT, DAT_EVD_HANDLE* async_evd, DAT_IA_HANDLE* ia,
                   Provider* provider) {
  (void)name;
  if (provider->during_open) provider->during_open();
  if (provider->open_code != DAT_SUCCESS) {
    // The results that a failing provider has written must not reach the caller.
    *ia = reinterpret_cast<DAT_IA_HANDLE>(0xDEAD0000);
    if (async_evd != nullptr) *async_evd = *ia;
    return provider->open_code;
  }
  ++provider->opened;
  *ia = new Ia{&provider->table, provider};
  return DAT_SUCCESS;
}

DAT_RETURN ia_close(DAT_IA_HANDLE ia, DAT_CLOSE_FLAGS) {
  Provider& provider = provider_of(ia);
  if (provider.close_code != DAT_SUCCESS) return provider.close_code;
  ++provider.closed;
  delete static_cast<Ia*>(ia);
  return DAT_SUCCESS;
}

DAT_RETURN ia_query(DAT_IA_HANDLE ia, DAT_EVD_HANDLE*, DAT_IA_ATTR_MASK, DAT_IA_ATTR* attr,
                    DAT_PROVIDER_ATTR_MASK, DAT_PROVIDER_ATTR*) {
  ++provider_of(ia).queried;
  if (provider_of(ia).during_query) provider_of(ia).during_query();
  attr->extension_supported = static_cast<DAT_EXTENSION>(provider_of(ia).extension_supported);
  return DAT_SUCCESS;
}

DAT_RETURN ia_ha_related(DAT_IA_HANDLE ia, DAT_NAME_PTR, DAT_BOOLEAN* answer) {
  if (provider_of(ia).during_related) provider_of(ia).during_related();
  *answer = provider_of(ia).related_answer;
  return provider_of(ia).related_code;
}

// C function pointers have no context, so each library has its own pair of functions and each
// provider its own open function.
template <std::size_t Index>
void init(const DAT_PROVIDER_INFO* info, const char* params) {
  World& world = *World::current;
  if (++world.calls_in_init_or_fini != 1) world.overlapped = true;
  Library& library = *world.libraries[Index];
  ++library.inits;
  if (library.init) library.init(*info, params);
  --world.calls_in_init_or_fini;
}

template <std::size_t Index>
void fini(const DAT_PROVIDER_INFO* info) {
  World& world = *World::current;
  if (++world.calls_in_init_or_fini != 1) world.overlapped = true;
  Library& library = *world.libraries[Index];
  ++library.finis;
  if (library.fini) library.fini(*info);
  --world.calls_in_init_or_fini;
}

constexpr std::size_t kProviders = 16;
std::array<Provider*, kProviders> providers{};
std::size_t next_provider = 0;

template <std::size_t Index>
DAT_RETURN open_of(DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE* evd, DAT_IA_HANDLE* ia) {
  return ia_open(name, qlen, evd, ia, providers[Index]);
}

template <std::size_t... Index>
constexpr auto entry_points(std::index_sequence<Index...>) {
  return std::array<udapl::dat::ProviderEntryPoints, sizeof...(Index)>{
      udapl::dat::ProviderEntryPoints{&init<Index>, &fini<Index>}...};
}
template <std::size_t... Index>
constexpr auto open_functions(std::index_sequence<Index...>) {
  return std::array<DAT_IA_OPEN_FUNC, sizeof...(Index)>{&open_of<Index>...};
}

constexpr auto kEntryPoints = entry_points(std::make_index_sequence<World::kLibraries>());
constexpr auto kOpenFunctions = open_functions(std::make_index_sequence<kProviders>());

}  // namespace

World* World::current = nullptr;

Provider::Provider(std::string device_name) : device_name_(std::move(device_name)) {
  const std::size_t index = next_provider++ % kProviders;
  providers[index] = this;
  table.device_name = device_name_.c_str();
  table.ia_open_func = kOpenFunctions[index];
  table.ia_query_func = &ia_query;
  table.ia_close_func = &ia_close;
  table.ia_ha_related_func = &ia_ha_related;
}

World::World() { current = this; }

World::~World() { current = nullptr; }

Library& World::add_library(std::size_t index) {
  libraries.at(index) = std::make_unique<Library>();
  return *libraries[index];
}

Library& World::add_library(std::size_t index, Provider& provider) {
  Library& library = add_library(index);
  library.init = [&](const DAT_PROVIDER_INFO& info, const std::string&) {
    BOOST_TEST(registry().add(&provider.table, &info).ok());
  };
  library.fini = [&](const DAT_PROVIDER_INFO& info) {
    BOOST_TEST(registry().remove(&provider.table, &info).ok());
  };
  return library;
}

void World::configure(const std::string& conf_text) {
  udapl::dat::ConfFile file;
  file.attempts = {{"dat.conf", ""}};
  file.conf = udapl::dat::parse_conf(conf_text);
  registry_ = std::make_unique<udapl::dat::Registry>(std::move(file), *this, table);
}

DAT_RETURN World::open(const std::string& name, DAT_IA_HANDLE* ia, std::uint32_t major,
                       std::uint32_t minor, bool thread_safe) {
  std::string copy = name;
  DAT_EVD_HANDLE async_evd = nullptr;
  auto opened = registry().open({copy.data(), 8, &async_evd, major, minor, thread_safe});
  if (!opened.ok()) return opened.status().code();
  if (ia != nullptr) *ia = opened->ia;
  return DAT_SUCCESS;
}

DAT_RETURN World::close(DAT_IA_HANDLE ia) {
  return registry().close(ia, DAT_CLOSE_ABRUPT_FLAG).code();
}

udapl::dat::LoadResult World::load(const std::string& path) {
  udapl::dat::LoadResult result;
  for (std::size_t i = 0; i < kLibraries; ++i) {
    if (libraries[i] == nullptr || path != "lib" + std::to_string(i) + ".so") continue;
    Library& library = *libraries[i];
    ++library.loads;
    if (library.during_load) library.during_load();
    result.loaded = true;
    if (library.has_init) result.entry_points.init = kEntryPoints[i].init;
    if (library.has_fini) result.entry_points.fini = kEntryPoints[i].fini;
    return result;
  }
  result.failure = path + ": no such library";
  return result;
}

}  // namespace fake
