// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// dat_registry_list_providers and its use of dat.conf. Names are those of
// tests/conformance/checklist.cpp.
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include <sys/resource.h>

#include "tests/loader/loader_env.h"

namespace {

struct Listed {
  DAT_RETURN code = 1;
  DAT_COUNT count = -1;
  std::vector<DAT_PROVIDER_INFO> infos;
};

// Calls the function with room for `max` entries.
Listed list_providers(DAT_COUNT max) {
  Listed listed;
  listed.infos.resize(static_cast<std::size_t>(max));
  std::vector<DAT_PROVIDER_INFO*> pointers;
  for (DAT_PROVIDER_INFO& info : listed.infos) pointers.push_back(&info);
  listed.code = dat_registry_list_providers(max, &listed.count, pointers.data());
  return listed;
}

DAT_COUNT total() {
  DAT_COUNT count = -1;
  BOOST_TEST(dat_registry_list_providers(0, &count, nullptr) ==
             dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1));
  return count;
}

std::string numbered_entries(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += entry("ia" + std::to_string(i), "none.so");
  return text;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(list, LoaderEnv)

BOOST_AUTO_TEST_CASE(reg_list_no_ia_needed) {
  conf(numbered_entries(2));
  run([] { BOOST_TEST(list_providers(5).code == 0U); });
}

BOOST_AUTO_TEST_CASE(reg_list_zero_max) {
  conf(numbered_entries(3));
  run([] {
    DAT_COUNT count = -1;
    BOOST_TEST(dat_registry_list_providers(0, &count, nullptr) ==
               dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1));
    BOOST_TEST(count == 3);
  });
}

