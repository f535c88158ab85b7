// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Frames whose bytes were produced independently of this code and accepted by other implementations
// (the kernel's siw, tshark), plus the example of RFC 5044: encoding and decoding must match them
// exactly.
#include <boost/test/unit_test.hpp>

#include "tests/unit/iwarp/endpoints.h"

using namespace iwarp_test;

namespace {

constexpr const char* kSendHello =
    "0017 4143 00000000 00000000 00000001 00000000 68656c6c6f 000000 b990b10c";

// The FPDU built by `begin`, on a connection that has sent `sends_before` Sends.
template <class Begin>
std::string built(Begin begin, int sends_before = 0) {
  Tx tx({});
  for (int i = 0; i < sends_before; ++i) tx.send({});
  tx.take();
  begin(tx);
  return to_hex(tx.take());
}

std::string received(const char* frame, Rx& rx) {
  rx.arrive(hex(frame));
  BOOST_TEST(!rx.receiver.mid_fpdu());
  BOOST_TEST(rx.staged.empty());
  return joined(rx.inbound.log);
}

std::string plain(const char* frame) { return to_hex(hex(frame)); }

}  // namespace

BOOST_AUTO_TEST_SUITE(golden)

BOOST_AUTO_TEST_CASE(rtr_write_has_the_golden_bytes) {
  const char* frame = "000e c140 00000001 0000000000000000 ebd34c5f";
  BOOST_TEST(built([](Tx& tx) { tx.write(1, 0, {}); }) == plain(frame));
  Rx rx;
  BOOST_TEST(received(frame, rx) == "");  // no call, but the frame is counted
  BOOST_TEST(rx.receiver.fpdus() == 1U);
}

BOOST_AUTO_TEST_CASE(rtr_read_request_and_response) {
  const char* request =
      "002e 4141 00000000 00000001 00000001 00000000 00000001 0000000000000000 00000000 00000001 "
      "0000000000000000 27dbd7e7";
  const auto begin = [](Tx& tx) {
    BOOST_TEST(tx.sender.begin_read_request({1, 0, 0, 1, 0}) == 1U);
    tx.finish();
  };
  BOOST_TEST(built(begin) == plain(request));
  Rx responder;
  BOOST_TEST(received(request, responder) == "read 0 msn 1 from 1 0 to 1 0\n");

  const char* response = "000e c142 00000001 0000000000000000 21a3e83e";
  BOOST_TEST(built([](Tx& tx) { tx.read_response(1, 0, {}); }) == plain(response));
  Rx initiator;
  initiator.inbound.reads = {{1, 0, 0}};
  BOOST_TEST(received(response, initiator) == "read done\n");
}

BOOST_AUTO_TEST_CASE(send_with_pad) {
  BOOST_TEST(built([](Tx& tx) { tx.send(as_bytes("hello")); }) == plain(kSendHello));
  Rx rx;
  BOOST_TEST(received(kSendHello, rx) ==
             "place 3 first last msn 1 at 0 68656c6c6f\nsent 3 length 5 0\n");
}

BOOST_AUTO_TEST_CASE(send_solicited_invalidate) {
  const char* frame = "0012 4146 12345678 00000000 00000002 00000000 e6f94e00";
  const auto begin = [](Tx& tx) { tx.send({}, Opcode::kSendSolicitedInvalidate, 0x12345678); };
  BOOST_TEST(built(begin, 1) == plain(frame));
  Rx rx;
  rx.arrive(hex(kSendHello));
  rx.inbound.log.clear();
  BOOST_TEST(received(frame, rx) ==
             "place 6 first last msn 2 at 0 \ninvalidate 12345678\n"
             "sent 6 length 0 solicited invalidated 12345678\n");
}

BOOST_AUTO_TEST_CASE(write_has_the_golden_bytes) {
  const char* frame = "0012 c140 a1b2c3d4 0000000000001000 61626364 ef1ff573";
  BOOST_TEST(built([](Tx& tx) { tx.write(0xa1b2c3d4, 0x1000, as_bytes("abcd")); }) == plain(frame));
  Rx rx;
  BOOST_TEST(received(frame, rx) == "write a1b2c3d4 1000 61626364\n");
}

BOOST_AUTO_TEST_CASE(terminate_without_headers) {
  const char* frame = "0016 4147 00000000 00000002 00000001 00000000 01020000 4c5a458f";
  const Terminate reason = make_terminate(TerminateCode::kRdmapAccess);
  const auto begin = [&](Tx& tx) {
    tx.sender.begin_terminate(reason);
    tx.finish();
  };
  BOOST_TEST(built(begin) == plain(frame));
  Rx rx;
  BOOST_TEST(received(frame, rx) == "terminated: RDMAP protection: access rights violation\n");
  BOOST_TEST((rx.inbound.peer_terminate == reason));
  BOOST_TEST((rx.receiver.state() == Receiver::State::kTerminated));
}

