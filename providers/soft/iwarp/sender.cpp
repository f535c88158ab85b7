// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/iwarp/sender.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "common/copy_bytes.h"
#include "common/tracing/trace.h"
#include "providers/soft/iwarp/crc32c.h"

namespace udapl::iwarp {
namespace {

// The maximum number of payload pieces that one FPDU references; with more of them, the segment is
// shortened.
constexpr std::size_t kMaxPieces = 64;
// With markers an FPDU has two entries per 512 bytes: this limits the space that one FPDU needs in
// a batch.
constexpr std::size_t kMaxMarkedUlpdu = 16384;
constexpr std::size_t kMaxMarkers = kMaxMarkedUlpdu / (kMarkerSpacing - kMarkerSize) + 2;

constexpr std::size_t kPlainArena = kFpduLengthSize + kUntaggedHeaderSize +
                                    std::max(kMaxBodySize, Sender::kCopyLimit) + 3 + kCrcSize;
constexpr std::size_t kMarkedArena = kPlainArena + kMaxMarkers * kMarkerSize;
constexpr std::size_t kPlainSpans = kMaxPieces + 2;
constexpr std::size_t kMarkedSpans = kMaxPieces + 2 * kMaxMarkers + 2;
// Payload is copied in steps of this size, so that the CRC reads each from the first-level cache.
constexpr std::size_t kCopyStep = 4 * 1024;
// Copied payload of at least this size is aligned to a cache line, because copy and CRC are faster
// if no access crosses two lines. Smaller frames are stored without gaps, so that send() gets one
// piece.
constexpr std::size_t kMinAligned = 8 * 1024;
constexpr std::size_t kMinEnlarged = 65536;
constexpr std::size_t kCopiedSpans = 1;  // per arena; a batch has two at most
static_assert(kMarkedArena + Sender::kCopyLimit + TxBatch::kLine <= TxBatch::kMinArena);
static_assert(kMarkedSpans <= TxBatch::kMinReferringSpans &&
              2 * kCopiedSpans <= TxBatch::kMinSpans);

// Writes the first fields of every FPDU: length, control bytes, and the STag or the word in its
// place. Returns the end.
std::byte* write_front(std::byte* p, Opcode opcode, std::size_t ulpdu, bool last,
                       std::uint32_t first_word) noexcept {
  p = store16(p, static_cast<std::uint16_t>(ulpdu));
  p = store16(p, control_bytes(opcode, last));
  return store32(p, first_word);
}

// Writes pad and CRC field; returns the end.
std::byte* write_trailer(std::byte* p, std::size_t pad, bool crc_on, std::uint32_t crc) noexcept {
  std::memset(p, 0, pad);
  if (!crc_on) return store32(p + pad, 0);
  return store_crc(p + pad, crc32c_finish(crc32c_update(crc, p, pad)));
}

// Appends an FPDU with a marker wherever the stream position requires one (RFC 5044 §4.3). All
// markers before the CRC field, also those in front of the length field and directly in front of
// the CRC itself, are covered by the CRC.
class MarkedFpdu {
 public:
  MarkedFpdu(TxBatch& batch, bool crc_on) noexcept : batch_(batch), crc_on_(crc_on) {
    if (at_marker()) put_marker(0);
    start_ = batch_.appended();
  }

  void put_bytes(const std::byte* data, std::size_t bytes) noexcept {
    for_each_run(data, bytes, [this](const std::byte* run, std::size_t n) {
      std::byte* const copy = batch_.arena_end();
      copy_bytes(copy, run, n);
      update_crc(copy, n);
      batch_.append_arena(n);
    });
  }

  void put_payload(const std::byte* data, std::size_t bytes) noexcept {
    for_each_run(data, bytes, [this](const std::byte* run, std::size_t n) {
      update_crc(run, n);
      batch_.append_payload(run, n);
    });
  }

