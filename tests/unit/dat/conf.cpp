// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dat/conf.h"

#include <boost/test/unit_test.hpp>
#include <string>
#include <string_view>

using udapl::dat::Conf;
using udapl::dat::ConfDiagnostic;
using udapl::dat::ConfEntry;
using udapl::dat::ConfIssue;
using udapl::dat::parse_conf;

namespace {

constexpr std::string_view kGood = "good u2.0 nonthreadsafe default lib.so dapl.2.0 \"d 0\" \"\"";

// The only entry of `text`; fails if there is not exactly one entry, or if there is a diagnostic.
ConfEntry only_entry(std::string_view text) {
  const Conf conf = parse_conf(text);
  BOOST_TEST_REQUIRE(conf.entries.size() == 1U);
  for (const ConfDiagnostic& diagnostic : conf.diagnostics)
    BOOST_TEST_ERROR("unexpected: " << diagnostic.reason);
  return conf.entries[0];
}

// Checks that `line` is dropped with one diagnostic that contains `reason`, and that a good line
// before it and one after it are kept.
void check_dropped(std::string_view line, std::string_view reason,
                   ConfIssue issue = ConfIssue::kMalformed) {
  BOOST_TEST_CONTEXT("line: " << line) {
    const std::string text =
        std::string(kGood) + '\n' + std::string(line) + '\n' + std::string(kGood) + '\n';
    const Conf conf = parse_conf(text);
    BOOST_TEST(conf.entries.size() == 2U);
    BOOST_TEST_REQUIRE(conf.diagnostics.size() == 1U);
    BOOST_TEST(conf.diagnostics[0].line == 2U);
    BOOST_CHECK(conf.diagnostics[0].issue == issue);
    BOOST_TEST_INFO("reason: " << conf.diagnostics[0].reason);
    BOOST_CHECK(conf.diagnostics[0].reason.find(reason) != std::string::npos);
    BOOST_CHECK(conf.diagnostics[0].reason.find('\n') == std::string::npos);
  }
}

// An entry with one field replaced; fields count from 0.
std::string with_field(std::size_t index, std::string_view value) {
  constexpr std::string_view kFields[] = {"name",   "u2.0",     "nonthreadsafe", "default",
                                          "lib.so", "dapl.2.0", "\"d 0\"",       "\"\""};
  std::string line;
  for (std::size_t i = 0; i < 8; ++i) {
    line += i == index ? value : kFields[i];
    line += ' ';
  }
  return line;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(conf)

BOOST_AUTO_TEST_CASE(empty_text_has_nothing) {
  for (const std::string_view text : {"", "\n", "\n\n\n", "  \t \n", "\r\n", "# only\n#comments"}) {
    const Conf conf = parse_conf(text);
    BOOST_TEST(conf.entries.empty());
    BOOST_TEST(conf.diagnostics.empty());
  }
}

BOOST_AUTO_TEST_CASE(all_eight_fields) {
  const ConfEntry entry = only_entry(
      "ofa-v2-ib0 u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 \"ib0 0\" \"x y\"\n");
  BOOST_TEST(entry.line == 1U);
  BOOST_TEST(entry.ia_name == "ofa-v2-ib0");
  BOOST_TEST(entry.major == 2U);
  BOOST_TEST(entry.minor == 0U);
  BOOST_TEST(!entry.thread_safe);
  BOOST_TEST(entry.library_path == "libdaplofa.so.2");
  BOOST_TEST(entry.provider_version == "dapl.2.0");
  BOOST_TEST(entry.ia_params == "ib0 0");
  BOOST_TEST(entry.platform_params == "x y");
}

BOOST_AUTO_TEST_CASE(last_line_needs_no_newline) { only_entry(kGood); }

BOOST_AUTO_TEST_CASE(tabs_and_leading_blanks) {
  const ConfEntry entry =
      only_entry(" \t n\tu2.0\t\tthreadsafe  default\tl\tdapl.2.0 \"\" \"\" \t\n");
  BOOST_TEST(entry.ia_name == "n");
  BOOST_TEST(entry.thread_safe);
}

BOOST_AUTO_TEST_CASE(line_numbers_count_every_line) {
  const std::string text = "# one\n\n" + std::string(kGood) + "\nbad\n" + std::string(kGood);
  const Conf conf = parse_conf(text);
  BOOST_TEST_REQUIRE(conf.entries.size() == 2U);
  BOOST_TEST(conf.entries[0].line == 3U);
  BOOST_TEST(conf.entries[1].line == 5U);
  BOOST_TEST_REQUIRE(conf.diagnostics.size() == 1U);
  BOOST_TEST(conf.diagnostics[0].line == 4U);
}

BOOST_AUTO_TEST_CASE(crlf_lines_are_lines) {
  const std::string text = "# c\r\n\r\n" + std::string(kGood) + "\r\n" + with_field(0, "two") +
                           "\r\nbad\r\n" + std::string(kGood) + "\r";
  const Conf conf = parse_conf(text);
  BOOST_TEST_REQUIRE(conf.entries.size() == 3U);
  BOOST_TEST(conf.entries[0].platform_params.empty());
  BOOST_TEST(conf.entries[1].ia_name == "two");
  BOOST_TEST(conf.diagnostics.size() == 1U);
}

BOOST_AUTO_TEST_CASE(carriage_return_in_a_line_is_ordinary) {
  BOOST_TEST(only_entry(with_field(0, "a\rb")).ia_name == "a\rb");
}

BOOST_AUTO_TEST_CASE(comments_where_a_field_could_begin) {
  only_entry(std::string(kGood) + "# right behind the quote");
  only_entry(std::string(kGood) + "   # after blanks");
  BOOST_TEST(only_entry(with_field(0, "a#b")).ia_name == "a#b");
  BOOST_TEST(only_entry(with_field(6, "\"# 1\"")).ia_params == "# 1");
  // An unquoted last field ends only at a blank, so the '#' is part of it.
  BOOST_TEST(only_entry(with_field(7, "p#not")).platform_params == "p#not");
  check_dropped("name u2.0 nonthreadsafe # the rest is missing", "only 3 of 8 fields, default");
}

BOOST_AUTO_TEST_CASE(quoted_fields_and_escapes) {
  BOOST_TEST(only_entry(with_field(6, R"("a \"b\" \\ c")")).ia_params == R"(a "b" \ c)");
  BOOST_TEST(only_entry(with_field(6, R"("\a\ \#")")).ia_params == "a #");
  BOOST_TEST(only_entry(with_field(0, "\"my name\"")).ia_name == "my name");
  BOOST_TEST(only_entry(with_field(4, "\"/opt/my libs/l.so\"")).library_path ==
             "/opt/my libs/l.so");
  BOOST_TEST(only_entry(with_field(1, "\"u2.0\"")).major == 2U);
  BOOST_TEST(only_entry(with_field(3, "\"default\"")).ia_name == "name");
}

BOOST_AUTO_TEST_CASE(backslash_outside_quotes_is_ordinary) {
  BOOST_TEST(only_entry(with_field(0, R"(a\b\\)")).ia_name == R"(a\b\\)");
}

BOOST_AUTO_TEST_CASE(adjacent_quoted_fields_need_no_blank) {
  const ConfEntry entry = only_entry("n u2.0 nonthreadsafe default l dapl.2.0 \"p 1\"\"x\"");
  BOOST_TEST(entry.ia_params == "p 1");
  BOOST_TEST(entry.platform_params == "x");
}

BOOST_AUTO_TEST_CASE(quote_inside_a_bare_field_ends_it) {
  const ConfEntry entry = only_entry("n u2.0 nonthreadsafe default l dapl.2.0 p\"q");
  BOOST_TEST(entry.ia_params == "p\"");
  BOOST_TEST(entry.platform_params == "q");
}

BOOST_AUTO_TEST_CASE(empty_quoted_fields) {
  BOOST_TEST(only_entry(with_field(0, "\"\"")).ia_name.empty());
  BOOST_TEST(only_entry(with_field(4, "\"\"")).library_path.empty());
  BOOST_TEST(only_entry(with_field(6, "\"\"")).ia_params.empty());
  check_dropped(with_field(1, "\"\""), "api_version is \"\"");
  check_dropped(with_field(2, "\"\""), "threadsafety is \"\"");
  check_dropped(with_field(3, "\"\""), "default is \"\"");
  check_dropped(with_field(5, "\"\""), "provider_version is \"\"");
}

BOOST_AUTO_TEST_CASE(unterminated_quotes_end_with_the_line) {
  check_dropped(with_field(6, "\"d 0"), "");  // consumes the opening quote of the last field
  check_dropped("name u2.0 nonthreadsafe default l dapl.2.0 \"d 0", "does not end on the line");
  check_dropped("\"name", "does not end on the line");
  check_dropped("name u2.0 nonthreadsafe default l dapl.2.0 \"d 0\\\"", "does not end");
  check_dropped("name u2.0 nonthreadsafe default l dapl.2.0 x \"\\", "does not end on the line");
}

BOOST_AUTO_TEST_CASE(no_line_continuation) {
  const Conf conf =
      parse_conf("n u2.0 nonthreadsafe default l \\\ndapl.2.0 \"p 1\" \"\"\n" + std::string(kGood));
  BOOST_TEST(conf.entries.size() == 1U);
  BOOST_TEST(conf.diagnostics.size() == 2U);
}

BOOST_AUTO_TEST_CASE(number_of_fields) {
  const std::string fields[] = {"n", "u2.0", "nonthreadsafe", "default", "l", "dapl.2.0", "p"};
  std::string line;
  for (std::size_t i = 0; i < 7; ++i) {
    line += fields[i] + ' ';
    check_dropped(line, "only " + std::to_string(i + 1) + " of 8 fields");
  }
  check_dropped(std::string(kGood) + " ninth", "more than 8 fields");
  check_dropped(std::string(kGood) + " \"\"", "more than 8 fields");
}

BOOST_AUTO_TEST_CASE(name_of_256_characters_is_dropped) {
  BOOST_TEST(only_entry(with_field(0, std::string(255, 'n'))).ia_name.size() == 255U);
  check_dropped(with_field(0, std::string(256, 'n')), "256 characters");
}

BOOST_AUTO_TEST_CASE(api_version_is_parsed_or_dropped) {
  struct {
    const char* text;
    unsigned major, minor;
  } const good[] = {{"u2.0", 2, 0},
                    {"u1.2", 1, 2},
                    {"u2.1", 2, 1},
                    {"u02.00", 2, 0},
                    {"u0.0", 0, 0},
                    {"u10.20", 10, 20},
                    {"u4294967295.0", 4294967295U, 0}};
  for (const auto& row : good) {
    const ConfEntry entry = only_entry(with_field(1, row.text));
    BOOST_TEST(entry.major == row.major);
    BOOST_TEST(entry.minor == row.minor);
  }
  for (const char* text : {"2.0", "U2.0", "u", "u2", "u2.", "u.0", "u2.0.1", "u2.0x", "ux.0",
                           "u-2.0", "u+2.0", "u 2.0", "u2,0", "x2.0", "u4294967296.0", "uu2.0"})
    check_dropped(with_field(1, std::string("\"") + text + '"'), "api_version is ");
}

BOOST_AUTO_TEST_CASE(kernel_and_nondefault_entries_are_skipped) {
  check_dropped(with_field(1, "k2.0"), "kernel", ConfIssue::kSkipped);
  check_dropped(with_field(3, "nondefault"), "nondefault", ConfIssue::kSkipped);
  const Conf conf = parse_conf(with_field(3, "nondefault"));
  BOOST_TEST(conf.diagnostics.at(0).ia_name == "name");
  // Malformed lines are reported as such, even if they would be skipped.
  check_dropped("name k2.0 nonthreadsafe nondefault l bad \"\" \"\"", "provider_version");
}

BOOST_AUTO_TEST_CASE(keywords_match_exactly_and_in_case) {
  BOOST_TEST(only_entry(with_field(2, "threadsafe")).thread_safe);
  BOOST_TEST(!only_entry(with_field(2, "nonthreadsafe")).thread_safe);
  for (const char* text : {"Threadsafe", "thread", "threadsaf", "NONTHREADSAFE", "yes", "1"})
    check_dropped(with_field(2, text), "threadsafety is ");
  for (const char* text : {"Default", "defaul", "non", "nondefaul", "yes"})
    check_dropped(with_field(3, text), "default is ");
}

BOOST_AUTO_TEST_CASE(keyword_prefixes_are_accepted_with_a_remark) {
  struct {
    std::size_t field;
    const char* text;
  } const rows[] = {{2, "nonthreadsafeXYZ"}, {2, "threadsafe,"}, {3, "default1"}};
  for (const auto& row : rows) {
    const Conf conf = parse_conf(with_field(row.field, row.text));
    BOOST_TEST(conf.entries.size() == 1U);
    BOOST_TEST_REQUIRE(conf.diagnostics.size() == 1U);
    BOOST_CHECK(conf.diagnostics[0].issue == ConfIssue::kTolerated);
  }
  BOOST_TEST(parse_conf(with_field(2, "threadsafe,")).entries.at(0).thread_safe);
  BOOST_TEST(!parse_conf(with_field(2, "nonthreadsafeXYZ")).entries.at(0).thread_safe);
}

BOOST_AUTO_TEST_CASE(provider_version_without_dots_is_dropped) {
  for (const char* text : {"dapl.2.0", "d.1.22", "my.dapl.2.0", "ri.02.00"})
    BOOST_TEST(only_entry(with_field(5, text)).provider_version == text);
  for (const char* text : {"2.0", ".2.0", "dapl2.0", "dapl", "dapl.2", "dapl.2.", "dapl..0",
                           "dapl.x.0", "dapl.2.0x", "."})
    check_dropped(with_field(5, text), "provider_version is ");
}

BOOST_AUTO_TEST_CASE(duplicates_are_kept_in_order) {
  const Conf conf = parse_conf(with_field(4, "first.so") + '\n' + with_field(4, "second.so"));
  BOOST_TEST_REQUIRE(conf.entries.size() == 2U);
  BOOST_TEST(conf.entries[0].library_path == "first.so");
  BOOST_TEST(conf.entries[1].library_path == "second.so");
}

BOOST_AUTO_TEST_CASE(bad_lines_do_not_hide_good_ones) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "\"bad\nbad \"\"\" x\n\\\n\"\n";
  const Conf conf = parse_conf(text + std::string(kGood));
  BOOST_TEST_REQUIRE(conf.entries.size() == 1U);
  BOOST_TEST(conf.entries[0].line == 401U);
  BOOST_TEST(conf.diagnostics.size() == 400U);
}

BOOST_AUTO_TEST_CASE(nul_characters_are_refused) {
  using namespace std::string_view_literals;
  check_dropped("na\0me u2.0 nonthreadsafe default l dapl.2.0 p \"\""sv, "NUL");
  check_dropped("name u2.0 nonthreadsafe default l\0 dapl.2.0 p \"\""sv, "NUL");
}

BOOST_AUTO_TEST_CASE(messages_are_printable) {
  const Conf conf = parse_conf(with_field(1, "u2\x1b[31m\xff"));
  BOOST_TEST_REQUIRE(conf.diagnostics.size() == 1U);
  for (const char c : conf.diagnostics[0].reason) BOOST_TEST((c >= 0x20 && c < 0x7f));
}

// A line truncated anywhere is dropped, or kept if the rest is complete; the next line is never
// lost.
BOOST_AUTO_TEST_CASE(every_prefix_of_a_line) {
  const std::string line = R"("a \" b" u2.0 nonthreadsafe default "l\\" dapl.2.0 "p 1" "" # end)";
  for (std::size_t length = 0; length <= line.size(); ++length) {
    const Conf conf = parse_conf(line.substr(0, length) + '\n' + std::string(kGood));
    BOOST_TEST_REQUIRE(!conf.entries.empty());
    BOOST_TEST(conf.entries.back().ia_name == "good");
    BOOST_TEST(conf.entries.size() + conf.diagnostics.size() <= 2U);
  }
}

BOOST_AUTO_TEST_SUITE_END()
