// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dat.h"
#include "protocol.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace dattx {

// How a side uses the adapter.
struct Settings {
  std::string ia = "soft";
  DAT_CONN_QUAL port = 45248;
  std::uint32_t timeout_s = 20;  // for each wait
  bool poll = false;             // wait by dequeuing in a loop instead of sleeping
};

// An open adapter. Not thread-safe. Must outlive its connections.
class Adapter {
 public:
  [[nodiscard]] bool open(const Settings& settings);
  [[nodiscard]] DAT_IA_HANDLE handle() const { return ia_.get(); }
  [[nodiscard]] const DAT_IA_ATTR& attributes() const { return attributes_; }
  [[nodiscard]] const Settings& settings() const { return settings_; }

  // Waits for the next event of an EVD, by polling or blocking as the settings say. Returns nullopt
  // after a timeout or an error, which is reported.
  [[nodiscard]] std::optional<DAT_EVENT> next_event(DAT_EVD_HANDLE evd, const char* of_what) const;
  // The same, without a time limit.
  [[nodiscard]] std::optional<DAT_EVENT> wait_forever(DAT_EVD_HANDLE evd) const;

 private:
  Settings settings_;
  Ia ia_;
  DAT_IA_ATTR attributes_{};
};

// One end of a connection with its memory. Not thread-safe. All waits are bounded by the settings.
//
// Memory: window + kSpare slots to receive into, which are always posted; window slots to send from
// and to read into; and a region of one slot that the peer may read and write by RDMA. Failures are
// reported on stderr where they happen; the function then returns false or nullopt, and the
// connection must be destroyed.
class Connection {
 public:
  static constexpr std::uint32_t kSpare = 2;  // room for commands besides the data in flight

  // A received message. The bytes are valid until release().
  struct Received {
    std::span<std::byte> data;
    std::uint32_t slot;
  };

  explicit Connection(const Adapter& adapter) : adapter_(adapter) {}

  // Creates all objects and posts the receives.
  [[nodiscard]] bool create(const Hello& hello);
  [[nodiscard]] bool connect(const std::string& host, const Hello& hello);
  [[nodiscard]] bool accept(DAT_CR_HANDLE cr);
  // Ends the connection and waits until it has ended.
  [[nodiscard]] bool disconnect();
  // Waits for the end of the connection. Returns whether the peer has disconnected; reports another
  // end on stderr.
  [[nodiscard]] bool was_disconnected();

  // Waits for the next message. Returns nullopt if the peer has disconnected (closed() is true) or
  // on failure.
  [[nodiscard]] std::optional<Received> receive();
  // Posts the slot of a received message again.
  [[nodiscard]] bool release(const Received& received);
  [[nodiscard]] bool closed() const { return closed_; }

  // Sends bytes of an out slot or of a received message. May wait for an earlier request.
  [[nodiscard]] bool send(std::span<std::byte> data);
  [[nodiscard]] bool send(const Message& message);
  // RDMA between `data` (in an out slot) and the start of the peer's region.
  [[nodiscard]] bool write(std::span<std::byte> data);
  [[nodiscard]] bool read(std::span<std::byte> data);
  // Waits until at most `outstanding` requests are incomplete.
  [[nodiscard]] bool drain(std::uint32_t outstanding = 0);

  [[nodiscard]] std::span<std::byte> out_slot(std::uint32_t index, std::size_t size);
  [[nodiscard]] std::span<std::byte> region() { return {region_.get(), hello_.slot_size}; }
  [[nodiscard]] std::uint32_t window() const { return hello_.window; }
  [[nodiscard]] std::uint32_t reads_in_flight() const { return max_reads_; }

 private:
  [[nodiscard]] bool create_memory();
  [[nodiscard]] bool create_endpoint();
  [[nodiscard]] bool post_receive(std::uint32_t slot);
  [[nodiscard]] bool wait_established();
  [[nodiscard]] std::uint32_t slots() const { return hello_.window + kSpare; }
  [[nodiscard]] DAT_LMR_TRIPLET segment(std::span<const std::byte> data) const;
  [[nodiscard]] DAT_RMR_TRIPLET remote(std::size_t size) const;
  template <typename Post>
  [[nodiscard]] bool request(std::span<const std::byte> data, const char* what, Post post);

  struct Free {
    void operator()(std::byte* memory) const;
  };
  using Memory = std::unique_ptr<std::byte[], Free>;

  const Adapter& adapter_;
  Hello hello_;
  Invitation invitation_;  // the peer's region; client only
  std::uint32_t outstanding_ = 0;
  std::uint32_t max_reads_ = 0;
  std::uint32_t next_message_ = 0;
  bool closed_ = false;

  // Destroyed in reverse order.
  Memory messages_;  // receive slots, out slots, slots for commands
  Memory region_;
  Pz pz_;
  Evd recv_evd_;
  Evd request_evd_;
  Evd connect_evd_;
  Lmr messages_lmr_;
  Lmr region_lmr_;
  DAT_LMR_CONTEXT messages_context_ = 0;
  DAT_RMR_CONTEXT region_context_ = 0;
  Ep ep_;
};

}  // namespace dattx