  void put_crc() noexcept {
    if (at_marker()) put_marker(pointer());
    store_crc(batch_.arena_end(), crc_on_ ? crc32c_finish(crc_) : 0);
    batch_.append_arena(kCrcSize);
  }

 private:
  bool at_marker() const noexcept { return batch_.appended() % kMarkerSpacing == 0; }
  std::uint16_t pointer() const noexcept {
    return static_cast<std::uint16_t>(batch_.appended() - start_);
  }

  void update_crc(const std::byte* data, std::size_t bytes) noexcept {
    if (crc_on_) crc_ = crc32c_update(crc_, data, bytes);
  }

  void put_marker(std::uint16_t fpdu_pointer) noexcept {
    std::byte* p = batch_.arena_end();
    store16(store16(p, 0), fpdu_pointer);
    update_crc(p, kMarkerSize);
    batch_.append_arena(kMarkerSize);
  }

  template <class Append>
  void for_each_run(const std::byte* data, std::size_t bytes, Append append) noexcept {
    while (bytes != 0) {
      if (at_marker()) put_marker(pointer());
      const std::size_t to_marker = kMarkerSpacing - batch_.appended() % kMarkerSpacing;
      const std::size_t n = std::min(bytes, to_marker);
      append(data, n);
      data += n;
      bytes -= n;
    }
  }

