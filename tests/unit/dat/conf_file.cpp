// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dat/conf_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

using udapl::dat::conf_locations;
using udapl::dat::ConfFile;
using udapl::dat::read_conf_file;

namespace {

constexpr const char* kEntry = "n u2.0 nonthreadsafe default l dapl.2.0 \"\" \"\"\n";

struct Folder {
  Folder() {
    std::string pattern = std::filesystem::temp_directory_path() / ("conf." + std::string(6, 'X'));
    BOOST_TEST_REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path = pattern;
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string write(const std::string& name, const std::string& text) const {
    const std::string file = path + '/' + name;
    std::ofstream(file, std::ios::binary) << text;
    return file;
  }
  std::string path;
};

struct Override {
  explicit Override(const char* value) { ::setenv("DAT_OVERRIDE", value, 1); }
  ~Override() { ::unsetenv("DAT_OVERRIDE"); }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(conf_file, Folder)

BOOST_AUTO_TEST_CASE(first_readable_file_wins) {
  const std::string one = write("one", kEntry);
  const std::string two = write("two", std::string(kEntry) + kEntry);
  const ConfFile file = read_conf_file({path + "/absent", one, two});
  BOOST_TEST_REQUIRE(file.path() != nullptr);
  BOOST_TEST(*file.path() == one);
  BOOST_TEST(file.conf.entries.size() == 1U);
  BOOST_TEST_REQUIRE(file.attempts.size() == 2U);
  BOOST_TEST(file.attempts[0].failure == "No such file or directory (ENOENT)");
}

BOOST_AUTO_TEST_CASE(no_file_is_an_empty_configuration) {
  const ConfFile file = read_conf_file({path + "/absent", path});
  BOOST_TEST(file.path() == nullptr);
  BOOST_TEST(file.conf.entries.empty());
  BOOST_TEST_REQUIRE(file.attempts.size() == 2U);
  BOOST_TEST(file.attempts[1].failure == "Is a directory (EISDIR)");
  BOOST_TEST(read_conf_file({}).path() == nullptr);
}

BOOST_AUTO_TEST_CASE(fifo_is_read) {
  const std::string fifo = path + "/fifo";
  BOOST_TEST_REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  std::thread writer([&] {
    std::ofstream out(fifo);
    for (int i = 0; i < 5000; ++i) out << kEntry;  // more than a pipe holds
  });
  const ConfFile file = read_conf_file({fifo});
  writer.join();
  BOOST_TEST(file.conf.entries.size() == 5000U);
}

BOOST_AUTO_TEST_CASE(an_endless_file_is_abandoned) {
  const ConfFile file = read_conf_file({"/dev/zero"});
  BOOST_TEST(file.path() == nullptr);
  BOOST_TEST(file.attempts.at(0).failure == "larger than 16 MiB");
}

BOOST_AUTO_TEST_CASE(override_is_the_only_location) {
  const Override set("/some/where");
  const std::vector<std::string> expected{"/some/where"};
  BOOST_TEST(conf_locations() == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(system_locations_without_override) {
  ::unsetenv("DAT_OVERRIDE");
  const std::vector<std::string> locations = conf_locations();
  BOOST_TEST_REQUIRE(locations.size() >= 2U);
  BOOST_TEST(locations.back() == "/etc/rdma/dat.conf");
  BOOST_TEST(locations[locations.size() - 2] == "/etc/dat.conf");
  const Override set("");  // an empty value counts as unset
  BOOST_TEST(conf_locations() == locations, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
