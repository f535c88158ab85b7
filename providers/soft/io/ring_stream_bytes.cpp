// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// RingStream: bytes that pass through the ring, and payload that is lent instead.
#include "providers/soft/io/ring_stream.h"

#include "common/copy_bytes.h"
#include "providers/soft/mr_table.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace udapl::soft {

namespace {

// Frames of some 16 KiB: the peer places one while this side writes the next.
constexpr std::uint32_t kMss = 16 * 1024 + 64;
constexpr std::size_t kPublished = 16 * 1024;
constexpr std::uint32_t kLentMss = 64 * 1024;  // a frame in one copy
// When this much input is available at once, this side asks the peer for loans, if it can reach the
// peer's memory. Payload of this size may be lent.
constexpr std::size_t kLarge = 8 * 1024;
// The sizes of messages after which the place of the next message is prefetched.
constexpr std::size_t kMinFetched = 256;
constexpr std::size_t kMaxFetched = kLarge + 64;

std::span<const std::byte> bytes_of(const iwarp::IoSpan& span) noexcept {
  return {static_cast<const std::byte*>(span.data), span.size};
}

}  // namespace

// ---- bytes --------------------------------------------------------------------------------------

std::size_t RingStream::append(std::span<const std::byte> piece, std::size_t& hidden) noexcept {
  const std::size_t taken = writer_.append(piece);
  hidden += taken;
  // A long piece is payload: it is published together with the rest of its frame, which follows.
  if (taken == piece.size() && hidden >= kPublished && piece.size() < kPublished) {
    if (writer_.publish()) bell_.ring();
    hidden = 0;
  }
  return taken;
}

IoResult RingStream::send(std::span<const iwarp::IoSpan> spans, std::size_t kept) noexcept {
  if (peer_gone_) [[unlikely]]
    return send_to_nobody();
  const bool had_loans = lender_.any();
  if (had_loans) collect_loans();
  std::size_t hidden = 0;  // not published yet
  std::size_t at = 0;
  bool loans = false;
  std::uint64_t before = put_ - sent_;  // accepted by earlier calls
  const bool lends = may_lend();
  for (const iwarp::IoSpan& span : spans) {
    const std::size_t taken_before = std::min<std::uint64_t>(before, span.size);
    before -= taken_before;
    const std::span<const std::byte> piece = bytes_of(span).subspan(taken_before);
    const bool lendable = at >= kept;
    at += span.size;
    if (piece.empty()) continue;
    if (lendable && lends && lender_.may_lend(piece.size())) {
      lender_.lend(writer_.position(), put_, piece, claims(put_));
      put_ += piece.size();
      loans = true;
      continue;
    }
    const std::size_t taken = append(piece, hidden);
    put_ += taken;
    if (taken < piece.size()) break;
  }
  if (writer_.broken() || lender_.broken()) return {IoResult::kBroken, EPROTO};
  if ((hidden != 0 || loans) && writer_.publish()) bell_.ring();
  if (shared_send_.end != shared_send_.begin && put_ >= shared_send_.end) assist_send();
  if (lender_.any() != had_loans) show_sign();
  idle_pages_.sent(put_);
  return count_sent();
}

// Called when the peer has left. What it sent before is still to be read, and the end of that input
// tells how it left.
IoResult RingStream::send_to_nobody() noexcept {
  IoResult result = collect_returned();
  result.kind = IoResult::kEnd;
  return result;
}

// Payload of this size is never lent.
std::size_t RingStream::most_frame() const noexcept { return kLarge - 1; }

// Returns false for an RDMA Write to a sleeping peer, so that reach() can do it without waking the
// peer.
bool RingStream::takes_frame(std::size_t bytes, bool write) noexcept {
  wrote_ |= write;
  return !lender_.any() && !peer_gone_ && !(write && writer_.reader_sleeps()) &&
         writer_.has_room_for(bytes);
}

void RingStream::put_frame(std::span<const std::byte> front, std::span<const std::byte> payload,
                           std::span<const std::byte> trailer) noexcept {
  put_ += writer_.append(front);
  if (!payload.empty()) put_ += writer_.append(payload) + writer_.append(trailer);
  sent_ = put_;
  if (writer_.hidden() >= kPublished && writer_.publish()) bell_.ring();
}

