// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// SendQueue: requests that are done when the peer has placed their data.
#include "providers/soft/cq.h"
#include "providers/soft/send_queue.h"

#include <algorithm>

namespace udapl::soft {

// ---- placement, confirmed in any way ------------------------------------------------------------

// Called when everything up to `position` is confirmed. cq_ is null while the Qp is being
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

// ---- placement, confirmed by the link (Confirmations) -------------------------------------------

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

// Completes requests whose success the consumer does not see, without waiting for placement, so
// that the consumer can post any number of them. If the peer refuses one of them later, only the
// end of the connection reports that. Called when more than half of the places are taken: at the
// latest after that many requests, the core lets one report its success.
void SendQueue::release_unseen() noexcept {
  for (std::uint64_t i = requests_.head(); i != sent_ && !is_seen(requests_.at(i)); ++i) {
    Request& request = requests_.at(i);
    if (request.done) continue;
    if (expects_response(request.kind)) return;
    request.done = true;
    released_end_ = request.end;
  }
}

// ---- placement, confirmed by the answer to a Read -----------------------------------------------

// While there is more to send, a Read is put off, because one answer can confirm many requests.
bool SendQueue::asks_now() const noexcept {
  return built_ == requests_.tail() || built_ - asked_.last().request >= kUnaskedRequests ||
         shared_.link->built() - asked_.last().end >= kUnaskedBytes ||
         !startable(requests_.at(built_));
}

void SendQueue::opening_read_begun() noexcept {
  opening_read_in_flight_ = true;
  ++reads_in_flight_;
}

void SendQueue::placement_read_begun() noexcept {
  asked_.push({built_, shared_.link->built()});
  ++reads_in_flight_;
}

// Returns whether the next answer of the peer is the answer to a Read that asks for placement.
bool SendQueue::placement_is_next() noexcept {
  if (asked_.empty()) return false;
  const Request* const request = oldest_unanswered();
  return request == nullptr || unanswered_ >= asked_.oldest().request;
}

void SendQueue::placement_read_done() noexcept {
  const std::uint64_t end = asked_.oldest().end;
  asked_.pop();
  --reads_in_flight_;
  placed(end);
}

// `unanswered`: messages of the peer fill all the room for messages without a receive, so no answer
// arrives. If the consumer posts receives only when its RDMA Writes are done, Writes that wait for
// an answer would wait for ever. So they are done when they are sent.
void SendQueue::set_unanswered(bool unanswered) noexcept {
  unanswered_for_now_ = unanswered;
  if (unanswered) settle_for(shared_.link->sent());
}

}  // namespace udapl::soft
