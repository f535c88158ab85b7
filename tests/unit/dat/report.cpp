// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dat/report.h"

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "common/result.h"
#include "dat/text.h"

using udapl::dat_error;
using udapl::dat::cause_of;
using udapl::dat::ConfFile;
using udapl::dat::in_quotes;
using udapl::dat::near_names;
using udapl::dat::NotFound;
using udapl::dat::parse_conf;
using udapl::dat::Report;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

NotFound unknown_name(const std::string& name) {
  NotFound failure;
  failure.ia_name = name;
  failure.major = 2;
  failure.code = dat_error(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
  failure.known_names = {"ofa-v2-ib0", "ofa-v2-ib1", "soft0"};
  return failure;
}

ConfFile file_with(const std::string& text) {
  ConfFile file;
  file.attempts = {{"/x/absent", "No such file or directory"}, {"/x/dat.conf", ""}};
  file.conf = parse_conf(text);
  return file;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(report)

BOOST_AUTO_TEST_CASE(unknown_name_is_explained) {
  const ConfFile file = file_with(
      "good u2.0 nonthreadsafe default l dapl.2.0 p \"\"\n"
      "bad u2 nonthreadsafe default l dapl.2.0 p \"\"\n"
      "hidden u2.0 nonthreadsafe nondefault l dapl.2.0 p \"\"\n");
  Report report(file);
  const std::string text = report.explain(unknown_name("ofa-v2-ib2"));
  BOOST_TEST_INFO(text);
  BOOST_TEST(text ==
             "dat: cannot open \"ofa-v2-ib2\" (version 2.0, nonthreadsafe): "
             "DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED\n"
             "dat:   did you mean \"ofa-v2-ib0\", \"ofa-v2-ib1\"?\n"
             "dat:   /x/absent: No such file or directory\n"
             "dat:   /x/dat.conf: entries read: 1, malformed lines skipped: 1\n"
             "dat:   line 2: api_version is \"u2\", expected u<major>.<minor> as in u2.0\n");
}

BOOST_AUTO_TEST_CASE(skipped_entry_is_named) {
  const ConfFile file = file_with("hidden u2.0 nonthreadsafe nondefault l dapl.2.0 p \"\"\n");
  Report report(file);
  BOOST_TEST(contains(report.explain(unknown_name("hidden")), "line 1: marked nondefault"));
  BOOST_TEST(!contains(report.explain(unknown_name("other")), "nondefault"));
}

BOOST_AUTO_TEST_CASE(other_versions_are_named) {
  const ConfFile file = file_with("");
  Report report(file);
  NotFound failure = unknown_name("soft0");
  failure.alternatives = {"version 1.2 nonthreadsafe", "version 2.0 threadsafe"};
  BOOST_TEST(contains(report.explain(failure),
                      "there is only version 1.2 nonthreadsafe, version 2.0 threadsafe\n"));
}

BOOST_AUTO_TEST_CASE(no_file_at_all) {
  ConfFile file;
  file.attempts = {{"/x/absent", "Permission denied"}};
  Report report(file);
  const std::string text = report.explain(unknown_name("a"));
  BOOST_TEST(contains(text, "/x/absent: Permission denied\n"));
  BOOST_TEST(contains(text, "no configuration file was read\n"));
}

BOOST_AUTO_TEST_CASE(library_failure_is_told_in_the_linkers_words) {
  const ConfFile file = file_with("bad\n");
  Report report(file);
  NotFound failure = unknown_name("soft0");
  failure.passed_over = {{"libx.so", "line 4: libx.so: cannot open shared object file"}};
  const std::string text = report.explain(failure);
  BOOST_TEST(contains(text, "dat:   line 4: libx.so: cannot open shared object file\n"));
  BOOST_TEST(!contains(text, "dat.conf"));
}

BOOST_AUTO_TEST_CASE(each_fact_is_reported_once) {
  const ConfFile file = file_with("bad\n");
  Report report(file);
  BOOST_TEST(!report.explain(unknown_name("a")).empty());
  BOOST_TEST(report.explain(unknown_name("a")).empty());
  const std::string second = report.explain(unknown_name("b"));
  BOOST_TEST(contains(second, "lines skipped: 1"));
  BOOST_TEST(!contains(second, "line 1:"));  // the details have already been reported

  NotFound failure = unknown_name("soft0");
  failure.passed_over = {{"libx.so", "line 4: libx.so: missing"}};
  BOOST_TEST(!report.explain(failure).empty());
  failure.ia_name = "soft1";
  BOOST_TEST(report.explain(failure).empty());  // same library, as if MPI tries all names
  BOOST_TEST(report.explain("soft2", failure.passed_over).empty());
  failure.passed_over.push_back({"liby.so", "line 5: liby.so: missing"});
  BOOST_TEST(contains(report.explain("soft2", failure.passed_over), "liby.so: missing"));
}

BOOST_AUTO_TEST_CASE(malformed_line_of_that_name_is_advised) {
  const ConfFile file = file_with(
      "soft9 u2 nonthreadsafe default l dapl.2.0 p \"\"\n"
      "other u2 nonthreadsafe default l dapl.2.0 p \"\"\n");
  const std::string text = cause_of(file, unknown_name("soft9"));
  BOOST_TEST_INFO(text);
  BOOST_TEST(contains(text, "line 1: api_version is \"u2\""));
  BOOST_TEST(text.find("line 1:") == text.rfind("line 1:"));  // once
  BOOST_TEST(contains(text, "line 2: api_version"));
  BOOST_TEST(text.ends_with("try: to correct that line of the file"));
  const std::string of_none = cause_of(file, unknown_name("xyz"));
  BOOST_TEST(contains(of_none, "line 1: api_version"));
  BOOST_TEST(!contains(of_none, "to correct that line"));
}

BOOST_AUTO_TEST_CASE(long_lists_are_cut) {
  std::string text;
  for (int i = 0; i < 30; ++i) text += "bad\n";
  const ConfFile file = file_with(text);
  Report report(file);
  const std::string explained = report.explain(unknown_name("a"));
  BOOST_TEST(contains(explained, "line 10:"));
  BOOST_TEST(!contains(explained, "line 11:"));
  BOOST_TEST(contains(explained, "and 20 more\n"));
}

BOOST_AUTO_TEST_CASE(near_names_are_similar) {
  const std::vector<std::string> names = {"ofa-v2-ib0", "ofa-v2-ib1", "soft0", "ofa-v2-mlx5_0-1u"};
  const auto meant = [&](const std::string& wanted) { return near_names(wanted, names); };
  BOOST_TEST(meant("ofa-v2-ib2").size() == 2U);
  BOOST_TEST(meant("ofa-v2-ib0").at(0) == "ofa-v2-ib0");
  BOOST_TEST(meant("Soft0").at(0) == "soft0");
  BOOST_TEST(meant("mlx5_0").at(0) == "ofa-v2-mlx5_0-1u");
  BOOST_TEST(meant("something else").empty());
  BOOST_TEST(meant("").empty());
  BOOST_TEST(near_names("abc", {"abd", "abe", "abf", "abg", "abd"}).size() == 3U);
}

BOOST_AUTO_TEST_CASE(quoted_text_is_safe_for_a_terminal) {
  BOOST_TEST(in_quotes("a b") == "\"a b\"");
  BOOST_TEST(in_quotes("\x1b[2J\n\t\x80") == "\"?[2J???\"");
  BOOST_TEST(in_quotes(std::string(100, 'x'), 10) == "\"xxxxxxxxxx...\"");
}

BOOST_AUTO_TEST_SUITE_END()
