// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "harness.h"

#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

// Two hosts on one wire, as the virtual machine has them with --hosts 2: `ofa-v2-rxe0` on interface
// d0, `ofa-v2-rxe1` on d1. Both are opened by this process; what they exchange are packets on the
// veth pair. Only the public API and the commands `ip`, `tc` and `rdma` are used.
namespace wire {

inline constexpr const char* kServerIa = "ofa-v2-rxe0";
inline constexpr const char* kClientIa = "ofa-v2-rxe1";

// Runs a shell command, which must succeed.
void run(const std::string& command);
// What the command writes.
std::string output_of(const std::string& command);

// Time since it was made.
class Stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// Disturbs what both hosts send, as tc-netem(8) says it ("loss 2%"), until destroyed.
class Disturbance {
 public:
  explicit Disturbance(const std::string& netem);
  ~Disturbance();
  Disturbance(const Disturbance&) = delete;
  Disturbance& operator=(const Disturbance&) = delete;
};

// The server's interface, taken down until destroyed. The routes that a dying link takes along come
// back too.
class LinkDown {
 public:
  LinkDown();
  ~LinkDown();
  LinkDown(const LinkDown&) = delete;
  LinkDown& operator=(const LinkDown&) = delete;
};

// A fixture for whole tests: what this process holds of the kernel's RDMA objects (QP, CQ, MR, PD,
// CM ids) and of file descriptors must be the same afterwards.
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

// Sets an environment variable of the provider for as long as it lives; read when an IA is opened.
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

// An EP of each host, connected.
struct Connection {
  explicit Connection(Hosts& hosts);
  // Ends it in order and takes the events of both sides.
  void disconnect();

  Hosts& hosts;
  conformance::End active;   // the client's
  conformance::End passive;  // the server's
};

}  // namespace wire
