// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Any bytes at datconform --listen: each message must be part of the input, and reading must end.
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "../conformance/channel.h"

namespace {

constexpr int kPatience = 5000;  // ms; all data are there already

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  int ends[2];
  require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  require(size == 0 || ::send(ends[0], data, size, MSG_DONTWAIT) == static_cast<ssize_t>(size));
  ::shutdown(ends[0], SHUT_WR);
  constexpr std::size_t kHead = 5;  // length and kind
  std::size_t at = 0;
  char kind = 0;
  for (std::string bytes; conformance::receive_message(ends[1], kPatience, kind, bytes);) {
    require(at + kHead + bytes.size() <= size);
    require(static_cast<char>(data[at + 4]) == kind);
    at += kHead;
    require(bytes.compare(0, bytes.size(), reinterpret_cast<const char*>(data + at),
                          bytes.size()) == 0);
    at += bytes.size();
  }
  ::close(ends[0]);
  ::close(ends[1]);
  return 0;
}
