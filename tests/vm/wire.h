// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "harness.h"

#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

// Two hosts on one wire, as in the virtual machine with --hosts 2: `ofa-v2-rxe0` on interface d0,
// `ofa-v2-rxe1` on d1. This process opens both; they exchange packets over the veth pair. Only the
// public API and the commands `ip`, `tc` and `rdma` are used.
namespace wire {

inline constexpr const char* kServerIa = "ofa-v2-rxe0";
inline constexpr const char* kClientIa = "ofa-v2-rxe1";

// Runs a shell command, which must succeed.
void run(const std::string& command);
// The output of a shell command.
std::string output_of(const std::string& command);

// Measures the time since its construction.
class Stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// Disturbs the traffic of both hosts until destroyed. The argument is that of tc-netem(8), such as
// "loss 2%".
class Disturbance {
 public:
  explicit Disturbance(const std::string& netem);
  ~Disturbance();
  Disturbance(const Disturbance&) = delete;
  Disturbance& operator=(const Disturbance&) = delete;
};

// Takes the server's interface down until destroyed. Also restores the routes that are lost with
// the link.
class LinkDown {
 public:
  LinkDown();
  ~LinkDown();
  LinkDown(const LinkDown&) = delete;
  LinkDown& operator=(const LinkDown&) = delete;
};

// A fixture for whole tests: checks that the process has the same kernel RDMA objects (QP, CQ, MR,
// PD, CM ids) and file descriptors at the end as at the start.
class NothingLeft {
 public:
  NothingLeft();
  ~NothingLeft();
  NothingLeft(const NothingLeft&) = delete;
  NothingLeft& operator=(const NothingLeft&) = delete;

 private:
  std::string objects_;
  std::string descriptors_;
};

// Sets an environment variable of the provider while it exists. Providers read it when an IA is
// opened.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Setting() { ::unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
};

struct Host {
  explicit Host(const char* name) : ia(name), pz(conformance::make_pz(ia)) {}
  conformance::Ia ia;
  conformance::Pz pz;
};

// A server with a listener, and a client.
struct Hosts {
  Hosts();

  // Starts the client's connect to the server's address (or `address`).
  void connect(DAT_EP_HANDLE ep, DAT_TIMEOUT timeout = conformance::kPatience,
               const sockaddr* address = nullptr, DAT_CONN_QUAL qual = 0) const;
  DAT_CR_HANDLE take_request() const;

  Host server{kServerIa};
  Host client{kClientIa};
  conformance::Evd cr_evd;
  DAT_CONN_QUAL conn_qual;
  conformance::Psp psp;
};

// A connection between the hosts, with an EP on each.
struct Connection {
  explicit Connection(Hosts& hosts);
  // Disconnects gracefully and takes the events of both sides.
  void disconnect();

  Hosts& hosts;
  conformance::End active;   // the client's
  conformance::End passive;  // the server's
};

}  // namespace wire
