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

// kFrame: the maximum payload of a frame that is lent; a frame in the middle of a message ends at a
// cache line. kMaxFrames: the maximum number of such frames for one RDMA Write.
constexpr std::size_t kLine = 64;
constexpr std::uint32_t kFrame =
    (iwarp::kMaxSentUlpdu - iwarp::kUntaggedHeaderSize) / kLine * kLine;
constexpr std::uint32_t kMaxFrames = 14;
// The number of bytes at the end of a Write that go through the ring.
constexpr std::uint32_t kLastPart = 1024;
// The number of bytes that are copied first, to learn whether the kernel can reach the memory.
constexpr std::uint32_t kFirstPart = 4096;
// How long this side waits for the peer to finish. The peer needs less for the piece that it has
// begun and for the end of the message.
constexpr auto kSettles = std::chrono::microseconds(30);

// The number of frames that are the peer's part: less than half of the bytes, because the peer also
// has to process the frames.
constexpr std::uint32_t frames_of(std::uint32_t length) noexcept {
  constexpr std::uint32_t kPercent = 43;
  return std::min(length / 100 * kPercent / kFrame, kMaxFrames);
}

// The first frame is always the peer's part; it is smaller than half, because the peer begins
// later. The other frames have about the same size, so that the last one is long enough to be lent.
RingStream::SharedFrames frames_of_send(std::size_t length) noexcept {
  const std::size_t first = std::min<std::size_t>(length * 2 / 5, kFrame) / kLine * kLine;
  const std::size_t rest = length - first;
  const std::size_t frames = (rest + kFrame - 1) / kFrame;
  return {first, (rest / frames + kLine - 1) / kLine * kLine};
}

// The number of loans in the part of the Send that is handed over at once.
std::size_t loans_of_send(std::size_t length) noexcept {
  const RingStream::SharedFrames frames = frames_of_send(length);
  const std::size_t rest = std::min(length, RingStream::kSharedAtOnce) - frames.first;
  return 1 + (rest + frames.others - 1) / frames.others;
}

// `before`: the number of bytes of the message before the `length` bytes.
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

// Decides whether both sides copy parts of the Write: they do if the peer is awake and a grant
// permits the access. If so, sets share_.
bool RingStream::shares(const shm::PeerMemory::Access& access,
                        std::span<const iwarp::IoSpan> local) noexcept {
  lender_.passed(access.length);  // lending may be held back since loans were called in
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

// Returns true also if the peer has withdrawn the grant: it then refuses the rest of the message
// anyway.
bool RingStream::assist() noexcept {
  const Share share = std::exchange(share_, {});
  if (!write_shared({shared_from_ + kFirstPart, share.first - kFirstPart}))
    return !peer_memory_.granted(shared_);
  static_cast<void>(write_loans({0, put_}));
  return true;
}

// Writes the loans that the peer has not taken. Leaves out the end of the message, which the peer
// places, so that it becomes visible last. Returns false if the kernel refused a copy.
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

// Waits briefly until the peer has placed the Write: then the next one can be shared or copied
// directly.
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

// An earlier RDMA Write that is not placed yet could be for the same memory, so the Send is not
// shared then. Whether an earlier Send could be is a matter of the offer's rights.
bool RingStream::may_share(const shm::PeerMemory::Access& access) noexcept {
  if (wrote_ && writer_.delivered() != put_) return false;
  wrote_ = false;
  return direct_ && shares_sends_ && may_lend() && lender_.worthwhile() &&
         peer_memory_.suits(access, false) && peer_memory_.granted(access);
}

// Whether a shared Send has been handed over, and this side is yet to write its part of it.
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

// Only the last segment is lent, so all loans are contiguous. The other segments are part of the
// first frame, and too short to be lent.
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

// Leaves the first half of the loans to the peer, and at least the first one. Claims no loan before
// this side's turn.
void RingStream::share_until(std::uint64_t end) noexcept {
  shared_send_.end = end;
  const auto half = static_cast<std::uint32_t>((end - put_) / shared_frame_ / 2);
  left_to_peer_ = turn_has_come() ? std::max(half, 1U) : shm::kLoanSlots;
}

// Whether this side claims the next loan, which begins at `from` of the stream.
bool RingStream::claims(std::uint64_t from) noexcept {
  if (from >= shared_send_.end) return false;
  if (left_to_peer_ == 0) return true;
  --left_to_peer_;
  return false;
}

// Writes this side's part of the shared Send if its turn has come; until then only the peer copies
// it. Called when the Send has been handed over, and by every later send().
void RingStream::assist_send() noexcept {
  if (!turn_has_come()) return;
  const shm::Lender::Part part = std::exchange(shared_send_, {put_, put_});
  if (!write_loans(part) && peer_memory_.granted(shared_)) shares_sends_ = false;
  if (lender_.any()) lender_.reclaim();
}

}  // namespace udapl::soft
