// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// How libdat2 is loaded into a process and unloaded, tested with separate programs.
#include "tests/loader/process.h"

#include <array>
#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tests/loader/loader_env.h"

std::string output_of(const std::string& command, const std::string& conf) {
  const std::string line = "DAPL_DBG_TYPE=0 DAT_OVERRIDE='" + conf + "' timeout 60 " + command +
                           " 2>/dev/null; echo \"exit $?\"";
  FILE* pipe = ::popen(line.c_str(), "r");
  BOOST_TEST_REQUIRE(pipe != nullptr);
  std::string text;
  std::array<char, 4096> buffer;
  for (std::size_t got = 0; (got = std::fread(buffer.data(), 1, buffer.size(), pipe)) != 0;)
    text.append(buffer.data(), got);
  ::pclose(pipe);
  return text;
}

BOOST_FIXTURE_TEST_SUITE(process, LoaderEnv)

BOOST_AUTO_TEST_CASE(before_constructors_and_after_destructors) {
  conf(entry("ia", stub("good")));
  BOOST_TEST(output_of(EDGES_PROGRAM, conf_path()) ==
             "first: list 0x80060025, open 0x00000000, close 0x00000000\n"
             "main: list 0x80060025, open 0x00000000, close 0x00000000\n"
             "last: list 0x80070000, open 0x80070000, close 0x80070000\n"
             "exit 0\n");
}

// Providers import the registry's functions from the global scope, where a library loaded with
// RTLD_LOCAL is not. The runtime of a sanitizer works only in the first namespace.
BOOST_AUTO_TEST_CASE(loaded_by_the_application) {
  conf(entry("one", stub("good")) + entry("two", stub("second")));
#ifdef UDAPL_SANITIZED
  const std::vector<const char*> ways{"local", "global"};
#else
  const std::vector<const char*> ways{"local", "global", "namespace"};
#endif
  for (const char* visible : ways)
    BOOST_TEST(output_of(FOREIGN_PROGRAM " " OUR_LIBDAT2 " " + std::string(visible) + " one two",
                         conf_path()) ==
               "open one: 0x00000000\n"
               "ia 0x1, pz_create 0x00000000 same\n"
               "close: 0x00000000\n"
               "open one: 0x00000000\n"
               "ia 0x1, pz_create 0x00000000 same\n"
               "close: 0x00000000\n"
               "open two: 0x00000000\n"
               "ia 0x1, pz_create 0x00000000 same\n"
               "close: 0x00000000\n"
               "open two: 0x00000000\n"
               "ia 0x1, pz_create 0x00000000 same\n"
               "close: 0x00000000\n"
               "exit 0\n");
}

BOOST_AUTO_TEST_SUITE_END()
