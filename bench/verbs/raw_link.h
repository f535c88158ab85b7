// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>
#include <vector>

// Two connected QPs of one process by librdmacm and libibverbs alone: what bench::Loopback is with
// DAT. Whatever fails ends the program.
namespace bench {

// Ends the program, with errno, unless `good`.
void must(bool good, const char* what);

// How completions are taken: by polling only, or also from a completion channel for each queue.
enum class Reap { kPoll, kWait };

// One end: a QP whose sends and receives complete on CQs of their own.
struct RawEnd {
  rdma_cm_id* id = nullptr;
  ibv_cq* recv_cq = nullptr;
  ibv_cq* send_cq = nullptr;

  // Makes the CQs and the QP of `id`.
  void create(ibv_pd* pd, int depth, std::uint32_t max_inline, Reap how);
  void destroy();

  void post_recv(ibv_sge segment) const;
  // `flags`: IBV_SEND_INLINE or 0, besides a completion.
  void post_send(ibv_sge segment, unsigned flags) const;
  void post_write(ibv_sge segment, std::uint64_t address, std::uint32_t rkey, unsigned flags) const;
};

// Takes one completion off `cq` by polling; it must be a success.
void poll_one(ibv_cq* cq);

class RawLink {
 public:
  // Connects through a listener on `address`, one of this machine's.
  RawLink(const sockaddr& address, int depth, std::size_t buffer_size, Reap how = Reap::kPoll);
  ~RawLink();
  RawLink(const RawLink&) = delete;
  RawLink& operator=(const RawLink&) = delete;

  [[nodiscard]] ibv_sge segment(std::size_t length) const;
  [[nodiscard]] std::uint32_t rkey() const { return mr_->rkey; }
  // Flags of a request of that length: what fits goes inline, as the providers do.
  [[nodiscard]] unsigned flags(std::size_t length) const;

  RawEnd active;
  RawEnd passive;

 private:
  // The next event, which must be that one: whose it is.
  rdma_cm_id* expect(rdma_cm_event_type type);

  rdma_event_channel* channel_;
  rdma_cm_id* listener_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_mr* mr_ = nullptr;
  std::vector<std::byte> bytes_;
};

}  // namespace bench
