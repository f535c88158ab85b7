// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/settings.h"

#include "tests/unit/soft_io/errors_of.h"

namespace udapl::soft::test {
namespace {

using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(settings)

BOOST_AUTO_TEST_CASE(without_any_there_are_the_defaults) {
  for (const char* text : {"", "lo", "lo 0", "  eth0\t1  ", "crc=off", "fe80::1%eth0 0"}) {
    Result<Settings> read = read_settings(text);
    BOOST_REQUIRE(read.ok());
    BOOST_TEST(read->crc);
    BOOST_TEST(read->revision1_fallback);
    BOOST_TEST((read->drain_limit == 30s));
    BOOST_TEST(read->half_open_limit == 128);
    BOOST_TEST(read->half_open_per_host == 32);
  }
}

BOOST_AUTO_TEST_CASE(each_is_read) {
  Result<Settings> all =
      read_settings("lo 0 crc=off fallback=off\tdrain=0 half_open=1 half_open_per_host=1024");
  BOOST_REQUIRE(all.ok());
  BOOST_TEST(!all->crc);
  BOOST_TEST(!all->revision1_fallback);
  BOOST_TEST((all->drain_limit == 0s));
  BOOST_TEST(all->half_open_limit == 1);
  BOOST_TEST(all->half_open_per_host == 1024);
  BOOST_TEST(!read_settings("lo crc=off")->crc);  // without a port
  BOOST_TEST(read_settings("lo 0 crc=on")->crc);
  BOOST_TEST((read_settings("lo 0 drain=86400")->drain_limit == 24h));
}

BOOST_AUTO_TEST_CASE(mistakes_are_told) {
  constexpr struct {
    const char* text;
    const char* reason;
  } kCases[] = {
      {"lo 0 crc", "behind device and port"},
      {"lo 0 1", "behind device and port"},
      {"lo 0 crs=off", "there are: crc, fallback, drain, half_open, half_open_per_host"},
      {"lo 0 =", "no such setting"},
      {"lo crc=no", "on or off"},
      {"lo 0 crc=", "on or off"},
      {"lo 0 CRC=on", "no such setting"},
      {"lo 0 crc=on crc=on", "twice"},
      {"lo 0 drain=-1", "seconds, 0 to 86400"},
      {"lo 0 drain=86401", "seconds, 0 to 86400"},
      {"lo 0 drain=5s", "seconds, 0 to 86400"},
      {"lo 0 half_open=0", "1 to 1024"},
      {"lo 0 half_open_per_host=99999999999", "1 to 1024"},
  };
  for (const auto& [text, reason] : kCases) {
    DAT_RETURN code = DAT_SUCCESS;
    const std::string errors = errors_of([&] { code = read_settings(text).status().code(); });
    BOOST_TEST(code == dat_error(DAT_INVALID_PARAMETER), text);
    BOOST_TEST(errors.find(reason) != std::string::npos, text << ": " << errors);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
