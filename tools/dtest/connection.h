// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Events, and one connection with all its objects, for dtest and dtestx.
#pragma once

#include "common.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

namespace dtest {

/** The time limit for one step of the peer. */
inline constexpr std::chrono::seconds kPatience{100};

/** How the program waits for events. */
struct Events {
  bool poll = false;                     // dat_evd_dequeue in a loop
  DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;  // else dat_cno_wait if there is a CNO, else dat_evd_wait

  [[nodiscard]] std::optional<DAT_EVENT> next(DAT_EVD_HANDLE evd,
                                              std::chrono::microseconds patience) const;
  /** Waits for the next event; fails unless it is `number`. */
  [[nodiscard]] DAT_EVENT expect(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number, std::string_view what,
                                 std::chrono::microseconds patience = kPatience) const;

  mutable std::uint64_t polls = 0;  // number of polls that found no event
};

/** One connection. Not thread-safe. Any failure ends the program. */
class Connection {
 public:
  struct Shape {
    DAT_COUNT requests = 16;
    DAT_COUNT receives = 16;
    std::uint64_t longest = 0;  // bytes of the longest message or RDMA
    bool extensions = false;    // immediate data and atomics
    bool with_cno = false;
  };

  void create(const Adapter& adapter, const Shape& shape, Events& events);
  void listen(DAT_CONN_QUAL port);
  /** Returns whether a connection request has arrived. */
  [[nodiscard]] bool called();
  /** Accepts the request. `reply` turns its private data into those of the answer. */
  void accept(const std::function<std::vector<std::uint8_t>(std::vector<std::uint8_t>)>& reply);
  void connect(const sockaddr_storage& address, DAT_CONN_QUAL port,
               std::span<const std::uint8_t> private_data);
  /** Waits until the connection is established. Returns the peer's private data. */
  std::vector<std::uint8_t> established();
  void disconnect(bool first);
  void free();

  void post_receive(const Memory& memory, std::size_t offset, std::size_t length,
                    std::uint64_t id) const;
  void post_send(const Memory& memory, std::size_t offset, std::size_t length, std::uint64_t id,
                 DAT_COMPLETION_FLAGS flags) const;
  /** Waits for the receive with that id and returns its event. */
  DAT_EVENT received(std::uint64_t id, std::size_t length, std::string_view what);
  /** Waits for the request with that id and returns its event. */
  DAT_EVENT completed(std::uint64_t id, std::string_view what);

  [[nodiscard]] DAT_EP_HANDLE ep() const { return ep_; }
  [[nodiscard]] DAT_EP_PARAM query() const;
  [[nodiscard]] const Events& events() const { return *events_; }

  double evd_create_us = 0;
  double evd_free_us = 0;
  double ep_create_us = 0;
  double ep_free_us = 0;
  double connect_us = 0;

 private:
  void check(const DAT_EVENT& event, std::uint64_t id, std::string_view what) const;
  [[nodiscard]] std::string end_reason() const;

  const Adapter* adapter_ = nullptr;
  Events* events_ = nullptr;
  DAT_EVD_HANDLE cr_evd_ = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE connect_evd_ = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE request_evd_ = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE receive_evd_ = DAT_HANDLE_NULL;
  DAT_CNO_HANDLE cno_ = DAT_HANDLE_NULL;
  DAT_PSP_HANDLE psp_ = DAT_HANDLE_NULL;
  DAT_EP_HANDLE ep_ = DAT_HANDLE_NULL;
  DAT_CR_HANDLE cr_ = DAT_HANDLE_NULL;
};

}  // namespace dtest
