// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Connects to hosts that are not there, in a network of the test's own.
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/route.h>
#include <sched.h>
#include <sys/ioctl.h>

#include <cstdio>
#include <cstring>

#include "tests/child/in_child.h"
#include "tests/unit/soft_io/cm_fixture.h"

namespace udapl::soft::test {
namespace {

using udapl::test::status_in_child;

constexpr int kNoNetwork = 77;

sockaddr as_sockaddr(const transport::SocketAddress& address) {
  sockaddr result{};
  std::memcpy(&result, address.get(), sizeof result);
  return result;
}

// Moves the process to a network of one Ethernet, with `address` and no other, and a route to
// `nowhere` by which the kernel reports that there is none. Returns false if that is not permitted.
bool enter_silent_network(const transport::SocketAddress& address,
                          const transport::SocketAddress& nowhere) {
  if (::unshare(CLONE_NEWNET) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  const int tap = ::open("/dev/net/tun", O_RDWR | O_CLOEXEC);
  const int any = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq link{};
  std::strcpy(link.ifr_name, "silent");
  link.ifr_flags = IFF_TAP | IFF_NO_PI;
  if (::ioctl(tap, TUNSETIFF, &link) != 0) return false;
  link.ifr_addr = as_sockaddr(address);
  if (::ioctl(any, SIOCSIFADDR, &link) != 0) return false;
  ifreq loopback{};
  std::strcpy(loopback.ifr_name, "lo");  // by which the kernel reports its own failures
  link.ifr_flags = loopback.ifr_flags = IFF_UP;
  if (::ioctl(any, SIOCSIFFLAGS, &link) != 0 || ::ioctl(any, SIOCSIFFLAGS, &loopback) != 0)
    return false;
  rtentry route{};
  route.rt_dst = as_sockaddr(nowhere);
  route.rt_genmask = as_sockaddr(transport::SocketAddress{});
  route.rt_genmask.sa_family = AF_INET;
  std::memset(route.rt_genmask.sa_data + 2, 0xff, 4);
  route.rt_flags = RTF_UP | RTF_HOST | RTF_REJECT;
  return ::ioctl(any, SIOCADDRT, &route) == 0;
}

// The failure of a connect to `remote`, or -1.
int failure_of(const transport::SocketAddress& local, const transport::SocketAddress& remote,
               DAT_TIMEOUT timeout_us) {
  auto reactor = Reactor::create("unreachable");
  if (!reactor.ok()) return -1;
  TcpConnector cm(**reactor, local, {});
  FakeQp active;
  if (!active.start(cm, {remote, 7000, timeout_us, {}}).ok()) return -1;
  static_cast<void>(eventually([&] { return active.outcomes() == 1; }));
  return active.setup_failure() ? static_cast<int>(*active.setup_failure()) : -1;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cm_unreachable)

// Regression: a connect to a host that was switched off ended after 3 s, as UNREACHABLE.
BOOST_AUTO_TEST_CASE(host_that_does_not_answer_may_appear_until_the_time_limit) {
  const auto local = ipv4("192.0.2.1");
  const auto silent = ipv4("192.0.2.2");
  const auto nowhere = ipv4("198.51.100.1");
  const int status = status_in_child([&] {
    if (!enter_silent_network(local, nowhere)) return kNoNetwork;
    if (failure_of(local, silent, 5'000'000) != static_cast<int>(SetupFailure::kTimedOut)) return 1;
    if (failure_of(local, silent, DAT_TIMEOUT_INFINITE) !=
        static_cast<int>(SetupFailure::kUnreachable))
      return 2;
    if (failure_of(local, nowhere, 30'000'000) != static_cast<int>(SetupFailure::kUnreachable))
      return 3;
    return 0;
  });
  if (status == kNoNetwork)
    std::fputs("skipped: no permission for a network of its own\n", stderr);
  else
    BOOST_TEST(status == 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::soft::test
