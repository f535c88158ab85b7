// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Opening through the C API: which library is used, and which error is returned. Names are those of
// tests/conformance/checklist.cpp.
#include <boost/test/unit_test.hpp>
#include <string>

#include "tests/loader/loader_env.h"

namespace {
constexpr DAT_RETURN kNameNotRegistered =
    dat_error(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
}  // namespace

BOOST_FIXTURE_TEST_SUITE(open, LoaderEnv)

BOOST_AUTO_TEST_CASE(reg_conf_quoted_fields) {
  conf(R"("quoted name" "u2.0" nonthreadsafe default ")" + stub("good") +
       R"(" stub.1.0 "good \"a\" \\ # b" "")");
  run([] {
    DAT_IA_HANDLE ia = nullptr;
    BOOST_TEST_REQUIRE(open_ia("quoted name", &ia) == 0U);
    BOOST_TEST(std::string(log_of("good").params) == R"(good "a" \ # b)");
    BOOST_TEST(close_ia(ia) == 0U);
  });
}

BOOST_AUTO_TEST_CASE(reg_conf_duplicate_fallback) {
  conf(entry("ia", "/nowhere/none.so") + entry("ia", stub("unresolved")) +
       entry("ia", stub("no_init")) + entry("ia", stub("good")));
  run([] {
    DAT_IA_HANDLE ia = nullptr;
    BOOST_TEST_REQUIRE(open_ia("ia", &ia) == 0U);
    BOOST_TEST(log_of("good").opens == 1);
    BOOST_TEST(close_ia(ia) == 0U);
  });
}

BOOST_AUTO_TEST_CASE(reg_open_failure_fallback) {
  conf(entry("ia", stub("good"), "open_fails") + entry("ia", stub("second"), "good"));
  run([] {
    DAT_IA_HANDLE ia = nullptr;
    BOOST_TEST_REQUIRE(open_ia("ia", &ia) == 0U);
    BOOST_TEST(log_of("good").finis == 1);
    BOOST_TEST(log_of("second").opens == 1);
    BOOST_TEST(close_ia(ia) == 0U);
  });
}

BOOST_AUTO_TEST_CASE(reg_open_unknown_name) {
  conf(entry("ia", stub("good")));
  run([] {
    int marker = 0;
    DAT_IA_HANDLE ia = &marker;
    BOOST_TEST(open_ia("other", &ia) == kNameNotRegistered);
    BOOST_TEST(open_ia("ia ", &ia) == kNameNotRegistered);
    BOOST_TEST(ia == &marker);
  });
}

BOOST_AUTO_TEST_CASE(reg_open_major_mismatch) {
  conf(entry("ia", stub("good")));
  run([] {
    DAT_IA_HANDLE ia = nullptr;
    BOOST_TEST(open_ia("ia", &ia, 1) == dat_error(DAT_PROVIDER_NOT_FOUND, DAT_MAJOR_NOT_FOUND));
    BOOST_TEST(open_ia("ia", &ia, 3) == dat_error(DAT_PROVIDER_NOT_FOUND, DAT_MAJOR_NOT_FOUND));
  });
}

BOOST_AUTO_TEST_CASE(reg_open_minor_too_high) {
  conf(entry("ia", stub("good"), "good", "u2.1"));
  run([] {
    DAT_IA_HANDLE ia = nullptr;
    BOOST_TEST(open_ia("ia", &ia, 2, 2) == dat_error(DAT_PROVIDER_NOT_FOUND, DAT_MINOR_NOT_FOUND));
  });
}

BOOST_AUTO_TEST_CASE(reg_open_minor_lower_ok) {
  conf(entry("ia", stub("good"), "good", "u2.1"));
  run([] {
    DAT_IA_HANDLE ia = nullptr;
    BOOST_TEST_REQUIRE(open_ia("ia", &ia, 2, 0) == 0U);
    BOOST_TEST(log_of("good").info.dapl_version_minor == 1U);
    BOOST_TEST(close_ia(ia) == 0U);
    BOOST_TEST(log_of("good").finis == 1);
  });
}

BOOST_AUTO_TEST_CASE(reg_open_threadsafe_mismatch) {
  conf(entry("safe", stub("good"), "good", "u2.0", "threadsafe") + entry("unsafe", stub("good")));
  run([] {
    DAT_IA_HANDLE ia = nullptr;
    BOOST_TEST(open_ia("safe", &ia) ==
               dat_error(DAT_PROVIDER_NOT_FOUND, DAT_THREAD_SAFETY_NOT_FOUND));
    BOOST_TEST(open_ia("unsafe", &ia, 2, 0, DAT_TRUE) ==
               dat_error(DAT_PROVIDER_NOT_FOUND, DAT_THREAD_SAFETY_NOT_FOUND));
    BOOST_TEST_REQUIRE(open_ia("safe", &ia, 2, 0, DAT_TRUE) == 0U);
    BOOST_CHECK(log_of("good").info.is_thread_safe == DAT_TRUE);
    BOOST_TEST(close_ia(ia) == 0U);
  });
}

