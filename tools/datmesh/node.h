// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// One rank of the mesh: its connections to all other ranks, and the transfers on them. Each peer
// writes to its own `size` bytes of this rank's memory. Not thread-safe. Throws dat::Error if the
// whole rank fails; the failure of a single link is recorded in that Link.
#pragma once

#include "job.h"
#include "result.h"

#include <dat/dat.hpp>

#include <chrono>
#include <deque>

namespace datmesh {

class Node {
 public:
  Node(Job& job, const Options& options);
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /** Connects to all higher ranks and accepts connections from all lower ones. */
  void connect_all();
  /** Measures the link to each peer in turn, in both directions. */
  void measure_all();
  [[nodiscard]] const std::vector<Link>& links() const { return links_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    explicit Peer(dat::Endpoint of) : endpoint(std::move(of)) {}
    dat::Endpoint endpoint;
    DAT_RMR_TRIPLET target{};
    std::string address;
    std::uint16_t port = 0;
    Clock::time_point requested_at;
    bool established = false;
    bool connecting = false;
  };

  void publish();
  void read_addresses();
  void request_connection(std::uint32_t to);
  void handle_events(std::chrono::milliseconds limit);
  void admit(const dat::Arrival& arrival);
  void established(const dat::Established& event);
  void ended(const dat::Ended& event);
  [[nodiscard]] std::uint32_t index_of(DAT_EP_HANDLE endpoint) const;
  [[nodiscard]] std::vector<std::byte> introduction(std::uint32_t to) const;

  void meet(std::uint32_t peer);
  void send_to(std::uint32_t peer);
  void receive_from(std::uint32_t peer);
  void send_word(std::uint32_t peer, std::uint32_t word);
  [[nodiscard]] std::uint32_t receive_word(std::uint32_t peer);
  [[nodiscard]] bool next(std::uint32_t peer, std::uint32_t& slot);  // true if a message arrived
  [[nodiscard]] std::span<std::byte> target(std::uint32_t peer);
  [[nodiscard]] std::span<std::byte> source();

  Job& job_;
  Options options_;
  dat::Adapter adapter_;
  dat::Zone zone_;
  std::vector<std::byte> bytes_;  // targets by rank, the source, messages
  dat::Memory memory_;
  dat::Queue transfers_;
  dat::Queue connections_;
  dat::Listener listener_;
  std::deque<Peer> peers_;  // by rank; this rank's own element is unused
  std::vector<Link> links_;
  std::uint32_t in_flight_ = 0;            // requests of the current transfer
  std::deque<std::uint32_t> early_slots_;  // slots of messages that arrived early
};

}  // namespace datmesh