  TxBatch& batch_;
  bool crc_on_;
  std::uint32_t crc_ = kCrcInit;
  std::uint64_t start_ = 0;  // position of the length field
};

}  // namespace

struct Sender::Segment {
  std::uint32_t bytes;  // of payload
  bool last;
  bool copied;
};

Sender::Sender(const SenderConfig& config) noexcept
    : owner_(config.owner), crc_(config.crc), markers_(config.markers) {
  set_emss(config.emss);
}

void Sender::set_emss(std::uint32_t emss) noexcept {
  max_ulpdu_ = mulpdu(emss, markers_);
  if (markers_) max_ulpdu_ = std::min(max_ulpdu_, kMaxMarkedUlpdu);
}

void Sender::begin(Opcode opcode, std::uint32_t first_word, std::span<const IoSpan> payload,
                   std::uint32_t length) noexcept {
  assert(!busy_);
  busy_ = true;
  opcode_ = opcode;
  body_size_ = 0;
  first_word_ = first_word;
  length_ = length;
  offset_ = 0;
  payload_ = payload;
  piece_ = 0;
  piece_offset_ = 0;
}

std::uint32_t Sender::begin_untagged(Opcode opcode, QueueNumber queue, std::uint32_t first_word,
                                     std::span<const IoSpan> payload,
                                     std::uint32_t length) noexcept {
  begin(opcode, first_word, payload, length);
  queue_ = queue;
  msn_ = next_msn_[queue]++;
  return msn_;
}

void Sender::begin_write(std::uint32_t stag, std::uint64_t to, std::span<const IoSpan> payload,
                         std::uint32_t length) noexcept {
  begin(Opcode::kWrite, stag, payload, length);
  to_ = to;
}

void Sender::begin_read_response(std::uint32_t stag, std::uint64_t to,
                                 std::span<const IoSpan> payload, std::uint32_t length) noexcept {
  begin(Opcode::kReadResponse, stag, payload, length);
  to_ = to;
}

std::uint32_t Sender::begin_send(Opcode opcode, std::uint32_t invalidate_stag,
                                 std::span<const IoSpan> payload, std::uint32_t length) noexcept {
  assert(is_send(opcode));
  return begin_untagged(opcode, kQueueSend, invalidates(opcode) ? invalidate_stag : 0, payload,
                        length);
}

std::uint32_t Sender::begin_read_request(const ReadRequest& request) noexcept {
  const std::uint32_t msn = begin_untagged(Opcode::kReadRequest, kQueueReadRequest, 0, {}, 0);
  encode(request, body_.data());
  body_size_ = kReadRequestSize;
  return msn;
}

std::uint32_t Sender::begin_immediate(const ImmediateBytes& data, bool solicited) noexcept {
  const Opcode opcode = solicited ? Opcode::kImmediateSolicited : Opcode::kImmediate;
  const std::uint32_t msn = begin_untagged(opcode, kQueueSend, 0, {}, 0);
  std::memcpy(body_.data(), data.data(), data.size());
  body_size_ = kImmediateSize;
  return msn;
}

std::uint32_t Sender::begin_atomic_request(const AtomicRequest& request) noexcept {
  const std::uint32_t msn = begin_untagged(Opcode::kAtomicRequest, kQueueReadRequest, 0, {}, 0);
  encode(request, body_.data());
  body_size_ = kAtomicRequestSize;
  return msn;
}

std::uint32_t Sender::begin_atomic_response(const AtomicResponse& response) noexcept {
  const std::uint32_t msn = begin_untagged(Opcode::kAtomicResponse, kQueueAtomicResponse, 0, {}, 0);
  encode(response, body_.data());
  body_size_ = kAtomicResponseSize;
  return msn;
}

void Sender::begin_terminate(const Terminate& terminate) noexcept {
  begin_untagged(Opcode::kTerminate, kQueueTerminate, 0, {}, 0);
  static_assert(kTerminateMaxSize <= kMaxBodySize);
  body_size_ =
      static_cast<std::uint8_t>(encode(terminate, std::span(body_).first<kTerminateMaxSize>()));
}

// Writes the same bytes as begin() and write_header(), but keeps no state, because the message is
// built at once. Stores words of 8 bytes, because the caller may soon copy the bytes in such words.
std::byte* Sender::write_short_front(std::byte* p, const Short& message,
                                     std::uint32_t length) noexcept {
  const bool write = message.opcode == Opcode::kWrite;
  const std::size_t ulpdu = (write ? kTaggedHeaderSize : kUntaggedHeaderSize) + length;
  const std::uint64_t first_word = write ? message.stag : 0;
  p = store64(p, std::uint64_t{ulpdu} << 48 |
                     std::uint64_t{control_bytes(message.opcode, true)} << 32 | first_word);
  if (write) return store64(p, message.to);
  p = store64(p, std::uint64_t{kQueueSend} << 32 | next_msn_[kQueueSend]++);
  return store32(p, 0);
}

bool Sender::add_short(TxBatch& batch, const Short& message,
                       std::span<const std::byte> payload) noexcept {
  assert(adds_short() && payload.size() <= kCopyLimit);
  if (batch.free_spans() < kCopiedSpans) return false;
  if (batch.free_arena() < kPlainArena && !(batch.can_enlarge() && batch.enlarge(kMinEnlarged)))
    return false;
  const auto length = static_cast<std::uint32_t>(payload.size());
  std::byte* const start = batch.arena_end();
  std::byte* end = write_short_front(start, message, length);
  const std::size_t pad =
      pad_size(static_cast<std::size_t>(end - start) - kFpduLengthSize + length);
  if (length != 0) std::memcpy(end, payload.data(), length);
  end += length;
  std::uint32_t crc = kCrcInit;
  if (crc_) crc = crc32c_update(crc, start, static_cast<std::size_t>(end - start));
  end = write_trailer(end, pad, crc_, crc);
  batch.append_arena(static_cast<std::size_t>(end - start));
  return true;
}

Sender::Fill Sender::fill(TxBatch& batch, std::size_t budget) noexcept {
  assert(busy_);
  const std::uint64_t start = batch.appended();
  do {
    Segment segment = next_segment();
    if (!make_room(batch, segment)) return Fill::kBatchFull;
    if (udapl::trace::enabled(udapl::trace::kDetail)) [[unlikely]]
      trace(segment);
    if (markers_) {
      build_marked(batch, segment);
    } else {
      build_plain(batch, segment);
    }
    // The payload of a Read Response is never lent: the consumer may free the memory, or revoke the
    // rights to it, while the peer reads it.
    if (opcode_ == Opcode::kReadResponse) batch.keep();
    offset_ += segment.bytes;
    if (segment.last) {
      busy_ = false;
      return Fill::kDone;
    }
  } while (batch.appended() - start < budget);
  return Fill::kBudget;
}

// Whether a copy of the next payload would be slow, if it goes to a page behind `before` bytes and
// the header.
bool Sender::is_slow(std::size_t before) const noexcept {
  if (piece_ == payload_.size()) return false;
  const std::size_t header =
      (is_tagged(opcode_) ? kTaggedHeaderSize : kUntaggedHeaderSize) + kFpduLengthSize + body_size_;
  const std::uintptr_t from =
      reinterpret_cast<std::uintptr_t>(payload_[piece_].data) + piece_offset_;
  return is_slow_distance(before + header - from);
}

bool Sender::make_room(TxBatch& batch, Segment& segment) const noexcept {
  segment.copied = crc_ || segment.bytes <= kCopyLimit ||
                   (batch.pending_bytes() < copy_below_ && is_slow(batch.pending_bytes()));
  const std::size_t spans = segment.copied ? kCopiedSpans : markers_ ? kMarkedSpans : kPlainSpans;
  if (batch.free_spans() < spans && !batch.more_spans()) {
    if (!batch.empty()) return false;
    segment.copied = true;  // no memory for more entries
  }
  const std::size_t least = markers_ ? kMarkedArena : kPlainArena;
  const bool large = segment.copied && segment.bytes > kCopyLimit;
  const std::size_t arena = least + (large ? segment.bytes + TxBatch::kLine : 0);
  if (batch.free_arena() >= arena) return true;
  if (batch.can_enlarge()) {
    // Enough for the rest of the message with its headers, or for several short messages.
    const std::size_t rest = large ? std::size_t{remaining()} + remaining() / 8 : 0;
    if (batch.enlarge(std::max(arena, std::clamp(rest, kMinEnlarged, kCopyArena)))) return true;
  }
  // Out of memory. If bytes are pending, they are sent first; otherwise the segment is shortened.
  if (!batch.empty() || !large) return false;
  segment.bytes =
      static_cast<std::uint32_t>((batch.free_arena() - least - TxBatch::kLine) & ~std::size_t{3});
  segment.last = false;
  return true;
}

void Sender::trace(const Segment& segment) const noexcept {
  udapl::trace::emit({.level = udapl::trace::kDetail,
                      .kind = udapl::trace::Kind::kFrame,
                      .code = segment.last ? 1 : 0,
                      .cookie = is_tagged(opcode_) ? first_word_ : msn_,
                      .length = segment.bytes,
                      .object = owner_,
                      .function = "frame",
                      .text = name(opcode_),
                      .detail = "out"});
}

Sender::Segment Sender::next_segment() const noexcept {
  const std::size_t header = is_tagged(opcode_) ? kTaggedHeaderSize : kUntaggedHeaderSize;
  const std::size_t room = max_ulpdu_ - header;
  const std::size_t left = length_ - offset_;
  std::size_t bytes = left;
  if (left > room) {
    // A segment in mid-message needs no pad, and ends at a cache line if it is large.
    bytes = room & ~std::size_t{room >= 16384 ? 63U : 3U};
  }

  // Usually one or two steps; the limit shortens a segment made of very many pieces.
  std::size_t covered = 0;
  std::size_t pieces = 0;
  std::size_t skip = piece_offset_;
  for (std::size_t i = piece_; covered < bytes; ++i) {
    if (payload_[i].size == skip) {
      skip = 0;
      continue;
    }
    if (++pieces > kMaxPieces) break;
    covered += payload_[i].size - skip;
    skip = 0;
  }
  if (covered < bytes && bytes > kCopyLimit) bytes = covered & ~std::size_t{3};
  return {static_cast<std::uint32_t>(bytes), bytes == left, false};
}

std::byte* Sender::write_header(std::byte* p, const Segment& segment) const noexcept {
  const bool tagged = is_tagged(opcode_);
  const std::size_t header = tagged ? kTaggedHeaderSize : kUntaggedHeaderSize;
  p = write_front(p, opcode_, header + body_size_ + segment.bytes, segment.last, first_word_);
  if (tagged) return store64(p, to_ + offset_);
  p = store32(p, queue_);
  p = store32(p, msn_);
  p = store32(p, offset_);
  std::memcpy(p, body_.data(), body_size_);
  return p + body_size_;
}

template <class Take>
void Sender::take_payload(std::size_t bytes, Take take) noexcept {
  while (bytes != 0) {
    const IoSpan& piece = payload_[piece_];
    const std::size_t n = std::min(bytes, piece.size - piece_offset_);
    if (n != 0) take(static_cast<const std::byte*>(piece.data) + piece_offset_, n);
    bytes -= n;
    piece_offset_ += n;
    if (piece_offset_ == piece.size) {
      ++piece_;
      piece_offset_ = 0;
    }
  }
}

void Sender::build_plain(TxBatch& batch, const Segment& segment) noexcept {
  const std::size_t header =
      (is_tagged(opcode_) ? kTaggedHeaderSize : kUntaggedHeaderSize) + body_size_;
  const std::size_t pad = pad_size(header + segment.bytes);
  if (segment.copied && segment.bytes >= kMinAligned && batch.free_spans() > kCopiedSpans)
    batch.align_arena(kFpduLengthSize + header);
  std::byte* const start = batch.arena_end();
  std::byte* p = write_header(start, segment);
  std::uint32_t crc = kCrcInit;

  if (segment.bytes <= kCopyLimit) {
    take_payload(segment.bytes, [&p](const std::byte* data, std::size_t n) {
      std::memcpy(p, data, n);
      p += n;
    });
    if (crc_) crc = crc32c_update(crc, start, static_cast<std::size_t>(p - start));
    p = write_trailer(p, pad, crc_, crc);
    batch.append_arena(static_cast<std::size_t>(p - start));
    return;
  }

  const auto header_bytes = static_cast<std::size_t>(p - start);
  if (crc_) crc = crc32c_update(crc, start, header_bytes);
  if (segment.copied) {
    take_payload(segment.bytes, [&](const std::byte* data, std::size_t n) {
      while (n != 0) {
        const std::size_t now = std::min(n, kCopyStep);
        copy_bytes(p, data, now);
        if (crc_) crc = crc32c_update(crc, p, now);
        data += now;
        p += now;
        n -= now;
      }
    });
    p = write_trailer(p, pad, crc_, crc);
    batch.append_arena(static_cast<std::size_t>(p - start));
    return;
  }
  batch.append_arena(header_bytes);
  take_payload(segment.bytes, [&](const std::byte* data, std::size_t n) {
    if (crc_) crc = crc32c_update(crc, data, n);
    batch.append_payload(data, n);
  });
  write_trailer(batch.arena_end(), pad, crc_, crc);
  batch.append_arena(pad + kCrcSize);
}

void Sender::build_marked(TxBatch& batch, const Segment& segment) noexcept {
  std::array<std::byte, kFpduLengthSize + kUntaggedHeaderSize + kMaxBodySize> header;
  const std::byte* header_end = write_header(header.data(), segment);
  const auto header_bytes = static_cast<std::size_t>(header_end - header.data());

  MarkedFpdu fpdu(batch, crc_);
  fpdu.put_bytes(header.data(), header_bytes);
  take_payload(segment.bytes, [&](const std::byte* data, std::size_t n) {
    if (segment.copied) {
      fpdu.put_bytes(data, n);
    } else {
      fpdu.put_payload(data, n);
    }
  });
  constexpr std::byte kZeros[3]{};
  fpdu.put_bytes(kZeros, pad_size(header_bytes - kFpduLengthSize + segment.bytes));
  fpdu.put_crc();
}

}  // namespace udapl::iwarp
