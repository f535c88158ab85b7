// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Messages without a posted receive are held, together with those that must stay behind them.
#include <boost/test/unit_test.hpp>
#include <deque>

#include "providers/soft/iwarp/held_segments.h"
#include "tests/unit/iwarp/endpoints.h"

using namespace iwarp_test;

namespace {

const Bytes kData = hex("0102030405060708");

Bytes send(std::uint32_t msn, std::span<const std::byte> data = kData) {
  return make_fpdu(untagged_ulpdu(3, true, 0, msn, 0, data));
}
Bytes write(std::uint64_t to, std::span<const std::byte> data = kData) {
  return make_fpdu(tagged_ulpdu(0, true, 9, to, data));
}
Bytes response(std::span<const std::byte> data) {
  return make_fpdu(tagged_ulpdu(2, true, 5, 0, data));
}
Bytes read_request(std::uint32_t msn) {
  Bytes body(28);
  encode(ReadRequest{1, 2, 300, 4, 5}, body.data());
  return make_fpdu(untagged_ulpdu(1, true, 1, msn, 0, body));
}

// A receiver whose receives are posted later, by post().
struct Late : Rx {
  Late() { inbound.on_send = inbound.on_immediate = Verdict::kWait; }
  void post() { inbound.on_send = inbound.on_immediate = Verdict::kOk; }
  std::string log() { return joined(std::exchange(inbound.log, {})); }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(receiver_holds)

BOOST_FIXTURE_TEST_CASE(everything_of_the_peers_requests_stays_in_order, Late) {
  arrive(send(1));
  BOOST_TEST(receiver.waits());
  BOOST_TEST(log() == "place 3 first last msn 1 at 0 0102030405060708\n");  // tried once
  arrive(write(16));
  arrive(read_request(1));
  arrive(send(2));
  BOOST_TEST(log().empty());
  BOOST_TEST(!receiver.release(inbound));
  log();
  post();
  BOOST_TEST(receiver.release(inbound));
  BOOST_TEST(!receiver.waits());
  BOOST_TEST(log() ==
             "place 3 first last msn 1 at 0 0102030405060708\n"
             "sent 3 length 8 0\n"
             "write 9 10 0102030405060708\n"
             "read 300 msn 1 from 4 5 to 1 2\n"
             "place 3 first last msn 2 at 0 0102030405060708\n"
             "sent 3 length 8 0\n");
  arrive(send(3));  // no longer held
  BOOST_TEST(log() == "place 3 first last msn 3 at 0 0102030405060708\nsent 3 length 8 0\n");
}

BOOST_FIXTURE_TEST_CASE(one_receive_lets_one_message_through, Late) {
  for (std::uint32_t msn = 1; msn <= 3; ++msn) arrive(send(msn));
  log();
  post();
  // Has a receive for the first message only.
  class Once final : public Inbound {
   public:
    explicit Once(Recorder& r) : r_(r) {}
    Verdict place_send(const SendSegment& s) override {
      return s.msn == 1 ? r_.place_send(s) : Verdict::kWait;
    }
    Verdict place_write(std::uint32_t a, std::uint64_t b, std::span<const std::byte> c) override {
      return r_.place_write(a, b, c);
    }
    Verdict invalidate(std::uint32_t s) override { return r_.invalidate(s); }
    void send_done(const SendDone& d) override { r_.send_done(d); }
    Verdict immediate(const ImmediateBytes& d, bool s) override { return r_.immediate(d, s); }
    Verdict read_request(const ReadRequest& q, std::uint32_t m) override {
      return r_.read_request(q, m);
    }
    bool oldest_read(ReadSink& s) override { return r_.oldest_read(s); }
    Verdict place_read(std::uint32_t o, std::span<const std::byte> p) override {
      return r_.place_read(o, p);
    }
    void read_done() override { r_.read_done(); }
    Verdict atomic_request(const AtomicRequest& q) override { return r_.atomic_request(q); }
    Verdict atomic_response(const AtomicResponse& q) override { return r_.atomic_response(q); }
    void terminated(const Terminate& t) override { r_.terminated(t); }

   private:
    Recorder& r_;
  } once(inbound);
  BOOST_TEST(receiver.release(once));
  BOOST_TEST(log() == "place 3 first last msn 1 at 0 0102030405060708\nsent 3 length 8 0\n");
  BOOST_TEST(receiver.waits());
}

// Responses to our own requests overtake held messages, also between the segments of one.
BOOST_FIXTURE_TEST_CASE(responses_overtake_held_messages, Late) {
  inbound.reads = {{5, 0, 8}, {5, 0, 8}};
  arrive(make_fpdu(untagged_ulpdu(3, false, 0, 1, 0, kData)));
  arrive(response(kData));
  arrive(make_fpdu(untagged_ulpdu(3, true, 0, 1, 8, kData)));
  arrive(write(0));
  arrive(response(kData));
  BOOST_TEST(log() ==
             "place 3 first msn 1 at 0 0102030405060708\n"
             "response at 0 0102030405060708\nread done\n"
             "response at 0 0102030405060708\nread done\n");
  post();
  receiver.release(inbound);
  BOOST_TEST(log() ==
             "place 3 first msn 1 at 0 0102030405060708\n"
             "place 3 last msn 1 at 8 0102030405060708\n"
             "sent 3 length 16 0\n"
             "write 9 0 0102030405060708\n");
}

BOOST_FIXTURE_TEST_CASE(a_terminate_passes_and_ends, Late) {
  arrive(send(1));
  arrive(make_fpdu(untagged_ulpdu(7, true, 2, 1, 0, hex("01020000"))));
  BOOST_TEST((receiver.state() == Receiver::State::kTerminated));
  BOOST_TEST(!receiver.waits());
}

// Errors in a segment are found when it arrives, errors of its target when it is delivered.
BOOST_FIXTURE_TEST_CASE(errors_behind_a_held_message, Late) {
  arrive(send(1));
  arrive(send(3));
  BOOST_TEST((receiver.state() == Receiver::State::kFailed));
  BOOST_TEST(failure().starts_with("1203"));
  BOOST_TEST(!receiver.waits());

  Late other;
  other.arrive(send(1));
  other.inbound.on_write = Verdict::kBaseBounds;
  other.arrive(write(4));
  BOOST_TEST((other.receiver.state() == Receiver::State::kOpen));
  other.post();
  other.receiver.release(other.inbound);
  BOOST_TEST((other.receiver.state() == Receiver::State::kFailed));
  BOOST_TEST(other.failure().starts_with("1101"));
}

BOOST_FIXTURE_TEST_CASE(refused_held_message_fails_the_stream, Late) {
  arrive(send(1));
  arrive(write(4));
  receiver.refuse_held();
  BOOST_TEST((receiver.state() == Receiver::State::kFailed));
  BOOST_TEST(failure().starts_with("1202"));
  BOOST_TEST(!receiver.waits());
}

// Segments are held up to the bound; then the stream stalls until there is room.
BOOST_FIXTURE_TEST_CASE(stream_stalls_when_holding_is_full, Late) {
  const Bytes large = pattern(60000);
  std::uint32_t msn = 1;
  while (!receiver.stalled() && msn < 100) arrive(send(msn++, large));
  BOOST_TEST(msn > 15);
  BOOST_TEST(msn < 20);
  BOOST_TEST(staged.size() > 60000U);
  inbound.reads = {{5, 0, 8}};
  arrive(response(kData));  // behind a segment that does not fit
  log();
  arrive({});
  BOOST_TEST(receiver.stalled());
  BOOST_TEST(log().empty());
  post();
  receiver.release(inbound);
  arrive({});
  BOOST_TEST(!receiver.stalled());
  BOOST_TEST(staged.empty());
  BOOST_TEST(log().ends_with("read done\n"));
}

// What is not held needs no room, so our own Reads go on as long as the stream does.
BOOST_FIXTURE_TEST_CASE(responses_pass_though_holding_is_full, Late) {
  const Bytes large = pattern(60000);
  Late other;
  std::uint32_t most = 0;
  while (!other.receiver.stalled()) other.arrive(send(++most, large));
  for (std::uint32_t msn = 1; msn < most; ++msn) arrive(send(msn, large));
  BOOST_TEST(!receiver.stalled());
  log();
  inbound.reads = {{5, 0, 60000}};
  arrive(response(large));
  BOOST_TEST(!receiver.stalled());
  BOOST_TEST(log().ends_with("read done\n"));
  arrive(send(most, large));
  BOOST_TEST(receiver.stalled());
}

// Connections share a budget. While that is used up, each may hold a little, at least one segment.
BOOST_AUTO_TEST_CASE(held_segments_within_a_budget) {
  struct Budget final : HeldSegments::Budget {
    [[nodiscard]] bool crowded() const noexcept override { return used >= 200'000; }
    void hold(std::size_t bytes) noexcept override { used += bytes; }
    void give_back(std::size_t bytes) noexcept override { used -= bytes; }
    std::size_t used = 0;
  } budget;
  const Bytes bytes = pattern(10'000);
  const auto fill = [&](HeldSegments& held) {
    std::size_t count = 0;
    do {
      BOOST_REQUIRE(held.push({}, bytes, true, 0));
      ++count;
    } while (count != 30 && held.has_room(10'000));
    return count;
  };
  HeldSegments first(&budget);
  HeldSegments second(&budget);
  BOOST_TEST(fill(first) > 15U);
  const std::size_t crowded = fill(second);
  BOOST_TEST(crowded >= 1U);
  BOOST_TEST(crowded <= HeldSegments::kLimitWhenCrowded / bytes.size());
  while (!first.empty()) first.pop();
  BOOST_TEST(fill(second) > 10U);
  second.clear();
  BOOST_TEST(budget.used == 0U);
}

// HeldSegments compared with a std::deque.
BOOST_AUTO_TEST_CASE(held_segments_are_a_queue) {
  HeldSegments held;
  std::deque<Bytes> model;
  std::minstd_rand random(7);
  std::size_t bytes = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::size_t size = random() % 3 == 0 ? random() % 65000 : random() % 200;
    if ((i / 500) % 2 == 0 && held.has_room(static_cast<std::uint16_t>(size))) {
      model.push_back(pattern(size, static_cast<unsigned>(i)));
      BOOST_REQUIRE(held.push({}, {model.back().data(), size}, size % 2 == 0, bytes));
      bytes += size;
      BOOST_REQUIRE(bytes <= HeldSegments::kLimit);
    } else if (!model.empty()) {
      const HeldSegments::Held front = held.front();
      BOOST_REQUIRE(std::equal(model.front().begin(), model.front().end(), front.ulpdu,
                               front.ulpdu + front.length));
      BOOST_REQUIRE(front.first == (front.length % 2 == 0));
      bytes -= front.length;
      held.pop();
      model.pop_front();
    }
    BOOST_REQUIRE(held.empty() == model.empty());
  }
}

BOOST_AUTO_TEST_SUITE_END()
