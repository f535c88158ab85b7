// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include <cstddef>
#include <string>
#include <vector>

// Two connected EPs of one process over one IA, as a benchmark needs them: both ends in hand, no
// second program to start. Every call that fails ends the program with the DAT error's name: a
// benchmark of a failure is worth nothing.
namespace bench {

// The IA that all benchmarks open; set by main from --ia.
void set_ia_name(std::string name);
// Opens the entry marked threadsafe from now on.
void set_thread_safe(bool thread_safe);

// Ends the program unless `rc` is DAT_SUCCESS.
void check(DAT_RETURN rc, const char* what);

struct Adapter {
  Adapter();
  ~Adapter();
  Adapter(const Adapter&) = delete;
  Adapter& operator=(const Adapter&) = delete;

  DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
  DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
  DAT_IA_ATTR attr{};
};

// Creates a PSP at a conn qual that nobody uses, which is returned.
DAT_CONN_QUAL listen(DAT_IA_HANDLE ia, DAT_EVD_HANDLE requests, DAT_PSP_HANDLE* psp);

// Memory of its own, registered for everything.
struct Buffer {
  Buffer(const Adapter& adapter, std::size_t size);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  [[nodiscard]] DAT_LMR_TRIPLET local(std::size_t length) const;
  [[nodiscard]] DAT_RMR_TRIPLET remote(std::size_t length) const;

  std::vector<std::byte> bytes;
  DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
  DAT_LMR_CONTEXT lmr_context = 0;
  DAT_RMR_CONTEXT rmr_context = 0;
};

// One end: an EP and its EVDs.
struct End {
  DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE recv_evd = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE request_evd = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE connect_evd = DAT_HANDLE_NULL;

  void create(const Adapter& adapter, DAT_COUNT depth);
  // The EP alone, for ends that share EVDs: they are set already.
  void create_ep(const Adapter& adapter, DAT_COUNT depth);
  void destroy();

  void post_recv(const Buffer& buffer, std::size_t length) const;
  void post_send(const Buffer& buffer, std::size_t length,
                 DAT_COMPLETION_FLAGS flags = DAT_COMPLETION_DEFAULT_FLAG) const;
};

void create_evd(const Adapter& adapter, DAT_COUNT depth, DAT_EVD_FLAGS flags, DAT_EVD_HANDLE* evd);

// Takes one completion off `evd` by polling / by waiting; it must be a success.
void poll_one(DAT_EVD_HANDLE evd);
void wait_one(DAT_EVD_HANDLE evd);
// Waits for connection event `number` on `evd`.
void wait_connection(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number);

struct Loopback {
  explicit Loopback(DAT_COUNT depth = 128);
  ~Loopback();
  Loopback(const Loopback&) = delete;
  Loopback& operator=(const Loopback&) = delete;

  // Connects active to passive through a PSP; both are established on return.
  void connect();
  // Ends the connection from the active side; both sides know it on return.
  void disconnect(DAT_CLOSE_FLAGS how = DAT_CLOSE_GRACEFUL_FLAG);
  // Resets both EPs, ready to connect again.
  void reset();

  Adapter adapter;
  End active;
  End passive;
  DAT_EVD_HANDLE request_arrivals = DAT_HANDLE_NULL;
  DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
  DAT_CONN_QUAL conn_qual = 0;
};

}  // namespace bench
