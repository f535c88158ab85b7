// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "tests/unit/soft/memory_link.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace udapl::soft::test {

void Wire::ring(int side) noexcept {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(to[static_cast<unsigned>(side)].bell.get(), &one, sizeof one));
}

Status MemoryLink::watch(Handler& handler) noexcept {
  handler_ = &handler;
  return reactor_.watch(mine().bell.get(), 0, handler);
}

void MemoryLink::finish_output() noexcept {
  const std::scoped_lock guard(wire_->lock);
  theirs().ended = true;
  wire_->ring(1 - side_);
}

void MemoryLink::close(Close how) noexcept {
  if (handler_ == nullptr) return;
  reactor_.unwatch(mine().bell.get(), *handler_);
  handler_ = nullptr;
  const std::scoped_lock guard(wire_->lock);
  (how == Close::kGently ? theirs().ended : theirs().lost) = true;
  mine().lost = true;  // the peer's writes fail
  wire_->ring(1 - side_);
}

bool MemoryLink::build(std::size_t) noexcept {
  if (!building_) return true;
  building_ = false;
  std::size_t size = 0;
  for (const iwarp::IoSpan& piece : payload_) size += piece.size;
  built_ += size + 1;  // + 1: so that an empty message has an end, too
  pending_.push_back({std::move(current_), {payload_.begin(), payload_.end()}, built_});
  if (!may_refer_) pending_.back().read();
  refers_ = may_refer_;
  return true;
}

Link::Flushed MemoryLink::flush() noexcept {
  const std::scoped_lock guard(wire_->lock);
  if (theirs().lost || mine().lost) return Flushed::kNoReader;
  while (!pending_.empty() && theirs().row.size() != Wire::kRoom) {
    pending_.front().read();
    theirs().row.push_back(std::move(pending_.front().message));
    sent_ = pending_.front().end;
    pending_.pop_front();
  }
  refers_ = may_refer_ && !pending_.empty();
  wire_->ring(1 - side_);
  return pending_.empty() ? Flushed::kDone : Flushed::kBlocked;
}

unsigned MemoryLink::ready(std::uint32_t) noexcept {
  std::uint64_t count = 0;
  static_cast<void>(!::read(mine().bell.get(), &count, sizeof count));
  const std::scoped_lock guard(wire_->lock);
  unsigned what = 0;
  if (theirs().row.size() != Wire::kRoom) what |= kRoom;
  if (!mine().row.empty() || mine().ended || mine().lost) what |= kInput;
  if (mine().ended) what |= kPeerEnd;
  if (mine().lost) what |= kBroken;
  if ((what & wanted_) != 0) wire_->ring(side_);  // level-triggered
  return what;
}

// Rings the own bell, which may have rung while it was not watched.
void MemoryLink::wait_for(unsigned what) noexcept {
  wanted_ = what;
  reactor_.rewatch(mine().bell.get(), what != 0 ? EPOLLIN : 0U, *handler_);
  wire_->ring(side_);
}

Link::Received MemoryLink::receive(iwarp::Inbound* inbound, std::size_t& work) noexcept {
  {
    const std::scoped_lock guard(wire_->lock);
    if (mine().row.empty()) {
      if (mine().ended) return Received::kEnd;
      error_ = ECONNRESET;
      return mine().lost ? Received::kBroken : Received::kNothing;
    }
    if (mine().row.size() == Wire::kRoom) wire_->ring(1 - side_);
    for (; !mine().row.empty(); mine().row.pop_front())
      staged_.push_back(std::move(mine().row.front()));
  }
  incoming_.staged = staged_.size();
  if (inbound == nullptr) return Received::kFirst;
  deliver(*inbound, work);
  return Received::kMore;
}

void MemoryLink::deliver(iwarp::Inbound& inbound, std::size_t& work) noexcept {
  for (; work != 0 && !staged_.empty(); staged_.pop_front()) {
    Message& message = staged_.front();
    work -= std::min(work, message.payload.size() + 1024);
    if (over_) continue;
    ++incoming_.frames;
    if ((!held_.empty() && !message.passes()) || !take(message, inbound))
      held_.push_back(std::move(message));
  }
  note();
}

