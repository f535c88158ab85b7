// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Points, records and sinks within one process: what each level shows, and the format of a line.
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include "common/errno_text.h"
#include "common/result.h"
#include "common/tracing/trace.h"
#include "common/tracing/trace_sink.h"

namespace {

using namespace udapl;

// A file to write to, in a folder of its own that the destructor removes.
class LogFile {
 public:
  LogFile() : folder_("trace." + std::string(6, 'X')) {
    BOOST_REQUIRE(::mkdtemp(folder_.data()) != nullptr);
  }
  ~LogFile() { std::filesystem::remove_all(folder_); }
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;
  [[nodiscard]] std::string path() const { return folder_ + "/log"; }

 private:
  std::string folder_;
};

// Runs `body` in a child process, because init() works only once per process. Returns what it
// writes to stderr.
std::string output_of(const std::function<void()>& body) {
  int ends[2];
  BOOST_REQUIRE_EQUAL(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[0]);
    body();
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(n));
  ::close(ends[0]);
  int status = 0;
  BOOST_REQUIRE_EQUAL(::waitpid(child, &status, 0), child);
  BOOST_TEST(status == 0);
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

void start(const char* level) {
  ::setenv("DAPL_TRACE_LEVEL", level, 1);
  trace::init("dapl-test", "DAPL_TRACE_LEVEL");
}

// Writes a record with fields, as the trace points of the provider table do.
void point(const trace::Record& record) {
  if (trace::enabled(static_cast<trace::Level>(record.level))) trace::emit(record);
}

trace::Identity describe_test(const void*) noexcept { return {.ia = "ia0", .type = "EP"}; }

}  // namespace

BOOST_AUTO_TEST_SUITE(records)

BOOST_AUTO_TEST_CASE(a_point_is_enabled_from_its_level_upwards) {
  for (int level = 0; level <= trace::kMax; ++level) {
    const std::string text = output_of([level] {
      start(std::to_string(level).c_str());
      UDAPL_TRACE(kError, "error");
      UDAPL_TRACE(kNormal, "normal");
      point({.level = trace::kCalls, .kind = trace::Kind::kCall, .function = "ep_connect"});
      point({.level = trace::kDetail, .kind = trace::Kind::kArm, .text = "armed"});
    });
    const std::size_t expected = std::size_t{level >= 1} + std::size_t{level >= 3} +
                                 std::size_t{level >= 5} + std::size_t{level >= 7};
    BOOST_TEST(lines_of(text).size() == expected, "level " << level << ":\n" << text);
  }
}

BOOST_AUTO_TEST_CASE(arguments_of_a_disabled_point_are_not_evaluated) {
  trace::set_level(0);
  int calls = 0;
  UDAPL_TRACE(kError, "%d", ++calls);
  BOOST_TEST(calls == 0);
  trace::set_level(trace::kDefaultLevel);
}

BOOST_AUTO_TEST_CASE(a_line_has_time_object_function_and_reason) {
  static const int object = 0;
  const std::string text = output_of([] {
    start("3");
    trace::set_describe(&describe_test);
    const trace::About about(&object);
    errno = ECONNREFUSED;
    UDAPL_TRACE_ERROR(kNormal, dat_error(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_CONNECTED),
                      "no way: %s", ErrnoText(errno).c_str());
    if (errno != ECONNREFUSED) ::_exit(1);
  });
  const std::regex form(
      R"(\d\d:\d\d:\d\d\.\d{6} \d+/\d+ dapl-test normal ia0/EP=0x[0-9a-f]+ test_method: )"
      R"(no way: Connection refused \(ECONNREFUSED\) \[DAT_INVALID_STATE, DAT_INVALID_STATE_EP_CONNECTED 0x[0-9a-f]+\]\n)");
  BOOST_TEST(std::regex_match(text, form), text);
}

void takes_a_function(void (*)(int)) {
  const auto inner = [] { UDAPL_TRACE(kNormal, "inside"); };
  inner();
}

BOOST_AUTO_TEST_CASE(lambda_is_named_after_its_function) {
  const std::string text = output_of([] {
    start("3");
    takes_a_function(nullptr);
  });
  BOOST_TEST(text.find(" takes_a_function: inside\n") != std::string::npos, text);
}

BOOST_AUTO_TEST_CASE(the_innermost_object_counts) {
  static const int outer = 0;
  static const int inner = 0;
  const std::string text = output_of([] {
    start("7");
    const trace::About about(&outer);
    UDAPL_TRACE(kDetail, "1");
    {
      const trace::About nested(&inner);
      UDAPL_TRACE(kDetail, "2");
      point({.level = trace::kDetail, .kind = trace::Kind::kWake, .object = &outer, .text = "3"});
    }
    UDAPL_TRACE(kDetail, "4");
  });
  std::ostringstream a, b;
  a << "handle=" << &outer << ' ';
  b << "handle=" << &inner << ' ';
  const auto lines = lines_of(text);
  BOOST_REQUIRE_EQUAL(lines.size(), 4);
  BOOST_TEST(lines[0].find(a.str()) != std::string::npos, lines[0]);
  BOOST_TEST(lines[1].find(b.str()) != std::string::npos, lines[1]);
  BOOST_TEST(lines[2].find(a.str()) != std::string::npos, lines[2]);
  BOOST_TEST(lines[3].find(a.str()) != std::string::npos, lines[3]);
}

BOOST_AUTO_TEST_CASE(one_record_is_one_line_of_limited_length) {
  const std::string text = output_of([] {
    start("1");
    UDAPL_TRACE(kError, "two\nlines");
    UDAPL_TRACE(kError, "%s", std::string(5000, 'x').c_str());
  });
  const auto lines = lines_of(text);
  BOOST_REQUIRE_EQUAL(lines.size(), 2);
  BOOST_TEST(lines[0].find("two lines") != std::string::npos);
  BOOST_TEST(lines[1].size() < 1024);
  BOOST_TEST(lines[1].size() > 1000);
}

