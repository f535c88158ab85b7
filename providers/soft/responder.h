// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/transport/qp.h"
#include "providers/soft/iwarp/inbound.h"
#include "providers/soft/outgoing.h"
#include "providers/soft/qp_shared.h"
#include "providers/soft/work_queue.h"

#include <cstdint>
#include <span>

namespace udapl::soft {

// Performs the peer's accesses to our memory, and sends the answers that we owe it. Used under the
// lock of the Qp. Owned by a Queue.
class Responder {
 public:
  // Throws std::bad_alloc.
  Responder(QpShared& shared, const transport::QpInit& init)
      : shared_(shared), responses_(ring_for(init)) {}

  // For modify().
  static WorkRing<Response> ring_for(const transport::QpInit& init);
  void change(WorkRing<Response> responses) noexcept UDAPL_REQUIRES(qp_locked) {
    responses_ = std::move(responses);
  }

  void clear() noexcept UDAPL_REQUIRES(qp_locked);
  // Starts a connection that allows the peer `ird` Reads in flight.
  void start(std::uint32_t ird) noexcept UDAPL_REQUIRES(qp_locked) { ird_ = ird; }
  // `answers`: whether the peer still waits for answers.
  void set_answers(bool answers) noexcept UDAPL_REQUIRES(qp_locked) { answers_ = answers; }

  // ---- requests of the peer: as in iwarp::Inbound -----------------------------------------------
  iwarp::Verdict fill_write(std::uint32_t stag, std::uint64_t to, std::uint32_t length,
                            iwarp::Payload& payload) noexcept UDAPL_REQUIRES(qp_locked);
  iwarp::Verdict place_write(std::uint32_t stag, std::uint64_t to,
                             std::span<const std::byte> payload) noexcept UDAPL_REQUIRES(qp_locked);
  iwarp::Verdict invalidate(std::uint32_t stag) noexcept UDAPL_REQUIRES(qp_locked);
  iwarp::Verdict read_request(const iwarp::ReadRequest& request, std::uint32_t msn) noexcept
      UDAPL_REQUIRES(qp_locked);
  iwarp::Verdict atomic_request(const iwarp::AtomicRequest& request) noexcept
      UDAPL_REQUIRES(qp_locked);

  void let_go(MrRef ref) noexcept UDAPL_REQUIRES(qp_locked) { targets_.let_go(ref); }

  // ---- sending: as in SendQueue -----------------------------------------------------------------
  [[nodiscard]] bool empty() const noexcept UDAPL_REQUIRES(qp_locked) { return responses_.empty(); }
  [[nodiscard]] bool owes() const noexcept UDAPL_REQUIRES(qp_locked) {
    return built_ != responses_.tail();
  }
  // Whether we owe answers, and all of them are to Reads of no bytes.
  [[nodiscard]] bool only_confirms() noexcept UDAPL_REQUIRES(qp_locked) {
    for (std::uint64_t i = built_; i != responses_.tail(); ++i)
      if (responses_.at(i).atomic || responses_.at(i).request.size != 0) return false;
    return owes();
  }
  [[nodiscard]] bool begin(Outgoing& out) noexcept UDAPL_REQUIRES(qp_locked);
  void message_built(std::uint64_t end) noexcept UDAPL_REQUIRES(qp_locked) {
    responses_.at(built_++).end = end;
  }
  void sent(std::uint64_t end) noexcept UDAPL_REQUIRES(qp_locked) {
    while (responses_.head() != built_ && responses_.at(responses_.head()).end <= end)
      responses_.pop();
  }
  [[nodiscard]] bool pin_unsent(PinSet& pins) noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] bool pin_current(PinSet& pins) noexcept UDAPL_REQUIRES(qp_locked) {
    return pin(built_, pins);
  }

 private:
  [[nodiscard]] iwarp::Verdict verdict(std::uint32_t stag, Refusal refusal) noexcept
      UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] Refusal reach_target(const MrTable::Access& access, Segment& target,
                                     MrTable::Pin& pin) noexcept UDAPL_REQUIRES(qp_locked);
  void grant_direct_access(const MrTable::Access& access) noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] bool pin(std::uint64_t position, PinSet& pins) noexcept UDAPL_REQUIRES(qp_locked);
  [[nodiscard]] Response* next() noexcept UDAPL_REQUIRES(qp_locked);

  QpShared& shared_;
  WorkRing<Response> responses_ UDAPL_GUARDED_BY(qp_locked);
  std::uint64_t built_ UDAPL_GUARDED_BY(qp_locked) = 0;  // all before it are built
  std::uint32_t ird_ UDAPL_GUARDED_BY(qp_locked) = 0;
  bool answers_ UDAPL_GUARDED_BY(qp_locked) = true;
  KeptPin targets_ UDAPL_GUARDED_BY(qp_locked);  // of RDMA Writes
  std::uint32_t kept_stag_ UDAPL_GUARDED_BY(qp_locked) = 0;
};

}  // namespace udapl::soft
