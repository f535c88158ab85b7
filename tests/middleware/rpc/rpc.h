// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What the server and the clients share: the messages and the end of a connection.
#pragma once

#include <dat/udat.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace rpc {

constexpr int kBuffers = 16;
constexpr int kWindow = 6;
constexpr std::size_t kMessage = 1024;

struct Options {
  std::string ia = "soft";
  bool threadsafe = false;
  std::string engine = "wait";
  int clients = 4;
  int calls = 200;
  int limit = 120;
  DAT_CONN_QUAL qual = 0;
};
extern Options options;

enum Procedure : std::uint32_t {
  kEcho = 1,
  kSlow,
  kTalk,
  kQuitGraceful,
  kQuitAbrupt,
  kReply,
  kNote
};

struct Message {
  std::uint64_t xid;
  std::uint32_t procedure;
  std::uint32_t length;
  unsigned char data[kMessage - 16];
};

[[noreturn]] void fail(const std::string& text);
void must(DAT_RETURN status, const char* what);
// Fails unless the message has the bytes that belong to it.
void verify(const Message& message, std::size_t length);
DAT_IA_HANDLE open_ia(DAT_EVD_HANDLE& async_evd);

// The receive and send buffers of one connection, in one region.
struct Connection {
  DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
  DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
  DAT_LMR_CONTEXT context = 0;
  std::vector<Message> memory = std::vector<Message>(2 * kBuffers);
  std::mutex lock;  // protects free_sends: both timer and dispatcher send
  std::vector<int> free_sends;
  bool connected = false;
  bool quitting = false;
  int posted_recvs = 0;
  std::atomic<int> posted_sends{0};

  void prepare(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv_evd,
               DAT_EVD_HANDLE request_evd, DAT_EVD_HANDLE connect_evd, DAT_COMPLETION_FLAGS flags);
  void post_recv(int index);
  // Returns false if there is no buffer. If the connection has ended, the message is lost.
  bool send(std::uint64_t xid, std::uint32_t procedure, std::uint32_t length,
            DAT_COMPLETION_FLAGS flags);
  void sent(int index);
  void release();
};

}  // namespace rpc