BOOST_AUTO_TEST_CASE(reg_open_threadsafe_twins) {
  conf(entry("ia", stub("good"), "good") +
       entry("ia", stub("second"), "good", "u2.0", "threadsafe"));
  run([] {
    DAT_IA_HANDLE unsafe = nullptr, safe = nullptr;
    BOOST_TEST_REQUIRE(open_ia("ia", &unsafe) == 0U);
    BOOST_TEST_REQUIRE(open_ia("ia", &safe, 2, 0, DAT_TRUE) == 0U);
    BOOST_TEST(log_of("good").opens == 1);
    BOOST_TEST(log_of("second").opens == 1);
    BOOST_TEST(close_ia(unsafe) == 0U);
    BOOST_TEST(log_of("good").finis == 1);
    BOOST_TEST(log_of("second").finis == 0);
    BOOST_TEST(close_ia(safe) == 0U);
    BOOST_TEST(log_of("second").finis == 1);
  });
}

BOOST_AUTO_TEST_CASE(reg_open_null_name) {
  conf(entry("ia", stub("good")));
  run([] {
    DAT_IA_HANDLE ia = nullptr;
    DAT_EVD_HANDLE evd = nullptr;
    BOOST_TEST(dat_ia_openv(nullptr, 8, &evd, &ia, 2, 0, DAT_FALSE) ==
               dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1));
    std::string name = "ia";
    BOOST_TEST(dat_ia_openv(name.data(), 8, &evd, nullptr, 2, 0, DAT_FALSE) ==
               dat_error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA));
    BOOST_TEST_REQUIRE(dat_ia_openv(name.data(), 8, nullptr, &ia, 2, 0, DAT_FALSE) == 0U);
    BOOST_TEST(close_ia(ia) == 0U);  // whether the EVD may be null is up to the provider
  });
}

BOOST_AUTO_TEST_CASE(reg_open_long_name) {
  const std::string longest(255, 'x');
  conf(entry(longest, stub("good")));
  run([&] {
    DAT_IA_HANDLE ia = nullptr;
    BOOST_TEST(open_ia(longest + 'x', &ia) == dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1));
    BOOST_TEST(open_ia(std::string(100000, 'x'), &ia) ==
               dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1));
    BOOST_TEST_REQUIRE(open_ia(longest, &ia) == 0U);
    BOOST_TEST(close_ia(ia) == 0U);
  });
}

BOOST_AUTO_TEST_CASE(reg_open_library_missing) {
  conf(entry("absent", "/nowhere/none.so") + entry("broken", stub("unresolved")) +
       entry("empty", "") + entry("no-init", stub("no_init")) + entry("text", conf_path()));
  run([] {
    DAT_IA_HANDLE ia = nullptr;
    for (const char* name : {"absent", "broken", "empty", "no-init", "text"}) {
      BOOST_TEST(open_ia(name, &ia) == kNameNotRegistered);
      BOOST_TEST(open_ia(name, &ia) == kNameNotRegistered);
    }
  });
}

BOOST_AUTO_TEST_CASE(reg_open_init_registers_nothing) {
  conf(entry("nothing", stub("good"), "nothing") + entry("wrong", stub("second"), "other_minor"));
  run([] {
    DAT_IA_HANDLE ia = nullptr;
    BOOST_TEST(open_ia("nothing", &ia) == kNameNotRegistered);
    BOOST_TEST(log_of("good").inits == 1);
    BOOST_TEST(log_of("good").finis == 0);
    BOOST_TEST(open_ia("wrong", &ia) == kNameNotRegistered);
    BOOST_TEST(log_of("second").finis == 1);
    BOOST_TEST(open_ia("nothing", &ia) == kNameNotRegistered);
    BOOST_TEST(log_of("good").inits == 2);
  });
}

BOOST_AUTO_TEST_CASE(reg_open_device_error_unchanged) {
  conf(entry("ia", stub("good"), "open_fails"));
  run([] {
    int marker = 0;
    DAT_IA_HANDLE ia = &marker;
    DAT_EVD_HANDLE evd = &marker;
    std::string name = "ia";
    BOOST_TEST(dat_ia_openv(name.data(), 8, &evd, &ia, 2, 0, DAT_FALSE) == kStubOpenFailure);
    BOOST_TEST(ia == &marker);
    BOOST_TEST(evd == &marker);
  });
}

BOOST_AUTO_TEST_SUITE_END()
