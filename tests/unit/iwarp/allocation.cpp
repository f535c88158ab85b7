// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// No memory is allocated once a connection is set up, and none because of what a peer sends. A
// separate program, because it replaces the global operator new.
#define BOOST_TEST_MODULE iwarp_allocation
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <new>

#include "tests/unit/iwarp/endpoints.h"
#include "tests/unit/iwarp/stream_parser.h"

namespace {
std::size_t allocations = 0;
bool out_of_memory = false;
}  // namespace

// Not inlined: otherwise GCC would see malloc paired with delete, and free with new, and warn.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (out_of_memory) throw std::bad_alloc();
  if (void* p = std::malloc(size ? size : 1)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new[](std::size_t size) { return operator new(size); }
// Same as the standard library's; needed because a sanitizer replaces that by a version that does
// not call the function above.
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
[[gnu::noinline]] void* operator new[](std::size_t size, const std::nothrow_t& none) noexcept {
  return operator new(size, none);
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p, std::size_t) noexcept { std::free(p); }

using namespace iwarp_test;

namespace {

// Only counts bytes.
class Counter final : public Accepting {
 public:
  std::size_t bytes = 0;
  Verdict place_write(std::uint32_t, std::uint64_t, std::span<const std::byte> p) override {
    bytes += p.size();
    return Verdict::kOk;
  }
  Verdict place_send(const SendSegment& s) override {
    bytes += s.payload.size();
    return Verdict::kOk;
  }
};

}  // namespace

// Must run first, while no memory for copies has been released for reuse. The whole message is sent
// all the same, in shorter segments, each with the CRC of the bytes that are sent.
BOOST_AUTO_TEST_CASE(without_memory_for_copies_segments_are_shorter) {
  for (const bool markers : {false, true}) {
    Tx tx({.crc = true, .markers = markers, .emss = 65483});
    Bytes data = pattern(200000);
    const std::array<IoSpan, 2> pieces{IoSpan{data.data(), 1000}, IoSpan{&data[1000], 199000}};
    tx.out.reserve(400000);
    tx.sender.begin_send(Opcode::kSend, 0, pieces, 200000);
    Sender::Fill fill;
    do {
      out_of_memory = true;
      fill = tx.sender.fill(tx.batch);
      out_of_memory = false;
      BOOST_REQUIRE(!tx.batch.empty());
      std::fill_n(data.begin(), 1000, static_cast<std::byte>(tx.batch.appended()));
      tx.drain();
    } while (fill != Sender::Fill::kDone);
    const auto segments = parse(tx.out, markers);
    BOOST_TEST(segments.size() > 200000U / 8192);
    std::size_t received = 0;
    for (const auto& segment : segments) received += segment.ulpdu.size() - 18;
    BOOST_TEST(received == 200000U);
  }
}

BOOST_AUTO_TEST_CASE(steady_state_does_not_allocate) {
  const Bytes data = pattern(200000);
  const IoSpan piece{data.data(), data.size()};
  const IoSpan small{data.data(), 40};
  Bytes staging(1 << 20);
  Counter inbound;
  for (const bool markers : {false, true}) {
    Sender sender({.crc = true, .markers = markers, .emss = 1448});
    Receiver receiver(true);
    TxBatch batch;
    std::size_t staged = 0;
    std::size_t before = 0;
    for (int i = 0; i < 50; ++i) {
      if (i == 2) before = allocations;  // from now on the batch has its memory for copies
      if (i % 2) {
        sender.begin_send(Opcode::kSend, 0, {&piece, 1}, static_cast<std::uint32_t>(data.size()));
      } else {
        sender.begin_write(1, 0, {&small, 1}, 40);
      }
      Sender::Fill fill;
      do {
        fill = sender.fill(batch);
        for (const IoSpan& s : batch.spans()) {
          if (markers) break;  // our receiver does not support them
          std::memcpy(&staging[staged], s.data, s.size);
          staged += s.size;
        }
        batch.consume(batch.pending_bytes());
        const std::size_t used = receiver.feed(std::span(staging).first(staged), inbound);
        std::memmove(staging.data(), &staging[used], staged - used);
        staged -= used;
      } while (fill != Sender::Fill::kDone);
    }
    const Terminate terminate = make_read_terminate(TerminateCode::kRdmapAccess, {}, 1, 0);
    sender.begin_terminate(terminate);
    sender.fill(batch);
    BOOST_TEST(allocations == before);
    BOOST_TEST(staged == 0U);
  }
  BOOST_TEST(inbound.bytes == 25 * (200000U + 40));
}

BOOST_AUTO_TEST_CASE(hostile_input_does_not_allocate) {
  Counter inbound;
  std::minstd_rand random(1);
  for (int i = 0; i < 2000; ++i) {
    const Bytes bytes = pattern(random() % 400, static_cast<unsigned>(random()));
    Receiver receiver(i % 2);
    const std::size_t before = allocations;
    receiver.feed(bytes, inbound);
    BOOST_REQUIRE_EQUAL(allocations, before);
  }
}
