// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/tree/traverse.hpp>
#include <boost/test/tree/visitor.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "boost_init.h"
#include "checklist.h"
#include "command_line.h"
#include "harness.h"
#include "isolate.h"
#include "observe.h"
#include "partner.h"
#include "quirks.h"
#include "results.h"

// The command line of datconform.
namespace conformance {

namespace ut = boost::unit_test;

namespace {

constexpr const char* kUsage =
    R"(usage: datconform --ia NAME [OPTION...]

Runs the conformance suite for uDAPL 2.0 on an interface adapter of dat.conf.

  --ia NAME            the IA to open (default: soft)
  --threadsafe         open the entry that is declared thread-safe
  --peer HOST[:PORT]   two hosts: the partner of the suite "remote" is a datconform --listen there;
                       without it that suite starts a second process on this host
  --listen[=PORT]      be that partner until a signal comes (default port: 7219)
  --run_test=FILTER    only these, as SUITE, SUITE/TEST or SUITE/TES*; ! before it excludes
  --isolate[=SECONDS]  each test in a process of its own, with a time limit (default: 60): for a
                       provider that crashes or hangs
  --jobs=N             with --isolate: so many tests at a time
  --fail-fast          run no test after the first that fails
  --quirks FILE        tests not to run, one a line: TEST REASON
  --junit FILE         write the results there as JUnit XML
  --observe FILE       add a line to the file for each code that a function returned in a test
  --list               the lines of the checklist and the tests that prove them; then end
  --coverage           the lines that nothing proves; exit status 1 if there are any
  --help               this text
  --version            the version of udapl

Exit status: 0 all passed or skipped, 1 something failed, 2 wrong usage. Every other option is
Boost.Test's, such as --log_level=test_suite or --list_content.
)";

constexpr int kFailedStatus = 1;
constexpr int kUsageStatus = 2;

// ---- what the program is asked for ----

void list() {
  const auto proven = proofs();
  for (const Assertion& assertion : checklist()) {
    std::string where;
    if (const auto found = proven.find(assertion.id); found != proven.end())
      for (const std::string& path : found->second) where += (where.empty() ? "" : " ") + path;
    if (where.empty() && assertion.elsewhere != nullptr) where = assertion.elsewhere;
    std::printf("%d\t%.*s\t%.*s\t%.*s\t%s\n", assertion.number,
                static_cast<int>(assertion.section.size()), assertion.section.data(),
                static_cast<int>(assertion.id.size()), assertion.id.data(),
                static_cast<int>(assertion.title.size()), assertion.title.data(), where.c_str());
  }
}

// Prints the lines of the checklist that have neither a test here nor a place elsewhere, and names
// in decorators that are no lines.
int coverage() {
  const auto proven = proofs();
  int missing = 0;
  for (const Assertion& assertion : checklist()) {
    if (proven.count(assertion.id) != 0 || assertion.elsewhere != nullptr) continue;
    std::printf("no test: %d %.*s\n", assertion.number, static_cast<int>(assertion.id.size()),
                assertion.id.data());
    ++missing;
  }
  const std::vector<std::string> unknown = unknown_covers();
  for (const std::string& id : unknown) std::printf("no such line: %s\n", id.c_str());
  std::printf("%zu lines, %d without a test\n", checklist().size(), missing);
  return missing == 0 && unknown.empty() ? 0 : kFailedStatus;
}

// The tests selected by the filters, in order.
std::vector<ut::test_unit_id> chosen() {
  struct Visitor : ut::test_tree_visitor {
    void visit(const ut::test_case& leaf) override { ids.push_back(leaf.p_id); }
    std::vector<ut::test_unit_id> ids;
  } visitor;
  ut::framework::impl::setup_for_execution(ut::framework::master_test_suite());
  ut::traverse_test_tree(ut::framework::master_test_suite(), visitor);
  return visitor.ids;
}

constexpr const char* kAfterFailure = "not run: a test before it has failed";

void apply(const Quirks& quirks, const Command& command, const Results& results) {
  for (const ut::test_unit_id id : chosen()) {
    ut::test_unit& unit = ut::framework::get(id, ut::TUT_CASE);
    const std::string quirk(quirks.reason(unit.full_name()));
    if (quirk.empty() && !command.fail_fast) continue;
    unit.add_precondition([quirk, &results](ut::test_unit_id test_id) {
      std::string reason = quirk;
      if (reason.empty() && results.count(Outcome::kFailed) > 0) reason = kAfterFailure;
      boost::test_tools::assertion_result run(reason.empty());
      if (run) return run;
      std::printf("SKIPPED %s: %s\n", ut::framework::get(test_id, ut::TUT_CASE).full_name().c_str(),
                  reason.c_str());
      run.message() << reason;
      return run;
    });
  }
}

void run_each_alone(const Command& command, const Quirks& quirks, Results& results) {
  std::vector<std::string> arguments{"datconform", "--ia=" + command.options.ia,
                                     "--catch_system_errors=no"};  // let a crash end the process
  if (command.options.thread_safe == DAT_TRUE) arguments.emplace_back("--threadsafe");
  if (!command.options.peer.empty()) arguments.push_back("--peer=" + command.options.peer);
  if (!command.observe.empty()) arguments.push_back("--observe=" + command.observe);
  std::vector<std::string> paths;
  std::vector<Result> results_of_all;
  for (const ut::test_unit_id id : chosen()) {
    const std::string path = ut::framework::get(id, ut::TUT_CASE).full_name();
    const std::string_view reason = quirks.reason(path);
    results_of_all.push_back(
        {path, Outcome::kSkipped, 0, std::string(reason.empty() ? kAfterFailure : reason)});
    if (reason.empty())
      paths.push_back(path);
    else
      std::printf("SKIPPED %s: %.*s\n", path.c_str(), static_cast<int>(reason.size()),
                  reason.data());
  }
  std::fflush(nullptr);  // or the children would print the buffered text again
  auto place = results_of_all.begin();
  run_all_isolated(paths, arguments, command.isolate, command.jobs, [&](Result result) {
    if (result.outcome == Outcome::kFailed)
      std::printf("FAILED %s\n%s\n", result.path.c_str(), result.text.c_str());
    std::fflush(stdout);
    place = std::find_if(place, results_of_all.end(),
                         [&](const Result& at) { return at.path == result.path; });
    const bool failed = result.outcome == Outcome::kFailed;
    *place = std::move(result);
    return !failed || !command.fail_fast;
  });
  for (Result& result : results_of_all) {
    if (result.outcome == Outcome::kSkipped && result.text == kAfterFailure)
      std::printf("SKIPPED %s: %s\n", result.path.c_str(), kAfterFailure);
    results.add(std::move(result));
  }
}

// Returns whether the IA can be opened; if not, every test would fail with the same message. Tries
// it in a child process. Only a refusal counts: if the provider crashes or hangs, the tests tell
// more.
bool ia_opens(const Options& chosen) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    std::string name = chosen.ia;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
    const DAT_RETURN rc = dat_ia_openv(name.data(), 16, &async_evd, &ia, DAT_VERSION_MAJOR,
                                       DAT_VERSION_MINOR, chosen.thread_safe);
    if (rc == DAT_SUCCESS) ::_exit(0);
    std::fprintf(stderr, "datconform: the IA \"%s\"%s does not open: %s\n", chosen.ia.c_str(),
                 chosen.thread_safe == DAT_TRUE ? ", declared thread-safe," : "",
                 describe(rc).c_str());
    std::fflush(nullptr);
    ::_exit(kFailedStatus);
  }
  int status = 0;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return child < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != kFailedStatus;
}

