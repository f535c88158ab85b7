// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <boost/test/unit_test.hpp>

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// The checklist: what DAT asks of a provider (docs/conformance.md), and the tests that prove its
// lines. Its sections are numbered 10.1 to 10.13.
namespace conformance {

struct Assertion {
  int number;
  std::string_view section;  // "10.7", or of which program: "ofa 2.1"
  std::string_view id;
  std::string_view title;
  // Where it is proven if not here: "tests/FOLDER/FILE:TEST", or a sentence. Null if a test of this
  // program has the same name or covers it.
  const char* elsewhere;
};

std::span<const Assertion> checklist();
const Assertion* find_assertion(std::string_view id);

// A decorator: the test (or suite) proves these lines, too, besides the line of its own name. Names
// are separated by blanks: BOOST_AUTO_TEST_CASE(evd_wait_timeout,
// *covers("evd_wait_timeout_zero")).
class covers : public boost::unit_test::decorator::base {
 public:
  explicit covers(const char* ids) : ids_(ids) {}

 private:
  void apply(boost::unit_test::test_unit& unit) override;
  [[nodiscard]] boost::unit_test::decorator::base_ptr clone() const override {
    return boost::unit_test::decorator::base_ptr(new covers(ids_));
  }
  const char* ids_;
};

// For each line, the paths ("suite/test") of the leaf tests that prove it. Complete once Boost.Test
// has set up its tree, which applies the decorators.
std::map<std::string_view, std::vector<std::string>> proofs();

// The names in decorators that are no lines of the checklist; empty if all is well.
std::vector<std::string> unknown_covers();

}  // namespace conformance
