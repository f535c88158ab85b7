// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The advice for each reason for which an open can fail.
#include "dat/advice.h"

#include <boost/test/unit_test.hpp>
#include <string>
#include <string_view>

using namespace udapl::dat;

namespace {

bool mentions(const std::string& advice, std::string_view piece) {
  return advice.find(piece) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(advice)

BOOST_AUTO_TEST_CASE(advice_fits_the_linkers_words) {
  const auto of = [](std::string_view failure) { return advice_for_library("libx.so.2", failure); };
  BOOST_TEST(mentions(advice_for_library("", "anything"), "the name of a provider library"));
  BOOST_TEST(mentions(of("libx.so.2: undefined symbol: f"), "a build of \"libx.so.2\""));
  BOOST_TEST(mentions(of("libx.so.2: version `X_1' not found"), "a build of \"libx.so.2\""));
  BOOST_TEST(mentions(of("libx.so.2: file too short"), "a shared library for this processor"));
  BOOST_TEST(mentions(of("libx.so.2: failed to map segment from shared object"), "ulimit -v"));
  BOOST_TEST(mentions(of("libx.so.2: cannot open shared object file: Too many open files"),
                      "(ulimit -n)"));
  BOOST_TEST(mentions(of("libx.so.2: cannot open shared object file: Permission denied"),
                      "permission to read and execute \"libx.so.2\""));
  constexpr std::string_view kAbsent = "cannot open shared object file: No such file or directory";
  BOOST_TEST(mentions(of("liby.so.1: " + std::string(kAbsent)), "ldd shows them"));
  BOOST_TEST(mentions(of("libx.so.2: " + std::string(kAbsent)), "LD_LIBRARY_PATH"));
  BOOST_TEST(mentions(advice_for_library("/a/x.so", "/a/x.so: " + std::string(kAbsent)),
                      "the right path in the fifth field"));
  BOOST_TEST(of("libx.so.2: something new").empty());
}

BOOST_AUTO_TEST_CASE(for_what_a_provider_returns) {
  const auto of = [](DAT_RETURN type, bool reason_given) {
    return advice_for_status(DAT_CLASS_ERROR | type, reason_given);
  };
  BOOST_TEST(mentions(of(DAT_PRIVILEGES_VIOLATION, true), "/dev/infiniband"));
  BOOST_TEST(mentions(of(DAT_INVALID_ADDRESS, true), "seventh field"));
  BOOST_TEST(mentions(of(DAT_INSUFFICIENT_RESOURCES, false), "ulimit -l"));
  BOOST_TEST(of(DAT_INSUFFICIENT_RESOURCES, true).empty());
  BOOST_TEST(mentions(of(DAT_INTERNAL_ERROR, false), "DAPL_DBG_TYPE=0xffff"));
  BOOST_TEST(of(DAT_INTERNAL_ERROR, true).empty());
}

BOOST_AUTO_TEST_CASE(advice_fits_the_files_error) {
  const auto of = [](std::string_view failure) {
    return advice_for_file("/etc/dat.conf", failure);
  };
  BOOST_TEST(mentions(of("Permission denied (EACCES)"), "permission to read \"/etc/dat.conf\""));
  BOOST_TEST(mentions(of("Is a directory (EISDIR)"), "is a folder"));
  BOOST_TEST(mentions(of("Too many open files (EMFILE)"), "ulimit -n"));
  BOOST_TEST(mentions(of("No such file or directory (ENOENT)"), "datinfo generate"));
}

BOOST_AUTO_TEST_SUITE_END()
