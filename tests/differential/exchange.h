/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "world.h"

enum Queue : std::size_t { kRecv, kRequest, kConnect, kCr };

constexpr std::size_t kEps = 3;

// A program of the second kind: what real ones do most, with everything chosen at random. Two IAs
// connect some EPs, exchange messages, wait in all ways, end the connections, and begin again.
class Exchange {
 public:
  explicit Exchange(World& world) : w_(world) {}

  void run();

 private:
  Side& a() { return w_.sides[0]; }
  Side& b() { return w_.sides[1]; }
  Side& either() { return w_.any_side(); }
  std::string text(const char* call, DAT_HANDLE handle) {
    return std::string(call) + " " + w_.name(handle);
  }
  DAT_DTO_COOKIE next_cookie() {
    DAT_DTO_COOKIE cookie{};
    cookie.as_64 = ++cookies_;
    return cookie;
  }
  std::vector<DAT_LMR_TRIPLET> segments(Side& side, unsigned offset, std::string* text);

  bool open(Side& side);
  void open_queues(Side& side);
  void create(Side& side, std::size_t index);
  void listen();
  void establish(std::size_t index);
  void answer(std::size_t index, DAT_CR_HANDLE cr);
  DAT_CR_HANDLE take_request();

  void receive(Side& side, DAT_EP_HANDLE ep);
  void send(Side& side, DAT_EP_HANDLE ep);
  void access(Side& side, DAT_EP_HANDLE ep);
  void wait(Side& side);
  void wait_in_a_thread(Side& side, DAT_EP_HANDLE peer);
  void wait_for_cno(Side& side);
  void look(Side& side, DAT_EP_HANDLE ep);
  void queries(Side& side, DAT_EP_HANDLE ep);
  void resize(Side& side);
  void transfer();
  void drain(const char* why);
  bool end(std::size_t index);
  void begin_again();

  World& w_;
  std::uint64_t cookies_ = 0;
};
