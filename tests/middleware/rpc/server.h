// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>
#include <semaphore.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>

#include "rpc.h"

namespace rpc {

class Server {
 public:
  void run(int ready_fd, int clients);
  void dump() const;  // called by a signal handler, so it takes no locks

 private:
  struct Late {
    std::chrono::steady_clock::time_point due;
    DAT_EP_HANDLE ep;
    std::uint64_t xid;
    std::uint32_t length;
  };

  static void agent(DAT_PVOID self, DAT_EVD_HANDLE evd);
  void install_agent();
  void proxy();
  void timer();
  void drain_all();
  void handle(const DAT_EVENT& event);
  void on_request(const DAT_EVENT& event);
  void on_connection_event(const DAT_EVENT& event);
  void discard_completions(Connection& connection);
  void on_completion(const DAT_EVENT& event);
  void on_call(Connection& connection, const Message& call);
  void reply(Connection& connection, const Message& call, std::uint32_t length);

  DAT_IA_HANDLE ia_{};
  DAT_EVD_HANDLE async_evd_{}, cr_evd_{}, connection_evd_{}, dto_evd_{};
  DAT_CNO_HANDLE cno_{};
  DAT_PZ_HANDLE pz_{};
  DAT_PSP_HANDLE psp_{};
  std::map<DAT_EP_HANDLE, std::unique_ptr<Connection>> connections_;
  std::mutex table_;  // protects connections_ from the timer
  std::mutex late_lock_;
  std::deque<Late> late_;
  sem_t wake_;
  std::atomic<bool> stop_{false};
  std::atomic<int> opened_{0}, closed_{0}, agent_calls_{0};
  std::mutex dispatch_;
};

}  // namespace rpc
