// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

// The results of a run: one per test, a table at the end, and a JUnit file.
namespace conformance {

enum class Outcome { kPassed, kFailed, kSkipped };

struct Result {
  std::string path;  // suite/test
  Outcome outcome = Outcome::kPassed;
  double seconds = 0;
  std::string text;  // what failed, or why the test was skipped
};

// The results of one run. Not thread-safe.
class Results {
 public:
  void add(Result result) { all_.push_back(std::move(result)); }
  [[nodiscard]] const std::vector<Result>& all() const { return all_; }
  [[nodiscard]] int count(Outcome outcome) const;

  // Prints a table of passed, failed and skipped tests per suite, how many lines of the checklist
  // the run proved, and all failures again.
  void print_summary(std::FILE* out) const;
  // Returns false, with errno set, if the file cannot be written.
  [[nodiscard]] bool write_junit(const std::string& file) const;

 private:
  std::vector<Result> all_;
};

// While it exists, adds the tests that Boost.Test runs in this process to `results`.
class Recorder {
 public:
  explicit Recorder(Results& results);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

 private:
  class Observer;
  std::unique_ptr<Observer> observer_;
};

}  // namespace conformance
