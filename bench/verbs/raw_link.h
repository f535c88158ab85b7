// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>
#include <vector>

// Two connected QPs of one process with librdmacm and libibverbs alone: the counterpart of
// bench::Loopback. Any failure ends the program.
namespace bench {

// Unless `good`, prints `what` and errno and ends the program.
void must(bool good, const char* what);

// How completions are received: by polling only, or also from a completion channel per CQ.
enum class Reap { kPoll, kWait };

// One end: a QP whose sends and receives complete on CQs of their own.
struct RawEnd {
  rdma_cm_id* id = nullptr;
  ibv_cq* recv_cq = nullptr;
  ibv_cq* send_cq = nullptr;

  // Creates the CQs and the QP of `id`.
  void create(ibv_pd* pd, int depth, std::uint32_t max_inline, Reap how);
  void destroy();

  void post_recv(ibv_sge segment) const;
  // `flags`: IBV_SEND_INLINE or 0; IBV_SEND_SIGNALED is added.
  void post_send(ibv_sge segment, unsigned flags) const;
  void post_write(ibv_sge segment, std::uint64_t address, std::uint32_t rkey, unsigned flags) const;
};

// Dequeues one completion from `cq` by polling; it must be successful.
void poll_one(ibv_cq* cq);

class RawLink {
 public:
  // Connects through a listener on `address`, an address of this machine.
  RawLink(const sockaddr& address, int depth, std::size_t buffer_size, Reap how = Reap::kPoll);
  ~RawLink();
  RawLink(const RawLink&) = delete;
  RawLink& operator=(const RawLink&) = delete;

  [[nodiscard]] ibv_sge segment(std::size_t length) const;
  [[nodiscard]] std::uint32_t rkey() const { return mr_->rkey; }
  // Flags of a request of that length: inline if it fits, as the providers do.
  [[nodiscard]] unsigned flags(std::size_t length) const;

  RawEnd active;
  RawEnd passive;

 private:
  // Waits for the next event, which must be of this type, and returns its id.
  rdma_cm_id* expect(rdma_cm_event_type type);

  rdma_event_channel* channel_;
  rdma_cm_id* listener_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_mr* mr_ = nullptr;
  std::vector<std::byte> bytes_;
};

}  // namespace bench
