// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What is printed to stderr for the user, and when nothing is.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <string>

#include "tests/loader/loader_env.h"

BOOST_FIXTURE_TEST_SUITE(explain, LoaderEnv)

BOOST_AUTO_TEST_CASE(unknown_name_is_explained) {
  conf("bad line\n" + entry("ofa-v2-ib0", stub("good")));
  run([this] {
    const StderrCapture captured;
    DAT_IA_HANDLE ia = nullptr;
    open_ia("ofa-v2-ib1", &ia);
    const std::string text = captured.text();
    BOOST_TEST_INFO(text);
    BOOST_TEST(contains(text,
                        "cannot open \"ofa-v2-ib1\" (version 2.0, nonthreadsafe): "
                        "DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED\n"));
    BOOST_TEST(contains(text, "did you mean \"ofa-v2-ib0\"?\n"));
    BOOST_TEST(contains(text, conf_path() + ": entries read: 1, malformed lines skipped: 1\n"));
    BOOST_TEST(contains(text, "line 1: only 2 of 8 fields"));
    BOOST_TEST(std::count(text.begin(), text.end(), '\n') <= 6);
  });
}

BOOST_AUTO_TEST_CASE(override_that_does_not_exist) {
  run([this] {
    const StderrCapture captured;
    DAT_IA_HANDLE ia = nullptr;
    open_ia("ia", &ia);
    BOOST_TEST(contains(captured.text(), conf_path() + ": No such file or directory (ENOENT)\n"));
  });
}

BOOST_AUTO_TEST_CASE(missing_library_is_explained) {
  conf(entry("one", "libnone.so.7") + entry("two", "libnone.so.7"));
  run([this] {
    const StderrCapture captured;
    DAT_IA_HANDLE ia = nullptr;
    open_ia("one", &ia);
    const std::string text = captured.text();
    BOOST_TEST(contains(text, conf_path() + " line 1: libnone.so.7: cannot open shared object "
                                            "file: No such file or directory\n"));
    open_ia("two", &ia);
    BOOST_TEST(captured.text() == text);  // the same library is reported once
  });
}

BOOST_AUTO_TEST_CASE(library_with_an_unresolved_symbol) {
  conf(entry("ia", stub("unresolved")));
  run([] {
    const StderrCapture captured;
    DAT_IA_HANDLE ia = nullptr;
    open_ia("ia", &ia);
    BOOST_TEST(contains(captured.text(), "function_that_no_library_has"));
  });
}

BOOST_AUTO_TEST_CASE(library_that_registers_nothing) {
  conf(entry("ia", stub("good"), "nothing here"));
  run([] {
    const StderrCapture captured;
    DAT_IA_HANDLE ia = nullptr;
    open_ia("ia", &ia);
    BOOST_TEST(contains(captured.text(), "did not register this name"));
    BOOST_TEST(contains(captured.text(), "\"nothing here\""));
  });
}

BOOST_AUTO_TEST_CASE(fallback_is_mentioned) {
  conf(entry("ia", "libnone.so.7") + entry("ia", stub("good")));
  run([] {
    const StderrCapture captured;
    DAT_IA_HANDLE ia = nullptr;
    BOOST_TEST(open_ia("ia", &ia) == 0U);
    BOOST_TEST(contains(captured.text(), "libnone.so.7: cannot open"));
    BOOST_TEST(close_ia(ia) == 0U);
  });
}

// MPI libraries open every name of the file to find out which devices exist.
BOOST_AUTO_TEST_CASE(absent_devices_are_quiet) {
  std::string text;
  for (int i = 0; i < 20; ++i) text += entry("ia" + std::to_string(i), stub("good"), "open_fails");
  conf(text);
  run([] {
    const StderrCapture captured;
    DAT_IA_HANDLE ia = nullptr;
    for (int i = 0; i < 20; ++i)
      BOOST_TEST(open_ia("ia" + std::to_string(i), &ia) == kStubOpenFailure);
    BOOST_TEST(captured.text().empty());
  });
}

BOOST_AUTO_TEST_CASE(success_is_quiet) {
  conf("bad line\n" + entry("ia", stub("good")));
  run([] {
    const StderrCapture captured;
    DAT_IA_HANDLE ia = nullptr;
    BOOST_TEST(open_ia("ia", &ia) == 0U);
    BOOST_TEST(close_ia(ia) == 0U);
    BOOST_TEST(captured.text().empty());
  });
}

BOOST_AUTO_TEST_CASE(trace_level_zero_is_silent) {
  conf("");
  run([] {
    ::setenv("DAT_TRACE_LEVEL", "0", 1);
    const StderrCapture captured;
    DAT_IA_HANDLE ia = nullptr;
    open_ia("ia", &ia);
    BOOST_TEST(captured.text().empty());
  });
}

BOOST_AUTO_TEST_CASE(trace_level_three_reports_every_refusal) {
  conf("bad line\n");
  run([] {
    ::setenv("DAT_TRACE_LEVEL", "3", 1);
    const StderrCapture captured;
    close_ia(nullptr);
    dat_ep_free(nullptr);
    BOOST_TEST(contains(captured.text(), "line 1: only 2 of 8 fields"));
    BOOST_TEST(contains(captured.text(), "is not an open IA"));
    BOOST_TEST(contains(captured.text(), "dat_ep_free"));
  });
}

// The variables are read in the first call, so those that a program sets itself count.
BOOST_AUTO_TEST_CASE(the_first_call_is_traced) {
  conf(entry("ia", stub("good")));
  run([] {
    ::setenv("DAT_TRACE_LEVEL", "5", 1);
    const StderrCapture captured;
    DAT_IA_HANDLE ia = nullptr;
    BOOST_TEST(open_ia("ia", &ia) == 0U);
    const std::string text = captured.text();
    BOOST_TEST_INFO(text);
    BOOST_TEST(contains(text, " dat_ia_openv: called\n"));
    BOOST_TEST(contains(text, " dat_ia_openv: returns DAT_SUCCESS"));
    BOOST_TEST(close_ia(ia) == 0U);
  });
}

BOOST_AUTO_TEST_CASE(a_first_call_with_a_bad_handle_is_traced) {
  run([] {
    ::setenv("DAT_TRACE_LEVEL", "3", 1);
    const StderrCapture captured;
    dat_ep_free(nullptr);
    BOOST_TEST(contains(captured.text(), "dat_ep_free"));
  });
}

BOOST_AUTO_TEST_SUITE_END()
