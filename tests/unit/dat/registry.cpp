// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dat/registry.h"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/dat/fake_provider.h"

namespace {

constexpr DAT_RETURN kNameNotRegistered = 0x800A0064U;
constexpr DAT_RETURN kMajorNotFound = 0x800A0065U;
constexpr DAT_RETURN kMinorNotFound = 0x800A0066U;
constexpr DAT_RETURN kThreadSafetyNotFound = 0x800A0067U;
constexpr DAT_RETURN kInvalidState = 0x80070000U;
constexpr DAT_RETURN kInvalidIa = 0x8005000BU;
constexpr DAT_RETURN kAlreadyRegistered = 0x80100000U;
constexpr DAT_RETURN kInUse = 0x80110000U;
constexpr DAT_RETURN kUnreachable = 0x00120000U;  // without class bits, as old providers return it

std::string line(const std::string& name, int library, const std::string& version = "u2.0",
                 const std::string& safety = "nonthreadsafe") {
  return name + ' ' + version + ' ' + safety + " default lib" + std::to_string(library) +
         ".so dapl.2.0 \"" + name + " params\" \"\"\n";
}

DAT_PROVIDER_INFO info_of(const std::string& name, DAT_UINT32 major = 2, DAT_UINT32 minor = 0) {
  DAT_PROVIDER_INFO info{};
  name.copy(info.ia_name, sizeof info.ia_name - 1);
  info.dapl_version_major = major;
  info.dapl_version_minor = minor;
  return info;
}

struct Fixture {
  fake::World world;
  fake::Provider a{"ia"};
  fake::Provider b{"ia"};
  DAT_IA_HANDLE ia = nullptr;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(registry, Fixture)

BOOST_AUTO_TEST_CASE(life_of_an_entry) {
  fake::Library& lib = world.add_library(0, a);
  DAT_PROVIDER_INFO seen{};
  std::string params;
  auto add = lib.init;
  lib.init = [&](const DAT_PROVIDER_INFO& info, const std::string& text) {
    seen = info;
    params = text;
    add(info, text);
  };
  world.configure(line("ia", 0));
  BOOST_TEST(lib.loads == 0);
  DAT_IA_HANDLE second = nullptr;
  BOOST_TEST(world.open("ia", &ia) == 0U);
  BOOST_TEST(world.open("ia", &second) == 0U);
  BOOST_TEST(ia == reinterpret_cast<DAT_IA_HANDLE>(1));
  BOOST_TEST(second == reinterpret_cast<DAT_IA_HANDLE>(2));
  BOOST_TEST(std::string(seen.ia_name) == "ia");
  BOOST_TEST(seen.dapl_version_major == 2U);
  BOOST_TEST(params == "ia params");
  BOOST_TEST(lib.inits == 1);
  BOOST_TEST(world.close(ia) == 0U);
  BOOST_TEST(lib.finis == 0);
  BOOST_TEST(world.close(second) == 0U);
  BOOST_TEST(lib.finis == 1);
  BOOST_TEST(world.close(second) == kInvalidIa);
  BOOST_TEST(world.open("ia", &ia) == 0U);
  BOOST_TEST(lib.inits == 2);
  BOOST_TEST(lib.loads == 1);  // never unloaded, so not loaded again
  BOOST_TEST(world.close(ia) == 0U);
  BOOST_TEST(lib.finis == 2);
  BOOST_TEST(a.closed == 3);
}

BOOST_AUTO_TEST_CASE(matching) {
  world.add_library(0, a);
  world.configure(line("ia", 0, "u2.1") + line("ia", 0, "u2.3") +
                  line("safe", 0, "u2.0", "threadsafe") + line("old", 0, "u1.2"));
  BOOST_TEST(world.open("ia", &ia, 2, 0) == 0U);  // 2.1: the smallest that suffices
  BOOST_TEST(world.libraries[0]->inits == 1);
  BOOST_TEST(world.close(ia) == 0U);
  for (const std::uint32_t minor : {1U, 2U, 3U}) {
    BOOST_TEST(world.open("ia", &ia, 2, minor) == 0U);
    BOOST_TEST(world.close(ia) == 0U);
  }
  BOOST_TEST(world.open("ia", nullptr, 2, 4) == kMinorNotFound);
  BOOST_TEST(world.open("ia", nullptr, 1, 0) == kMajorNotFound);
  BOOST_TEST(world.open("ia", nullptr, 3, 0) == kMajorNotFound);
  BOOST_TEST(world.open("ia", nullptr, 2, 0, true) == kThreadSafetyNotFound);
  BOOST_TEST(world.open("ia", nullptr, 2, 4, true) == kMinorNotFound);
  BOOST_TEST(world.open("safe") == kThreadSafetyNotFound);
  BOOST_TEST(world.open("safe", &ia, 2, 0, true) == 0U);
  BOOST_TEST(world.close(ia) == 0U);
  BOOST_TEST(world.open("old") == kMajorNotFound);
  BOOST_TEST(world.open("old", &ia, 1, 2) == 0U);
  BOOST_TEST(world.close(ia) == 0U);
  BOOST_TEST(world.open("IA") == kNameNotRegistered);
  BOOST_TEST(world.open("") == kNameNotRegistered);
}

BOOST_AUTO_TEST_CASE(exact_minor_is_preferred_wherever_it_stands) {
  fake::Library& high = world.add_library(0, a);
  fake::Library& exact = world.add_library(1, b);
  world.configure(line("ia", 0, "u2.7") + line("ia", 1, "u2.2"));
  BOOST_TEST(world.open("ia", &ia, 2, 2) == 0U);
  BOOST_TEST(exact.inits == 1);
  BOOST_TEST(high.inits == 0);
  BOOST_TEST(world.close(ia) == 0U);
}

BOOST_AUTO_TEST_CASE(chain_passes_over_what_cannot_be_loaded) {
  fake::Library& lib = world.add_library(1, b);
  world.configure(line("ia", 0) + line("ia", 1));
  BOOST_TEST(world.open("ia", &ia) == 0U);
  BOOST_TEST(b.opened == 1);
  BOOST_TEST(world.close(ia) == 0U);
  BOOST_TEST(lib.finis == 1);
}

BOOST_AUTO_TEST_CASE(chain_passes_over_what_registers_nothing) {
  fake::Library& silent = world.add_library(0);
  fake::Library& other_name = world.add_library(1);
  other_name.init = [&](const DAT_PROVIDER_INFO&, const std::string&) {
    const DAT_PROVIDER_INFO info = info_of("not asked for");
    BOOST_TEST(world.registry().add(&a.table, &info).ok());
  };
  fake::Library& wrong_version = world.add_library(2);
  wrong_version.init = [&](const DAT_PROVIDER_INFO&, const std::string&) {
    const DAT_PROVIDER_INFO info = info_of("ia", 2, 9);
    BOOST_TEST(world.registry().add(&a.table, &info).ok());
  };
  world.add_library(3, b);
  world.configure(line("ia", 0) + line("ia", 1) + line("ia", 2) + line("ia", 3));
  BOOST_TEST(world.open("ia", &ia) == 0U);
  BOOST_TEST(b.opened == 1);
  BOOST_TEST(silent.inits == 1);
  BOOST_TEST(silent.finis == 0);  // it failed: there is nothing to be finalised
  for (const fake::Library* lib : {&other_name, &wrong_version}) {
    BOOST_TEST(lib->inits == 1);
    BOOST_TEST(lib->finis == 1);
  }
  // Nothing of what they registered is left behind.
  BOOST_TEST(world.open("not asked for") == kNameNotRegistered);
  BOOST_TEST(world.open("ia", nullptr, 2, 9) == kMinorNotFound);
  BOOST_TEST(world.close(ia) == 0U);
}

BOOST_AUTO_TEST_CASE(chain_passes_over_what_does_not_open) {
  fake::Library& first = world.add_library(0, a);
  world.add_library(1, b);
  world.configure(line("ia", 0) + line("ia", 1));
  a.open_code = kUnreachable;
  BOOST_TEST(world.open("ia", &ia) == 0U);
  BOOST_TEST(b.opened == 1);
  BOOST_TEST(first.finis == 1);
  BOOST_TEST(world.close(ia) == 0U);
}

BOOST_AUTO_TEST_CASE(code_of_the_first_failed_open_is_returned_unchanged) {
  world.add_library(1, a);
  world.add_library(2, b);
  world.configure(line("ia", 0) + line("ia", 1) + line("ia", 2));
  a.open_code = kUnreachable;
  b.open_code = 0x80030003U;
  BOOST_TEST(world.open("ia") == kUnreachable);
  for (const int lib : {1, 2}) BOOST_TEST(world.libraries.at(lib)->finis == 1);
}

// IAs of one name share an adapter: once one is open, its provider is the one.
BOOST_AUTO_TEST_CASE(chain_stays_with_the_provider_in_use) {
  fake::Library& first = world.add_library(0, a);
  world.add_library(1, b);
  world.configure(line("ia", 0) + line("ia", 1));
  a.open_code = kUnreachable;
  BOOST_TEST(world.open("ia", &ia) == 0U);
  a.open_code = DAT_SUCCESS;  // the first would work now
  DAT_IA_HANDLE second = nullptr;
  BOOST_TEST(world.open("ia", &second) == 0U);
  BOOST_TEST(b.opened == 2);
  b.open_code = kUnreachable;
  BOOST_TEST(world.open("ia") == kUnreachable);
  BOOST_TEST(first.inits == 1);
  BOOST_TEST(world.close(ia) == 0U);
  BOOST_TEST(world.close(second) == 0U);
  b.open_code = DAT_SUCCESS;
  BOOST_TEST(world.open("ia", &ia) == 0U);
  BOOST_TEST(a.opened == 1);
  BOOST_TEST(world.close(ia) == 0U);
}

BOOST_AUTO_TEST_CASE(failed_open_leaves_nothing) {
  fake::Library& lib = world.add_library(0, a);
  world.configure(line("ia", 0));
  a.open_code = kUnreachable;
  std::string name = "ia";
  int marker = 0;
  DAT_EVD_HANDLE evd = &marker;
  BOOST_TEST(world.registry().open({name.data(), 8, &evd, 2, 0, false}).status().code() ==
             kUnreachable);
  BOOST_TEST(evd == &marker);
  BOOST_TEST(lib.finis == 1);
  a.open_code = DAT_SUCCESS;
  BOOST_TEST(world.open("ia", &ia) == 0U);
  BOOST_TEST(ia == reinterpret_cast<DAT_IA_HANDLE>(1));
  BOOST_TEST(world.close(ia) == 0U);
}

BOOST_AUTO_TEST_CASE(refused_close_leaves_the_ia_open) {
  fake::Library& lib = world.add_library(0, a);
  world.configure(line("ia", 0));
  BOOST_TEST(world.open("ia", &ia) == 0U);
  a.close_code = 0x80070050U;
  BOOST_TEST(world.close(ia) == 0x80070050U);
  BOOST_TEST(lib.finis == 0);
  BOOST_TEST(world.table.pointer_of(ia) != nullptr);
  a.close_code = DAT_SUCCESS;
  BOOST_TEST(world.close(ia) == 0U);
}

BOOST_AUTO_TEST_CASE(providers_pointer_closes_too) {
  world.add_library(0, a);
  world.configure(line("ia", 0));
  BOOST_TEST(world.open("ia", &ia) == 0U);
  const DAT_IA_HANDLE pointer = world.table.pointer_of(ia);
  BOOST_TEST(world.close(pointer) == 0U);
  BOOST_TEST(world.close(ia) == kInvalidIa);
  int unknown = 0;
  BOOST_TEST(world.close(&unknown) == kInvalidIa);
  BOOST_TEST(world.close(nullptr) == kInvalidIa);
}

BOOST_AUTO_TEST_CASE(ias_are_counted_when_the_table_is_full) {
  fake::Library& lib = world.add_library(0, a);
  world.configure(line("ia", 0));
  std::vector<std::uint64_t> objects(udapl::dat::IaTable::kMaxHandles);
  for (std::size_t i = 1; i < objects.size(); ++i)
    BOOST_TEST_REQUIRE(world.table.insert(&objects[i]).ok());
  BOOST_TEST(world.open("ia") == 0x80030002U);
  BOOST_TEST(a.opened == 1);
  BOOST_TEST(a.closed == 1);
  BOOST_TEST(lib.finis == 1);
}

BOOST_AUTO_TEST_CASE(library_without_fini_stays_initialised) {
  fake::Library& lib = world.add_library(0, a);
  lib.has_fini = false;
  world.configure(line("ia", 0));
  for (int i = 0; i < 3; ++i) {
    BOOST_TEST(world.open("ia", &ia) == 0U);
    BOOST_TEST(world.close(ia) == 0U);
  }
  BOOST_TEST(lib.inits == 1);
}

BOOST_AUTO_TEST_CASE(fini_that_removes_nothing_is_cleaned_up_after) {
  fake::Library& lib = world.add_library(0, a);
  lib.fini = nullptr;
  world.configure(line("ia", 0));
  for (int i = 1; i <= 3; ++i) {
    BOOST_TEST(world.open("ia", &ia) == 0U);
    BOOST_TEST(world.close(ia) == 0U);
    BOOST_TEST(lib.inits == i);
    BOOST_TEST(lib.finis == i);
  }
}

BOOST_AUTO_TEST_CASE(library_without_init_is_not_found) {
  fake::Library& lib = world.add_library(0, a);
  lib.has_init = false;
  world.configure(line("ia", 0));
  BOOST_TEST(world.open("ia") == kNameNotRegistered);
  BOOST_TEST(lib.finis == 0);
}

BOOST_AUTO_TEST_CASE(library_that_registers_itself_when_loaded) {
  fake::Library& lib = world.add_library(0);
  lib.has_init = false;
  lib.during_load = [&] {
    const DAT_PROVIDER_INFO info = info_of("ia");
    BOOST_TEST(world.registry().add(&a.table, &info).ok());
  };
  world.configure(line("ia", 0));
  for (int i = 0; i < 2; ++i) {
    BOOST_TEST(world.open("ia", &ia) == 0U);
    BOOST_TEST(world.close(ia) == 0U);
  }
  BOOST_TEST(lib.loads == 1);
}

BOOST_AUTO_TEST_CASE(provider_without_configuration) {
  world.configure("");
  const DAT_PROVIDER_INFO info = info_of("ia", 2, 1);
  BOOST_TEST(world.registry().add(&a.table, &info).ok());
  BOOST_TEST(world.registry().add(&b.table, &info).code() == kAlreadyRegistered);
  BOOST_TEST(world.open("ia", &ia) == 0U);
  BOOST_TEST(world.registry().remove(&a.table, &info).code() == kInUse);
  BOOST_TEST(world.close(ia) == 0U);
  BOOST_TEST(world.registry().remove(&a.table, &info).ok());
  BOOST_TEST(world.registry().remove(&a.table, &info).code() == kNameNotRegistered);
  BOOST_TEST(world.open("ia") == kNameNotRegistered);
  BOOST_TEST(world.registry().list().empty());
}

BOOST_AUTO_TEST_CASE(registration_stands_in_for_a_library_that_is_missing) {
  world.configure(line("ia", 0));
  const DAT_PROVIDER_INFO info = info_of("ia");
  BOOST_TEST(world.registry().add(&a.table, &info).ok());
  BOOST_TEST(world.open("ia", &ia) == 0U);
  BOOST_TEST(a.opened == 1);
  BOOST_TEST(world.close(ia) == 0U);
}

BOOST_AUTO_TEST_CASE(withdrawn_provider_is_initialised_again) {
  fake::Library& lib = world.add_library(0, a);
  lib.has_fini = false;
  world.configure(line("ia", 0));
  BOOST_TEST(world.open("ia", &ia) == 0U);
  BOOST_TEST(world.close(ia) == 0U);
  const DAT_PROVIDER_INFO info = info_of("ia");
  BOOST_TEST(world.registry().remove(&a.table, &info).ok());
  BOOST_TEST(world.open("ia", &ia) == 0U);
  BOOST_TEST(lib.inits == 2);
  BOOST_TEST(world.close(ia) == 0U);
}

BOOST_AUTO_TEST_CASE(names_registered_by_another_entrys_init) {
  fake::Library& lib = world.add_library(0);
  lib.init = [&](const DAT_PROVIDER_INFO& info, const std::string&) {
    const DAT_PROVIDER_INFO extra = info_of("extra");
    BOOST_TEST(world.registry().add(&a.table, &info).ok());
    BOOST_TEST(world.registry().add(&a.table, &extra).ok());
  };
  world.configure(line("ia", 0));
  BOOST_TEST(world.open("ia", &ia) == 0U);
  DAT_IA_HANDLE extra = nullptr;
  BOOST_TEST(world.open("extra", &extra) == 0U);
  BOOST_TEST(world.close(ia) == 0U);
  BOOST_TEST(lib.finis == 0);  // "extra" still uses it
  BOOST_TEST(world.close(extra) == 0U);
  BOOST_TEST(lib.finis == 1);
}

BOOST_AUTO_TEST_CASE(add_and_remove_check_their_arguments) {
  world.configure("");
  DAT_PROVIDER_INFO info = info_of("ia");
  BOOST_TEST(world.registry().add(nullptr, &info).code() == 0x80060025U);
  BOOST_TEST(world.registry().add(&a.table, nullptr).code() == 0x80060026U);
  BOOST_TEST(world.registry().remove(nullptr, &info).code() == 0x80060025U);
  BOOST_TEST(world.registry().remove(&a.table, nullptr).code() == 0x80060026U);
  const DAT_PROVIDER no_open{};
  BOOST_TEST(world.registry().add(&no_open, &info).code() == 0x80060025U);
  for (char& c : info.ia_name) c = 'x';  // no terminator
  BOOST_TEST(world.registry().add(&a.table, &info).code() == 0x80060026U);
}

BOOST_AUTO_TEST_CASE(list_has_each_key_once_in_file_order) {
  world.configure(line("z", 0) + line("a", 0) + line("z", 1) + line("z", 0, "u2.1") +
                  line("k", 0, "k2.0") + line("z", 0, "u2.0", "threadsafe"));
  const std::vector<DAT_PROVIDER_INFO> list = world.registry().list();
  BOOST_TEST_REQUIRE(list.size() == 4U);
  BOOST_TEST(std::string(list[0].ia_name) == "z");
  BOOST_TEST(std::string(list[1].ia_name) == "a");
  BOOST_TEST(list[2].dapl_version_minor == 1U);
  BOOST_CHECK(list[3].is_thread_safe == DAT_TRUE);
}

BOOST_AUTO_TEST_CASE(open_and_close_from_inside_init_and_fini_are_refused) {
  fake::Library& lib = world.add_library(0, a);
  fake::Library& other = world.add_library(1, b);
  DAT_IA_HANDLE other_ia = nullptr;
  DAT_RETURN in_init = 0, in_fini = 0, close_in_fini = 0;
  auto add = lib.init;
  auto remove = lib.fini;
  lib.init = [&](const DAT_PROVIDER_INFO& info, const std::string& params) {
    in_init = world.open("other");
    add(info, params);
  };
  lib.fini = [&](const DAT_PROVIDER_INFO& info) {
    in_fini = world.open("other");
    close_in_fini = world.close(other_ia);
    remove(info);
  };
  world.configure(line("ia", 0) + line("other", 1));
  BOOST_TEST(world.open("other", &other_ia) == 0U);
  BOOST_TEST(world.open("ia", &ia) == 0U);
  BOOST_TEST(world.close(ia) == 0U);
  BOOST_TEST(in_init == kInvalidState);
  BOOST_TEST(in_fini == kInvalidState);
  BOOST_TEST(close_in_fini == kInvalidState);
  BOOST_TEST(other.inits == 1);
  BOOST_TEST(world.close(other_ia) == 0U);
}

BOOST_AUTO_TEST_CASE(constructors_and_opens_may_use_the_registry) {
  fake::Library& lib = world.add_library(0, a);
  world.add_library(1, b);
  lib.during_load = [&] {
    DAT_IA_HANDLE inner = nullptr;
    BOOST_TEST(world.registry().list().size() == 2U);
    BOOST_TEST(world.open("other", &inner) == 0U);
    BOOST_TEST(world.close(inner) == 0U);
  };
  a.during_open = [&] {
    DAT_IA_HANDLE inner = nullptr;
    BOOST_TEST(world.open("other", &inner) == 0U);
    BOOST_TEST(world.close(inner) == 0U);
  };
  world.configure(line("ia", 0) + line("other", 1));
  BOOST_TEST(world.open("ia", &ia) == 0U);
  BOOST_TEST(world.close(ia) == 0U);
  BOOST_TEST(b.opened == 2);
}

BOOST_AUTO_TEST_CASE(provider_that_gives_no_ia) {
  world.configure("");
  DAT_PROVIDER table{};
  table.ia_open_func = [](DAT_NAME_PTR, DAT_COUNT, DAT_EVD_HANDLE*, DAT_IA_HANDLE*) {
    return static_cast<DAT_RETURN>(DAT_SUCCESS);
  };
  const DAT_PROVIDER_INFO info = info_of("ia");
  BOOST_TEST(world.registry().add(&table, &info).ok());
  BOOST_TEST(world.open("ia") == 0x80040000U);
  BOOST_TEST(world.registry().remove(&table, &info).ok());
}

BOOST_AUTO_TEST_CASE(related) {
  fake::Provider c("other");
  world.add_library(0, a);
  world.add_library(1, c);
  world.configure(line("ia", 0) + line("other", 1));
  std::string ia_name = "ia", other_name = "other", unknown = "unknown";
  const auto ask = [&](std::string& one, std::string& two) {
    return world.registry().related(one.data(), two.data());
  };
  const auto answer = [&] {
    auto result = ask(ia_name, other_name);
    return result.ok() ? static_cast<int>(*result) : -1;
  };
  BOOST_TEST(ask(unknown, ia_name).status().code() == kNameNotRegistered);
  BOOST_TEST(ask(ia_name, unknown).status().code() == kNameNotRegistered);
  BOOST_TEST(answer() == DAT_HA_UNKNOWN);  // nothing open that could be asked
  DAT_IA_HANDLE other_ia = nullptr;
  BOOST_TEST(world.open("ia", &ia) == 0U);
  BOOST_TEST(answer() == DAT_HA_FALSE);
  a.related_answer = DAT_TRUE;
  BOOST_TEST(answer() == DAT_HA_TRUE);
  BOOST_TEST(world.open("other", &other_ia) == 0U);
  BOOST_TEST(answer() == DAT_HA_CONFLICTING);
  c.related_answer = DAT_TRUE;
  BOOST_TEST(answer() == DAT_HA_TRUE);
  c.related_code = 0x00090000U;
  BOOST_TEST(answer() == DAT_HA_TRUE);
  a.related_code = 0x00090000U;
  BOOST_TEST(ask(ia_name, other_name).status().code() == 0x80090000U);
  BOOST_TEST(world.close(ia) == 0U);
  BOOST_TEST(world.close(other_ia) == 0U);
}

// ---- threads ----

BOOST_AUTO_TEST_CASE(concurrent_first_opens_initialise_once) {
  constexpr int kThreads = 8;
  fake::Library& lib = world.add_library(0, a);
  auto add = lib.init;
  lib.init = [&](const DAT_PROVIDER_INFO& info, const std::string& params) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    add(info, params);
  };
  world.configure(line("ia", 0));
  std::vector<DAT_IA_HANDLE> ias(kThreads);
  std::vector<DAT_RETURN> codes(kThreads, 1U);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] { codes[i] = world.open("ia", &ias[i]); });
  for (std::thread& thread : threads) thread.join();
  for (const DAT_RETURN code : codes) BOOST_TEST(code == 0U);
  BOOST_TEST(lib.inits == 1);
  for (const DAT_IA_HANDLE open : ias) BOOST_TEST(world.close(open) == 0U);
  BOOST_TEST(lib.finis == 1);
}

