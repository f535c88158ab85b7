// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Which hosts are refused after violations.
#include "providers/soft/access_violations.h"

#include <boost/test/unit_test.hpp>

#include <arpa/inet.h>

namespace udapl::soft {
namespace {

// Address `number` of 10.0.0.0/8.
transport::SocketAddress host(std::uint32_t number) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(0x0A000000U + number);
  return transport::SocketAddress::from(reinterpret_cast<const sockaddr*>(&address));
}

BOOST_AUTO_TEST_SUITE(access_violations)

BOOST_AUTO_TEST_CASE(only_the_guilty_are_refused) {
  constexpr std::uint32_t kGuilty = 60;
  AccessViolations violations;
  for (int i = 0; i < AccessViolations::kMax; ++i) {
    for (std::uint32_t number = 0; number < kGuilty; ++number) {
      BOOST_REQUIRE(!violations.too_many(host(number)));
      violations.note(host(number));
    }
  }
  for (std::uint32_t number = 0; number < kGuilty; ++number)
    BOOST_TEST(violations.too_many(host(number)));
  for (std::uint32_t number = kGuilty; number < 5000; ++number)
    BOOST_REQUIRE(!violations.too_many(host(number)));
}

// More hosts than there are counters. Those that are refused stay so.
BOOST_AUTO_TEST_CASE(many_hosts_do_not_displace_a_higher_counter) {
  AccessViolations violations;
  for (int i = 0; i < AccessViolations::kMax; ++i) violations.note(host(0));
  for (std::uint32_t number = 1; number < 20000; ++number) violations.note(host(number));
  BOOST_TEST(violations.too_many(host(0)));
  BOOST_TEST(!violations.too_many(host(20000)));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft
