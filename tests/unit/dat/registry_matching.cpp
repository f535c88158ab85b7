// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Which entry serves a request, and what happens if the first one fails.
#include <boost/test/unit_test.hpp>
#include <string>

#include "tests/unit/dat/registry_fixture.h"

using namespace registry_test;

BOOST_FIXTURE_TEST_SUITE(registry_matching, Fixture)

BOOST_AUTO_TEST_CASE(smallest_sufficient_version_is_opened) {
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

BOOST_AUTO_TEST_CASE(chain_skips_libraries_that_cannot_be_loaded) {
  fake::Library& lib = world.add_library(1, b);
  world.configure(line("ia", 0) + line("ia", 1));
  BOOST_TEST(world.open("ia", &ia) == 0U);
  BOOST_TEST(b.opened == 1);
  BOOST_TEST(world.close(ia) == 0U);
  BOOST_TEST(lib.finis == 1);
}

BOOST_AUTO_TEST_CASE(chain_skips_libraries_that_register_nothing) {
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
  BOOST_TEST(silent.finis == 0);  // it failed, so there is nothing to finalise
  for (const fake::Library* lib : {&other_name, &wrong_version}) {
    BOOST_TEST(lib->inits == 1);
    BOOST_TEST(lib->finis == 1);
  }
  // Their registrations have been removed.
  BOOST_TEST(world.open("not asked for") == kNameNotRegistered);
  BOOST_TEST(world.open("ia", nullptr, 2, 9) == kMinorNotFound);
  BOOST_TEST(world.close(ia) == 0U);
}

BOOST_AUTO_TEST_CASE(chain_skips_providers_that_do_not_open) {
  fake::Library& first = world.add_library(0, a);
  world.add_library(1, b);
  world.configure(line("ia", 0) + line("ia", 1));
  a.open_code = kUnreachable;
  BOOST_TEST(world.open("ia", &ia) == 0U);
  BOOST_TEST(b.opened == 1);
  BOOST_TEST(first.finis == 1);
  BOOST_TEST(world.close(ia) == 0U);
}

BOOST_AUTO_TEST_CASE(code_of_the_first_failed_open_is_returned) {
  world.add_library(1, a);
  world.add_library(2, b);
  world.configure(line("ia", 0) + line("ia", 1) + line("ia", 2));
  a.open_code = kUnreachable;
  b.open_code = dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE);
  BOOST_TEST(world.open("ia") == kUnreachable);
  for (const int lib : {1, 2}) BOOST_TEST(world.libraries.at(lib)->finis == 1);
}

// IAs of one name share an adapter: while one is open, its provider serves all of them.
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

BOOST_AUTO_TEST_SUITE_END()