// Opens and closes of two names in one library and a chain: init and fini alternate and never
// overlap, no open reaches a provider that is not initialised, nothing is left.
BOOST_AUTO_TEST_CASE(opens_and_closes_from_many_threads) {
  constexpr int kThreads = 6;
  constexpr int kRounds = 300;
  fake::Provider chained("chain");
  std::array<std::atomic<bool>, 3> alive{};
  std::atomic<int> wrong{0};
  const auto guard = [&](std::size_t index, fake::Library& lib, fake::Provider& provider) {
    auto add = lib.init;
    auto remove = lib.fini;
    lib.init = [&, add, index](const DAT_PROVIDER_INFO& info, const std::string& params) {
      if (alive[index].exchange(true)) ++wrong;
      add(info, params);
    };
    lib.fini = [&, remove, index](const DAT_PROVIDER_INFO& info) {
      if (!alive[index].exchange(false)) ++wrong;
      remove(info);
    };
    provider.during_open = [&, index] {
      if (!alive[index]) ++wrong;
    };
  };
  guard(0, world.add_library(0, a), a);
  guard(1, world.add_library(1, b), b);
  guard(2, world.add_library(2, chained), chained);
  b.open_code = kUnreachable;
  world.configure(line("ia", 0) + line("chain", 1) + line("chain", 2));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < kRounds; ++round) {
        DAT_IA_HANDLE handle = nullptr;
        if (world.open(t % 2 == 0 ? "ia" : "chain", &handle) != DAT_SUCCESS) {
          ++wrong;
          continue;
        }
        if (world.close(handle) != DAT_SUCCESS) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  BOOST_TEST(wrong == 0);
  BOOST_TEST(!world.overlapped);
  for (const auto& still : alive) BOOST_TEST(!still);
  BOOST_TEST(a.opened + chained.opened == kThreads * kRounds);
  BOOST_TEST(a.closed == a.opened);
  BOOST_TEST(chained.closed == chained.opened);
}

