// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// How addresses are written and compared, which ones an interface has, and the words of a field.
#include "providers/connecting/interfaces.h"
#include "providers/connecting/socket_address.h"
#include "providers/connecting/words.h"
#include "tests/child/in_child.h"

#include <boost/test/unit_test.hpp>

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace udapl {
namespace {

using transport::SocketAddress;

SocketAddress ipv4(const char* host, std::uint16_t port = 0) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  BOOST_REQUIRE_EQUAL(::inet_pton(AF_INET, host, &address.sin_addr), 1);
  return SocketAddress::from(reinterpret_cast<const sockaddr*>(&address));
}

SocketAddress ipv6(const char* host, std::uint32_t scope = 0, std::uint16_t port = 0) {
  SocketAddress address;
  address.storage.sin6_family = AF_INET6;
  address.storage.sin6_scope_id = scope;
  address.set_port(port);
  BOOST_REQUIRE_EQUAL(::inet_pton(AF_INET6, host, &address.storage.sin6_addr), 1);
  return address;
}

// Has the kernel reject netlink sockets in this process, as systemd's RestrictAddressFamilies=
// does.
bool reject_netlink(unsigned error) {
  std::array<sock_filter, 6> code{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[0])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{code.size(), code.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

using Entry = std::tuple<std::string, std::string, std::uint32_t>;
std::set<Entry> entries_of(const std::vector<Interface>& interfaces) {
  std::set<Entry> entries;
  for (const Interface& one : interfaces)
    entries.emplace(one.name, to_text(one.address), one.loopback_mask);
  return entries;
}

BOOST_AUTO_TEST_SUITE(addresses)

BOOST_AUTO_TEST_CASE(addresses_are_written_as_usual) {
  BOOST_TEST(to_text({}) == "no address");
  BOOST_TEST(to_text(ipv4("192.0.2.7")) == "192.0.2.7");
  BOOST_TEST(to_text(ipv4("192.0.2.7", 80)) == "192.0.2.7:80");
  BOOST_TEST(to_text(ipv6("2001:db8::7")) == "2001:db8::7");
  BOOST_TEST(to_text(ipv6("2001:db8::7", 0, 80)) == "[2001:db8::7]:80");
}

BOOST_AUTO_TEST_CASE(ports_do_not_make_another_host) {
  BOOST_TEST(same_host(ipv4("192.0.2.1", 1), ipv4("192.0.2.1", 2)));
  BOOST_TEST(!same_host(ipv4("192.0.2.1"), ipv4("192.0.2.2")));
  BOOST_TEST(same_host(ipv6("fe80::1", 3), ipv6("fe80::1")));
  BOOST_TEST(!same_host(ipv6("fe80::1", 3), ipv6("fe80::1", 4)));
  BOOST_TEST(!same_host(ipv6("2001:db8::1"), ipv6("2001:db8::2")));
  BOOST_TEST(!same_host(ipv4("192.0.2.1"), ipv6("::ffff:192.0.2.1")));
}

BOOST_AUTO_TEST_CASE(addresses_are_told_from_host_names) {
  for (const char* address : {"192.0.2.7", "2001:db8::7", "fe80::1%eth0"})
    BOOST_TEST(is_numeric(address), address);
  for (const char* host : {"eth0", "host.example", "10gbe"}) BOOST_TEST(!is_numeric(host), host);
}

BOOST_AUTO_TEST_CASE(fields_are_split_at_blanks) {
  BOOST_TEST(words_of("").empty());
  BOOST_TEST(words_of(" \t ").empty());
  const std::vector<std::string_view> expected{"eth0", "0", "crc=off"};
  BOOST_TEST(words_of("eth0 0 crc=off") == expected, boost::test_tools::per_element());
  BOOST_TEST(words_of("\t eth0  0\tcrc=off ") == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(wildcard_and_multicast_are_no_hosts) {
  for (const char* none : {"0.0.0.0", "255.255.255.255", "224.0.0.1", "239.255.255.255"})
    BOOST_TEST(is_no_host(ipv4(none)), none);
  for (const char* none : {"::", "ff02::1"}) BOOST_TEST(is_no_host(ipv6(none)), none);
  BOOST_TEST(is_no_host({}));
  BOOST_TEST(!is_no_host(ipv4("127.0.0.1")));
  BOOST_TEST(!is_no_host(ipv6("fe80::1")));
}

BOOST_AUTO_TEST_CASE(loopback_addresses) {
  for (const char* own : {"127.0.0.1", "127.0.1.1", "127.255.255.255"})
    BOOST_TEST(is_loopback(ipv4(own)), own);
  BOOST_TEST(is_loopback(ipv6("::1")));
  for (const char* other : {"126.255.255.255", "128.0.0.1", "0.0.0.127"})
    BOOST_TEST(!is_loopback(ipv4(other)), other);
  for (const char* other : {"::", "::2", "fe80::1"}) BOOST_TEST(!is_loopback(ipv6(other)), other);
  BOOST_TEST(!is_loopback({}));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(interfaces)

const std::vector<Interface>& some() {
  static const std::vector<Interface> all = {{"lo", ipv4("127.0.0.1"), htonl(0xFF000000U)},
                                             {"ib0", ipv6("fe80::1")},
                                             {"ib0", ipv6("2001:db8::1")},
                                             {"ib0", ipv4("192.0.2.1")},
                                             {"ib1", ipv6("fe80::2")},
                                             {"ib1", ipv6("2001:db8::2")}};
  return all;
}

BOOST_AUTO_TEST_CASE(the_best_address_of_a_name) {
  BOOST_REQUIRE(by_name(some(), "ib0") != nullptr);
  BOOST_TEST(to_text(by_name(some(), "ib0")->address) == "192.0.2.1");
  BOOST_TEST(to_text(by_name(some(), "ib1")->address) == "2001:db8::2");
  BOOST_TEST(by_name(some(), "ib2") == nullptr);
}

BOOST_AUTO_TEST_CASE(the_interface_of_an_address) {
  BOOST_REQUIRE(by_address(some(), ipv6("2001:db8::2")) != nullptr);
  BOOST_TEST(by_address(some(), ipv6("2001:db8::2"))->name == "ib1");
  BOOST_TEST(by_address(some(), ipv4("127.0.0.2")) == nullptr);
}

BOOST_AUTO_TEST_CASE(the_whole_network_of_loopback) {
  BOOST_TEST(in_loopback_network(some()[0], ipv4("127.9.8.7")));
  BOOST_TEST(!in_loopback_network(some()[0], ipv4("128.0.0.1")));
  BOOST_TEST(!in_loopback_network(some()[0], ipv6("::1")));
  BOOST_TEST(!in_loopback_network(some()[3], ipv4("192.0.2.1")));  // no loopback
}

BOOST_AUTO_TEST_CASE(interfaces_are_listed_with_addresses) {
  BOOST_TEST(list_of({}) == "none");
  BOOST_TEST(list_of({some()[0], some()[3]}) == "lo 127.0.0.1, ib0 192.0.2.1");
}

BOOST_AUTO_TEST_CASE(what_a_text_names) {
  const auto numeric = addresses_of("192.0.2.9", Lookup::kNumeric);
  BOOST_REQUIRE_EQUAL(numeric.size(), 1U);
  BOOST_TEST(same_host(numeric[0], ipv4("192.0.2.9")));
  BOOST_TEST(addresses_of("localhost", Lookup::kNumeric).empty());
  BOOST_TEST(!addresses_of("localhost", Lookup::kHostName).empty());
}

BOOST_AUTO_TEST_CASE(this_machine_has_loopback) {
  const auto here = local_interfaces();
  BOOST_REQUIRE(here.has_value());
  const Interface* const loopback = by_address(*here, ipv4("127.0.0.1"));
  BOOST_REQUIRE(loopback != nullptr);
  BOOST_TEST(in_loopback_network(*loopback, ipv4("127.9.8.7")));
  for (const Interface& interface : *here) BOOST_TEST(interface.address.port() == 0);
}

BOOST_AUTO_TEST_CASE(the_list_needs_no_netlink) {
  for (const unsigned error : {EAFNOSUPPORT, EPERM, EACCES}) {
    BOOST_TEST_CONTEXT("error " << error)
    test::in_child([error] {
      const auto usual = local_interfaces();
      if (!reject_netlink(error)) return 0;
      const auto here = local_interfaces();
      if (!usual || !here) return 1;
      for (const Interface& interface : *here)
        if (interface.address.port() != 0) return 2;
      return entries_of(*here) == entries_of(*usual) ? 0 : 3;
    });
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl
