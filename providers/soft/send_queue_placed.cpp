// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// SendQueue: requests that are done when the peer has placed their data.
#include "providers/soft/cq.h"
#include "providers/soft/send_queue.h"

#include <algorithm>

namespace udapl::soft {

// ---- placement, confirmed by the link -----------------------------------------------------------

// The link has confirmed everything up to `position`. There is no CQ while the Qp is being
// destroyed.
void SendQueue::placed(std::uint64_t position) noexcept {
  if (position <= placed_) return;
  placed_ = position;
  confirmed_ = std::max(confirmed_, requests_.head());
  for (; confirmed_ != sent_ && requests_.at(confirmed_).end <= position; ++confirmed_) {
    Request& request = requests_.at(confirmed_);
    if (waits_for_placement(request.kind)) request.done = true;
  }
  report_done();
  if (awaited_ != 0 && awaited_ <= position && cq_ != nullptr) await_next_seen();
}

void SendQueue::await_placed(std::uint64_t position) noexcept {
  awaited_ = position;
  shared_.link->confirmations()->await_placed(position, cq_->demand());
}

void SendQueue::await_next_seen() noexcept {
  std::uint64_t position = released_end_ > placed_ ? released_end_ : 0;
  for (std::uint64_t i = std::max(confirmed_, requests_.head()); i != sent_; ++i) {
    const Request& request = requests_.at(i);
    if (waits_for_placement(request.kind) && !request.done) position = request.end;
    if (position != 0 && is_seen(request)) return await_placed(position);
  }
  await_placed(0);
}

// Frees the places of requests whose success the consumer does not see, so that it can post any
// number of them. If one of them is refused later, only the connection tells. Called when half of
// the places are taken, because the core makes one in that many report its success.
void SendQueue::release_unseen() noexcept {
  for (std::uint64_t i = requests_.head(); i != sent_ && !is_seen(requests_.at(i)); ++i) {
    Request& request = requests_.at(i);
    if (request.done) continue;
    if (expects_response(request.kind)) return;
    request.done = true;
    released_end_ = request.end;
  }
}

// ---- placement, confirmed by an answer (delayed acknowledgement) --------------------------------

// Returns whether to send a Read whose answer confirms that everything sent before it is placed.
// Only one such Read is in flight at a time; many requests share it.
bool SendQueue::placement_due() noexcept {
  if (!asks_for_placement_ || placement_read_in_flight_ || reads_in_flight_ >= std::max(ord_, 1U))
    return false;
  if (built_ - acknowledged_ < kUnacknowledged && startable()) return false;
  acknowledged_ = std::max(acknowledged_, requests_.head());
  while (acknowledged_ != built_ && (expects_response(requests_.at(acknowledged_).kind) ||
                                     requests_.at(acknowledged_).kind == RequestKind::kBind))
    ++acknowledged_;
  return acknowledged_ != built_;
}

// Returns whether the next answer of the peer is the one to that Read.
bool SendQueue::placement_is_next() noexcept {
  if (!placement_read_in_flight_) return false;
  const Request* const request = oldest_unanswered();
  return request == nullptr || unanswered_ >= asked_;
}

void SendQueue::placement_read_done() noexcept {
  placement_read_in_flight_ = false;
  --reads_in_flight_;
  for (std::uint64_t i = std::max(acknowledged_, requests_.head()); i != asked_; ++i) {
    Request& request = requests_.at(i);
    if (!expects_response(request.kind)) request.done = true;
  }
  acknowledged_ = asked_;
  report_done();
}

void SendQueue::opening_read_begun() noexcept {
  opening_read_in_flight_ = true;
  ++reads_in_flight_;
}

void SendQueue::placement_read_begun() noexcept {
  placement_read_in_flight_ = true;
  asked_ = built_;
  ++reads_in_flight_;
}

}  // namespace udapl::soft
