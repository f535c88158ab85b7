// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "harness.h"

#include <sys/types.h>

#include <optional>

namespace conformance {

// A peer in a process of its own, which runs the same program. It registers memory, posts one
// receive over all of it, connects to `conn_qual` with the RMR triplet of the memory as private
// data, and then waits to be stopped or killed. The destructor kills it.
//
// Stopping the peer holds a connection in a state that otherwise ends by itself.
class PeerProcess {
 public:
  enum class Receive { kImmediately, kOnSignal };

  PeerProcess(DAT_CONN_QUAL conn_qual, std::size_t memory, Receive receive);
  ~PeerProcess() { kill(); }
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  void stop();          // on return none of its threads runs
  void resume();        // after stop()
  void post_receive();  // with Receive::kOnSignal: makes the peer post its receive soon
  void kill();          // with SIGKILL; on return the process has ended

 private:
  pid_t pid_ = -1;
};

// How to keep a peer from taking a message depends on the transport. If a Send waits for a receive
// (InfiniBand, RoCE), the peer posts none; stopping the process would not help, because an adapter
// in hardware or in the kernel still serves it. If a Send goes into a stream (iWARP) and completes
// once it is there, the process is stopped, and the Send is larger than the buffers of the stream.
// Determined by a trial, once.
bool sends_wait_for_receives();

// A pair whose active EP is unused: the passive EP accepts a PeerProcess.
struct PairWithProcess {
  explicit PairWithProcess(const DAT_EP_ATTR* attr = nullptr) : pair(attr) {}
  // Starts the peer. Returns its request, which is not answered yet.
  DAT_CR_HANDLE start_and_take_cr();

  // Connects passive to a peer that takes no message until unblock_peer().
  void connect_stalled();
  // Posts a Send on passive. It stays outstanding until unblock_peer(), as do requests posted after
  // it.
  DAT_RETURN post_stalled_send(std::uint64_t cookie_value);
  void unblock_peer();

  Pair pair;
  DAT_RMR_TRIPLET memory{};       // the peer's memory, once its request has arrived
  std::optional<Buffer> message;  // of the stalled send
  std::optional<PeerProcess> peer;
};

}  // namespace conformance
