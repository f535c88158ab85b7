// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/fd.h"
#include "providers/soft/link.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

// An in-process link: a bounded queue of whole messages and a doorbell per direction, without
// sockets or framing. It reads the memory of a message when that is built, or, if it `refers`, when
// the message is handed over.
namespace udapl::soft::test {

struct Message {
  iwarp::Opcode opcode;
  std::uint32_t stag = 0;
  std::uint64_t to = 0;
  iwarp::ImmediateBytes immediate{};
  iwarp::ReadRequest read{};
  iwarp::AtomicRequest atomic{};
  iwarp::AtomicResponse original{};
  iwarp::Terminate reason{};
  std::vector<std::byte> payload{};

  [[nodiscard]] bool passes() const noexcept {  // may overtake held messages
    return opcode == iwarp::Opcode::kReadResponse || opcode == iwarp::Opcode::kAtomicResponse ||
           opcode == iwarp::Opcode::kTerminate;
  }
};

// Both directions; [i] is what side i reads.
struct Wire {
  static constexpr std::size_t kRoom = 4;
  struct Direction {
    Fd bell{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    std::deque<Message> row;
    bool ended = false;  // by the writer
    bool lost = false;
  };
  std::mutex lock;
  std::array<Direction, 2> to;

  void ring(int side) noexcept {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(to[static_cast<unsigned>(side)].bell.get(), &one, sizeof one));
  }
};

class MemoryLink final : public Link {
 public:
  MemoryLink(Reactor& reactor, std::shared_ptr<Wire> wire, int side, bool refers = false)
      : reactor_(reactor), wire_(std::move(wire)), side_(side), may_refer_(refers) {}
  ~MemoryLink() override { close(Close::kReset); }

  Status watch(Handler& handler) noexcept override {
    handler_ = &handler;
    return reactor_.watch(mine().bell.get(), 0, handler);
  }
  [[nodiscard]] transport::Endpoints endpoints() const noexcept override { return {}; }
  [[nodiscard]] bool answer(std::span<const std::byte>) noexcept override { return true; }
  void finish_output() noexcept override {
    const std::scoped_lock guard(wire_->lock);
    theirs().ended = true;
    wire_->ring(1 - side_);
  }
  void close(Close how) noexcept override {
    if (handler_ == nullptr) return;
    reactor_.unwatch(mine().bell.get(), *handler_);
    handler_ = nullptr;
    const std::scoped_lock guard(wire_->lock);
    (how == Close::kGently ? theirs().ended : theirs().lost) = true;
    mine().lost = true;  // the peer's writes fail
    wire_->ring(1 - side_);
  }

