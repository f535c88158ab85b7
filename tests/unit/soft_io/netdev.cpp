// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The translation of dat.conf's "<device> <port>" to an address of this machine.
#include "providers/soft/netdev.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <unistd.h>

#include <string>

#include "providers/connecting/socket_address.h"
#include "tests/unit/soft_io/errors_of.h"
#include "tests/unit/soft_io/raw_socket.h"

namespace udapl::soft::test {
namespace {

std::string found(std::string_view ia_params) {
  Result<Netdev> netdev = find_netdev(ia_params);
  if (!netdev.ok()) return "error";
  return netdev->name + " " + to_text(netdev->address);
}

bool has_ipv6_loopback() {
  const Fd probe(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto place = ipv6("::1");
  return probe.valid() && ::bind(probe.get(), place.get(), place.size()) == 0;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(netdev)

BOOST_AUTO_TEST_CASE(loopback_by_name_and_address) {
  for (const char* text : {"lo 0", "lo", "  lo\t0", "lo 1 "})
    BOOST_TEST(found(text) == "lo 127.0.0.1");
  BOOST_TEST(found("127.0.0.1 0") == "lo 127.0.0.1");
  BOOST_TEST(found("127.9.8.7 0") == "lo 127.9.8.7");  // all of 127/8 is this machine
  BOOST_TEST(found("localhost 0").starts_with("lo "));
}

BOOST_AUTO_TEST_CASE(ipv6_loopback_is_found,
                     *boost::unit_test::precondition([](auto) { return has_ipv6_loopback(); })) {
  BOOST_TEST(found("::1 0") == "lo ::1");
}

BOOST_AUTO_TEST_CASE(every_interface_and_address_of_this_machine) {
  ifaddrs* first = nullptr;
  BOOST_REQUIRE(::getifaddrs(&first) == 0);
  int seen = 0;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    if (entry->ifa_addr->sa_family != AF_INET && entry->ifa_addr->sa_family != AF_INET6) continue;
    auto address = transport::SocketAddress::from(entry->ifa_addr);
    BOOST_TEST(found(to_text(address) + " 0") ==
               std::string(entry->ifa_name) + " " + to_text(address));
    BOOST_TEST(
        found(std::string(entry->ifa_name) + " 0").starts_with(std::string(entry->ifa_name) + " "));
    ++seen;
  }
  ::freeifaddrs(first);
  BOOST_TEST(seen > 0);
}

BOOST_AUTO_TEST_CASE(foreign_device_is_refused_with_a_list) {
  for (const char* text :
       {"nosuch0 0", "192.0.2.1 0", "0.0.0.0 0", "255.255.255.255 0", "224.0.0.1 0", ":: 0",
        "ff02::1 0", "2001:db8::1 0", "fe80::1%nosuch0 0", "1.2.3 0", "host.invalid 0"}) {
    DAT_RETURN code = DAT_SUCCESS;
    const std::string errors = errors_of([&] { code = find_netdev(text).status().code(); });
    BOOST_TEST(code == dat_error(DAT_INVALID_ADDRESS), text);
    const std::string device(text, std::string_view(text).find(' '));
    BOOST_TEST(errors.find("\"" + device + "\"") != std::string::npos, errors);
    BOOST_TEST(errors.find("lo 127.0.0.1") != std::string::npos, errors);
  }
}

BOOST_AUTO_TEST_CASE(no_device_at_all) {
  for (const char* text : {"", "  ", "\t"}) {
    DAT_RETURN code = DAT_SUCCESS;
    const std::string errors = errors_of([&] { code = find_netdev(text).status().code(); });
    BOOST_TEST(code == dat_error(DAT_INVALID_PARAMETER));
    BOOST_TEST(errors.find("seventh field") != std::string::npos, errors);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::soft::test