BOOST_AUTO_TEST_CASE(only_one_of_two_closes_succeeds) {
  world.add_library(0, a);
  world.configure(line("ia", 0));
  for (int round = 0; round < 200; ++round) {
    BOOST_TEST_REQUIRE(world.open("ia", &ia) == 0U);
    DAT_RETURN codes[2] = {1, 1};
    std::thread one([&] { codes[0] = world.close(ia); });
    std::thread two([&] { codes[1] = world.close(ia); });
    one.join();
    two.join();
    BOOST_TEST(
        ((codes[0] == 0U && codes[1] == kInvalidIa) || (codes[1] == 0U && codes[0] == kInvalidIa)));
  }
  BOOST_TEST(a.closed == 200);
}

// An IA that is being asked is not closed under the question.
BOOST_AUTO_TEST_CASE(related_while_ias_come_and_go) {
  world.add_library(0, a);
  world.configure(line("ia", 0));
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::thread asker([&] {
    std::string one = "ia", two = "ia";
    while (!stop)
      if (!world.registry().related(one.data(), two.data()).ok()) ++wrong;
  });
  for (int round = 0; round < 500; ++round) {
    BOOST_TEST_REQUIRE(world.open("ia", &ia) == 0U);
    BOOST_TEST_REQUIRE(world.close(ia) == 0U);
  }
  stop = true;
  asker.join();
  BOOST_TEST(wrong == 0);
}

BOOST_AUTO_TEST_SUITE_END()