BOOST_AUTO_TEST_CASE(terminate_for_a_write) {
  const char* frame =
      "0026 4147 00000000 00000002 00000001 00000000 1100c000 0016 c140deadbe000000000000000000 "
      "70957b6a";
  const Bytes ulpdu = tagged_ulpdu(0, true, 0xdeadbe00, 0, pattern(8));
  const Terminate reason =
      make_terminate(TerminateCode::kDdpTaggedInvalidStag, ulpdu.data(), 22, false);
  const auto begin = [&](Tx& tx) {
    tx.sender.begin_terminate(reason);
    tx.finish();
  };
  BOOST_TEST(built(begin) == plain(frame));
  Rx rx;
  BOOST_TEST(received(frame, rx) == "terminated: DDP tagged: invalid STag\n");
  BOOST_TEST((rx.inbound.peer_terminate == reason));
}

BOOST_AUTO_TEST_CASE(terminate_for_a_read_request) {
  const char* frame =
      "0046 4147 00000000 00000002 00000001 00000000 0100e000 002e "
      "4141000000000000000100000001000000000000000500000000 00000000 00000008 deadbe00 "
      "0000000000000000 7d74ba82";
  const ReadRequest request{5, 0, 8, 0xdeadbe00, 0};
  const Terminate reason = make_read_terminate(TerminateCode::kRdmapInvalidStag, request, 1, 0);
  const auto begin = [&](Tx& tx) {
    tx.sender.begin_terminate(reason);
    tx.finish();
  };
  BOOST_TEST(built(begin) == plain(frame));
  Rx rx;
  BOOST_TEST(received(frame, rx) == "terminated: RDMAP protection: invalid STag\n");
  BOOST_TEST((rx.inbound.peer_terminate == reason));
}

BOOST_AUTO_TEST_CASE(fetch_add_has_the_golden_bytes) {
  const char* frame =
      "0046 414a 00000000 00000001 00000001 00000000 00000000 00000007 a1b2c3d4 0000000000001000 "
      "0000000000000005 0000000000000000 0000000000000000 ffffffffffffffff 62709d4e";
  const auto begin = [](Tx& tx) {
    tx.sender.begin_atomic_request(AtomicRequest::fetch_add(7, 0xa1b2c3d4, 0x1000, 5));
    tx.finish();
  };
  BOOST_TEST(built(begin) == plain(frame));
  Rx rx;
  BOOST_TEST(received(frame, rx) == "atomic 0 id 7 at a1b2c3d4 1000: 5 0 0 ffffffffffffffff\n");
}

BOOST_AUTO_TEST_CASE(atomic_response_has_the_golden_bytes) {
  const char* frame =
      "001e 414b 00000000 00000003 00000001 00000000 00000007 0000000000000029 b9ebafe8";
  const auto begin = [](Tx& tx) {
    tx.sender.begin_atomic_response({7, 41});
    tx.finish();
  };
  BOOST_TEST(built(begin) == plain(frame));
  Rx rx;
  BOOST_TEST(received(frame, rx) == "atomic response id 7: 41\n");
}

BOOST_AUTO_TEST_CASE(immediate_has_the_golden_bytes) {
  const char* frame = "001a 4148 00000000 00000000 00000001 00000000 1122334455667788 fa7ee097";
  const auto begin = [](Tx& tx) {
    tx.sender.begin_immediate(encode(WriteImmediate{0x11223344, 0x55667788}), false);
    tx.finish();
  };
  BOOST_TEST(built(begin) == plain(frame));
  Rx rx;
  BOOST_TEST(received(frame, rx) == "immediate 1122334455667788\n");
}

// RFC 5044 figure 5: the first FPDU in a direction whose receiver has requested markers.
BOOST_AUTO_TEST_CASE(rfc5044_figure_5) {
  const Bytes zeros(24);
  const std::string body = "002a4143" + std::string(8, '0') + std::string(8, '0') + "00000001" +
                           std::string(8, '0') + std::string(48, '0');
  BOOST_TEST(built([&](Tx& tx) { tx.send(zeros); }) == body + "b7243ec3");

  Tx marked({.crc = true, .markers = true, .emss = 1448});
  marked.send(zeros);
  BOOST_TEST(to_hex(marked.out) == "00000000" + body + "52239983");
}

BOOST_AUTO_TEST_SUITE_END()