bool MemoryLink::release(iwarp::Inbound& inbound) noexcept {
  bool moved = false;
  while (!held_.empty() && !over_ && take(held_.front(), inbound)) {
    if (!held_.empty()) held_.pop_front();
    moved = true;
  }
  note();
  return moved;
}

void MemoryLink::refuse_held() noexcept {
  accept(Verdict::kNoBuffer, iwarp::Opcode::kSend);
  note();
}

void MemoryLink::drop_held() noexcept {
  held_.clear();
  note();
}

void MemoryLink::fail(const iwarp::Terminate& reason) noexcept {
  if (over_) return;
  over_ = incoming_.failed = true;
  failure_ = reason;
}

void MemoryLink::Built::read() {
  for (const iwarp::IoSpan& piece : pieces) {
    const auto* const data = static_cast<const std::byte*>(piece.data);
    message.payload.insert(message.payload.end(), data, data + piece.size);
  }
  pieces.clear();
}

void MemoryLink::begin(Message message, Payload payload) {
  current_ = std::move(message);
  payload_ = payload;
  building_ = true;
}

void MemoryLink::note() noexcept {
  incoming_.staged = staged_.size();
  incoming_.waits = !held_.empty();
}

bool MemoryLink::take(const Message& m, iwarp::Inbound& inbound) {
  using iwarp::Opcode;
  switch (m.opcode) {
    case Opcode::kWrite:
      return m.payload.empty() || accept(inbound.place_write(m.stag, m.to, m.payload), m.opcode);
    case Opcode::kImmediate:
    case Opcode::kImmediateSolicited:
      return accept(inbound.immediate(m.immediate, m.opcode == Opcode::kImmediateSolicited),
                    m.opcode);
    case Opcode::kReadRequest:
      return accept(inbound.read_request(m.read, 0), m.opcode);
    case Opcode::kAtomicRequest:
      return accept(inbound.atomic_request(m.atomic), m.opcode);
    case Opcode::kReadResponse: {
      iwarp::ReadSink sink{};
      if (!inbound.oldest_read(sink) || sink.stag != m.stag || sink.length != m.payload.size())
        return accept(Verdict::kNothingOutstanding, m.opcode);
      if (!m.payload.empty()) accept(inbound.place_read(0, m.payload), m.opcode);
      if (!over_) inbound.read_done();
      return true;
    }
    case Opcode::kAtomicResponse:
      return accept(inbound.atomic_response(m.original), m.opcode);
    case Opcode::kTerminate:
      over_ = true;
      inbound.terminated(m.reason);
      return true;
    default:
      return take_send(m, inbound);
  }
}

bool MemoryLink::take_send(const Message& m, iwarp::Inbound& inbound) {
  const bool invalidates = m.opcode == iwarp::Opcode::kSendInvalidate ||
                           m.opcode == iwarp::Opcode::kSendSolicitedInvalidate;
  const bool solicited = m.opcode == iwarp::Opcode::kSendSolicited ||
                         m.opcode == iwarp::Opcode::kSendSolicitedInvalidate;
  if (!accept(inbound.place_send({m.opcode, true, true, 0, 0, m.payload}), m.opcode)) return false;
  if (!over_ && invalidates) accept(inbound.invalidate(m.stag), m.opcode);
  if (!over_)
    inbound.send_done(
        {m.opcode, solicited, invalidates, m.stag, static_cast<std::uint32_t>(m.payload.size())});
  return true;
}

bool MemoryLink::accept(Verdict verdict, iwarp::Opcode opcode) {
  if (verdict == Verdict::kWait) return false;
  if (verdict == Verdict::kOk) return true;
  incoming_.failed_in_answer =
      opcode == iwarp::Opcode::kReadResponse || opcode == iwarp::Opcode::kAtomicResponse;
  fail(iwarp::make_terminate(iwarp::code_for(opcode, verdict)));
  return true;
}

}  // namespace udapl::soft::test
