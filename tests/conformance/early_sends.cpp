// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "connecting.h"
#include "harness.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

// Messages that are sent before their receives are posted. Programs written for InfiniBand send as
// soon as they see ESTABLISHED, while the accepting side posts its first receives only when it sees
// ESTABLISHED itself. On InfiniBand the sender retries until the receives are posted.
namespace conformance {

namespace {

constexpr std::size_t kSize = 256 * 1024;

// Gives messages time to arrive before a receive is posted.
void wait_for_arrival() { std::this_thread::sleep_for(std::chrono::milliseconds(30)); }

DAT_EP_ATTR deep_attr() {
  const Ia ia;
  DAT_EP_ATTR attr = default_ep_attr(ia);
  attr.max_recv_dtos = attr.max_request_dtos = std::min(256, ia.attr.max_dto_per_ep);
  return attr;
}

struct Deep : DAT_EP_ATTR {
  Deep() : DAT_EP_ATTR(deep_attr()) {}
};

// The active side sends, the passive side posts receives later.
struct Early : private Deep, Pair {
  Early() : Pair(this), out(ia, pz, kSize), in(ia, pz, kSize), area(ia, pz, 4096) {
    out.fill(1);
    connect();
  }

  DAT_RETURN send(std::uint64_t number, std::size_t length) {
    DAT_LMR_TRIPLET segment = out.local(length, number % 1000);
    return dat_ep_post_send(active.ep, 1, &segment, cookie(number), DAT_COMPLETION_DEFAULT_FLAG);
  }
  void receive(std::uint64_t number, std::size_t length) {
    std::fill(in.bytes.begin(), in.bytes.end(), std::uint8_t{0});
    REQUIRE_OK(passive.post_recv(in, kSize, number));
    const auto dto = expect_dto(passive.recv_evd, DAT_DTO_SUCCESS, number);
    BOOST_CHECK_EQUAL(dto.transfered_length, length);
    BOOST_CHECK(std::memcmp(in.bytes.data(), out.bytes.data() + number % 1000, length) == 0);
  }
  // Sends `count` messages, all of them posted before the first receive.
  void run(std::uint64_t count, std::size_t length) {
    for (std::uint64_t i = 0; i < count; ++i) REQUIRE_OK(send(i, length));
    wait_for_arrival();
    for (std::uint64_t i = 0; i < count; ++i) receive(i, length);
    for (std::uint64_t i = 0; i < count; ++i) expect_dto(active.request_evd, DAT_DTO_SUCCESS, i);
    expect_silence(passive.recv_evd);
  }

