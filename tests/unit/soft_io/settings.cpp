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
    BOOST_TEST(!read->no_receive_breaks);
    BOOST_TEST(read->half_open_limit == 128);
    BOOST_TEST((read->peer_timeout == 20s));
  }
}

BOOST_AUTO_TEST_CASE(each_is_read) {
  Result<Settings> all = read_settings(
      "lo 0 crc=off fallback=off\tdelayed_ack=on drain=0 no_receive=break half_open=1 "
      "peer_timeout=86400");
  BOOST_REQUIRE(all.ok());
  BOOST_TEST(!all->crc);
  BOOST_TEST(!all->revision1_fallback);
  BOOST_TEST((all->delayed_ack == Settings::DelayedAck::kOn));
  BOOST_TEST((all->drain_limit == 0s));
  BOOST_TEST(all->no_receive_breaks);
  BOOST_TEST(all->half_open_limit == 1);
  BOOST_TEST((all->peer_timeout == 86400s));
  BOOST_TEST(!read_settings("lo crc=off")->crc);  // without a port
  BOOST_TEST(read_settings("lo 0 crc=on")->crc);
  BOOST_TEST((read_settings("lo 0")->delayed_ack == Settings::DelayedAck::kWrites));
  BOOST_TEST(
      (read_settings("lo 0 delayed_ack=writes")->delayed_ack == Settings::DelayedAck::kWrites));
  BOOST_TEST((read_settings("lo 0 delayed_ack=off")->delayed_ack == Settings::DelayedAck::kOff));
  BOOST_TEST((read_settings("lo 0 drain=86400")->drain_limit == 24h));
}

BOOST_AUTO_TEST_CASE(mistakes_are_reported) {
  constexpr struct {
    const char* text;
    const char* reason;
  } kCases[] = {
      {"lo 0 crc", "may follow device and port"},
      {"lo 0 1", "may follow device and port"},
      {"lo 0 crs=off",
       "the settings are: crc, fallback, delayed_ack, drain, no_receive, half_open, peer_timeout, "
       "staging"},
      {"lo 0 no_receive=on", "wait or break"},
      {"lo 0 =", "no such setting"},
      {"lo crc=no", "on or off"},
      {"lo 0 crc=", "on or off"},
      {"lo 0 CRC=on", "no such setting"},
      {"lo 0 crc=on crc=on", "twice"},
      {"lo 0 delayed_ack=yes", "on, off or writes"},
      {"lo 0 drain=-1", "seconds, 0 to 86400"},
      {"lo 0 drain=86401", "seconds, 0 to 86400"},
      {"lo 0 drain=5s", "seconds, 0 to 86400"},
      {"lo 0 half_open=0", "1 to 1024"},
      {"lo 0 peer_timeout=99999999999", "0 to 86400"},
  };
  for (const auto& [text, reason] : kCases) {
    DAT_RETURN code = DAT_SUCCESS;
    const auto read = [&code, &line = text] { code = read_settings(line).status().code(); };
    const std::string errors = errors_of(read);
    BOOST_TEST(code == dat_error(DAT_INVALID_PARAMETER), text);
    BOOST_TEST(errors.find(reason) != std::string::npos, text << ": " << errors);
  }
}

// The pauses between retries are those of InfiniBand's RNR timer.
BOOST_AUTO_TEST_CASE(how_long_a_message_waits_for_a_receive) {
  const auto limit = [](const char* retry, const char* timer, bool breaks = false) {
    Settings settings;
    settings.no_receive_breaks = breaks;
    return no_receive_limit(settings, [&](const char* name) {
      return std::string_view(name) == "DAPL_RNR_RETRY" ? retry : timer;
    });
  };
  BOOST_TEST((limit(nullptr, nullptr) == std::nullopt));
  BOOST_TEST((limit("", "20") == std::nullopt));
  BOOST_TEST((limit("7", "1") == std::nullopt));
  BOOST_TEST((limit("0", nullptr) == 0us));
  BOOST_TEST((limit("1", nullptr) == 640us));
  BOOST_TEST((limit("6", "1") == 60us));
  BOOST_TEST((limit("0x2", "14") == 2560us));
  BOOST_TEST((limit("6", "0") == 3932160us));
  BOOST_TEST((limit("3", "31") == 1474560us));
  BOOST_TEST((limit(nullptr, nullptr, true) == 0us));
  for (const char* const wrong : {"8", "-1", "x", "3x", "99999999999999999999"}) {
    const std::string errors =
        errors_of([&] { BOOST_TEST((limit(wrong, nullptr) == std::nullopt)); });
    BOOST_TEST(errors.find("DAPL_RNR_RETRY") != std::string::npos, errors);
  }
  const std::string errors = errors_of([&] { BOOST_TEST((limit("1", "32") == 640us)); });
  BOOST_TEST(errors.find("0 to 31") != std::string::npos, errors);
}

BOOST_AUTO_TEST_CASE(how_long_an_accepted_peer_may_take) {
  const auto limit = [](const char* value) {
    return first_message_limit([&](const char* name) {
      return std::string_view(name) == "DAPL_CM_RTU_TIMEOUT_MS" ? value : "1";
    });
  };
  BOOST_TEST((limit(nullptr) == 15s));
  BOOST_TEST((limit("") == 15s));
  BOOST_TEST((limit("1") == 1ms));
  BOOST_TEST((limit("90000") == 90s));
  const std::string errors = errors_of([&] { BOOST_TEST((limit("0") == 15s)); });
  BOOST_TEST(errors.find("DAPL_CM_RTU_TIMEOUT_MS") != std::string::npos, errors);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
