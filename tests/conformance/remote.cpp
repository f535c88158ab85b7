// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "harness.h"
#include "partner.h"

#include <chrono>

// Two processes, on this host or on two (--peer). What sections 10.7 to 10.9 of the checklist
// (checklist.cpp) say about the other side must also hold if the two sides share nothing.
// The driver connects, the partner accepts.
namespace conformance {

namespace {

constexpr std::size_t kLarge = 1U << 20;

// Exchanges RMR triplets over the control channel. Returns that of the peer's memory.
DAT_RMR_TRIPLET exchange_memory(const Side& side, const Buffer& mine) {
  side.send_value(mine.remote(mine.bytes.size()));
  return side.receive_value<DAT_RMR_TRIPLET>();
}

DAT_RMR_TRIPLET part(DAT_RMR_TRIPLET triplet, std::size_t length) {
  triplet.segment_length = static_cast<DAT_SEG_LENGTH>(length);
  return triplet;
}

// Takes a successful completion without sleeping.
void poll_dto(DAT_EVD_HANDLE evd) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  DAT_EVENT event{};
  while (dat_evd_dequeue(evd, &event) != DAT_SUCCESS)
    BOOST_REQUIRE(std::chrono::steady_clock::now() < end);
  BOOST_REQUIRE_EQUAL(event.event_data.dto_completion_event_data.status, DAT_DTO_SUCCESS);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(remote)

BOOST_AUTO_TEST_CASE(rem_private_data) {
  const Side side;
  const std::string there = "to the partner";
  const std::string back = "and back again";
  if (side.driver) {
    REQUIRE_OK(side.start_connect(kPatience, there));
    const DAT_EVENT event = expect_event(side.end.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    const auto& data = event.event_data.connect_event_data;
    BOOST_CHECK_EQUAL(std::string(static_cast<const char*>(data.private_data),
                                  static_cast<std::size_t>(data.private_data_size)),
                      back);
  } else {
    const DAT_CR_HANDLE cr = side.take_cr();
    DAT_CR_PARAM param{};
    REQUIRE_OK(dat_cr_query(cr, DAT_CR_FIELD_ALL, &param));
    BOOST_CHECK_EQUAL(std::string(static_cast<const char*>(param.private_data),
                                  static_cast<std::size_t>(param.private_data_size)),
                      there);
    BOOST_CHECK(param.remote_ia_address_ptr != nullptr);
    REQUIRE_OK(dat_cr_accept(cr, side.end.ep, static_cast<DAT_COUNT>(back.size()),
                             const_cast<char*>(back.data())));
    expect_event(side.end.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  }
  side.sync();
}

BOOST_AUTO_TEST_CASE(rem_reject) {
  const Side side;
  const std::string why = "no room";
  if (side.driver) {
    REQUIRE_OK(side.start_connect());
    const DAT_EVENT event = expect_event(side.end.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
    const auto& data = event.event_data.connect_event_data;
    BOOST_CHECK_EQUAL(std::string(static_cast<const char*>(data.private_data),
                                  static_cast<std::size_t>(data.private_data_size)),
                      why);
    BOOST_CHECK_EQUAL(ep_state(side.end.ep), DAT_EP_STATE_DISCONNECTED);
    REQUIRE_OK(dat_ep_reset(side.end.ep));
  } else {
    REQUIRE_OK(dat_cr_reject(side.take_cr(), static_cast<DAT_COUNT>(why.size()),
                             const_cast<char*>(why.data())));
  }
  side.connect();  // conn_failure_then_reset
  side.sync();
}

BOOST_AUTO_TEST_CASE(rem_no_listener) {
  const Side side;
  if (side.driver) {
    const auto unused = side.receive_value<DAT_CONN_QUAL>();
    REQUIRE_OK(side.start_connect_to(unused));
    expect_event(side.end.connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
  } else {
    side.send_value(fresh_conn_qual());
  }
  side.sync();
}

BOOST_AUTO_TEST_CASE(rem_timeout) {
  const Side side;
  if (side.driver) {
    REQUIRE_OK(side.start_connect(2000 * kMillisecond));  // includes resolving the address
    expect_event(side.end.connect_evd, DAT_CONNECTION_EVENT_TIMED_OUT);
    BOOST_CHECK_EQUAL(ep_state(side.end.ep), DAT_EP_STATE_DISCONNECTED);
    side.sync();
  } else {
    const DAT_CR_HANDLE cr = side.take_cr();
    side.sync();
    // The request is dead. Accepting it must fail, immediately or with an event.
    if (dat_cr_accept(cr, side.end.ep, 0, nullptr) == DAT_SUCCESS)
      expect_event(side.end.connect_evd, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
    else
      REQUIRE_OK(dat_cr_reject(cr, 0, nullptr));
  }
  side.sync();
}

BOOST_AUTO_TEST_CASE(rem_send_sizes) {
  Side side;
  Buffer buffer(side.ia, side.pz, kLarge);
  side.connect();
  std::uint8_t seed = 1;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{63}, std::size_t{4095},
                                 std::size_t{4097}, std::size_t{65537}, kLarge}) {
    ++seed;
    if (side.driver) {
      side.sync();  // the partner has posted its receive
      buffer.fill(seed);
      REQUIRE_OK(side.end.post_send(buffer, size, size));
      expect_dto(side.end.request_evd, DAT_DTO_SUCCESS, size);
    } else {
      REQUIRE_OK(side.end.post_recv(buffer, kLarge, size));
      side.sync();
      const auto dto = expect_dto(side.end.recv_evd, DAT_DTO_SUCCESS, size);
      BOOST_CHECK_EQUAL(dto.transfered_length, size);
      BOOST_CHECK(buffer.holds(seed, size));
    }
  }
  side.sync();
}

BOOST_AUTO_TEST_CASE(rem_write_then_send) {
  Side side;
  Buffer data(side.ia, side.pz, kLarge);
  Buffer note(side.ia, side.pz, 8);
  const DAT_RMR_TRIPLET theirs = exchange_memory(side, data);
  REQUIRE_OK(side.end.post_recv(note, 8, 1));
  side.connect();
  side.sync();
  for (std::uint8_t seed = 1; seed <= 3; ++seed) {
    if (side.driver) {
      data.fill(seed);
      REQUIRE_OK(side.end.post_write(data, theirs, seed));
      REQUIRE_OK(side.end.post_send(note, 8, 100U + seed));
      expect_dto(side.end.request_evd, DAT_DTO_SUCCESS, seed);
      expect_dto(side.end.request_evd, DAT_DTO_SUCCESS, 100U + seed);
    } else {
      expect_dto(side.end.recv_evd, DAT_DTO_SUCCESS, 1);
      BOOST_CHECK(data.holds(seed, kLarge));  // dto_write_then_send
      REQUIRE_OK(side.end.post_recv(note, 8, 1));
    }
    side.sync();
  }
}

// Once a write has completed, its data is there, however the peer learns that: here by a message on
// another connection. The specification does not promise this; InfiniBand does, and MPI libraries
// rely on it.
BOOST_AUTO_TEST_CASE(rem_write_announced_elsewhere) {
  Side side;
  Buffer data(side.ia, side.pz, kLarge);
  Buffer note(side.ia, side.pz, 8);
  const DAT_RMR_TRIPLET theirs = exchange_memory(side, data);
  side.connect();
  End other;
  other.create(side.ia, side.pz, nullptr);
  std::swap(side.end, other);
  side.connect();
  std::swap(side.end, other);
  std::uint8_t seed = 0;
  int missing = 0;
  REQUIRE_OK(other.post_recv(note, 8, 0));
  side.sync();
  for (int round = 0; round < 200; ++round) {
    for (const std::size_t size : {std::size_t{8}, std::size_t{4096}, std::size_t{65536}, kLarge}) {
      ++seed;
      const std::size_t last = size - 1;  // it is placed last
      if (side.driver) {
        data.bytes[last] = seed;
        REQUIRE_OK(side.end.post_write(data, part(theirs, size), seed));
        poll_dto(side.end.request_evd);
        REQUIRE_OK(other.post_send(note, 8, seed));
        poll_dto(other.request_evd);
        poll_dto(other.recv_evd);
        REQUIRE_OK(other.post_recv(note, 8, 0));
      } else {
        poll_dto(other.recv_evd);
        if (data.bytes[last] != seed) ++missing;
        REQUIRE_OK(other.post_recv(note, 8, 0));
        REQUIRE_OK(other.post_send(note, 8, seed));
        poll_dto(other.request_evd);
      }
    }
  }
  BOOST_CHECK_EQUAL(missing, 0);
}

BOOST_AUTO_TEST_CASE(rem_read) {
  Side side;
  Buffer data(side.ia, side.pz, kLarge);
  const DAT_RMR_TRIPLET theirs = exchange_memory(side, data);
  if (!side.driver) data.fill(9);
  side.connect();
  side.sync();
  if (side.driver) {
    REQUIRE_OK(side.end.post_read(data, theirs, 5));
    const auto dto = expect_dto(side.end.request_evd, DAT_DTO_SUCCESS, 5);
    BOOST_CHECK_EQUAL(dto.transfered_length, kLarge);
    BOOST_CHECK(data.holds(9, kLarge));
  }
  side.sync();
}

BOOST_AUTO_TEST_CASE(rem_access_refused) {
  Side side;
  Buffer data(side.ia, side.pz, 4096);
  DAT_RMR_TRIPLET theirs = exchange_memory(side, data);
  if (!side.driver) data.fill(3);
  side.connect();
  side.sync();
  if (side.driver) {
    theirs.rmr_context ^= 0x5A5A00;
    REQUIRE_OK(side.end.post_write(data, theirs, 1));
    const auto event = next_event(side.end.connect_evd);
    BOOST_REQUIRE(event);
    BOOST_CHECK_EQUAL(event->event_number, DAT_CONNECTION_EVENT_BROKEN);
  } else {
    expect_connection_end(side.end.connect_evd);
    BOOST_CHECK(data.holds(3, 4096));
  }
  side.sync();
}

BOOST_AUTO_TEST_CASE(rem_rmr) {
  Side side;
  Buffer data(side.ia, side.pz, 4096);
  Buffer copy(side.ia, side.pz, 4096);
  Rmr rmr;
  const bool made = side.ia.attr.max_rmrs > 0 && dat_rmr_create(side.pz, rmr.out()) == DAT_SUCCESS;
  if (skip_unless(side.both(made), "no RMRs")) return;
  side.connect();
  if (side.driver) {
    const auto theirs = side.receive_value<DAT_RMR_TRIPLET>();
    REQUIRE_OK(side.end.post_read(copy, part(theirs, 1024), 1));
    expect_dto(side.end.request_evd, DAT_DTO_SUCCESS, 1);
    BOOST_CHECK(copy.holds(6, 1024));
    side.sync();
    side.sync();  // unbound
    REQUIRE_OK(side.end.post_read(copy, part(theirs, 1024), 2));
    expect_connection_end(side.end.connect_evd);
  } else {
    data.fill(6);
    const DAT_LMR_TRIPLET range = data.local();
    DAT_RMR_TRIPLET window = data.remote(4096);
    const auto bind = [&](const DAT_LMR_TRIPLET& what) {
      REQUIRE_OK(dat_rmr_bind(rmr, data.lmr, &what, DAT_MEM_PRIV_REMOTE_READ_FLAG, DAT_VA_TYPE_VA,
                              side.end.ep, cookie(7), DAT_COMPLETION_DEFAULT_FLAG,
                              &window.rmr_context));
      expect_event(side.end.request_evd, DAT_RMR_BIND_COMPLETION_EVENT);
    };
    bind(range);
    side.send_value(window);
    side.sync();
    bind(data.local(0));
    side.sync();
    expect_connection_end(side.end.connect_evd);
  }
  side.sync();
}

BOOST_AUTO_TEST_CASE(rem_messages_both_ways) {
  Side side;
  constexpr std::uint64_t kMessages = 2000;
  constexpr std::uint64_t kWindow = 8;
  Buffer in(side.ia, side.pz, 256);
  Buffer out(side.ia, side.pz, 256);
  for (std::uint64_t i = 0; i < kWindow; ++i) REQUIRE_OK(side.end.post_recv(in, 256, i));
  side.connect();
  side.sync();
  // Each message is answered by one, so that the peer always has a receive posted.
  std::uint64_t sent = 0;
  if (side.driver)
    for (; sent < kWindow / 2; ++sent) REQUIRE_OK(side.end.post_send(out, 256, sent));
  std::uint64_t completed = 0;
  for (std::uint64_t received = 0; received < kMessages; ++received) {
    expect_dto(side.end.recv_evd, DAT_DTO_SUCCESS, received);
    REQUIRE_OK(side.end.post_recv(in, 256, received + kWindow));
    if (sent == kMessages) continue;
    REQUIRE_OK(side.end.post_send(out, 256, sent++));
    expect_dto(side.end.request_evd, DAT_DTO_SUCCESS, completed++);
  }
  for (; completed < sent; ++completed)
    expect_dto(side.end.request_evd, DAT_DTO_SUCCESS, completed);
  side.sync();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
