// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "harness.h"

#include <sys/types.h>

#include <optional>

namespace conformance {

// A peer in a process of its own: this program again. It makes kPeerMemory bytes of memory, posts
// one receive over all of it, connects to `conn_qual` with the RMR triplet of the memory as private
// data, and then waits to be stopped or killed. Killed at the end.
//
// Stopping it holds a connection in a state that otherwise passes by itself.
class PeerProcess {
 public:
  explicit PeerProcess(DAT_CONN_QUAL conn_qual);
  ~PeerProcess() { kill(); }
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  void stop();    // on return none of its threads runs
  void resume();  // after a stop
  void kill();    // with SIGKILL; on return it is gone

 private:
  pid_t pid_ = -1;
};

// More than the buffers between two processes hold.
inline constexpr std::size_t kPeerMemory = 64U << 20;

// A pair whose active EP is not used: passive accepts a PeerProcess.
struct PairWithProcess {
  explicit PairWithProcess(const DAT_EP_ATTR* attr = nullptr) : pair(attr) {}
  // Its request has arrived and is not answered.
  DAT_CR_HANDLE start_and_take_cr();
  // passive is connected to it.
  void connect();

  Pair pair;
  DAT_RMR_TRIPLET memory{};  // the peer's, once its request is here
  std::optional<PeerProcess> peer;
};

}  // namespace conformance
