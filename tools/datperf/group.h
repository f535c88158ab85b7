// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The connections of one thread, on either side, with a common completion queue and memory. Each
// connection has `size` bytes that the peer may read and write and into which messages arrive, and
// `size` bytes to send from. All receives of a connection share that memory, as the contents of
// messages do not matter. Not thread-safe. Throws dat::Error if a DAT call fails, and Trouble for
// other failures.
#pragma once

#include "wire.h"

#include <dat/dat_ib_extensions.h>
#include <dat/dat.hpp>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <vector>

namespace datperf {

using Clock = std::chrono::steady_clock;

struct Trouble : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/** An open adapter and whether its provider has atomic operations. */
struct Device {
  explicit Device(const std::string& name);
  dat::Adapter adapter;
  DAT_IA_ATTR limits{};
  bool atomics = false;
};

/** A completion. */
struct Done {
  std::uint32_t endpoint = 0;
  bool received = false;
  std::uint32_t length = 0;  // of a received message
};

class Group {
 public:
  Group(const Device& device, const Case& what, std::chrono::seconds patience);

  [[nodiscard]] const Case& what() const { return what_; }
  [[nodiscard]] std::uint32_t endpoints() const { return what_.endpoints; }
  [[nodiscard]] const dat::Queue& connections() const { return connections_; }
  [[nodiscard]] const dat::Endpoint& endpoint(std::uint32_t index) const {
    return endpoints_[index];
  }
  /** What the peer needs in order to read and write this side's memory. */
  [[nodiscard]] Invitation invitation(std::uint32_t index) const;
  void set_peer(std::uint32_t index, std::uint64_t address, std::uint32_t context);

  /** Posts the receives that the case needs, on every endpoint. */
  void post_receives();
  void post_receive(std::uint32_t index) {
    endpoints_[index].post_recv(memory_.segment(target(index), what_.size), cookie(index, true));
  }
  void post_send(std::uint32_t index, std::uint32_t size) {
    endpoints_[index].post_send(memory_.segment(source(index), size), cookie(index, false));
  }
  /** Posts one operation of the case. */
  void post(std::uint32_t index) { (this->*post_)(index); }
  void post_write(std::uint32_t index) {
    const DAT_LMR_TRIPLET local = memory_.segment(source(index), what_.size);
    endpoints_[index].post_write({&local, 1}, peers_[index], cookie(index, false));
  }

  /** Takes the next completion if there is one; sets `failed` if its operation failed. */
  [[nodiscard]] bool poll(Done& done, bool& failed) {
    DAT_EVENT event;
    return completions_.poll(event) && digest(event, done, failed);
  }
  /** Waits for the next completion, by polling or blocking as the case says. Returns false if none
   *  arrives within `limit`. */
  [[nodiscard]] bool next(Done& done, bool& failed, std::chrono::milliseconds limit);
  /** Waits for the next completion. Throws Trouble if it failed or none arrived in time. */
  Done next();

  /** For polling on memory: the last byte of the block that the peer writes, and of the block that
   *  this side sends from. */
  [[nodiscard]] std::uint8_t last_byte(std::uint32_t index) const;
  void set_last_byte(std::uint32_t index, std::uint8_t value);

 private:
  [[nodiscard]] std::size_t target(std::uint32_t index) const { return 2 * index * stride_; }
  [[nodiscard]] std::size_t source(std::uint32_t index) const { return target(index) + stride_; }
  static DAT_DTO_COOKIE cookie(std::uint32_t index, bool receive) {
    return dat::cookie(std::uint64_t{index} << 1 | (receive ? 1U : 0U));
  }
  bool digest(const DAT_EVENT& event, Done& done, bool& failed);
  void post_send_whole(std::uint32_t index) { post_send(index, what_.size); }
  void post_read(std::uint32_t index);
  void post_fetch_add(std::uint32_t index);

  struct Free {
    void operator()(std::byte* bytes) const;
  };
  using Bytes = std::unique_ptr<std::byte, Free>;
  static Bytes allocate(std::size_t size);

  Case what_;
  std::chrono::seconds patience_;
  std::uint32_t receives_;  // posted on each endpoint
  std::uint32_t requests_;  // maximum per endpoint
  std::size_t stride_;
  Bytes bytes_;
  dat::Zone zone_;
  dat::Memory memory_;
  dat::Queue completions_;
  dat::Queue connections_;
  std::vector<dat::Endpoint> endpoints_;
  std::vector<DAT_RMR_TRIPLET> peers_;
  void (Group::*post_)(std::uint32_t);
  DAT_DTO_COMPLETION_STATUS last_failure_ = DAT_DTO_SUCCESS;
};

/** The attributes of an endpoint that supports every operation with these limits. */
[[nodiscard]] DAT_EP_ATTR endpoint_attributes(const Device& device, std::uint32_t size,
                                              std::uint32_t receives, std::uint32_t requests);

}  // namespace datperf
