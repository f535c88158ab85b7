// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "partner.h"

#include "channel.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace conformance {

namespace {

constexpr int kChannelPatience = 60'000;  // ms: longer than any step of a test
constexpr int kFirstPatience = 5'000;     // ms: for the driver to send the name of its test
constexpr int kMaxPartners = 64;          // at a time
constexpr int kRetryPause = 100;          // ms: if descriptors or memory have run out

// The channel of the current test and, in the driver, the process at its other end.
int channel = -1;
int patience = kChannelPatience;
pid_t child = -1;
bool is_partner = false;

// Starts this program as the partner of the driver at the other end of `fd`. Returns its pid, or a
// negative errno.
pid_t start_partner(int fd) {
  const int inherited = ::dup(fd);  // not close-on-exec
  if (inherited < 0) return -1;
  std::string program = "datconform";
  std::string ia = "--ia=" + options().ia;
  std::string safety = options().thread_safe == DAT_TRUE ? "--threadsafe" : ia;
  std::string side = "--partner-fd=" + std::to_string(inherited);
  char* arguments[] = {program.data(), ia.data(), safety.data(), side.data(), nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(inherited);
  errno = error;
  return error == 0 ? pid : -1;
}

// Connects to "HOST", "HOST:PORT" or "[HOST]:PORT".
int connect_to_host(const std::string& peer) {
  std::string host = peer;
  std::string port = std::to_string(kDefaultPort);
  const std::size_t colon = peer.rfind(':');
  const bool bracketed = !peer.empty() && peer.front() == '[';
  if (colon != std::string::npos &&
      (bracketed ? peer[colon - 1] == ']' : peer.find(':') == colon)) {
    host = peer.substr(0, colon);
    port = peer.substr(colon + 1);
  }
  if (bracketed && host.size() > 2) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  BOOST_REQUIRE_MESSAGE(error == 0, "--peer " << peer << ": " << ::gai_strerror(error));
  int fd = -1;
  for (const addrinfo* one = found; one != nullptr && fd < 0; one = one->ai_next) {
    fd = ::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && ::connect(fd, one->ai_addr, one->ai_addrlen) != 0) {
      ::close(fd);
      fd = -1;
    }
  }
  ::freeaddrinfo(found);
  BOOST_REQUIRE_MESSAGE(
      fd >= 0, "--peer " << peer << ": no datconform --listen there: " << std::strerror(errno));
  return fd;
}

void start_partner_here() {
  int ends[2];
  BOOST_REQUIRE_EQUAL(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  child = start_partner(ends[1]);
  ::close(ends[1]);
  channel = ends[0];
  BOOST_REQUIRE_MESSAGE(child > 0, "no second process: " << std::strerror(errno));
}

}  // namespace

std::string become_partner(int fd) {
  channel = fd;
  is_partner = true;
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  char kind = 0;
  std::string name;
  patience = kFirstPatience;
  const bool named = receive_message(fd, patience, kind, name) && kind == kOfTest;
  patience = kChannelPatience;
  return named ? name : std::string();
}

bool report_to_driver(const Results& results) {
  std::string text;
  for (const Result& result : results.all())
    if (result.outcome == Outcome::kFailed) text += result.text.empty() ? "failed" : result.text;
  return send_message(channel, kOfResult, std::string_view(text).substr(0, kLongestMessage));
}

int serve(int port) {
  const int listener = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int off = 0;
  const int on = 1;
  ::setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_port = htons(static_cast<std::uint16_t>(port));
  if (listener < 0 || ::bind(listener, reinterpret_cast<sockaddr*>(&any), sizeof any) != 0 ||
      ::listen(listener, kMaxPartners) != 0) {
    std::fprintf(stderr, "datconform: --listen=%d: %s\n", port, std::strerror(errno));
    return 2;
  }
  int partners = 0;
  std::printf("datconform: partner for IA \"%s\" on port %d\n", options().ia.c_str(), port);
  std::fflush(stdout);
  for (;;) {
    // Limit the partners: strangers that connect and send nothing must not exhaust the machine.
    while (::waitpid(-1, nullptr, partners < kMaxPartners ? WNOHANG : 0) > 0) --partners;
    const int driver = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (driver < 0) {
      if (errno == EBADF || errno == EINVAL || errno == ENOTSOCK) {
        std::fprintf(stderr, "datconform: accept: %s\n", std::strerror(errno));
        return 2;
      }
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
        ::poll(nullptr, 0, kRetryPause);
      continue;  // the error concerns that connection only
    }
    ::setsockopt(driver, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (start_partner(driver) < 0)
      std::fprintf(stderr, "datconform: no process: %s\n", std::strerror(errno));
    else
      ++partners;
    ::close(driver);
  }
}

Side::Channel::Channel() {
  if (is_partner) return;
  if (options().peer.empty())
    start_partner_here();
  else
    channel = connect_to_host(options().peer);
  const std::string name = boost::unit_test::framework::current_test_case().full_name();
  BOOST_REQUIRE_MESSAGE(send_message(channel, kOfTest, name), "the partner has gone");
}

Side::Channel::~Channel() {
  if (is_partner) return;  // sends its result when the test is over
  ::shutdown(channel, SHUT_WR);
  char kind = 0;
  std::string bytes;
  while (receive_message(channel, patience, kind, bytes) && kind != kOfResult) {
  }
  if (result_expected) {
    BOOST_CHECK_MESSAGE(kind == kOfResult, "the partner ended without a result");
    BOOST_CHECK_MESSAGE(kind != kOfResult || bytes.empty(), "in the partner:\n" << bytes);
  }
  ::close(channel);
  channel = -1;
  if (child <= 0) return;
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  child = -1;
}

Side::Side() : driver(!is_partner), pz(make_pz(ia)), cr_evd(make_evd(ia, DAT_EVD_CR_FLAG, 8)) {
  end.create(ia, pz, nullptr);
  exchange_addresses();
}

void Side::send(std::string_view bytes) const {
  BOOST_REQUIRE_MESSAGE(send_message(channel, kOfTest, bytes), "the other side has gone");
}

std::string Side::receive() const {
  char kind = 0;
  std::string bytes;
  BOOST_REQUIRE_MESSAGE(receive_message(channel, patience, kind, bytes), "the other side has gone");
  BOOST_REQUIRE_MESSAGE(kind == kOfTest, "the partner has ended:\n" << bytes);
  return bytes;
}

void Side::sync() const {
  send("sync");
  BOOST_REQUIRE_EQUAL(receive(), "sync");
}

bool Side::both(bool here) const {
  send_value<char>(here ? 1 : 0);
  return receive_value<char>() != 0 && here;
}

namespace {

bool is_loopback(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET)
    return (ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24) == 127;
  return address.ss_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

// The address of the partner's IA may be the loopback address, although the IA can be reached at
// every address of its host.
void use_host_of_channel(sockaddr_storage& address) {
  sockaddr_storage host{};
  socklen_t length = sizeof host;
  if (::getpeername(channel, reinterpret_cast<sockaddr*>(&host), &length) != 0) return;
  if (host.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(host);
    if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
      sockaddr_in v4{};
      v4.sin_family = AF_INET;
      std::memcpy(&v4.sin_addr, &v6.sin6_addr.s6_addr[12], sizeof v4.sin_addr);
      std::memcpy(&address, &v4, sizeof v4);
      return;
    }
  }
  if (host.ss_family == AF_INET || host.ss_family == AF_INET6) address = host;
}

}  // namespace

void Side::exchange_addresses() {
  if (driver) {
    address_ = receive_value<sockaddr_storage>();
    if (is_loopback(address_)) use_host_of_channel(address_);
    conn_qual_ = receive_value<DAT_CONN_QUAL>();
    return;
  }
  conn_qual_ = fresh_conn_qual();
  REQUIRE_OK(dat_psp_create(ia, conn_qual_, cr_evd, DAT_PSP_CONSUMER_FLAG, psp.out()));
  const sockaddr* const own = ia.attr.ia_address_ptr;
  std::memcpy(&address_, own,
              own->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
  send_value(address_);
  send_value(conn_qual_);
}

DAT_RETURN Side::start_connect(DAT_TIMEOUT timeout, std::string_view private_data) const {
  return dat_ep_connect(
      end.ep, reinterpret_cast<DAT_IA_ADDRESS_PTR>(const_cast<sockaddr_storage*>(&address_)),
      conn_qual_, timeout, static_cast<DAT_COUNT>(private_data.size()),
      const_cast<char*>(private_data.empty() ? nullptr : private_data.data()), DAT_QOS_BEST_EFFORT,
      DAT_CONNECT_DEFAULT_FLAG);
}

DAT_RETURN Side::start_connect_to(DAT_CONN_QUAL conn_qual, DAT_TIMEOUT timeout) const {
  return dat_ep_connect(
      end.ep, reinterpret_cast<DAT_IA_ADDRESS_PTR>(const_cast<sockaddr_storage*>(&address_)),
      conn_qual, timeout, 0, nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
}

DAT_CR_HANDLE Side::take_cr() const {
  return expect_event(cr_evd, DAT_CONNECTION_REQUEST_EVENT)
      .event_data.cr_arrival_event_data.cr_handle;
}

void Side::connect() const {
  if (driver)
    REQUIRE_OK(start_connect());
  else
    REQUIRE_OK(dat_cr_accept(take_cr(), end.ep, 0, nullptr));
  expect_event(end.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}

void Side::expect_end_and_reset() const {
  expect_connection_end(end.connect_evd);
  REQUIRE_OK(dat_ep_reset(end.ep));
}

}  // namespace conformance
