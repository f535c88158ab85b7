// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "harness.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

// Connection qualifiers that no other process uses.
namespace conformance {

namespace {

// Conn quals come in blocks. A process owns a block while it runs, so that suites can run in
// parallel. It claims the block with an abstract socket, which the system removes with the process.
constexpr unsigned kFirstConnQual = 10000;
constexpr unsigned kBlocks = 20;
constexpr unsigned kBlockSize = 1000;
constexpr unsigned kLimitsBlock = 10;  // dapltest -T L listens from 20001 on

bool own_block(unsigned block) {
  if (block == kLimitsBlock) return false;
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "udapl-conformance-%u", block);
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0) return true;
  ::close(fd);
  return false;
}

unsigned choose_block() {
  const unsigned start = static_cast<unsigned>(::getpid());
  for (unsigned i = 0; i < kBlocks; ++i)
    if (own_block((start + i) % kBlocks)) return (start + i) % kBlocks;
  return start % kBlocks;  // more suites than blocks: conn quals may collide
}

// Whether a program that is no suite listens at this TCP port, which is what a provider may make of
// a conn qual.
bool is_taken(unsigned port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(static_cast<std::uint16_t>(port));
  const bool taken = ::bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0;
  ::close(fd);
  return taken;
}

}  // namespace

DAT_CONN_QUAL fresh_conn_qual() {
  static const unsigned block = choose_block();
  static std::atomic<unsigned> next{0};
  unsigned conn_qual = 0;
  for (unsigned tries = 0; tries < kBlockSize; ++tries) {
    conn_qual = kFirstConnQual + block * kBlockSize + next.fetch_add(1) % kBlockSize;
    if (!is_taken(conn_qual)) break;
  }
  return conn_qual;
}

}  // namespace conformance
