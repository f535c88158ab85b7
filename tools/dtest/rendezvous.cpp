// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "rendezvous.h"

#include <fmt/core.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace dtest {
namespace {

constexpr std::string_view mark(bool of_server) {
  return of_server ? "udapl server" : "udapl client";
}

constexpr int kStepMs = 2;  // how often to check whether the client has connected
constexpr timeval kPatience{5, 0};

std::string receive_record(int socket) {
  std::array<char, Record::kSize> buffer{};
  std::size_t have = 0;
  while (have < buffer.size()) {
    const ssize_t got = ::recv(socket, buffer.data() + have, buffer.size() - have, 0);
    if (got <= 0) break;
    have += static_cast<std::size_t>(got);
  }
  return {buffer.data(), have};
}

bool send_record(int socket, const std::string& text) {
  return ::send(socket, text.data(), text.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(text.size());
}

void limit_time(int socket) {
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);
}

// Listens on IPv6 and IPv4, or on IPv4 alone if there is no IPv6.
int listening_socket() {
  int result = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int family = result >= 0 ? AF_INET6 : AF_INET;
  if (result < 0) result = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  const int off = 0;
  ::setsockopt(result, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (family == AF_INET6) ::setsockopt(result, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(Record::kPort);
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(Record::kPort);
  const int bound = family == AF_INET6
                        ? ::bind(result, reinterpret_cast<const sockaddr*>(&six), sizeof six)
                        : ::bind(result, reinterpret_cast<const sockaddr*>(&four), sizeof four);
  if (bound != 0 || ::listen(result, 16) != 0)
    fail(fmt::format("listening on TCP port {}: {}", Record::kPort, std::strerror(errno)));
  return result;
}

}  // namespace

Record Record::of(const Adapter& adapter) {
  Record record{adapter.name(), 0, true};
  if (adapter.address()->sa_family == AF_INET)
    record.ipv4 = reinterpret_cast<const sockaddr_in*>(adapter.address())->sin_addr.s_addr;
  return record;
}

std::string Record::text(bool of_server) const {
  // Cut a name that is too long for the record.
  std::string text = fmt::format("0000:00000000:00000000:{:08x}:{}", ipv4, provider.substr(0, 80));
  text += '\0';
  text += mark(of_server);
  text.resize(kSize);
  return text;
}

Record Record::parse(std::string_view text, bool of_server) {
  const std::string line(text.substr(0, text.find('\0')));
  unsigned lid = 0;
  unsigned qpn = 0;
  unsigned scope = 0;
  Record record;
  int end = 0;
  if (std::sscanf(line.c_str(), "%x:%x:%x:%x:%n", &lid, &qpn, &scope, &record.ipv4, &end) != 4 ||
      end == 0)
    return {};
  record.provider = line.substr(static_cast<std::size_t>(end));
  record.ours = text.substr(std::min(text.size(), line.size() + 1)).starts_with(mark(of_server));
  return record;
}

Rendezvous::Rendezvous(Record record, bool wants_answer)
    : record_(std::move(record)), wants_answer_(wants_answer), socket_(listening_socket()) {}

Rendezvous::~Rendezvous() { ::close(socket_); }

void Rendezvous::answer() {
  const int client = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
  if (client < 0) return;
  limit_time(client);
  if (send_record(client, record_.text(true)) && wants_answer_) {
    const Record its = Record::parse(receive_record(client), false);
    if (!its.provider.empty()) client_ = its;
  }
  ::close(client);
}

Record Rendezvous::serve(const std::function<bool()>& ready) {
  while (!ready()) {
    pollfd waiting{socket_, POLLIN, 0};
    if (::poll(&waiting, 1, kStepMs) > 0) answer();
  }
  return client_;
}

Record ask(const std::string& host, const std::function<std::string(const Record&)>& answer) {
  sockaddr_storage address = resolve(host);
  const bool six = address.ss_family == AF_INET6;
  if (six)
    reinterpret_cast<sockaddr_in6*>(&address)->sin6_port = htons(Record::kPort);
  else
    reinterpret_cast<sockaddr_in*>(&address)->sin_port = htons(Record::kPort);
  const int socket = ::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  limit_time(socket);
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address),
                six ? sizeof(sockaddr_in6) : sizeof(sockaddr_in)) != 0) {
    const int error = errno;
    fail(fmt::format("contacting the server at {} port {}: {}{}", host, Record::kPort,
                     std::strerror(error),
                     error == ECONNREFUSED ? "\n  try: start the server there first" : ""));
  }
  const Record record = Record::parse(receive_record(socket), true);
  if (record.provider.empty())
    fail(fmt::format("the listener at {} port {} is not a server of {}", host, Record::kPort,
                     program));
  if (answer && !send_record(socket, answer(record)))
    fail(fmt::format("answering the server at {}: {}", host, std::strerror(errno)));
  ::close(socket);
  return record;
}

sockaddr_storage server_address(const Record& record, const std::string& host) {
  if (record.ipv4 == 0) return resolve(host);
  sockaddr_storage address{};
  auto* four = reinterpret_cast<sockaddr_in*>(&address);
  four->sin_family = AF_INET;
  four->sin_addr.s_addr = record.ipv4;
  return address;
}

}  // namespace dtest