void RingStream::show_frames() noexcept {
  const std::size_t bytes = writer_.hidden();
  if (bytes != 0 && writer_.publish()) bell_.ring();
  expect_next(bytes);
  idle_pages_.sent(put_);
}

// Prefetches the place of the next message while this side polls for an answer: the caches of the
// peer's processor hold it, because the peer has read the previous lap there (adr 0113).
void RingStream::expect_next(std::size_t bytes) noexcept {
  if (bytes < kMinFetched || bytes > kMaxFetched || writer_.reader_sleeps()) return;
  const std::span<const std::byte> place = writer_.next(bytes);
  reactor_.will_write(place.data(), place.size());
}

std::byte* RingStream::frame_room(std::size_t bytes, bool write) noexcept {
  wrote_ |= write;
  if (lender_.any() || peer_gone_ || (write && writer_.reader_sleeps())) [[unlikely]]
    return nullptr;
  return writer_.room_in_place(bytes);
}

void RingStream::send_frame(std::size_t bytes) noexcept {
  put_ += bytes;
  sent_ = put_;
  if (writer_.publish_in_place(bytes)) [[unlikely]]
    bell_.ring();
  idle_pages_.sent(put_);
}

IoResult RingStream::count_sent() noexcept {
  const std::uint64_t ours = lender_.any() ? lender_.oldest() : put_;
  const auto bytes = static_cast<std::size_t>(ours - sent_);
  sent_ = ours;
  return {bytes != 0 ? IoResult::kDone : IoResult::kBlocked, 0, bytes,
          static_cast<std::size_t>(put_ - sent_)};
}

// The writer publishes a loan before the bytes behind it. So a reader that first reads the number
// of readable bytes, and then looks for a loan, does not read beyond the loan.
IoResult RingStream::read(std::span<std::byte> room) noexcept {
  std::size_t most = reader_.seen();
  const bool over = most == 0 && (reader_.end() != shm::RingEnd::kNone || reader_.broken());
  if (over) most = reader_.seen();  // what was written before the end
  if (most != 0 || !over) {
    most = std::min<std::uint64_t>(most, borrower_.before_next(reader_.position()));
    room = room.first(std::min(room.size(), most));
  }
  const shm::RingMoved moved = reader_.read(room);
  if (moved.wake) bell_.ring();
  switch (moved.kind) {
    case shm::RingMoved::kDone:
      return {IoResult::kDone, 0, moved.bytes};
    case shm::RingMoved::kEnd:
      return {IoResult::kEnd};
    case shm::RingMoved::kReset:
      return {IoResult::kBroken, ECONNRESET};
    case shm::RingMoved::kBroken:
      return {IoResult::kBroken, EPROTO};
    case shm::RingMoved::kBlocked:
      break;
  }
  // A peer that was killed has not marked the end. As with a socket, the stream has then ended, or
  // is broken if the peer had not read all that was sent to it.
  if (lost_) return {IoResult::kBroken, ECONNRESET};
  return {peer_gone_ ? IoResult::kEnd : IoResult::kBlocked};
}

IoResult RingStream::receive(std::span<std::byte> room) noexcept {
  return receive_into(room, {}, false);
}

IoResult RingStream::receive_both(std::span<std::byte> room, std::span<std::byte> behind) noexcept {
  return receive_into(room, behind, true);
}

// Reads from at most one loan, which may be smaller than the room. `in_place`: `room` is the
// destination of the bytes.
IoResult RingStream::receive_into(std::span<std::byte> room, std::span<std::byte> behind,
                                  bool in_place) noexcept {
  if (handler_ == nullptr && !bell_.drain()) lose_peer();  // the reactor does not watch it
  IoResult result =
      borrower_.is_next(reader_.position()) ? borrow(room, behind, in_place) : read(room);
  // `room` is full: also reads the bytes behind it.
  if (result.kind != IoResult::kDone || result.bytes < room.size()) return result;
  behind = behind.subspan(result.bytes - room.size());
  if (behind.empty() || borrower_.is_next(reader_.position())) return result;
  const IoResult more = read(behind);
  if (more.kind == IoResult::kDone) result.bytes += more.bytes;
  return result;
}