  Buffer out;
  Buffer in;
  Buffer area;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(early_sends)

BOOST_AUTO_TEST_CASE(early_one_message) {
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{64},
                                   std::size_t{4096}, std::size_t{65536}, std::size_t{200000}})
    Early().run(1, length);
}

BOOST_AUTO_TEST_CASE(early_messages) {
  for (const std::uint64_t count : {2U, 10U, 64U}) Early().run(count, 100);
  Early().run(64, 4096);
}

// More than a provider can be expected to buffer: the rest stays with the sender.
BOOST_AUTO_TEST_CASE(early_200_messages) {
  Early early;
  if (skip_unless(query_ep(early.active.ep).ep_attr.max_request_dtos >= 200,
                  "an EP has fewer than 200 requests"))
    return;
  REQUIRE_OK(dat_evd_resize(early.active.request_evd, 256));
  early.run(200, 20000);
}

// Requests posted after a waiting message do not overtake it.
BOOST_AUTO_TEST_CASE(early_messages_among_writes) {
  Early early;
  Buffer word(early.ia, early.pz, 8);
  for (std::uint64_t i = 0; i < 10; ++i) {
    word.fill(static_cast<std::uint8_t>(i + 1));
    REQUIRE_OK(early.send(2 * i, 500));
    REQUIRE_OK(early.active.post_write(word, early.area.remote(8, 8 * i), 2 * i + 1));
    REQUIRE_OK(early.active.post_send(early.out, 0, 100));  // arrives after the Write is placed
    wait_for_arrival();
    BOOST_CHECK(early.area.bytes[8 * i] == 0);
    early.receive(2 * i, 500);
    REQUIRE_OK(early.passive.post_recv(early.in, kSize, 200));
    expect_dto(early.passive.recv_evd, DAT_DTO_SUCCESS, 200);
    BOOST_CHECK(std::memcmp(early.area.bytes.data() + 8 * i, word.bytes.data(), 8) == 0);
    expect_dto(early.active.request_evd, DAT_DTO_SUCCESS, 2 * i);
    expect_dto(early.active.request_evd, DAT_DTO_SUCCESS, 2 * i + 1);
    expect_dto(early.active.request_evd, DAT_DTO_SUCCESS, 100);
  }
}

// While a message waits for its receive, both sides can read over the same connection.
BOOST_AUTO_TEST_CASE(early_message_and_reads_of_both_sides) {
  Early early;
  Buffer sink(early.ia, early.pz, 4096);
  Buffer back(early.ia, early.pz, 4096);
  early.area.fill(9);
  REQUIRE_OK(early.send(1, 5000));
  REQUIRE_OK(early.active.post_read(sink, early.area.remote(4096), 2));
  wait_for_arrival();
  REQUIRE_OK(early.passive.post_read(back, early.out.remote(4096), 3));
  expect_dto(early.passive.request_evd, DAT_DTO_SUCCESS, 3);
  BOOST_CHECK(back.holds(1, 4096));
  early.receive(1, 5000);
  expect_dto(early.active.request_evd, DAT_DTO_SUCCESS, 1);
  expect_dto(early.active.request_evd, DAT_DTO_SUCCESS, 2);
  BOOST_CHECK(sink.holds(9, 4096));
}

// Both sides send at the same time, and then both post receives.
BOOST_AUTO_TEST_CASE(early_messages_both_ways) {
  Early early;
  Buffer there(early.ia, early.pz, 4096);
  Buffer here(early.ia, early.pz, 4096);
  there.fill(4);
  for (std::uint64_t i = 0; i < 20; ++i) {
    REQUIRE_OK(early.send(i, 3000));
    REQUIRE_OK(early.passive.post_send(there, 4000, 100 + i));
  }
  wait_for_arrival();
  for (std::uint64_t i = 0; i < 20; ++i) {
    REQUIRE_OK(early.active.post_recv(here, 4096, 200 + i));
    expect_dto(early.active.recv_evd, DAT_DTO_SUCCESS, 200 + i);
    BOOST_CHECK(here.holds(4, 4000));
    early.receive(i, 3000);
  }
  for (std::uint64_t i = 0; i < 20; ++i) {
    expect_dto(early.active.request_evd, DAT_DTO_SUCCESS, i);
    expect_dto(early.passive.request_evd, DAT_DTO_SUCCESS, 100 + i);
  }
}

BOOST_AUTO_TEST_CASE(early_message_then_disconnect) {
  for (const DAT_CLOSE_FLAGS flags : {DAT_CLOSE_ABRUPT_FLAG, DAT_CLOSE_GRACEFUL_FLAG}) {
    Early early;  // the receiver ends the connection
    for (std::uint64_t i = 0; i < 5; ++i) REQUIRE_OK(early.send(i, 1000));
    wait_for_arrival();
    REQUIRE_OK(dat_ep_disconnect(early.passive.ep, flags));
    expect_connection_end(early.passive.connect_evd);
    expect_connection_end(early.active.connect_evd);
    for (std::uint64_t i = 0; i < 5; ++i)
      expect_event(early.active.request_evd, DAT_DTO_COMPLETION_EVENT);
    REQUIRE_OK(early.passive.post_recv(early.in, kSize, 9));
    expect_dto(early.passive.recv_evd, DAT_DTO_ERR_FLUSHED, 9);
  }
}

// A message whose Send has completed arrives even if the sender disconnects before it is received.
BOOST_AUTO_TEST_CASE(early_message_of_a_sender_that_disconnects) {
  Early early;
  REQUIRE_OK(early.send(1, 1000));
  const auto sent = next_event(early.active.request_evd, kQuiet);
  if (skip_unless(sent.has_value(), "a Send completes when its receive is there")) {
    early.receive(1, 1000);
    return;
  }
  REQUIRE_OK(dat_ep_disconnect(early.active.ep, DAT_CLOSE_GRACEFUL_FLAG));
  wait_for_arrival();
  early.receive(1, 1000);
  expect_connection_end(early.passive.connect_evd);
  expect_connection_end(early.active.connect_evd);
}

// Connect, send and disconnect repeatedly: no message of an old connection arrives at a new one.
BOOST_AUTO_TEST_CASE(early_message_and_reconnect) {
  Pair pair;
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  for (std::uint8_t round = 1; round <= 5; ++round) {
    pair.connect();
    out.fill(round);
    REQUIRE_OK(pair.active.post_send(out, 64, round));
    wait_for_arrival();
    if (round % 2 == 0) {
      REQUIRE_OK(pair.passive.post_recv(in, 64, round));
      expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, round);
      BOOST_CHECK(in.holds(round, 64));
    }
    pair.disconnect();
    expect_event(pair.active.request_evd, DAT_DTO_COMPLETION_EVENT);
    REQUIRE_OK(dat_ep_reset(pair.active.ep));
    REQUIRE_OK(dat_ep_reset(pair.passive.ep));
  }
}