  // ---- outgoing --------------------------------------------------------------------------------
  void begin_write(std::uint32_t stag, std::uint64_t to, Payload payload,
                   std::uint32_t) noexcept override {
    begin({.opcode = iwarp::Opcode::kWrite, .stag = stag, .to = to}, payload);
  }
  void begin_send(iwarp::Opcode opcode, std::uint32_t stag, Payload payload,
                  std::uint32_t) noexcept override {
    begin({.opcode = opcode, .stag = stag}, payload);
  }
  void begin_immediate(const iwarp::ImmediateBytes& data, bool solicited) noexcept override {
    begin({.opcode = solicited ? iwarp::Opcode::kImmediateSolicited : iwarp::Opcode::kImmediate,
           .immediate = data});
  }
  void begin_read_request(const iwarp::ReadRequest& request) noexcept override {
    begin({.opcode = iwarp::Opcode::kReadRequest, .read = request});
  }
  void begin_atomic_request(const iwarp::AtomicRequest& request) noexcept override {
    begin({.opcode = iwarp::Opcode::kAtomicRequest, .atomic = request});
  }
  void begin_read_response(std::uint32_t stag, std::uint64_t to, Payload payload,
                           std::uint32_t) noexcept override {
    begin({.opcode = iwarp::Opcode::kReadResponse, .stag = stag, .to = to}, payload);
  }
  void begin_atomic_response(const iwarp::AtomicResponse& response) noexcept override {
    begin({.opcode = iwarp::Opcode::kAtomicResponse, .original = response});
  }
  void begin_terminate(const iwarp::Terminate& reason) noexcept override {
    begin({.opcode = iwarp::Opcode::kTerminate, .reason = reason});
  }
  bool build(std::size_t) noexcept override {
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
  Flushed flush() noexcept override {
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
  [[nodiscard]] std::size_t unacknowledged() const noexcept override { return 0; }

  // ---- waiting ---------------------------------------------------------------------------------
  [[nodiscard]] unsigned ready(std::uint32_t) noexcept override {
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
  void wait_for(unsigned what) noexcept override {
    wanted_ = what;
    reactor_.rewatch(mine().bell.get(), what != 0 ? EPOLLIN : 0U, *handler_);
    wire_->ring(side_);
  }

  // ---- incoming --------------------------------------------------------------------------------
  Received receive(iwarp::Inbound* inbound, std::size_t& work) noexcept override {
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
  void deliver(iwarp::Inbound& inbound, std::size_t& work) noexcept override {
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
  bool release(iwarp::Inbound& inbound) noexcept override {
    bool moved = false;
    while (!held_.empty() && !over_ && take(held_.front(), inbound)) {
      if (!held_.empty()) held_.pop_front();
      moved = true;
    }
    note();
    return moved;
  }
  void refuse_held() noexcept override {
    accept(Verdict::kNoBuffer, iwarp::Opcode::kSend);
    note();
  }
  void drop_held() noexcept override {
    held_.clear();
    note();
  }
  void fail(const iwarp::Terminate& reason) noexcept override {
    if (over_) return;
    over_ = incoming_.failed = true;
    failure_ = reason;
  }
  [[nodiscard]] const iwarp::Terminate& failure() const noexcept override { return failure_; }

 private:
  using Verdict = iwarp::Verdict;
  struct Built {
    Message message;
    std::vector<iwarp::IoSpan> pieces;  // not read yet
    std::uint64_t end;

    void read() {
      for (const iwarp::IoSpan& piece : pieces) {
        const auto* const data = static_cast<const std::byte*>(piece.data);
        message.payload.insert(message.payload.end(), data, data + piece.size);
      }
      pieces.clear();
    }
  };

  Wire::Direction& mine() noexcept { return wire_->to[static_cast<unsigned>(side_)]; }
  Wire::Direction& theirs() noexcept { return wire_->to[static_cast<unsigned>(1 - side_)]; }

  void begin(Message message, Payload payload = {}) {
    current_ = std::move(message);
    payload_ = payload;
    building_ = true;
  }
  void note() noexcept {
    incoming_.staged = staged_.size();
    incoming_.waits = !held_.empty();
  }

  // Returns false if the message has to wait for a posted receive.
  bool take(const Message& m, iwarp::Inbound& inbound) {
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
  bool take_send(const Message& m, iwarp::Inbound& inbound) {
    const bool invalidates = m.opcode == iwarp::Opcode::kSendInvalidate ||
                             m.opcode == iwarp::Opcode::kSendSolicitedInvalidate;
    const bool solicited = m.opcode == iwarp::Opcode::kSendSolicited ||
                           m.opcode == iwarp::Opcode::kSendSolicitedInvalidate;
    if (!accept(inbound.place_send({m.opcode, true, true, 0, 0, m.payload}), m.opcode))
      return false;
    if (!over_ && invalidates) accept(inbound.invalidate(m.stag), m.opcode);
    if (!over_)
      inbound.send_done(
          {m.opcode, solicited, invalidates, m.stag, static_cast<std::uint32_t>(m.payload.size())});
    return true;
  }
  bool accept(Verdict verdict, iwarp::Opcode opcode) {
    if (verdict == Verdict::kWait) return false;
    if (verdict == Verdict::kOk) return true;
    incoming_.failed_in_answer =
        opcode == iwarp::Opcode::kReadResponse || opcode == iwarp::Opcode::kAtomicResponse;
    fail(iwarp::make_terminate(iwarp::code_for(opcode, verdict)));
    return true;
  }

  Reactor& reactor_;
  const std::shared_ptr<Wire> wire_;
  const int side_;
  const bool may_refer_;
  Handler* handler_ = nullptr;
  unsigned wanted_ = 0;
  Message current_{iwarp::Opcode::kSend};
  Payload payload_;
  bool building_ = false;
  std::deque<Built> pending_;
  std::deque<Message> staged_;
  std::deque<Message> held_;
  bool over_ = false;
  iwarp::Terminate failure_;
};

}  // namespace udapl::soft::test