// Neither "all" nor an error, as in OpenFabrics.
BOOST_AUTO_TEST_CASE(reg_list_negative_max) {
  conf(numbered_entries(3));
  run([] {
    for (const DAT_COUNT max : {-1, -3, std::numeric_limits<DAT_COUNT>::min()}) {
      DAT_PROVIDER_INFO info{};
      DAT_PROVIDER_INFO* list[] = {&info};
      DAT_COUNT count = -1;
      BOOST_TEST(dat_registry_list_providers(max, &count, list) == 0U);
      BOOST_TEST(count == 0);
      BOOST_TEST(info.ia_name[0] == '\0');
      BOOST_TEST(dat_registry_list_providers(max, &count, nullptr) ==
                 dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
      BOOST_TEST(dat_registry_list_providers(max, nullptr, list) ==
                 dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    }
  });
}

BOOST_AUTO_TEST_CASE(reg_list_null_count) {
  conf(numbered_entries(1));
  run([] {
    DAT_PROVIDER_INFO info{};
    DAT_PROVIDER_INFO* list[] = {&info};
    BOOST_TEST(dat_registry_list_providers(1, nullptr, list) ==
               dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    BOOST_TEST(dat_registry_list_providers(0, nullptr, nullptr) ==
               dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
  });
}

BOOST_AUTO_TEST_CASE(reg_list_null_list) {
  conf(numbered_entries(2));
  run([] {
    DAT_COUNT count = -1;
    BOOST_TEST(dat_registry_list_providers(2, &count, nullptr) ==
               dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
    BOOST_TEST(count == 0);
    DAT_PROVIDER_INFO info{};
    DAT_PROVIDER_INFO* hole[] = {&info, nullptr};
    count = -1;
    BOOST_TEST(dat_registry_list_providers(2, &count, hole) ==
               dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
    BOOST_TEST(count == 0);
    BOOST_TEST(info.ia_name[0] == '\0');  // either all entries are written or none
    BOOST_TEST(dat_registry_list_providers(1, &count, hole) == 0U);  // the hole is not reached
  });
}

BOOST_AUTO_TEST_CASE(reg_list_exact_fit) {
  conf(numbered_entries(3));
  run([] {
    const Listed listed = list_providers(3);
    BOOST_TEST(listed.code == 0U);
    BOOST_TEST(listed.count == 3);
    BOOST_TEST(std::string(listed.infos[2].ia_name) == "ia2");
  });
}

BOOST_AUTO_TEST_CASE(reg_list_small_max) {
  conf(numbered_entries(3));
  run([] {
    const Listed listed = list_providers(2);
    BOOST_TEST(listed.code == 0U);
    BOOST_TEST(listed.count == 2);
    BOOST_TEST(std::string(listed.infos[1].ia_name) == "ia1");
  });
}

BOOST_AUTO_TEST_CASE(reg_list_contents) {
  conf(entry("first", "a.so") + entry("second", "b.so", "p", "u1.2", "threadsafe") +
       entry("first", "c.so"));
  run([] {
    const Listed listed = list_providers(10);
    BOOST_TEST_REQUIRE(listed.count == 2);  // one key, listed once
    BOOST_TEST(std::string(listed.infos[0].ia_name) == "first");
    BOOST_TEST(listed.infos[0].dapl_version_major == 2U);
    BOOST_TEST(listed.infos[0].dapl_version_minor == 0U);
    BOOST_CHECK(listed.infos[0].is_thread_safe == DAT_FALSE);
    BOOST_TEST(std::string(listed.infos[1].ia_name) == "second");
    BOOST_TEST(listed.infos[1].dapl_version_major == 1U);
    BOOST_TEST(listed.infos[1].dapl_version_minor == 2U);
    BOOST_CHECK(listed.infos[1].is_thread_safe == DAT_TRUE);
  });
}

BOOST_AUTO_TEST_CASE(reg_list_only_default_u) {
  conf(entry("k", "a.so", "p", "k2.0") +
       entry("n", "a.so", "p", "u2.0", "nonthreadsafe", "nondefault") + entry("yes", "a.so"));
  run([] {
    const Listed listed = list_providers(5);
    BOOST_TEST_REQUIRE(listed.count == 1);
    BOOST_TEST(std::string(listed.infos[0].ia_name) == "yes");
  });
}

BOOST_AUTO_TEST_CASE(reg_list_empty) {
  conf("");
  run([] {
    BOOST_TEST(total() == 0);
    const Listed listed = list_providers(5);
    BOOST_TEST(listed.code == 0U);
    BOOST_TEST(listed.count == 0);
  });
}

BOOST_AUTO_TEST_CASE(reg_conf_override) {
  conf(entry("only-in-the-override", "a.so"));
  run([] {
    const Listed listed = list_providers(100);
    BOOST_TEST_REQUIRE(listed.count == 1);
    BOOST_TEST(std::string(listed.infos[0].ia_name) == "only-in-the-override");
  });
}

BOOST_AUTO_TEST_CASE(reg_conf_override_missing) {
  run([] { BOOST_TEST(total() == 0); });  // no conf(): the file does not exist
}

BOOST_AUTO_TEST_CASE(reg_conf_read_once) {
  conf(numbered_entries(1));
  run([this] {
    BOOST_TEST(total() == 1);
    conf(numbered_entries(5));
    BOOST_TEST(total() == 1);
  });
}

BOOST_AUTO_TEST_CASE(reg_conf_comments_blank) {
  conf("# comment\n\n   \t\n" + entry("a", "a.so") + "  # indented\n\n" + entry("b", "a.so"));
  run([] { BOOST_TEST(total() == 2); });
}

BOOST_AUTO_TEST_CASE(reg_conf_bad_line_skipped) {
  conf("bad\n" + entry("a", "a.so") + "\"open\nworse \"\n" + entry("b", "a.so"));
  run([] { BOOST_TEST(total() == 2); });
}

BOOST_AUTO_TEST_CASE(reg_conf_long_name) {
  conf(entry(std::string(256, 'x'), "a.so") + entry(std::string(255, 'y'), "a.so"));
  run([] {
    const Listed listed = list_providers(5);
    BOOST_TEST_REQUIRE(listed.count == 1);
    BOOST_TEST(std::string(listed.infos[0].ia_name) == std::string(255, 'y'));
  });
}

BOOST_AUTO_TEST_CASE(reg_conf_bad_version) {
  conf(entry("a", "a.so", "p", "2.0") + entry("b", "a.so", "p", "u2") +
       entry("c", "a.so", "p", "ux.y") + entry("d", "a.so", "p", "u2.0.0"));
  run([] { BOOST_TEST(total() == 0); });
}

BOOST_AUTO_TEST_CASE(reg_conf_crlf) {
  conf("# from Windows\r\na u2.0 nonthreadsafe default l.so d.1.0 \"p\" \"\"\r\n");
  run([] { BOOST_TEST(total() == 1); });
}

// The first call is made while no descriptor is free: it fails with that error, and a later call
// reads dat.conf.
BOOST_AUTO_TEST_CASE(reg_list_without_descriptors) {
  conf(numbered_entries(2));
  run([] {
    rlimit before{};
    BOOST_REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
    const rlimit none{0, before.rlim_max};
    BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
    const DAT_RETURN code = list_providers(5).code;
    BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
    BOOST_TEST(code == dat_error(DAT_INSUFFICIENT_RESOURCES));
    const Listed listed = list_providers(5);
    BOOST_TEST(listed.code == 0U);
    BOOST_TEST(listed.count == 2);
  });
}

BOOST_AUTO_TEST_SUITE_END()