// Messages for an EP whose SRQ is empty wait until a buffer is posted.
BOOST_AUTO_TEST_CASE(early_messages_for_an_srq) {
  Pair pair;
  if (skip_unless(pair.ia.attr.max_srqs > 0, "the IA has no SRQs")) return;
  DAT_SRQ_ATTR attr{};
  attr.max_recv_dtos = 16;
  attr.max_recv_iov = 1;
  attr.low_watermark = DAT_SRQ_LW_DEFAULT;
  Srq srq;
  REQUIRE_OK(dat_srq_create(pair.ia, pair.pz, &attr, srq.out()));
  DAT_EP_ATTR ep_attr = default_ep_attr(pair.ia);
  constexpr int kEps = 3;
  std::vector<std::unique_ptr<End>> senders;
  std::vector<std::unique_ptr<End>> receivers;
  Buffer out(pair.ia, pair.pz, 256);
  Buffer in(pair.ia, pair.pz, 256);
  out.fill(7);
  for (int i = 0; i < kEps; ++i) {
    senders.push_back(std::make_unique<End>());
    receivers.push_back(std::make_unique<End>());
    senders[i]->create(pair.ia, pair.pz, nullptr);
    receivers[i]->create(pair.ia, pair.pz, &ep_attr, srq);
    REQUIRE_OK(dat_ep_connect(senders[i]->ep, pair.ia.attr.ia_address_ptr, pair.conn_qual,
                              kPatience, 0, nullptr, DAT_QOS_BEST_EFFORT,
                              DAT_CONNECT_DEFAULT_FLAG));
    REQUIRE_OK(dat_cr_accept(take_cr(pair.cr_evd), receivers[i]->ep, 0, nullptr));
    expect_event(senders[i]->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    expect_event(receivers[i]->connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  }
  for (std::uint64_t n = 0; n < 4; ++n)
    for (int i = 0; i < kEps; ++i) REQUIRE_OK(senders[i]->post_send(out, 10 + n, n));
  wait_for_arrival();
  for (std::uint64_t n = 0; n < 4 * kEps; ++n) {
    DAT_LMR_TRIPLET segment = in.local();
    REQUIRE_OK(dat_srq_post_recv(srq, 1, &segment, cookie(n)));
  }
  for (int i = 0; i < kEps; ++i)
    for (std::uint64_t n = 0; n < 4; ++n) {
      const DAT_EVENT event = expect_event(receivers[i]->recv_evd, DAT_DTO_COMPLETION_EVENT);
      const auto& dto = event.event_data.dto_completion_event_data;
      BOOST_CHECK_EQUAL(dto.status, DAT_DTO_SUCCESS);
      BOOST_CHECK_EQUAL(dto.transfered_length, 10 + n);  // in the order of sending
      expect_dto(senders[i]->request_evd, DAT_DTO_SUCCESS, n);
    }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
