// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The destinations of records, and their failures: no record blocks or kills the process, or is
// written to a file that is not the sink's.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <termios.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include "common/printable.h"
#include "common/tracing/trace.h"
#include "common/tracing/trace_limit.h"
#include "common/tracing/trace_output.h"
#include "tests/child/in_child.h"

namespace {

using namespace udapl;

constexpr int kMany = 5000;          // records; more than any pipe or terminal holds
constexpr unsigned kHangLimit = 60;  // seconds after which a hanging child is killed

class Folder {
 public:
  Folder() { BOOST_REQUIRE(::mkdtemp(name_.data()) != nullptr); }
  ~Folder() { std::filesystem::remove_all(name_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string file(const char* name) const { return name_ + '/' + name; }

 private:
  std::string name_ = "sinks.XXXXXX";
};

void expect(bool condition, int status) {
  if (!condition) ::_exit(status);
}

// Runs `body` in a child process, which must end normally.
void in_child(const std::function<void()>& body) {
  test::in_child([&] { return body(), 0; });
}

void start(const char* sink = "stderr") {
  ::setenv("DAPL_TRACE_SINK", sink, 1);
  ::setenv("DAPL_TRACE_LEVEL", "1", 1);
  trace::init("dapl-test", "DAPL_TRACE_LEVEL");
}

void write_many(int count = kMany) {
  for (int i = 0; i < count; ++i) UDAPL_TRACE(kError, "record %d", i);
}

std::string content(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Reads everything that is in `fd`, which must be non-blocking.
std::string drain(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = ::read(fd, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(n));
  return text;
}

long lines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

// The number in the record that reports lost records, or 0 if there is none.
long count_lost(const std::string& text) {
  const std::size_t at = text.find(" could not be written here");
  if (at == std::string::npos) return 0;
  const std::size_t begin = text.rfind("trace: ", at) + std::string("trace: ").size();
  return std::strtol(text.c_str() + begin, nullptr, 10);
}

// Writes records to descriptor 2 while no process reads it; then reads everything, and writes one
// more.
void fills_and_reports_losses(int reader) {
  start();
  write_many();
  ::fcntl(reader, F_SETFL, O_NONBLOCK);
  const std::string before = drain(reader);
  expect(lines(before) > 0 && lines(before) < kMany, 2);
  UDAPL_TRACE(kError, "room again");
  const std::string after = drain(reader);
  expect(count_lost(after) == kMany - lines(before), 3);
  expect(after.find("room again") != std::string::npos, 4);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(sinks)

BOOST_AUTO_TEST_CASE(unread_pipe_loses_records_and_says_so) {
  in_child([] {
    int ends[2];
    expect(::pipe(ends) == 0, 1);
    ::dup2(ends[1], STDERR_FILENO);
    fills_and_reports_losses(ends[0]);
    expect((::fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK) == 0, 5);  // the description is shared
  });
}

BOOST_AUTO_TEST_CASE(unread_socket_loses_records_and_says_so) {
  in_child([] {
    int ends[2];
    expect(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, 1);
    ::dup2(ends[1], STDERR_FILENO);
    fills_and_reports_losses(ends[0]);
  });
}

BOOST_AUTO_TEST_CASE(sink_without_a_reader_raises_no_signal) {
  for (const bool is_pipe : {true, false}) {
    in_child([is_pipe] {
      int ends[2];
      expect((is_pipe ? ::pipe(ends) : ::socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) == 0, 1);
      ::dup2(ends[1], STDERR_FILENO);
      ::close(ends[0]);
      start();
      write_many(10);
      trace::report("open", "dat: ", "dat: several\ndat: lines\n");
      sigset_t pending;
      ::sigpending(&pending);
      expect(::sigismember(&pending, SIGPIPE) == 0, 2);
    });
  }
}

// If the sink cannot open a file description of its own through /proc/self/fd, it writes to the
// shared one.
BOOST_AUTO_TEST_CASE(writes_without_a_free_descriptor_do_not_block) {
  in_child([] {
    int ends[2];
    expect(::pipe(ends) == 0, 1);
    ::dup2(ends[1], STDERR_FILENO);
    start();
    const int next = ::dup(0);
    ::close(next);
    const rlimit none{static_cast<rlim_t>(next), static_cast<rlim_t>(next)};
    expect(::setrlimit(RLIMIT_NOFILE, &none) == 0, 2);
    write_many();
    ::close(ends[0]);
    write_many(10);
  });
}

BOOST_AUTO_TEST_CASE(a_stopped_terminal_does_not_block) {
  for (const bool stopped : {false, true}) {
    in_child([stopped] {
      const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
      expect(master >= 0 && ::grantpt(master) == 0 && ::unlockpt(master) == 0, 1);
      const int slave = ::open(::ptsname(master), O_RDWR | O_NOCTTY);
      expect(slave >= 0, 2);
      if (stopped) expect(::tcflow(slave, TCOOFF) == 0, 3);
      ::dup2(slave, STDERR_FILENO);
      start();
      write_many();
    });
  }
}

BOOST_AUTO_TEST_CASE(a_full_disk_loses_records_and_reports_it) {
  const Folder folder;
  const std::string path = folder.file("log");
  in_child([&] {
    start(("file:" + path).c_str());
    constexpr rlim_t kRoom = 20'000;
    rlimit limit{kRoom, RLIM_INFINITY};
    expect(::setrlimit(RLIMIT_FSIZE, &limit) == 0, 1);
    write_many();  // must not raise SIGXFSZ, which would end the process
    limit.rlim_cur = RLIM_INFINITY;
    expect(::setrlimit(RLIMIT_FSIZE, &limit) == 0, 2);
    UDAPL_TRACE(kError, "room again");
  });
  const std::string text = content(path);
  // Three lines are not counted: the truncated record, which is lost, too, and the last two.
  BOOST_TEST(count_lost(text) == kMany - (lines(text) - 3));
  BOOST_TEST(text.ends_with(": room again\n"));
}

BOOST_AUTO_TEST_CASE(an_unread_log_socket_does_not_block) {
  const Folder folder;
  const std::string path = folder.file("socket");
  const int daemon = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  BOOST_REQUIRE_EQUAL(::bind(daemon, reinterpret_cast<const sockaddr*>(&address), sizeof address),
                      0);
  const int ours = ::socket(AF_UNIX, SOCK_DGRAM, 0);
  trace::Output output;
  ::alarm(kHangLimit);
  for (int i = 0; i < kMany; ++i) output.log(ours, path.c_str(), 11, "a record\n");
  ::alarm(0);
  char line[512];
  long got = 0;
  for (; ::recv(daemon, line, sizeof line, 0) > 0; ++got) {
  }
  BOOST_TEST(got > 0);
  output.log(ours, path.c_str(), 11, "room again\n");
  const ssize_t length = ::recv(daemon, line, sizeof line, 0);
  BOOST_REQUIRE_GT(length, 0);
  const std::string notice(line, static_cast<std::size_t>(length));
  BOOST_TEST(count_lost(notice) == kMany - got, notice);
  BOOST_TEST(notice.starts_with("<11>"), notice);
  BOOST_TEST(::recv(daemon, line, sizeof line, 0) > 0);
  std::filesystem::remove(path);
  output.log(ours, path.c_str(), 11, "no daemon\n");  // as while the daemon is restarted
  ::close(daemon);
  ::close(ours);
}

BOOST_AUTO_TEST_CASE(a_file_with_other_owners_or_links_is_refused) {
  const Folder folder;
  const auto refused = [&](const std::string& path, const char* why) {
    in_child([&] {
      const int log = ::open(folder.file("stderr").c_str(), O_CREAT | O_TRUNC | O_RDWR, 0600);
      ::dup2(log, STDERR_FILENO);
      start(("file:" + path).c_str());
      UDAPL_TRACE(kError, "private");
    });
    const std::string text = content(folder.file("stderr"));
    BOOST_TEST(text.find("cannot write to " + path + ": " + why) != std::string::npos, text);
    BOOST_TEST(text.ends_with(": private\n"), text);
  };
  const std::string fifo = folder.file("fifo");
  BOOST_REQUIRE_EQUAL(::mkfifo(fifo.c_str(), 0600), 0);
  refused(fifo, "No such device or address (ENXIO)");  // it has no reader
  const int reader = ::open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
  refused(fifo, "not a regular file");
  ::close(reader);
  refused("/dev/null", "not a regular file");
  refused("/dev/tty", "");

  const std::string linked = folder.file("linked");
  std::ofstream(linked) << "precious\n";
  std::filesystem::create_hard_link(linked, folder.file("other"));
  refused(linked, "it has more than one name");
  BOOST_TEST(content(linked) == "precious\n");

  if (::geteuid() != 0) {
    BOOST_TEST_MESSAGE("not root: that another user's file is refused was not tried");
    return;
  }
  const std::string foreign = folder.file("foreign");
  std::ofstream(foreign) << "precious\n";
  constexpr uid_t kNobody = 65534;
  BOOST_REQUIRE_EQUAL(::chown(foreign.c_str(), kNobody, kNobody), 0);
  refused(foreign, "it belongs to another user");
  BOOST_TEST(content(foreign) == "precious\n");
}

// The program closes all descriptors, as daemons do, and then opens its own files.
BOOST_AUTO_TEST_CASE(a_reused_descriptor_is_not_written_to) {
  const Folder folder;
  const std::string precious = folder.file("precious");
  in_child([&] {
    start(("file:" + folder.file("log")).c_str());
    UDAPL_TRACE(kError, "before");
    for (int fd = 3; fd < 64; ++fd) ::close(fd);
    for (int i = 0; i < 8; ++i) expect(::open(precious.c_str(), O_CREAT | O_RDWR, 0600) >= 0, 1);
    write_many(100);
  });
  BOOST_TEST(content(precious).empty());
  BOOST_TEST(lines(content(folder.file("log"))) == 1);
}

BOOST_AUTO_TEST_CASE(descriptor_closed_at_start_is_not_written) {
  const Folder folder;
  const std::string precious = folder.file("precious");
  in_child([&] {
    for (int fd = 0; fd <= 2; ++fd) ::close(fd);
    start("stderr,stdout");
    for (int fd = 0; fd <= 2; ++fd) expect(::fcntl(fd, F_GETFD) < 0, 10 + fd);  // nor used by us
    for (int fd = 0; fd <= 2; ++fd)
      expect(::open(precious.c_str(), O_CREAT | O_RDWR, 0600) == fd, 20 + fd);
    write_many(100);
  });
#ifndef __SANITIZE_THREAD__  // threads in a forked child confuse TSan, which then writes there
  BOOST_TEST(content(precious).empty());
#endif
}

BOOST_AUTO_TEST_CASE(terminal_control_characters_are_not_printed) {
  std::string text =
      "a\x1b[2J\x07\r\n\t\x7f\x9b"
      "1m \xc3\xa4 \xc2\x9b \xe2\x82\xac \xff \xc3";
  make_printable(text.data(), text.size());
  BOOST_TEST(text == "a?[2J??  ??1m \xc3\xa4 ?? \xe2\x82\xac ? ?");
  BOOST_TEST(printable_lines("one\x1b\ntwo\x1b\n") == "one?\ntwo?\n");

  const Folder folder;
  const std::string path = folder.file("log");
  in_child([&] {
    start(("file:" + path).c_str());
    UDAPL_TRACE(kError, "name \"%s\"", "\x1b]0;title\x07");
    trace::report("open", "dat: ", "dat: \x1b[31mred\n");
  });
  BOOST_TEST(content(path).find('\x1b') == std::string::npos);
}

BOOST_AUTO_TEST_CASE(rate_limit_allows_a_burst_then_a_rate) {
  trace::RateLimit limit;
  const Clock::time_point begin = Clock::now();
  const auto admitted = [&](Clock::duration at, int count) {
    int passed = 0;
    unsigned suppressed = 0;
    for (int i = 0; i < count; ++i) passed += limit.admit(begin + at, suppressed) ? 1 : 0;
    return passed;
  };
  constexpr auto kStep = trace::RateLimit::kInterval;
  BOOST_TEST(admitted({}, 1000) == trace::RateLimit::kBurst);
  BOOST_TEST(admitted(kStep - std::chrono::milliseconds(1), 10) == 0);
  unsigned suppressed = 0;
  BOOST_TEST(limit.admit(begin + kStep, suppressed));
  BOOST_TEST(suppressed == 1000 + 10 - trace::RateLimit::kBurst);
  BOOST_TEST(admitted(kStep, 10) == 0);
  BOOST_TEST(admitted(3 * kStep, 10) == 2);
  BOOST_TEST(admitted(std::chrono::hours(1), 1000) == trace::RateLimit::kBurst);
}

BOOST_AUTO_TEST_CASE(records_of_peers_are_limited_unless_enabled) {
  const Folder folder;
  const std::string path = folder.file("log");
  in_child([&] {
    start(("file:" + path).c_str());
    static constinit trace::RateLimit limit;
    for (int i = 0; i < 200; ++i) UDAPL_TRACE_LIMITED(limit, kError, "broken %d", i);
    trace::set_level(trace::kNormal);
    for (int i = 0; i < 200; ++i) UDAPL_TRACE_LIMITED(limit, kError, "seen %d", i);
  });
  const std::string text = content(path);
  const long seen = lines(text.substr(std::min(text.size(), text.find("seen 0"))));
  BOOST_TEST(seen == 200);
  // The burst, and one more for each half second, on a slow machine.
  BOOST_TEST(lines(text) - seen >= trace::RateLimit::kBurst);
  BOOST_TEST(lines(text) - seen < 100);
}

BOOST_AUTO_TEST_SUITE_END()