RingStream::Input RingStream::input() noexcept {
  const std::span<const std::byte> bytes = reader_.input();
  if (bytes.empty()) return {};
  if (bytes.size() >= kLarge && !asked_) [[unlikely]]
    ask_for_loans();
  const std::uint64_t most = borrower_.before_next(reader_.position());
  lent_follows_ = most <= bytes.size();
  return {lent_follows_ ? bytes.first(most) : bytes, lent_follows_};
}

std::span<const std::byte> RingStream::only_input() noexcept {
  if (!only_input_matters()) return {};
  const std::span<const std::byte> bytes = reader_.input();
  if (bytes.size() >= kLarge || borrower_.before_next(reader_.position()) <= bytes.size())
    return {};
  lent_follows_ = false;
  return bytes;
}

bool RingStream::has_input() noexcept {
  if (!borrower_.is_next(reader_.position())) return reader_.has_input();
  return borrower_.ready();
}

void RingStream::drop(std::size_t bytes, std::uint64_t placed) noexcept {
  writer_.acknowledge(placed);
  if (reader_.drop(bytes, placed)) bell_.ring();
  if (handler_ == nullptr) return;
  handler_->sign->seen(reader_.position());
  handler_->sign->next_at(reader_.next());
}

// ---- payload that is lent ----------------------------------------------------------------------

std::uint32_t RingStream::effective_mss() const noexcept { return kMss; }

std::uint32_t RingStream::lent_mss() const noexcept {
  return may_lend() && lender_.worthwhile() ? kLentMss : kMss;
}

// Nothing is lent to a sleeping reader, because this side can fill the ring while the reader wakes.
// Nothing is lent while this side rests, because it would not check whether the loan is returned.
bool RingStream::may_lend() const noexcept {
  return direct_ && !rests_ && handler_ != nullptr && !writer_.reader_sleeps();
}

void RingStream::collect_loans() noexcept {
  if (lender_.collect() && writer_.publish()) bell_.ring();
}

void RingStream::ask_for_loans() noexcept {
  asked_ = true;
  if (!direct_) return;
  const std::size_t least = peer_memory_.borrows_from();
  if (least != 0) borrower_.welcome(least);
}

IoResult RingStream::borrow(std::span<std::byte> room, std::span<std::byte> behind,
                            bool in_place) noexcept {
  if (borrower_.broken()) return {IoResult::kBroken, EPROTO};
  const std::size_t first = std::min(room.size(), borrower_.left());
  const std::size_t second = std::min(behind.size(), borrower_.left() - first);
  if (first + second == 0) return {};
  if (in_place && first + second == borrower_.left() && second <= sizeof(std::uint64_t) &&
      borrower_.written()) {
    borrower_.take_written(behind.first(second));
    return {IoResult::kDone, 0, first + second};
  }
  const auto fetch = [&](std::uint64_t address) {
    const std::array<iovec, 2> pieces{iovec{room.data(), first}, iovec{behind.data(), second}};
    // If the peer has ended the stream during the copy, it may have reused the memory.
    return peer_memory_.fetch(address, {pieces.data(), second != 0 ? 2U : 1U}) &&
           reader_.end() == shm::RingEnd::kNone;
  };
  const auto put = [&](std::span<const std::byte> copy) {
    copy_bytes(room.data(), copy.data(), first);
    if (second != 0) copy_bytes(behind.data(), copy.data() + first, second);
  };
  if (borrower_.take(first + second, fetch, put)) return {IoResult::kDone, 0, first + second};
  if (borrower_.broken()) return {IoResult::kBroken, EPROTO};
  if (ended_on_purpose()) return {IoResult::kEnd};
  // While the peer is there, it copies the bytes into the spare memory, or finishes writing them.
  if (peer_gone_ || reader_.end() != shm::RingEnd::kNone) return {IoResult::kBroken, ECONNRESET};
  return {};
}

IoResult RingStream::collect_returned() noexcept {
  if (lender_.any()) lender_.reclaim();
  return count_sent();
}

// The end mark makes the peer discard loans that it copies from now on; what it has copied before
// is intact.
void RingStream::recall() noexcept {
  if (grants_ != nullptr) memory_->take_back_offers(*grants_);
  end_loans();
}

void RingStream::end_loans() noexcept {
  if (lender_.any()) finish(aborts_ ? shm::RingEnd::kReset : shm::RingEnd::kFinished);
}

}  // namespace udapl::soft
