// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Who carries out the rounds of one case in one thread: over DAT, or over sockets.
#pragma once

#include "group.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <vector>

namespace datperf {

/** When a round is over: after `count` operations, or if that is 0 after a time. */
class Limit {
 public:
  Limit(std::uint64_t count, double seconds)
      : count_(count),
        end_(Clock::now() +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))) {}
  [[nodiscard]] bool reached(std::uint64_t operations, Clock::time_point now) const {
    if (count_ != 0) return operations >= count_;
    return now >= end_ || operations >= kMost;
  }

 private:
  static constexpr std::uint64_t kMost = 1ULL << 32;
  std::uint64_t count_;
  Clock::time_point end_;
};

struct Round {
  std::uint64_t operations = 0;
  double seconds = 0;
  std::vector<double> samples;  // microseconds of each operation; none of a bandwidth
};

class Runner {
 public:
  Runner() = default;
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;
  virtual ~Runner() = default;
  virtual Round run(const Limit& limit) = 0;
};

/** Where the server is. */
struct Target {
  sockaddr_storage address{};
  std::string name;  // for messages
  std::uint16_t port = 0;
  std::chrono::seconds patience{20};
};
/** Trouble if there is no such host. */
[[nodiscard]] Target resolve(const std::string& host, std::uint16_t port,
                             std::chrono::seconds patience);

/** Over DAT, of transfers and of connections. The device has to outlive the runner. */
[[nodiscard]] std::unique_ptr<Runner> make_transfer_runner(const Device& device,
                                                           const Target& target, const Case& what);
[[nodiscard]] std::unique_ptr<Runner> make_probe_runner(const Device& device, const Target& target,
                                                        const Case& what);
/** Over TCP sockets; of sends and connections only. */
[[nodiscard]] std::unique_ptr<Runner> make_socket_runner(const Target& target, const Case& what);

/** The connection that stands for a client. */
class Session {
 public:
  Session(const Device& device, const Target& target);

 private:
  dat::Zone zone_;
  dat::Queue queue_;
  dat::Endpoint endpoint_;
};

[[nodiscard]] inline double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}
[[nodiscard]] inline double us_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::micro>(to - from).count();
}

}  // namespace datperf
