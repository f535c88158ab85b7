// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The environment variables of traces: their meaning, alone and combined.
#include "common/tracing/trace_settings.h"

#include <map>
#include <string>

#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include "common/tracing/trace.h"

namespace {

using namespace udapl::trace;

std::map<std::string, std::string> variables;

const char* lookup(const char* name) {
  const auto found = variables.find(name);
  return found == variables.end() ? nullptr : found->second.c_str();
}

Settings with(std::map<std::string, std::string> environment, const char* prefix = "DAPL") {
  variables = std::move(environment);
  return read_settings(prefix, &lookup);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(settings)

BOOST_AUTO_TEST_CASE(unset_variables_give_the_defaults) {
  const Settings settings = with({});
  BOOST_TEST(settings.level == kDefaultLevel);
  BOOST_TEST(settings.sinks == unsigned{kStderr});
  BOOST_TEST(settings.complaints.empty());
}

BOOST_AUTO_TEST_CASE(every_legal_level) {
  for (int level = 0; level <= kMax; ++level) {
    const Settings settings = with({{"DAPL_TRACE_LEVEL", std::to_string(level)}});
    BOOST_TEST(settings.level == level);
    BOOST_TEST(settings.complaints.empty());
  }
}

BOOST_AUTO_TEST_CASE(levels_in_c_syntax) {
  BOOST_TEST(with({{"DAPL_TRACE_LEVEL", "0x3"}}).level == 3);
  BOOST_TEST(with({{"DAPL_TRACE_LEVEL", "0xA"}}).level == 10);
  BOOST_TEST(with({{"DAPL_TRACE_LEVEL", "007"}}).level == 7);
}

BOOST_AUTO_TEST_CASE(bad_levels_are_reported_and_not_used) {
  for (const char* bad : {"", "11", "-1", "+7", "7x", "x", " 7", "0x", "0xb", "08",
                          "99999999999999999999", "detail"}) {
    const Settings settings = with({{"DAPL_TRACE_LEVEL", bad}});
    BOOST_TEST(settings.level == kDefaultLevel, bad);
    BOOST_REQUIRE_EQUAL(settings.complaints.size(), 1);
    BOOST_TEST(settings.complaints[0] == std::string("DAPL_TRACE_LEVEL=\"") + bad +
                                             "\" is not a number from 0 to 10, using 1");
  }
}

BOOST_AUTO_TEST_CASE(each_library_reads_its_own_level) {
  BOOST_TEST(with({{"DAT_TRACE_LEVEL", "7"}}, "DAPL").level == kDefaultLevel);
  BOOST_TEST(with({{"DAPL_TRACE_LEVEL", "7"}}, "DAT").level == kDefaultLevel);
  BOOST_TEST(with({{"DAT_TRACE_LEVEL", "7"}}, "DAT").level == 7);
}

BOOST_AUTO_TEST_CASE(sinks_by_name) {
  BOOST_TEST(with({{"DAPL_TRACE_SINK", "stdout"}}).sinks == unsigned{kStdout});
  BOOST_TEST(with({{"DAPL_TRACE_SINK", "syslog"}}).sinks == unsigned{kSyslog});
  BOOST_TEST(with({{"DAPL_TRACE_SINK", "stderr,syslog"}}).sinks == (kStderr | kSyslog));
  const Settings file = with({{"DAPL_TRACE_SINK", "file:trace.%p.log"}});
  BOOST_TEST(file.sinks == unsigned{kFile});
  BOOST_TEST(file.path == "trace." + std::to_string(::getpid()) + ".log");
}

BOOST_AUTO_TEST_CASE(bad_sinks_are_reported) {
  for (const char* bad : {"", "file:", "files", "stderr,nowhere"}) {
    const Settings settings = with({{"DAPL_TRACE_SINK", bad}});
    BOOST_TEST(settings.sinks == unsigned{kStderr}, bad);
    BOOST_TEST(settings.complaints.size() == 1, bad);
  }
}

BOOST_AUTO_TEST_CASE(a_provider_uses_the_sinks_of_the_registry) {
  BOOST_TEST(with({{"DAT_TRACE_SINK", "syslog"}}).sinks == unsigned{kSyslog});
  BOOST_TEST(with({{"DAT_TRACE_SINK", "syslog"}, {"DAPL_TRACE_SINK", "stdout"}}).sinks ==
             unsigned{kStdout});
  BOOST_TEST(with({{"DAPL_TRACE_SINK", "syslog"}}, "DAT").sinks == unsigned{kStderr});
}

// The debug classes of OpenFabrics, bit by bit.
BOOST_AUTO_TEST_CASE(old_classes_of_the_registry) {
  const std::pair<const char*, int> classes[] = {
      {"0", 0},         {"1", kError},    {"0x2", kNormal}, {"04", kNormal}, {"8", kNormal},
      {"0x10", kCalls}, {"0x20", kCalls}, {"0xff", kCalls}, {"rubbish", 0}};
  for (const auto& [value, level] : classes) {
    const Settings settings = with({{"DAT_DBG_TYPE", value}}, "DAT");
    BOOST_TEST(settings.level == level, value);
    BOOST_TEST(settings.sinks == unsigned{kStdout}, "old messages went to stdout");
  }
}

BOOST_AUTO_TEST_CASE(old_classes_of_a_provider) {
  const std::pair<const char*, int> classes[] = {{"0", 0},
                                                 {"0x1", kError},
                                                 {"0x3", kError + 1},
                                                 {"0x8", kNormal},
                                                 {"0x80", kNormal},
                                                 {"0x400", kNormal},
                                                 {"0x100", kCalls},
                                                 {"0x200", kCalls},
                                                 {"0x4", kDetail},
                                                 {"0x10", kDetail},
                                                 {"0x40", kDetail},
                                                 {"0x4000", kDetail},
                                                 {"0x3fff", kDetail},
                                                 {"0x1000000", kNormal}};
  for (const auto& [value, level] : classes)
    BOOST_TEST(with({{"DAPL_DBG_TYPE", value}}).level == level, value);
}

BOOST_AUTO_TEST_CASE(the_old_extra_mask_adds_to_the_classes) {
  BOOST_TEST(with({{"DAPL_DBG_LEVEL", "0x100"}}).level == kCalls);
  BOOST_TEST(with({{"DAPL_DBG_TYPE", "0x10"}, {"DAPL_DBG_LEVEL", "0x100"}}).level == kDetail);
  BOOST_TEST(with({{"DAPL_DBG_LEVEL", "0"}}).level == kError + 1);  // the old default: 0x3
}

BOOST_AUTO_TEST_CASE(old_destination_numbers_select_sinks) {
  BOOST_TEST(with({{"DAPL_DBG_DEST", "1"}}).sinks == unsigned{kStdout});
  BOOST_TEST(with({{"DAPL_DBG_DEST", "2"}}).sinks == unsigned{kSyslog});
  BOOST_TEST(with({{"DAPL_DBG_DEST", "3"}}).sinks == (kStdout | kSyslog));
  const Settings none = with({{"DAPL_DBG_DEST", "0"}});
  BOOST_TEST(none.sinks == unsigned{kStderr});
  BOOST_TEST(none.complaints.size() == 1);
}

BOOST_AUTO_TEST_CASE(new_variables_win) {
  const Settings settings = with({{"DAPL_TRACE_LEVEL", "3"},
                                  {"DAPL_DBG_TYPE", "0xffff"},
                                  {"DAPL_TRACE_SINK", "syslog"},
                                  {"DAPL_DBG_DEST", "1"}});
  BOOST_TEST(settings.level == 3);
  BOOST_TEST(settings.sinks == unsigned{kSyslog});
  // With a new variable for the level, the old destination, stdout, does not apply.
  BOOST_TEST(with({{"DAPL_TRACE_LEVEL", "3"}, {"DAPL_DBG_TYPE", "1"}}).sinks == unsigned{kStderr});
}

BOOST_AUTO_TEST_SUITE_END()
