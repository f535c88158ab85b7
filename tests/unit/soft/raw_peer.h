// SPDX-License-Identifier: MIT OR GPL-2.0-only
// A QP and a peer that talks to it through a raw socket, frame by frame.
#pragma once

#include "providers/soft/iwarp/receiver.h"
#include "providers/soft/iwarp/sender.h"
#include "tests/unit/soft/support.h"

namespace udapl::soft::test {

// A QP as the responder, and the peer's end of its socket.
struct RawPeer {
  Side side;
  Fd peer;
  iwarp::Sender sender{iwarp::SenderConfig{}};
  iwarp::TxBatch batch{256, 65536};
  std::vector<std::byte> memory = pattern(4096, 9);
  std::unique_ptr<Mr> mr = side.reg(memory);
  std::vector<std::byte> secret = pattern(4096, 10);
  std::unique_ptr<Mr> secret_mr = side.reg(secret, kLocalOnly);

  explicit RawPeer(const Side::Options& options = {}) : side(options) { open(); }
  void open(iwarp::RtrSet rtr = iwarp::kRtrWrite) {
    const std::string before = side.sink.calls();
    auto [active, passive] = tcp_pair();
    attach_responder(side, std::move(passive), negotiated(false, rtr));
    peer = std::move(active);
    read_reply(peer.get());
    sender = iwarp::Sender(iwarp::SenderConfig{});
    batch.clear();
    sender.begin_write(1, 0, {}, 0);
    flush();
    BOOST_REQUIRE(wait(
        [&] { return side.sink.calls() != before && side.sink.calls().ends_with("established"); }));
  }
  template <class Condition>
  [[nodiscard]] bool wait(Condition condition) {
    return eventually(condition, {&side});
  }
  // Builds and sends the message that was begun.
  void flush() {
    build();
    raw(bytes());
    batch.consume(batch.pending_bytes());
  }
  void build() {
    if (sender.busy()) BOOST_REQUIRE(sender.fill(batch) == iwarp::Sender::Fill::kDone);
  }
  [[nodiscard]] std::vector<std::byte> bytes() const {
    std::vector<std::byte> all;
    for (const iwarp::IoSpan& s : batch.spans()) {
      const auto* const p = static_cast<const std::byte*>(s.data);
      all.insert(all.end(), p, p + s.size);
    }
    return all;
  }
  // Returns false if the QP has closed the connection.
  bool raw(std::span<const std::byte> data) {
    while (!data.empty()) {
      const ssize_t n = ::send(peer.get(), data.data(), data.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      data = data.subspan(static_cast<std::size_t>(n));
    }
    return true;
  }
  void reset_peer() {
    const linger now{1, 0};
    ::setsockopt(peer.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
    peer.reset();
  }
  void write(std::uint32_t stag, std::uint64_t to, std::span<const std::byte> data) {
    const iwarp::IoSpan span{data.data(), data.size()};
    sender.begin_write(stag, to, {&span, 1}, static_cast<std::uint32_t>(data.size()));
    flush();
  }
  void expect_broken(transport::BreakReason why) {
    BOOST_REQUIRE(wait([this] { return side.sink.ended(); }));
    BOOST_TEST(side.sink.calls() == "established broken");
    BOOST_TEST((side.sink.reason.load() == why));
  }
  // Reads what the QP sends before it closes; fails unless that is a Terminate with `code`.
  void expect_terminate(iwarp::TerminateCode code) {
    struct Listener final : iwarp::Inbound {
      using V = iwarp::Verdict;
      V place_write(std::uint32_t, std::uint64_t, std::span<const std::byte>) override {
        return V::kOk;
      }
      V place_send(const iwarp::SendSegment&) override { return V::kOk; }
      V invalidate(std::uint32_t) override { return V::kOk; }
      void send_done(const iwarp::SendDone&) override {}
      V immediate(const iwarp::ImmediateBytes&, bool) override { return V::kOk; }
      V read_request(const iwarp::ReadRequest&, std::uint32_t) override { return V::kOk; }
      bool oldest_read(iwarp::ReadSink& sink) override {
        sink = expected;
        return true;
      }
      V place_read(std::uint32_t, std::span<const std::byte>) override { return V::kOk; }
      void read_done() override {}
      V atomic_request(const iwarp::AtomicRequest&) override { return V::kOk; }
      V atomic_response(const iwarp::AtomicResponse&) override { return V::kOk; }
      void terminated(const iwarp::Terminate& reason) override {
        code = reason.code;
        seen = true;
      }
      iwarp::ReadSink expected{};
      iwarp::TerminateCode code{};
      bool seen = false;
    } listener;
    iwarp::Receiver receiver(true);
    std::vector<std::byte> staged(1 << 20);
    std::size_t size = 0;
    BOOST_REQUIRE(wait([this] { return side.sink.ended(); }));
    for (;;) {
      const ssize_t n = ::recv(peer.get(), staged.data() + size, staged.size() - size, 0);
      if (n <= 0) break;
      size += static_cast<std::size_t>(n);
    }
    receiver.feed(std::span(staged).first(size), listener);
    BOOST_REQUIRE(listener.seen);
    BOOST_TEST(static_cast<int>(listener.code) == static_cast<int>(code));
  }
  // Checks that the memory that the peer must not reach is unchanged.
  void check_intact() const { BOOST_TEST((secret == pattern(4096, 10))); }
};

}  // namespace udapl::soft::test
