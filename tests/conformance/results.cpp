// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "results.h"

#include <boost/test/execution_monitor.hpp>
#include <boost/test/results_collector.hpp>
#include <boost/test/unit_test.hpp>
#include <boost/test/unit_test_log.hpp>
#include <boost/test/unit_test_log_formatter.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "checklist.h"
#include "harness.h"

namespace conformance {

namespace ut = boost::unit_test;

int Results::count(Outcome outcome) const {
  return static_cast<int>(std::count_if(
      all_.begin(), all_.end(), [&](const Result& result) { return result.outcome == outcome; }));
}

namespace {

struct Counts {
  int of[3] = {};
  int& operator[](Outcome outcome) { return of[static_cast<int>(outcome)]; }
};

std::string suite_of(const std::string& path) { return path.substr(0, path.find('/')); }

// A line of the checklist is proven if every test that covers it has run and passed. It is broken
// if one of them failed.
Counts judge_checklist(const std::vector<Result>& results) {
  std::map<std::string_view, Outcome> outcomes;
  for (const Result& result : results) outcomes.emplace(result.path, result.outcome);
  Counts counts;
  for (const auto& [id, paths] : proofs()) {
    bool failed = false;
    bool passed = false;
    bool ran = false;
    for (const std::string& path : paths) {
      const auto found = outcomes.find(path);
      if (found == outcomes.end()) continue;
      ran = true;
      failed = failed || found->second == Outcome::kFailed;
      passed = passed || found->second == Outcome::kPassed;
    }
    if (!ran) continue;
    ++counts[failed ? Outcome::kFailed : passed ? Outcome::kPassed : Outcome::kSkipped];
  }
  return counts;
}

}  // namespace

void Results::print_summary(std::FILE* out) const {
  std::vector<std::string> order;
  std::map<std::string, Counts> suites;
  for (const Result& result : all_) {
    const std::string suite = suite_of(result.path);
    if (suites.count(suite) == 0) order.push_back(suite);
    ++suites[suite][result.outcome];
  }
  for (const Result& result : all_) {
    if (result.outcome != Outcome::kFailed) continue;
    std::fprintf(out, "FAILED %s\n%s\n", result.path.c_str(), result.text.c_str());
  }
  std::fprintf(out, "\n%-20s %7s %7s %7s\n", "group", "passed", "failed", "skipped");
  const auto row = [&](const char* name, Counts& counts) {
    std::fprintf(out, "%-20s %7d %7d %7d\n", name, counts[Outcome::kPassed],
                 counts[Outcome::kFailed], counts[Outcome::kSkipped]);
  };
  for (const std::string& suite : order) row(suite.c_str(), suites[suite]);
  Counts total;
  for (const Outcome outcome : {Outcome::kPassed, Outcome::kFailed, Outcome::kSkipped})
    total[outcome] = count(outcome);
  row("all tests", total);
  Counts lines = judge_checklist(all_);
  row("checklist lines", lines);
}

namespace {

std::string xml(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '&':
        result += "&amp;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:  // characters that XML cannot represent become question marks
        result += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? '?' : c;
    }
  }
  return result;
}

void write_case(std::ostream& out, const Result& result) {
  const std::size_t slash = result.path.find('/');
  out << "  <testcase classname=\"" << xml(result.path.substr(0, slash)) << "\" name=\""
      << xml(slash == std::string::npos ? result.path : result.path.substr(slash + 1))
      << "\" time=\"" << result.seconds << "\"";
  const std::string first_line = result.text.substr(0, result.text.find('\n'));
  switch (result.outcome) {
    case Outcome::kPassed:
      out << "/>\n";
      break;
    case Outcome::kFailed:
      out << "><failure message=\"" << xml(first_line) << "\">" << xml(result.text)
          << "</failure></testcase>\n";
      break;
    case Outcome::kSkipped:
      out << "><skipped message=\"" << xml(first_line) << "\"/></testcase>\n";
      break;
  }
}

}  // namespace

