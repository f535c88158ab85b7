// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dat/registry.h"

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "tests/unit/dat/registry_fixture.h"

using namespace registry_test;

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

// No caller knows the number of an IA before its open returns; one that guesses it does no harm.
BOOST_AUTO_TEST_CASE(an_ia_that_is_being_opened_cannot_be_closed) {
  world.add_library(0, a);
  world.configure(line("ia", 0));
  DAT_RETURN too_early = DAT_SUCCESS;
  a.during_query = [&] { too_early = world.close(reinterpret_cast<DAT_IA_HANDLE>(1)); };
  BOOST_TEST(world.open("ia", &ia) == 0U);
  BOOST_TEST(ia == reinterpret_cast<DAT_IA_HANDLE>(1));
  BOOST_TEST(too_early == kInvalidIa);
  BOOST_TEST(a.closed == 0);
  BOOST_TEST(world.close(ia) == 0U);
  BOOST_TEST(a.closed == 1);
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
  a.close_code = dat_error(DAT_INVALID_STATE, DAT_INVALID_STATE_IA_IN_USE);
  BOOST_TEST(world.close(ia) == dat_error(DAT_INVALID_STATE, DAT_INVALID_STATE_IA_IN_USE));
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
  BOOST_TEST(world.open("ia") == dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
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

BOOST_AUTO_TEST_CASE(registrations_left_by_fini_are_removed) {
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

BOOST_AUTO_TEST_CASE(registration_stands_in_for_a_missing_library) {
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
  BOOST_TEST(world.registry().add(nullptr, &info).code() ==
             dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1));
  BOOST_TEST(world.registry().add(&a.table, nullptr).code() ==
             dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
  BOOST_TEST(world.registry().remove(nullptr, &info).code() ==
             dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1));
  BOOST_TEST(world.registry().remove(&a.table, nullptr).code() ==
             dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
  const DAT_PROVIDER no_open{};
  BOOST_TEST(world.registry().add(&no_open, &info).code() ==
             dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1));
  for (char& c : info.ia_name) c = 'x';  // no terminator
  BOOST_TEST(world.registry().add(&a.table, &info).code() ==
             dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
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

BOOST_AUTO_TEST_CASE(open_and_close_within_init_are_refused) {
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

BOOST_AUTO_TEST_CASE(provider_that_returns_no_ia) {
  world.configure("");
  DAT_PROVIDER table{};
  table.ia_open_func = [](DAT_NAME_PTR, DAT_COUNT, DAT_EVD_HANDLE*, DAT_IA_HANDLE*) {
    return static_cast<DAT_RETURN>(DAT_SUCCESS);
  };
  const DAT_PROVIDER_INFO info = info_of("ia");
  BOOST_TEST(world.registry().add(&table, &info).ok());
  BOOST_TEST(world.open("ia") == dat_error(DAT_INTERNAL_ERROR));
  BOOST_TEST(world.registry().remove(&table, &info).ok());
}

BOOST_AUTO_TEST_CASE(ias_of_one_provider_are_related) {
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
  BOOST_TEST(answer() == DAT_HA_UNKNOWN);  // no open IA that could be queried
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
  BOOST_TEST(ask(ia_name, other_name).status().code() == dat_error(DAT_MODEL_NOT_SUPPORTED));
  a.table.ia_ha_related_func = c.table.ia_ha_related_func = nullptr;  // no provider can answer
  BOOST_TEST(ask(ia_name, other_name).status().code() == dat_error(DAT_MODEL_NOT_SUPPORTED));
  BOOST_TEST(world.close(ia) == 0U);
  BOOST_TEST(world.close(other_ia) == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
