// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A client of datperf --sockets that sends the input and disconnects: the answer must be part of
// the input, or acknowledgements, and the server must release the memory reserved for the client.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <span>
#include <thread>
#include <vector>

#include "../../tools/datperf/socket_server.h"
#include "../../tools/datperf/wire.h"

namespace {

constexpr std::chrono::seconds kPatience{5};  // all data are there already
constexpr std::uint64_t kMemory = 1U << 20;

void require(bool condition) {
  if (!condition) std::abort();
}

// Runs the server in a thread, so that its answers can be read at the same time.
std::vector<std::byte> answer_to(std::span<const std::byte> input) {
  int ends[2];
  require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  const datperf::Socket client(ends[0]);
  const datperf::Socket server(ends[1]);
  require(input.empty() || ::send(client.descriptor(), input.data(), input.size(), MSG_DONTWAIT) ==
                               static_cast<ssize_t>(input.size()));
  ::shutdown(client.descriptor(), SHUT_WR);
  std::atomic<std::uint64_t> room{kMemory};
  std::thread thread([&] {
    try {
      datperf::answer_client(server, kPatience, room);
    } catch (const std::exception&) {
      // The client disconnected early, or requested too much.
    }
    ::shutdown(server.descriptor(), SHUT_WR);
  });
  std::vector<std::byte> answer(input.size() + 1);
  std::size_t size = 0;
  while (size < answer.size()) {
    const ssize_t got = ::read(client.descriptor(), &answer[size], answer.size() - size);
    if (got == 0) break;
    require(got > 0 || errno == EINTR);  // by the timer of libFuzzer
    if (got > 0) size += static_cast<std::size_t>(got);
  }
  thread.join();
  require(room == kMemory);
  answer.resize(size);
  return answer;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  const std::vector<std::byte> answer = answer_to(input);
  const auto hello = datperf::hello_of(input);
  if (!hello) {
    require(answer.empty());
    return 0;
  }
  const auto sent = input.subspan(datperf::WireBytes().size());
  const std::size_t messages = hello->what.size > kMemory ? 0 : sent.size() / hello->what.size;
  if (hello->what.measure == datperf::Measure::kBandwidth) {
    require(answer.size() == messages / hello->what.window);
  } else {
    require(answer.size() == messages * hello->what.size);
    require(std::equal(answer.begin(), answer.end(), sent.begin()));
  }
  return 0;
}
