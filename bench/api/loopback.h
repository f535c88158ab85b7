// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include <cstddef>
#include <string>
#include <vector>

// Two connected EPs of one process over one IA, so that a benchmark controls both ends without a
// second program. Every call that fails ends the program with the name of the DAT error.
namespace bench {

// The IA that all benchmarks open; set by main from --ia.
void set_ia_name(std::string name);
// Chooses between the entries marked threadsafe and nonthreadsafe for IAs opened from now on.
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

// Creates a PSP at an unused conn qual and returns that.
DAT_CONN_QUAL listen(DAT_IA_HANDLE ia, DAT_EVD_HANDLE requests, DAT_PSP_HANDLE* psp);

// Memory, registered with all privileges.
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
  DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;  // where receives are posted, if there is one

  void create(const Adapter& adapter, DAT_COUNT depth);
  // Creates only the EP, for ends that share EVDs; the EVDs must be set already.
  void create_ep(const Adapter& adapter, DAT_COUNT depth);
  // Before the EP, if it is to have one.
  void create_srq(const Adapter& adapter, DAT_COUNT depth);
  void destroy();

  void post_recv(const Buffer& buffer, std::size_t length) const;
  void post_send(const Buffer& buffer, std::size_t length,
                 DAT_COMPLETION_FLAGS flags = DAT_COMPLETION_DEFAULT_FLAG) const;
};

void create_evd(const Adapter& adapter, DAT_COUNT depth, DAT_EVD_FLAGS flags, DAT_EVD_HANDLE* evd);

// Dequeues one completion from `evd` by polling or by waiting; it must be successful.
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
  // Ends the connection from the active side; both sides are disconnected on return.
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