// Says so if a file cannot be written.
bool is_writable(const std::string& file) {
  errno = 0;
  if (file.empty() || std::ofstream(file, std::ios::app)) return true;
  std::fprintf(stderr, "datconform: %s: %s\n", file.c_str(), std::strerror(errno));
  return false;
}

bool observed_all(const Command& command) {
  if (observe_error() == 0) return true;
  std::fprintf(stderr, "datconform: %s: %s\n", command.observe.c_str(),
               std::strerror(observe_error()));
  return false;
}

int run(Command& command) {
  if (!is_writable(command.junit)) return kUsageStatus;  // before the tests, not after them
  // Skip this check if a report of each test, or only the first failure, was requested.
  const bool by_person = command.partner_fd < 0 && command.result_fd < 0 && command.junit.empty() &&
                         !command.fail_fast;
  if (by_person && !ia_opens(command.options)) return kFailedStatus;
  Quirks quirks;
  if (!command.quirks.empty()) {
    const std::string complaint = quirks.load(command.quirks);
    if (!complaint.empty()) {
      std::fprintf(stderr, "datconform: %s\n", complaint.c_str());
      return kUsageStatus;
    }
  }
  if (!command.observe.empty() && !observe_into(command.observe.c_str())) {
    std::fprintf(stderr, "datconform: %s: %s\n", command.observe.c_str(), std::strerror(errno));
    return kUsageStatus;
  }
  Results results;
  if (command.isolate > 0) {
    run_each_alone(command, quirks, results);
  } else {
    const Recorder recorder(results);
    apply(quirks, command, results);
    ut::framework::run();
  }
  const bool complete = observed_all(command);
  if (command.partner_fd >= 0) return report_to_driver(results) ? 0 : kFailedStatus;
  if (command.result_fd >= 0)
    return report_to(command.result_fd, results) && complete ? 0 : kFailedStatus;
  std::printf("\nconformance of IA \"%s\"\n", command.options.ia.c_str());
  results.print_summary(stdout);
  if (!command.junit.empty() && !results.write_junit(command.junit)) {
    std::fprintf(stderr, "datconform: %s: %s\n", command.junit.c_str(), std::strerror(errno));
    return kUsageStatus;
  }
  // A run without any test is a mistake in the filter and not a success.
  const bool good = complete && results.count(Outcome::kFailed) == 0 && !results.all().empty();
  return good ? 0 : kFailedStatus;
}

