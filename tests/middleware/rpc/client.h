// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

#include "rpc.h"

namespace rpc {

class Client {
 public:
  explicit Client(int number) : number_(number) {}
  void run();

 private:
  void connect();
  void receiver();
  void on_message(const DAT_EVENT& event);
  void reap_sends();
  void wait_for_replies(int calls, int outstanding);  // until only so many are outstanding
  void call(int number);
  void check_replies();

  int number_;
  DAT_IA_HANDLE ia_{};
  DAT_EVD_HANDLE async_evd_{}, recv_evd_{}, request_evd_{}, connect_evd_{};
  DAT_PZ_HANDLE pz_{};
  Connection connection_;
  std::mutex lock_;
  std::map<std::uint64_t, std::uint32_t> expected_;  // call -> length of its reply
  std::map<std::uint64_t, int> notes_;
  std::atomic<int> replies_{0};
  std::atomic<bool> ended_{false};
  int timeouts_ = 0;
  int talks_ = 0;
};

}  // namespace rpc
