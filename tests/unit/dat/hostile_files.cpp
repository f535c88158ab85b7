// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Files prepared by an attacker: the registry does not hang, does not take very long, and does not
// print terminal control sequences.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include "common/fd.h"
#include "dat/cause.h"
#include "dat/conf.h"
#include "dat/conf_file.h"
#include "dat/library.h"
#include "dat/report.h"
#include "dat/tables.h"

namespace {

using namespace udapl::dat;
using udapl::Fd;

constexpr auto kSoon = std::chrono::milliseconds(100);

struct Fifo {
  Fifo() {
    std::string pattern = std::filesystem::temp_directory_path() / ("fifo." + std::string(6, 'X'));
    BOOST_TEST_REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    folder = pattern;
    path = folder + "/fifo";
    BOOST_TEST_REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  }
  ~Fifo() { std::filesystem::remove_all(folder); }
  std::string folder;
  std::string path;
};

std::string entry(const std::string& name, unsigned minor = 0) {
  return name + " u2." + std::to_string(minor) + " nonthreadsafe default l dapl.2.0 \"\" \"\"\n";
}

bool has_control(const std::string& text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    return c != '\n' && (static_cast<unsigned char>(c) < 0x20 || c == 0x7f);
  });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(hostile_files)

BOOST_FIXTURE_TEST_CASE(a_fifo_without_a_writer_is_abandoned, Fifo) {
  const ConfFile file = read_conf_file({path}, kSoon);
  BOOST_TEST(file.path() == nullptr);
  BOOST_TEST_REQUIRE(file.attempts.size() == 1U);
  BOOST_TEST(file.attempts[0].failure == "it is a pipe or a device that delivered no data in time");
}

BOOST_FIXTURE_TEST_CASE(a_fifo_with_a_silent_writer_is_abandoned, Fifo) {
  const Fd writer(::open(path.c_str(), O_RDWR));  // O_RDWR does not wait for a reader
  BOOST_TEST(read_conf_file({path}, kSoon).path() == nullptr);
}

// As made by bash's <(...): the writer may have ended before the pipe is opened by its name.
BOOST_AUTO_TEST_CASE(a_pipe_is_read_by_descriptor_number) {
  int ends[2];
  BOOST_TEST_REQUIRE(::pipe(ends) == 0);
  const Fd reader(ends[0]);
  Fd writer(ends[1]);
  const std::string text = entry("a") + entry("b");
  BOOST_TEST(::write(writer.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  writer.reset();
  const ConfFile file = read_conf_file({"/dev/fd/" + std::to_string(reader.get())});
  BOOST_TEST(file.conf.entries.size() == 2U);
}

BOOST_AUTO_TEST_CASE(an_empty_device_is_an_empty_configuration) {
  const ConfFile file = read_conf_file({"/dev/null"});
  BOOST_TEST(file.path() != nullptr);
  BOOST_TEST(file.conf.entries.empty());
}

BOOST_FIXTURE_TEST_CASE(a_library_that_is_no_file_is_refused, Fifo) {
  DlLoader loader;
  for (const std::string& place : {path, folder, std::string("/dev/zero")}) {
    const LoadResult result = loader.load(place);
    BOOST_TEST(!result.loaded);
    BOOST_TEST(result.failure == place + ": not a regular file");
  }
}

// In quadratic time each of these would take some 10^10 comparisons.
BOOST_AUTO_TEST_CASE(many_entries_are_listed_in_linear_time) {
  constexpr unsigned kMany = 200'000;
  std::string text;
  for (unsigned i = 0; i < kMany; ++i) text += entry("ia" + std::to_string(i));
  const Tables names(parse_conf(text));
  BOOST_TEST(names.list().size() == kMany);
  BOOST_TEST(names.names().size() == kMany);
  text.clear();
  for (unsigned i = 0; i < kMany; ++i) text += entry("ia", i);
  const Tables versions(parse_conf(text));
  BOOST_TEST(versions.list().size() == kMany);
  BOOST_TEST(versions.alternatives("ia").size() == kMany);
}

BOOST_AUTO_TEST_CASE(terminal_control_characters_are_not_passed_on) {
  const ConfFile file{{{"/etc/\x1b[2J", "\x1b[31mno"}}, {}, false};
  NotFound failure{};
  failure.ia_name = "\x1b]0;name\x07";
  failure.tried = {{"subject",
                    "lib\x1b[1m.so: \x9b"
                    "5m",
                    "ad\x1bvice"}};
  failure.passed_over = failure.tried;
  Report report(file);
  const std::string text = report.explain(failure);
  BOOST_TEST(!text.empty());
  BOOST_TEST(!has_control(text), text);
  BOOST_TEST(text.find('\x9b') == std::string::npos);
  cause::set(DAT_INTERNAL_ERROR, cause_of(file, failure));
  const std::string cause = cause::explain(DAT_INTERNAL_ERROR);
  BOOST_TEST(cause.find("ad?vice") != std::string::npos, cause);
  BOOST_TEST(!has_control(cause), cause);
  cause::clear();
}

BOOST_AUTO_TEST_SUITE_END()
