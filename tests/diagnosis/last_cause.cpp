// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// dat_last_cause(): what it returns, for how long, and to which thread.
#include <dat/dat_diagnosis_extensions.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <string>
#include <thread>

#include "tests/loader/loader_env.h"

namespace {

std::string cause_of(DAT_RETURN status) {
  const char* text = nullptr;
  BOOST_TEST(dat_last_cause(status, &text) == 0U);
  BOOST_TEST_REQUIRE(text != nullptr);
  return text;
}

// Opens `name`, which must fail without output on stderr, and returns the cause.
std::string failed_open(const std::string& name, DAT_RETURN* status = nullptr,
                        DAT_UINT32 major = 2) {
  ::setenv("DAT_TRACE_LEVEL", "0", 1);
  const StderrCapture captured;
  DAT_IA_HANDLE ia = nullptr;
  const DAT_RETURN code = open_ia(name, &ia, major);
  BOOST_TEST(code != 0U);
  if (status != nullptr) *status = code;
  std::string text = cause_of(code);
  BOOST_TEST(captured.text().empty());
  return text;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(last_cause, LoaderEnv)

BOOST_AUTO_TEST_CASE(nothing_has_failed) {
  conf("");
  run([] {
    BOOST_TEST(cause_of(DAT_SUCCESS) == "");
    BOOST_TEST(cause_of(DAT_CLASS_ERROR | DAT_INVALID_HANDLE | DAT_INVALID_HANDLE_EP) ==
               "DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP (0x8005000c): no cause recorded");
    BOOST_TEST(cause_of(0x7ff0000) == "unknown error (0x7ff0000): no cause recorded");
    BOOST_TEST(dat_last_cause(0, nullptr) == 0x80060026U);
    BOOST_TEST(dats_set_last_cause(0, nullptr) == 0x80060026U);
  });
}

BOOST_AUTO_TEST_CASE(bad_argument_has_a_cause) {
  conf("");
  run([] {
    const DAT_RETURN status = dat_ia_openv(nullptr, 8, nullptr, nullptr, 2, 0, DAT_FALSE);
    BOOST_TEST(cause_of(status) == "the name is null or longer than 255 characters");
    BOOST_TEST(cause_of(status & ~static_cast<DAT_RETURN>(DAT_CLASS_ERROR)) ==
               "the name is null or longer than 255 characters");
    const DAT_RETURN freed = dat_ep_free(nullptr);
    BOOST_TEST(cause_of(freed) == "dat_ep_free: (nil) is not a handle");
    // Only the text of the latest failure is kept, so there is none for the earlier one.
    BOOST_TEST(cause_of(status) ==
               "DAT_INVALID_PARAMETER, DAT_INVALID_ARG1 (0x80060025): no cause recorded");
  });
}

// Compares whole texts, so that every word that users see is checked.
BOOST_AUTO_TEST_CASE(no_such_name) {
  conf("bad line\n" + entry("soft0", stub("good")) + "hidden u2.0 nonthreadsafe default l\n");
  run([this] {
    BOOST_TEST(failed_open("soft1") ==
               "cannot open \"soft1\" (version 2.0, nonthreadsafe): DAT_PROVIDER_NOT_FOUND, "
               "DAT_NAME_NOT_REGISTERED\n"
               "  did you mean \"soft0\"?\n"
               "  " +
                   conf_path() +
                   ": entries read: 1, malformed lines skipped: 2\n"
                   "  line 1: only 2 of 8 fields, threadsafety is missing\n"
                   "  line 3: only 5 of 8 fields, provider_version is missing\n"
                   "  try: a name that the file has; `datinfo list` shows them");
    // Every open returns the reason, even though stderr reports each fact only once.
    BOOST_TEST(contains(failed_open("soft1"), "line 1: only 2 of 8 fields"));
    BOOST_TEST(contains(failed_open("hidden"), "try: to correct that line of the file"));
  });
}

BOOST_AUTO_TEST_CASE(no_such_version) {
  conf(entry("soft0", stub("good"), "good", "u1.2", "threadsafe"));
  run([this] {
    BOOST_TEST(
        failed_open("soft0") ==
        "cannot open \"soft0\" (version 2.0, nonthreadsafe): DAT_PROVIDER_NOT_FOUND, "
        "DAT_MAJOR_NOT_FOUND\n"
        "  there is only version 1.2 threadsafe\n"
        "  " +
            conf_path() +
            ": entries read: 1\n"
            "  try: an entry with u2.0 and nonthreadsafe, or another version or thread safety "
            "in the call");
  });
}

BOOST_AUTO_TEST_CASE(each_candidate_is_told) {
  conf(entry("ia", "libnone.so.7") + entry("ia", stub("no_init")) +
       entry("ia", stub("good"), "nothing at all") + entry("ia", stub("second"), "open_fails x"));
  run([this] {
    DAT_RETURN status = 0;
    const std::string text = failed_open("ia", &status);
    BOOST_TEST_INFO(text);
    BOOST_TEST(status == kStubOpenFailure);
    BOOST_TEST(contains(text,
                        "cannot open \"ia\" (version 2.0, nonthreadsafe): DAT_INVALID_ADDRESS\n"
                        "  " +
                            conf_path() +
                            " line 1: libnone.so.7: cannot open shared object "
                            "file: No such file or directory\n"
                            "  try: the package that has \"libnone.so.7\", or its folder in "
                            "LD_LIBRARY_PATH, or its whole path in the fifth field\n"
                            "  " +
                            conf_path() + " line 2: "));
    BOOST_TEST(contains(text, " has no function dat_provider_init\n  try: the library of a DAT "));
    BOOST_TEST(contains(text,
                        " did not register this name and version; does it accept its ia_params "
                        "\"nothing at all\"?\n"));
    BOOST_TEST(contains(text,
                        " did not open \"open_fails x\": it returned DAT_INVALID_ADDRESS and "
                        "gave no reason\n  try: a network interface or address"));
  });
}

BOOST_AUTO_TEST_CASE(reason_of_the_provider) {
  conf(entry("ia", stub("good"), "says_why no wind in the sails"));
  run([this] {
    DAT_RETURN status = 0;
    const std::string text = failed_open("ia", &status);
    BOOST_TEST(status == (DAT_CLASS_ERROR | DAT_INSUFFICIENT_RESOURCES));
    BOOST_TEST(text ==
               "cannot open \"ia\" (version 2.0, nonthreadsafe): DAT_INSUFFICIENT_RESOURCES\n"
               "  " +
                   conf_path() + " line 1: \"" + stub("good") +
                   "\" did not open \"says_why no wind in the sails\": no wind in the sails");
  });
}

// A reason left by an earlier call must not be taken for the reason of this one.
BOOST_AUTO_TEST_CASE(reasons_do_not_linger) {
  conf(entry("ia", stub("good"), "open_fails"));
  run([] {
    dats_set_last_cause(DAT_INVALID_ADDRESS, "an old story");
    BOOST_TEST(!contains(failed_open("ia"), "an old story"));
  });
}

BOOST_AUTO_TEST_CASE(success_leaves_the_text_alone) {
  conf(entry("ia", stub("good")));
  run([] {
    DAT_RETURN status = 0;
    const std::string text = failed_open("other", &status);
    DAT_IA_HANDLE ia = nullptr;
    BOOST_TEST(open_ia("other", &ia) == status);
    BOOST_TEST(close_ia(nullptr) != 0U);
    BOOST_TEST(cause_of(status) != text);
  });
}

BOOST_AUTO_TEST_CASE(each_thread_has_its_own) {
  conf("");
  run([] {
    DAT_RETURN status = 0;
    const std::string text = failed_open("mine", &status);
    std::thread([status] {
      BOOST_TEST(contains(cause_of(status), "no cause recorded"));
      BOOST_TEST(contains(failed_open("yours"), "cannot open \"yours\""));
    }).join();
    BOOST_TEST(cause_of(status) == text);
  });
}

BOOST_AUTO_TEST_CASE(long_texts_are_cut) {
  conf("");
  run([] {
    const std::string fits(DAT_LAST_CAUSE_MAX - 1, 'x');
    dats_set_last_cause(DAT_INTERNAL_ERROR, fits.c_str());
    BOOST_TEST(cause_of(DAT_INTERNAL_ERROR) == fits);
    dats_set_last_cause(DAT_INTERNAL_ERROR, (fits + 'y').c_str());
    BOOST_TEST(cause_of(DAT_INTERNAL_ERROR) == std::string(DAT_LAST_CAUSE_MAX - 4, 'x') + "...");
    // A provider may pass a part of the current text.
    const char* own = nullptr;
    dat_last_cause(DAT_INTERNAL_ERROR, &own);
    dats_set_last_cause(DAT_INTERNAL_ERROR, own + 4000);
    BOOST_TEST(cause_of(DAT_INTERNAL_ERROR) == std::string(92, 'x') + "...");
  });
}

BOOST_AUTO_TEST_CASE(errno_is_kept) {
  conf("");
  run([] {
    errno = EXDEV;
    close_ia(nullptr);
    BOOST_TEST(errno == EXDEV);
  });
}

BOOST_AUTO_TEST_SUITE_END()
