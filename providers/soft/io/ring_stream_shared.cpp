// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// RingStream: messages of which both sides copy a part.
#include "providers/soft/io/ring_stream.h"

#include "common/backoff.h"
#include "providers/soft/iwarp/wire.h"
#include "providers/soft/mr_table.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <utility>

namespace udapl::soft {

namespace {

// The most payload of a frame that is lent, and the number of them that one Write may have. Frames
// in the middle of a message end at a cache line.
constexpr std::size_t kLine = 64;
constexpr std::uint32_t kFrame =
    (iwarp::kMaxSentUlpdu - iwarp::kUntaggedHeaderSize) / kLine * kLine;
constexpr std::uint32_t kMaxFrames = 14;
// What is sent last, through the ring.
constexpr std::uint32_t kLastPart = 1024;
// What is copied first, to learn whether the kernel can reach the memory.
constexpr std::uint32_t kFirstPart = 4096;
// The peer needs less for the piece that it has begun, and the end of the message.
constexpr auto kSettles = std::chrono::microseconds(30);

// The peer needs longer for its part, because of the frames.
constexpr std::uint32_t frames_of(std::uint32_t length) noexcept {
  constexpr std::uint32_t kPercent = 43;
  return std::min(length / 100 * kPercent / kFrame, kMaxFrames);
}

// The first frame is for the peer, which begins later. The others have about the same size, so that
// the last one is lent, too.
RingStream::SharedFrames frames_of_send(std::size_t length) noexcept {
  const std::size_t first = std::min<std::size_t>(length * 2 / 5, kFrame) / kLine * kLine;
  const std::size_t rest = length - first;
  const std::size_t frames = (rest + kFrame - 1) / kFrame;
  return {first, (rest / frames + kLine - 1) / kLine * kLine};
}

// The number of loans of the part that is handed over at once.
std::size_t loans_of_send(std::size_t length) noexcept {
  const RingStream::SharedFrames frames = frames_of_send(length);
  const std::size_t rest = std::min(length, RingStream::kSharedAtOnce) - frames.first;
  return 1 + (rest + frames.others - 1) / frames.others;
}

// `before`: what precedes those bytes in the message.
shm::PeerMemory::Access access_of_send(std::uint32_t number, std::size_t length,
                                       std::size_t before = 0) noexcept {
  return {.write = true,
          .stag = number,
          .to = before,
          .length = static_cast<std::uint32_t>(length),
          .right = kRemoteWrite | shm::kPlaceInTurn,
          .receive = true};
}

}  // namespace

// ---- RDMA Writes --------------------------------------------------------------------------------

// Whether both sides copy parts of the Write: if the peer polls, and a grant permits the access.
bool RingStream::shares(const shm::PeerMemory::Access& access,
                        std::span<const iwarp::IoSpan> local) noexcept {
  lender_.passed(access.length);  // it may be held back since some messages were too slow
  if (local.size() != 1 || !may_lend() || !lender_.worthwhile() || lender_.any() ||
      !peer_memory_.granted(access) || !habit_of_sharing_.tries())
    return false;
  shared_ = access;
  shared_from_ = static_cast<const std::byte*>(local.front().data);
  if (!write_shared({shared_from_, kFirstPart})) return false;
  const std::uint32_t frames = frames_of(access.length);
  share_ = {access.length - frames * kFrame - kLastPart, frames};
  return true;
}

bool RingStream::write_shared(std::span<const std::byte> bytes) noexcept {
  shm::PeerMemory::Access part = shared_;
  part.to += static_cast<std::uint64_t>(bytes.data() - shared_from_);
  part.length = static_cast<std::uint32_t>(bytes.size());
  const iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  return peer_memory_.copy(part, {&piece, 1});
}

// If the peer has withdrawn the grant, it refuses the rest of the message.
bool RingStream::assist() noexcept {
  const Share share = std::exchange(share_, {});
  if (!write_shared({shared_from_ + kFirstPart, share.first - kFirstPart}))
    return !peer_memory_.granted(shared_);
  static_cast<void>(write_loans({0, put_}));
  return true;
}

// Writes what the peer has not taken, except for the end of a message, which becomes visible last.
// Returns false if the kernel refused some of it.
bool RingStream::write_loans(const shm::Lender::Part& part) noexcept {
  const std::byte* const end = shared_from_ + shared_.length;
  bool written = true;
  const auto write = [&](std::span<const std::byte> bytes) {
    if (bytes.data() + bytes.size() == end) bytes = bytes.first(bytes.size() - shm::kLoanEnd);
    return written = write_shared(bytes);
  };
  if (lender_.assist(part, write) && writer_.publish()) bell_.ring();
  return written;
}

// If the Write is placed now, the next one may be shared, too, or copied directly.
void RingStream::settle() noexcept {
  const auto until = std::chrono::steady_clock::now() + kSettles;
  bool placed = peer_placed() == put_;
  while (!placed && std::chrono::steady_clock::now() < until) {
    cpu_pause();
    placed = peer_placed() == put_;
  }
  habit_of_sharing_.ended(placed);
}

// ---- Sends --------------------------------------------------------------------------------------

// The offer tells whether earlier Sends could be for the same memory. An RDMA Write could be, too.
bool RingStream::may_share(const shm::PeerMemory::Access& access) noexcept {
  if (wrote_ && writer_.delivered() != put_) return false;
  wrote_ = false;
  return direct_ && shares_sends_ && may_lend() && lender_.worthwhile() &&
         peer_memory_.suits(access, false) && peer_memory_.granted(access);
}

// Whether a shared Send is lent of which this side will write a part once its turn has come.
bool RingStream::awaits_turn() const noexcept {
  return shared_send_.begin != shared_send_.end && put_ >= shared_send_.end && lender_.any();
}

bool RingStream::puts_off_send(std::uint32_t number, std::uint32_t length) noexcept {
  awaited_loans_ = 0;
  if (!lender_.any() || !may_share(access_of_send(number, length))) return false;
  const std::size_t loans = awaits_turn() ? shm::kLoanSlots : loans_of_send(length);
  if (lender_.room_next() < loans) awaited_loans_ = loans;
  return awaited_loans_ != 0;
}

// Only the last segment is lent, so all loans are contiguous; the others are in the first frame.
static_assert(kMaxBeforeShared <= shm::Lender::kMinLent);
RingStream::SharedFrames RingStream::share_send(std::uint32_t number,
                                                std::span<const iwarp::IoSpan> payload) noexcept {
  const auto total = [](std::span<const iwarp::IoSpan> segments) {
    return std::accumulate(segments.begin(), segments.end(), std::size_t{0},
                           [](std::size_t sum, const auto& segment) { return sum + segment.size; });
  };
  const iwarp::IoSpan& last = payload.back();
  const std::size_t before = total(payload.first(payload.size() - 1));
  const std::size_t length = before + last.size;
  const bool answered = std::exchange(read_before_send_, reader_.position()) != reader_.position();
  if (before >= kMaxBeforeShared) return {};
  if (length < kMinSharedInSeries && (!answered || lender_.any())) return {};
  shm::PeerMemory::Access access = access_of_send(number, last.size, before);
  if (awaits_turn() || !may_share(access)) return {};
  if (lender_.room_next() < loans_of_send(length)) return {};
  shared_ = access;
  access.right = kRemoteWrite;
  turn_ = peer_memory_.granted(access) ? 0 : put_;
  shared_from_ = static_cast<const std::byte*>(last.data);
  shared_send_ = {put_, put_};
  const SharedFrames frames = frames_of_send(length);
  shared_frame_ = frames.others;
  return frames;
}

// Half of the loans are for the peer, at least the first. Before its turn this side claims none.
void RingStream::share_until(std::uint64_t end) noexcept {
  shared_send_.end = end;
  const auto half = static_cast<std::uint32_t>((end - put_) / shared_frame_ / 2);
  left_to_peer_ = turn_has_come() ? std::max(half, 1U) : shm::kLoanSlots;
}

// Whether the loan that begins there is not left to the peer.
bool RingStream::claims(std::uint64_t from) noexcept {
  if (from >= shared_send_.end) return false;
  if (left_to_peer_ == 0) return true;
  --left_to_peer_;
  return false;
}

// Called when all of it has been handed over, and again when something was placed: before its turn,
// only the peer copies it.
void RingStream::assist_send() noexcept {
  if (!turn_has_come()) return;
  const shm::Lender::Part part = std::exchange(shared_send_, {put_, put_});
  if (!write_loans(part) && peer_memory_.granted(shared_)) shares_sends_ = false;
  if (lender_.any()) lender_.reclaim();
}

}  // namespace udapl::soft