int main_of(int argc, char** argv) {
  Command command = read_command(argc, argv);
  if (!command.wrong.empty()) {
    std::fprintf(stderr, "datconform: %s\nTry 'datconform --help'.\n", command.wrong.c_str());
    return kUsageStatus;
  }
  if (command.help || command.version) {
    std::fputs(command.help ? kUsage : "datconform (udapl) " UDAPL_VERSION "\n", stdout);
    return 0;
  }
  set_options(command.options);
  if (command.listen > 0) return serve(command.listen);
  std::string test;
  if (command.partner_fd >= 0) {
    test = become_partner(command.partner_fd);
    if (test.empty()) return kFailedStatus;
    test.insert(0, "--run_test=");
    command.rest.push_back(test.data());
  }
  const bool boosts_own = std::any_of(command.rest.begin(), command.rest.end(), [](char* argument) {
    return std::strncmp(argument, "--list_", 7) == 0;
  });
  const int argc_of_rest = static_cast<int>(command.rest.size());
  if (boosts_own) return ut::unit_test_main([] { return true; }, argc_of_rest, command.rest.data());
  init_boost(argc_of_rest, command.rest.data());
  ut::framework::finalize_setup_phase();
  int status = 0;
  if (command.list)
    list();
  else if (command.coverage)
    status = coverage();
  else
    status = run(command);
  ut::framework::shutdown();
  return status;
}

int guarded(int argc, char** argv) {
  try {
    const int status = main_of(argc, argv);
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
    std::fprintf(stderr, "datconform: standard output: %s\n", std::strerror(errno));
    return status == 0 ? kFailedStatus : status;
  } catch (const ut::framework::nothing_to_test& end) {  // --help of Boost.Test and similar
    return end.m_result_code == 0 ? 0 : kUsageStatus;
  } catch (const ut::framework::setup_error& error) {  // the filter selects no test
    std::fprintf(stderr, "datconform: %s\n", error.what());
    return kFailedStatus;
  } catch (const std::exception& error) {  // from Boost.Test: an unknown option, a wrong filter
    std::fprintf(stderr, "datconform: %s\n", error.what());
    return kUsageStatus;
  }
}

}  // namespace

}  // namespace conformance

int main(int argc, char** argv) { return conformance::guarded(argc, argv); }