bool Results::write_junit(const std::string& file) const {
  std::ofstream out(file);
  double seconds = 0;
  for (const Result& result : all_) seconds += result.seconds;
  out << "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"datconform\" tests=\""
      << all_.size() << "\" failures=\"" << count(Outcome::kFailed) << "\" errors=\"0\" skipped=\""
      << count(Outcome::kSkipped) << "\" time=\"" << seconds << "\">\n  <properties>\n"
      << "    <property name=\"ia\" value=\"" << xml(options().ia) << "\"/>\n"
      << "    <property name=\"threadsafe\" value=\""
      << (options().thread_safe == DAT_TRUE ? "true" : "false") << "\"/>\n  </properties>\n";
  for (const Result& result : all_) write_case(out, result);
  out << "</testsuite>\n";
  out.flush();
  return static_cast<bool>(out);
}

// ---- recording ----

namespace {

// Collects the texts of failures from Boost.Test's log.
class Texts : public ut::unit_test_log_formatter {
 public:
  explicit Texts(std::string& into) : into_(into) { set_log_level(ut::log_all_errors); }

 private:
  void log_start(std::ostream&, ut::counter_t) override {}
  void log_finish(std::ostream&) override {}
  void log_build_info(std::ostream&, bool) override {}
  void test_unit_start(std::ostream&, const ut::test_unit&) override {}
  void test_unit_finish(std::ostream&, const ut::test_unit&, unsigned long) override {}
  void log_exception_start(std::ostream&, const ut::log_checkpoint_data& at,
                           const boost::execution_exception& exception) override {
    begin(at.m_file_name, at.m_line_num);
    add(exception.what());
  }
  void log_exception_finish(std::ostream&) override {}
  void log_entry_start(std::ostream&, const ut::log_entry_data& entry, log_entry_types) override {
    begin(entry.m_file_name, entry.m_line_num);
  }
  void log_entry_value(std::ostream&, ut::const_string value) override { add(value); }
  void log_entry_finish(std::ostream&) override {}
  void entry_context_start(std::ostream&, ut::log_level) override {}
  void log_entry_context(std::ostream&, ut::log_level, ut::const_string value) override {
    into_ += "; ";
    add(value);
  }
  void entry_context_finish(std::ostream&, ut::log_level) override {}

  void begin(ut::const_string file, std::size_t line) {
    const std::string_view path(file.begin(), file.size());
    if (!into_.empty()) into_ += '\n';
    into_ += "  ";
    into_ += path.substr(path.rfind('/') + 1);
    into_ += ":" + std::to_string(line) + ": ";
  }
  void add(ut::const_string value) { into_.append(value.begin(), value.size()); }

  std::string& into_;
};

}  // namespace

class Recorder::Observer : public ut::test_observer {
 public:
  explicit Observer(Results& results) : results_(results) {
    // The log owns the formatter and deletes it; the text outlives both.
    ut::unit_test_log.add_formatter(new Texts(text()));
    ut::framework::register_observer(*this);
  }
  ~Observer() override { ut::framework::deregister_observer(*this); }

 private:
  static std::string& text() {
    static std::string failures;
    return failures;
  }

  void test_unit_start(const ut::test_unit& unit) override {
    if (unit.p_type != ut::TUT_CASE) return;
    text().clear();
    take_skip_reasons();
    started_ = std::chrono::steady_clock::now();
  }
  void test_unit_finish(const ut::test_unit& unit, unsigned long) override {
    if (unit.p_type != ut::TUT_CASE) return;
    Result result;
    result.path = unit.full_name();
    end_observed_test(result.path.c_str());
    result.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
    const std::string reasons = take_skip_reasons();
    if (!ut::results_collector.results(unit.p_id).passed()) {
      result.outcome = Outcome::kFailed;
      result.text = text();
    } else if (!reasons.empty()) {
      result.outcome = Outcome::kSkipped;
      result.text = reasons;
    }
    results_.add(std::move(result));
  }
  void test_unit_skipped(const ut::test_unit& unit, ut::const_string reason) override {
    if (unit.p_type != ut::TUT_CASE || !unit.is_enabled()) return;  // or it was not selected
    constexpr std::string_view kBoosts = "precondition failed: ";
    std::string_view why(reason.begin(), reason.size());
    if (why.substr(0, kBoosts.size()) == kBoosts) why.remove_prefix(kBoosts.size());
    results_.add({unit.full_name(), Outcome::kSkipped, 0, std::string(why)});
  }
  int priority() override { return 100; }  // after the collector of results

  Results& results_;
  std::chrono::steady_clock::time_point started_;
};

Recorder::Recorder(Results& results) : observer_(std::make_unique<Observer>(results)) {}
Recorder::~Recorder() = default;

}  // namespace conformance
