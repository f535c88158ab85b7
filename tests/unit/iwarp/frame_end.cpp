// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The end of an FPDU that was sent in part, checked by the independent parser.
#include "providers/soft/iwarp/frame_end.h"

#include <boost/test/unit_test.hpp>
#include <random>

#include "tests/unit/iwarp/endpoints.h"
#include "tests/unit/iwarp/stream_parser.h"

using namespace iwarp_test;

namespace {

// The first `bytes` pending bytes.
Bytes front(const TxBatch& batch, std::size_t bytes) {
  Bytes all;
  for (const IoSpan& s : batch.spans())
    append(all, {static_cast<const std::byte*>(s.data), s.size});
  all.resize(bytes);
  return all;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(frame_end)

// TCP takes any number of bytes at a time. Whenever it has taken some, the stream so far and the
// missing bytes are complete FPDUs.
BOOST_AUTO_TEST_CASE(every_cut_is_completed) {
  std::mt19937 random(5);
  for (const bool crc : {true, false}) {
    for (const bool markers : {true, false}) {
      Sender sender({.crc = crc, .markers = markers});
      TxBatch batch;
      FrameEnd end(markers);
      Bytes stream;
      std::size_t cuts = 0;
      for (int message = 0; message < 20; ++message) {
        const Bytes data = pattern(random() % 3 == 0 ? random() % 9000 : random() % 100,
                                   static_cast<unsigned>(message));
        const IoSpan piece{data.data(), data.size()};
        sender.begin_send(Opcode::kSend, 0, {&piece, 1}, static_cast<std::uint32_t>(data.size()));
        while (sender.busy()) {
          sender.fill(batch, random() % 4000);
          // Several FPDUs may be pending, and all of them may be taken at once.
          while (batch.pending_bytes() != 0 && random() % 4 != 0) {
            const std::size_t taken =
                1 + random() % std::min<std::size_t>(batch.pending_bytes(), 2000);
            append(stream, front(batch, taken));
            if (taken != batch.pending_bytes()) end.advance(batch, taken);
            batch.consume(taken);
            Bytes completed = stream;
            append(completed, front(batch, end.missing(batch)));
            cuts += end.missing(batch) != 0;
            parse(completed, markers, crc);  // fails if the stream ends inside an FPDU
          }
        }
        append(stream, front(batch, batch.pending_bytes()));  // the data ends here
        batch.consume(batch.pending_bytes());
        BOOST_REQUIRE(end.missing(batch) == 0U);
      }
      BOOST_TEST(cuts > 10U);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
