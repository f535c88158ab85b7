// SPDX-License-Identifier: MIT OR GPL-2.0-only
// A parser of FPDUs that shares no code with the Sender.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "tests/unit/iwarp/support.h"

namespace iwarp_test {

// A segment as found in the stream.
struct ParsedSegment {
  Bytes ulpdu;
  std::size_t fpdu_bytes;  // on the wire, markers included
};

// Splits a stream into FPDUs, following the markers if there are any.
inline std::vector<ParsedSegment> parse(std::span<const std::byte> stream, bool markers,
                                        bool has_crc = true) {
  std::vector<ParsedSegment> out;
  std::size_t at = 0;
  while (at < stream.size()) {
    const std::size_t begin = at;
    Bytes covered;  // bytes of this FPDU, markers included, for the CRC
    Bytes content;  // without markers
    std::size_t length_at = at;
    const auto take = [&](std::size_t bytes) {
      while (bytes != 0) {
        if (at >= stream.size()) BOOST_FAIL("the stream ends inside an FPDU");
        if (markers && at % 512 == 0) {
          const std::size_t pointer = content.empty() ? 0 : at - length_at;
          BOOST_REQUIRE_EQUAL(load16(&stream[at]), 0);
          BOOST_REQUIRE_EQUAL(load16(&stream[at + 2]), pointer);
          append(covered, stream.subspan(at, 4));
          at += 4;
          if (content.empty()) length_at = at;
          continue;
        }
        covered.push_back(stream[at]);
        content.push_back(stream[at]);
        ++at;
        --bytes;
      }
    };
    take(2);
    const std::size_t length = load16(content.data());
    take(length);
    while (content.size() % 4 != 0) {
      take(1);
      BOOST_REQUIRE((content.back() == std::byte{0}));
    }
    if (markers && at % 512 == 0) {  // a marker directly before the CRC is still covered by it
      BOOST_REQUIRE_EQUAL(load16(&stream[at + 2]), at - length_at);
      append(covered, stream.subspan(at, 4));
      at += 4;
    }
    BOOST_REQUIRE_LE(at + 4, stream.size());
    std::uint32_t crc = 0;
    for (int i = 3; i >= 0; --i) crc = crc << 8 | load8(&stream[at + static_cast<std::size_t>(i)]);
    at += 4;
    BOOST_REQUIRE_EQUAL(crc, has_crc ? reference_crc(covered) : 0);
    out.push_back(
        {Bytes(content.begin() + 2, content.begin() + 2 + static_cast<long>(length)), at - begin});
  }
  return out;
}

}  // namespace iwarp_test
