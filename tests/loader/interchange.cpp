// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Our registry with the providers of a packaged uDAPL, and the packaged registry with a provider
// linked as ours are. The same program runs on both registries and must print the same.
#include <boost/test/unit_test.hpp>
#include <string>

#include "tests/loader/loader_env.h"
#include "tests/loader/process.h"

namespace {

constexpr const char* kProviders[] = {"libdaplofa.so.2", "libdaploscm.so.2", "libdaploucm.so.2"};

std::string packaged(const std::string& library) {
  return std::string(PACKAGED_FOLDER "/") + library;
}

std::string run_on(const std::string& libdat2, const std::string& names, const std::string& conf) {
  // The packaged registry leaks memory, which is not tested here.
  const char* leaks = libdat2 == OUR_LIBDAT2 ? "" : "env ASAN_OPTIONS=detect_leaks=0 ";
  return output_of(leaks + std::string(FOREIGN_PROGRAM " ") + libdat2 + " global " + names, conf);
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(interchange, LoaderEnv)

// There is no RDMA device of that name. Each provider returns its own code, which is passed on.
BOOST_AUTO_TEST_CASE(packaged_providers_report_their_own_error) {
  for (const char* provider : kProviders) {
    conf(entry("ia", packaged(provider), "nosuchdevice 1"));
    const std::string ours = run_on(OUR_LIBDAT2, "ia", conf_path());
    BOOST_TEST_INFO(provider << " on ours: " << ours);
    BOOST_TEST(ours == run_on(packaged("libdat2.so.2"), "ia", conf_path()));
    BOOST_TEST(contains(ours, "open ia: 0x00"));  // without class bits, so not from our registry
    BOOST_TEST(contains(ours, "exit 0\n"));
  }
}

// If ia_params has no blank, they register nothing, and would crash if their fini were called.
BOOST_AUTO_TEST_CASE(packaged_providers_that_register_nothing) {
  for (const char* provider : kProviders) {
    conf(entry("ia", packaged(provider), "noblank"));
    const std::string ours = run_on(OUR_LIBDAT2, "ia", conf_path());
    BOOST_TEST(contains(ours, "open ia: 0x800a0064\nopen ia: 0x800a0064\nexit 0\n"));
  }
}

BOOST_AUTO_TEST_CASE(packaged_providers_together) {
  std::string text, names;
  for (const char* provider : kProviders) {
    text += entry(provider, packaged(provider), "nosuchdevice 1");
    names += std::string(" ") + provider;
  }
  conf(text + entry("stub", stub("good")));
  const std::string ours = run_on(OUR_LIBDAT2, names + " stub" + names, conf_path());
  BOOST_TEST(ours == run_on(packaged("libdat2.so.2"), names + " stub" + names, conf_path()));
  BOOST_TEST(contains(ours, "close: 0x00000000\n"));
}

BOOST_AUTO_TEST_CASE(packaged_registry_loads_a_provider_like_ours) {
  conf(entry("one", stub("good")) + entry("two", stub("second")) +
       entry("absent", stub("good"), "open_fails") + entry("nothing", stub("good"), "nothing"));
  const std::string names = "one two absent nothing unknown";
  const std::string theirs = run_on(packaged("libdat2.so.2"), names, conf_path());
  BOOST_TEST_INFO(theirs);
  BOOST_TEST(contains(theirs,
                      "open one: 0x00000000\nia 0x1, pz_create 0x00000000 same\n"
                      "close: 0x00000000\n"));
  BOOST_TEST(theirs == run_on(OUR_LIBDAT2, names, conf_path()));
}

BOOST_AUTO_TEST_SUITE_END()
