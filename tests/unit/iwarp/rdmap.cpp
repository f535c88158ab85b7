// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/iwarp/rdmap.h"

#include <boost/test/unit_test.hpp>

#include "tests/unit/iwarp/support.h"

using namespace iwarp_test;

namespace {

// RFC 7306 §5.1.1 implemented literally: bit by bit, and a set mask bit stops the carry.
std::uint64_t slow_masked_add(std::uint64_t a, std::uint64_t b, std::uint64_t mask) {
  std::uint64_t result = 0;
  unsigned carry = 0;
  for (int i = 0; i < 64; ++i) {
    const auto sum = static_cast<unsigned>(carry + (a >> i & 1) + (b >> i & 1));
    result |= std::uint64_t{sum & 1} << i;
    carry = mask >> i & 1 ? 0 : sum >> 1;
  }
  return result;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(rdmap)

BOOST_AUTO_TEST_CASE(headers_survive_encoding_and_decoding) {
  Bytes out(kMaxBodySize);
  const ReadRequest read{0x01020304, 0x1112131415161718, 0x21222324, 0x31323334,
                         0x4142434445464748};
  encode(read, out.data());
  BOOST_TEST(to_hex(std::span(out).first(kReadRequestSize)) ==
             "01020304111213141516171821222324313233344142434445464748");
  BOOST_TEST((decode_read_request(out.data()) == read));

  const AtomicRequest swap = AtomicRequest::compare_swap(9, 0xabcdef01, 0x88, 1, 2);
  encode(swap, out.data());
  BOOST_TEST(to_hex(out) ==
             "00000002"
             "00000009"
             "abcdef01"
             "0000000000000088"
             "0000000000000002"
             "ffffffffffffffff"
             "0000000000000001"
             "ffffffffffffffff");
  BOOST_TEST((decode_atomic_request(out.data()) == swap));

  const AtomicResponse response{0x01020304, 0x0506070809101112};
  encode(response, out.data());
  BOOST_TEST(to_hex(std::span(out).first(kAtomicResponseSize)) == "010203040506070809101112");
  BOOST_TEST((decode_atomic_response(out.data()) == response));

  const WriteImmediate immediate{0xcafe0001, 0x1000};
  BOOST_TEST(to_hex(encode(immediate)) == "cafe000100001000");
  BOOST_TEST((decode_write_immediate(encode(immediate)) == immediate));
}

BOOST_AUTO_TEST_CASE(compare_swap_obeys_its_masks) {
  AtomicRequest r = AtomicRequest::compare_swap(0, 0, 0, 5, 9);
  BOOST_TEST(apply(r, 5) == 9U);
  BOOST_TEST(apply(r, 6) == 6U);
  r.compare_mask = 0xFF;
  r.add_swap_mask = 0xF;
  BOOST_TEST(apply(r, 0x1205) == 0x1209U);
  BOOST_TEST(apply(r, 0x1206) == 0x1206U);
}

BOOST_AUTO_TEST_CASE(fetch_add_obeys_its_mask) {
  BOOST_TEST(apply(AtomicRequest::fetch_add(0, 0, 0, 1), ~std::uint64_t{0}) == 0U);
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    AtomicRequest r = AtomicRequest::fetch_add(0, 0, 0, random());
    r.add_swap_mask = random() & random();
    const std::uint64_t original = random();
    BOOST_REQUIRE_EQUAL(apply(r, original), slow_masked_add(original, r.add_swap, r.add_swap_mask));
  }
}

BOOST_AUTO_TEST_SUITE_END()
