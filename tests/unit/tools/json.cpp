// SPDX-License-Identifier: MIT OR GPL-2.0-only
#define BOOST_TEST_MODULE tools
#include "tools/json.h"

#include <boost/test/unit_test.hpp>
#include <string>
#include <string_view>

namespace {

std::string quoted(std::string_view text) { return tools::Json().text(text).result(); }

}  // namespace

BOOST_AUTO_TEST_SUITE(json)

BOOST_AUTO_TEST_CASE(ascii_is_escaped_as_needed) {
  BOOST_TEST(quoted("") == R"("")");
  BOOST_TEST(quoted("a b~") == R"("a b~")");
  BOOST_TEST(quoted("\"\\\n\t\x7f") == R"("\"\\\n\u0009\u007f")");
  BOOST_TEST(quoted(std::string_view("\0", 1)) == R"("\u0000")");
}

BOOST_AUTO_TEST_CASE(control_characters_are_escaped) {
  BOOST_TEST(quoted("\x1b[m") == R"("\u001b[m")");
  BOOST_TEST(quoted("\xc2\x80|\xc2\x9bm|\xc2\x9f") == R"("\u0080|\u009bm|\u009f")");
}

BOOST_AUTO_TEST_CASE(utf8_is_passed_on) {
  for (const char* text :
       {"\xc2\xa0", "gr\xc3\xbc\xc3\x9f", "\xdf\xbf", "\xe0\xa0\x80", "\xe2\x82\xac",
        "\xed\x9f\xbf", "\xee\x80\x80", "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"})
    BOOST_TEST(quoted(text) == '"' + std::string(text) + '"');
}

BOOST_AUTO_TEST_CASE(bytes_that_are_not_utf8_are_escaped) {
  BOOST_TEST(quoted("\xfc") == R"("\u00fc")");  // Latin-1
  BOOST_TEST(quoted("\xc3") == R"("\u00c3")");  // cut off
  BOOST_TEST(quoted("\xc3x") == R"("\u00c3x")");
  BOOST_TEST(quoted("\xe2\x82") == R"("\u00e2\u0082")");
  BOOST_TEST(quoted("\x80\xbf") == R"("\u0080\u00bf")");
  BOOST_TEST(quoted("\xc1\xbf") == R"("\u00c1\u00bf")");  // overlong forms
  BOOST_TEST(quoted("\xe0\x9f\xbf") == R"("\u00e0\u009f\u00bf")");
  BOOST_TEST(quoted("\xf0\x8f\xbf\xbf") == R"("\u00f0\u008f\u00bf\u00bf")");
  BOOST_TEST(quoted("\xed\xa0\x80") == R"("\u00ed\u00a0\u0080")");            // a surrogate
  BOOST_TEST(quoted("\xf4\x90\x80\x80") == R"("\u00f4\u0090\u0080\u0080")");  // beyond U+10FFFF
  BOOST_TEST(quoted("\xf5\x80\x80\x80") == R"("\u00f5\u0080\u0080\u0080")");
  BOOST_TEST(quoted("\xff\xc3\xbc") == "\"\\u00ff\xc3\xbc\"");
}

BOOST_AUTO_TEST_SUITE_END()
