// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "harness.h"

#include <sys/types.h>

#include <optional>

namespace conformance {

// A peer in a process of its own: this program again. It makes memory, posts one receive over all
// of it, connects to `conn_qual` with the RMR triplet of the memory as private data, and then waits
// to be stopped or killed. Killed at the end.
//
// Stopping it holds a connection in a state that otherwise passes by itself.
class PeerProcess {
 public:
  enum class Receive { kAtOnce, kWhenTold };

  PeerProcess(DAT_CONN_QUAL conn_qual, std::size_t memory, Receive receive);
  ~PeerProcess() { kill(); }
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  void stop();          // on return none of its threads runs
  void resume();        // after a stop
  void post_receive();  // that of Receive::kWhenTold; it does so soon
  void kill();          // with SIGKILL; on return it is gone

 private:
  pid_t pid_ = -1;
};

// How a peer is kept from taking a message depends on the transport. Where a Send waits until there
// is a receive for it (InfiniBand, RoCE) the peer posts none; an adapter in hardware or in the
// kernel serves a stopped process all the same. Where a Send goes into a stream (iWARP), and is done
// when it is there, the process is stopped, and the Send larger than what the stream's buffers hold.
// Found out by trying, once.
bool sends_wait_for_receives();

// A pair whose active EP is not used: passive accepts a PeerProcess.
struct PairWithProcess {
  explicit PairWithProcess(const DAT_EP_ATTR* attr = nullptr) : pair(attr) {}
  // Its request has arrived and is not answered.
  DAT_CR_HANDLE start_and_take_cr();

  // passive is connected to a peer that takes no message until let_go().
  void connect_stalled();
  // From passive: it, and what is posted behind it, stay outstanding until let_go().
  DAT_RETURN post_stalled_send(std::uint64_t cookie_value);
  void let_go();

  Pair pair;
  DAT_RMR_TRIPLET memory{};       // the peer's, once its request is here
  std::optional<Buffer> message;  // of the stalled send
  std::optional<PeerProcess> peer;
};

}  // namespace conformance