// With buffers of every size, to check that rendering neither writes beyond the end nor omits the
// newline.
BOOST_AUTO_TEST_CASE(rendering_stays_within_its_buffer) {
  for (std::uint32_t kind = 0; kind <= static_cast<std::uint32_t>(trace::Kind::kVerbsWork);
       ++kind) {
    const trace::Record record{.level = 7,
                               .kind = static_cast<trace::Kind>(kind),
                               .code = -1,
                               .cookie = ~std::uint64_t{0},
                               .length = ~std::uint64_t{0},
                               .object = &kind,
                               .component = "dapl-test",
                               .ia = "ia0",
                               .type = "EP",
                               .function = "function",
                               .text = "text",
                               .detail = "detail",
                               .status = "status"};
    for (std::size_t room = 2; room < 400; ++room) {
      std::vector<char> line(room + 1, '#');
      const std::size_t length = trace::render(record, line.data(), room);
      BOOST_REQUIRE_LE(length, room);
      BOOST_REQUIRE_EQUAL(line[length - 1], '\n');
      BOOST_REQUIRE_EQUAL(line[room], '#');
    }
  }
}

BOOST_AUTO_TEST_CASE(a_bad_level_is_reported_and_the_default_used) {
  const std::string text = output_of([] {
    start("eleven");
    UDAPL_TRACE(kNormal, "not shown");
  });
  BOOST_TEST(lines_of(text).size() == 1, text);
  BOOST_TEST(text.find("DAPL_TRACE_LEVEL=\"eleven\" is not a number from 0 to 10, using 1") !=
                 std::string::npos,
             text);
}

BOOST_AUTO_TEST_CASE(records_go_to_a_file) {
  const LogFile log;
  const std::string text = output_of([&log] {
    ::setenv("DAT_TRACE_SINK", ("file:" + log.path()).c_str(), 1);
    start("1");
    UDAPL_TRACE(kError, "to the file");
  });
  BOOST_TEST(text.empty(), text);
  std::ifstream file(log.path());
  std::string line;
  BOOST_TEST(static_cast<bool>(std::getline(file, line)));
  BOOST_TEST(line.ends_with(": to the file"), line);
}

// On stderr an explanation is printed as it is; in a file each line has the time and the process.
BOOST_AUTO_TEST_CASE(multi_line_reports_go_to_the_sinks_of_records) {
  constexpr const char* kStory = "dat: cannot open it:\ndat:   because of that\n";
  BOOST_TEST(output_of([] {
               start("1");
               trace::report("open", "dat: ", kStory);
               trace::set_level(0);
               trace::report("open", "dat: ", kStory);
             }) == kStory);

  const LogFile log;
  const std::string text = output_of([&log] {
    ::setenv("DAT_TRACE_SINK", ("file:" + log.path()).c_str(), 1);
    start("1");
    trace::report("open", "dat: ", kStory);
  });
  BOOST_TEST(text.empty(), text);
  std::ifstream file(log.path());
  const std::vector<std::string> lines = lines_of({std::istreambuf_iterator<char>(file), {}});
  BOOST_REQUIRE_EQUAL(lines.size(), 2);
  BOOST_TEST(lines[0].ends_with(" dapl-test error - open: cannot open it:"), lines[0]);
  BOOST_TEST(lines[1].ends_with(" dapl-test error - open:   because of that"), lines[1]);
}

BOOST_AUTO_TEST_CASE(a_file_that_cannot_be_opened_is_reported) {
  const std::string text = output_of([] {
    ::setenv("DAPL_TRACE_SINK", "file:no/such/folder/log", 1);
    start("1");
    UDAPL_TRACE(kError, "on stderr then");
  });
  BOOST_TEST(lines_of(text).size() == 2, text);
  BOOST_TEST(text.find("cannot write to no/such/folder/log: No such file or directory (ENOENT)") !=
                 std::string::npos,
             text);
}

BOOST_AUTO_TEST_CASE(the_level_changes_while_it_runs) {
  const std::string text = output_of([] {
    start("0");
    UDAPL_TRACE(kDetail, "before");
    trace::set_level(trace::kDetail);
    UDAPL_TRACE(kDetail, "between");
    trace::set_level(0);
    UDAPL_TRACE(kError, "after");
  });
  BOOST_TEST(lines_of(text).size() == 1, text);
  BOOST_TEST(text.find("between") != std::string::npos, text);
}

namespace {
int probed = 0;
void count_probed(const trace::Record* record) {
  BOOST_TEST(record->size == sizeof(trace::Record));
  BOOST_TEST(record->text != nullptr);
  ++probed;
}
}  // namespace

BOOST_AUTO_TEST_CASE(a_probe_gets_every_record_at_any_level) {
  trace::set_level(0);
  trace::set_probe(&count_probed);
  UDAPL_TRACE(kError, "1");
  point({.level = trace::kPayload, .text = "2"});
  BOOST_TEST(probed == 2);
  BOOST_TEST(trace::level() == 0);
  trace::set_level(trace::kDetail);  // does not detach the probe
  trace::set_level(0);
  point({.level = trace::kDetail, .text = "3"});
  BOOST_TEST(probed == 3);
  trace::report("open", "dat: ", "dat: two\ndat:   lines\n");
  BOOST_TEST(probed == 5);
  trace::set_probe(nullptr);
  BOOST_TEST(!trace::enabled(trace::kError));
  trace::set_level(trace::kDefaultLevel);
}

BOOST_AUTO_TEST_SUITE_END()
