// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/fd.h"
#include "providers/soft/link.h"

#include <sys/eventfd.h>

#include <array>
#include <atomic>
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

  void ring(int side) noexcept;
};

class MemoryLink final : public Link {
 public:
  MemoryLink(Reactor& reactor, std::shared_ptr<Wire> wire, int side, bool refers = false)
      : reactor_(reactor), wire_(std::move(wire)), side_(side), may_refer_(refers) {}
  ~MemoryLink() override { close(Close::kReset); }

  static inline std::atomic<bool> offers{false};  // whether a receive is offered on some link

  Status watch(Handler& handler) noexcept override;
  [[nodiscard]] transport::Endpoints endpoints() const noexcept override { return {}; }
  [[nodiscard]] bool answer(std::span<const std::byte>) noexcept override { return true; }
  void finish_output() noexcept override;
  void close(Close how) noexcept override;

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
  // Of no consequence: its Terminates contain no headers.
  [[nodiscard]] std::uint32_t next_send() const noexcept override { return 1; }
  void begin_terminate(const iwarp::Terminate& reason) noexcept override {
    begin({.opcode = iwarp::Opcode::kTerminate, .reason = reason});
  }
  bool build(std::size_t limit) noexcept override;
  Flushed flush() noexcept override;
  [[nodiscard]] std::size_t unacknowledged() const noexcept override { return 0; }

  // ---- waiting ---------------------------------------------------------------------------------
  [[nodiscard]] unsigned ready(std::uint32_t events) noexcept override;
  void wait_for(unsigned what) noexcept override;

  // ---- incoming --------------------------------------------------------------------------------
  Received receive(iwarp::Inbound* inbound, std::size_t& work) noexcept override;
  void deliver(iwarp::Inbound& inbound, std::size_t& work) noexcept override;
  bool release(iwarp::Inbound& inbound) noexcept override;
  void refuse_held() noexcept override;
  void drop_held() noexcept override;
  void offer_receive(MrTable&, const Offer&, std::uint64_t) noexcept override { offers = true; }
  void end_offers(MrTable&) noexcept override { offers = false; }
  void fail(const iwarp::Terminate& reason) noexcept override;
  [[nodiscard]] const iwarp::Terminate& failure() const noexcept override { return failure_; }

 private:
  using Verdict = iwarp::Verdict;
  struct Built {
    Message message;
    std::vector<iwarp::IoSpan> pieces;  // not read yet
    std::uint64_t end;

    void read();
  };

  Wire::Direction& mine() noexcept { return wire_->to[static_cast<unsigned>(side_)]; }
  Wire::Direction& theirs() noexcept { return wire_->to[static_cast<unsigned>(1 - side_)]; }

  void begin(Message message, Payload payload = {});
  void note() noexcept;
  // Returns false if the message has to wait for a posted receive.
  bool take(const Message& m, iwarp::Inbound& inbound);
  bool take_send(const Message& m, iwarp::Inbound& inbound);
  bool accept(Verdict verdict, iwarp::Opcode opcode);

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
