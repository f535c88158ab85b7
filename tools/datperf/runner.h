// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A runner carries out the rounds of one case in one thread, over DAT or over sockets.
#pragma once

#include "group.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <vector>

namespace datperf {

/** The end of a round: after `count` operations or, if that is 0, after `seconds`. */
class Limit {
 public:
  Limit(std::uint64_t count, double seconds)
      : count_(count),
        end_(Clock::now() +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))) {}
  [[nodiscard]] bool reached(std::uint64_t operations, Clock::time_point now) const {
    if (count_ != 0) return operations >= count_;
    return now >= end_ || operations >= kMaxOperations;
  }

 private:
  static constexpr std::uint64_t kMaxOperations = 1ULL << 32;
  std::uint64_t count_;
  Clock::time_point end_;
};

struct Round {
  std::uint64_t operations = 0;
  double seconds = 0;
  std::vector<double> samples;  // microseconds of each operation; empty for bandwidth
};

class Runner {
 public:
  Runner() = default;
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;
  virtual ~Runner() = default;
  virtual Round run(const Limit& limit) = 0;
};

/** The address of the server. */
struct Target {
  sockaddr_storage address{};
  std::string name;  // for messages
  std::uint16_t port = 0;
  std::chrono::seconds patience{20};
};
/** Throws Trouble if there is no such host. */
[[nodiscard]] Target resolve(const std::string& host, std::uint16_t port,
                             std::chrono::seconds patience);

/** Runners over DAT, for transfers and for connection set-up. The device must outlive the runner.
 */
[[nodiscard]] std::unique_ptr<Runner> make_transfer_runner(const Device& device,
                                                           const Target& target, const Case& what);
[[nodiscard]] std::unique_ptr<Runner> make_probe_runner(const Device& device, const Target& target,
                                                        const Case& what);
/** A runner over TCP sockets, for sends and connection set-up only. */
[[nodiscard]] std::unique_ptr<Runner> make_socket_runner(const Target& target, const Case& what);

/** A connection without data that represents the client: the server counts its clients by these. */
class Session {
 public:
  Session(const Device& device, const Target& target);
  /** Tells the server that the client has finished. Without it the server counts it as lost. */
  void finish() const;

 private:
  std::chrono::seconds patience_;
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
