// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// IwarpLink: what arrives.
#include "providers/soft/iwarp_link.h"

#include "providers/soft/io/ring_stream.h"
#include "providers/soft/iwarp/wire.h"
#include "providers/soft/mr_table.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace udapl::soft {

namespace {

// The number of bytes that are delivered from the ring before their room is returned to the peer.
constexpr std::size_t kSlice = 32 * 1024;
// After more checks than this that find an incomplete frame unchanged, its front is staged.
constexpr int kPatientLooks = 64;
// The number of bytes that are read into staging before a segment is opened, and behind an opened
// segment. Payload among them is copied once more.
constexpr std::size_t kAroundOpened = 1024;
// The maximum that read_short() reads.
constexpr std::size_t kMaxReadShort = 2 * 1024;
// If lent bytes follow, a segment is opened when at least this many of its bytes are missing.
constexpr std::size_t kMinLentOpened = 1024;

// Reads the rest of an opened segment from the stream.
class StreamPayload final : public iwarp::Payload {
 public:
  // `behind`: room for the bytes after open_bytes().
  StreamPayload(ByteStream& stream, std::size_t open_bytes, std::span<std::byte> behind) noexcept
      : stream_(stream), open_bytes_(open_bytes), behind_(behind) {}
  std::size_t put(std::span<std::byte> room) noexcept override {
    if (room.size() < open_bytes_) behind_ = {};
    asked_ = room.size() + behind_.size();
    result_ = stream_.receive_both(room, behind_);
    if (result_.kind != IoResult::kDone) return 0;
    const std::size_t into_place = std::min(result_.bytes, room.size());
    staged_ = result_.bytes - into_place;
    return into_place;
  }
  [[nodiscard]] const IoResult& result() const noexcept { return result_; }
  [[nodiscard]] std::size_t staged() const noexcept { return staged_; }
  [[nodiscard]] bool was_filled() const noexcept {
    return result_.kind == IoResult::kDone && result_.bytes == asked_;
  }

 private:
  ByteStream& stream_;
  std::size_t open_bytes_;
  std::span<std::byte> behind_;
  std::size_t asked_ = 0;
  std::size_t staged_ = 0;
  IoResult result_;
};

}  // namespace

Link::Received IwarpLink::receive(iwarp::Inbound* inbound, std::size_t& work) noexcept {
  if (inbound != nullptr && staging_.staged().empty()) {
    const ByteStream::Input input = stream_->input();
    if (!input.bytes.empty()) {
      if (deliver_in_place(input, *inbound, work))  // look() reports anything else that is pending
        return input.lent_follows ? Received::kMore : Received::kNothing;
      if (!front_is_stuck(input.bytes.size())) return Received::kNothing;
    }
  }
  if (inbound != nullptr && receiver_.open_bytes() != 0 && staging_.staged().empty())
    return fill_opened(*inbound, work);
  // The size of the frame at the front. Without an inbound, the Receiver has not seen the staged
  // bytes and does not know it.
  const auto needed = [&] {
    const std::span<const std::byte> bytes = staging_.staged();
    if (inbound != nullptr || bytes.size() < iwarp::kFpduLengthSize) return receiver_.needed();
    return iwarp::fpdu_size(iwarp::load16(bytes.data()));
  };
  if (!staging_.reserve(needed())) return Received::kNoMemory;
  std::span<std::byte> room = staging_.room();
  // From a ring, reads only the rest of the frame that is cut off; later frames are read in place.
  if (in_place_ && inbound != nullptr && needed() > staging_.staged().size())
    room = room.first(std::min(room.size(), needed() - staging_.staged().size()));
  const bool ahead = inbound != nullptr && receiver_.expects_large();
  if (ahead) {
    const std::size_t rest = needed() - std::min(needed(), staging_.staged().size());
    room = room.first(std::min(room.size(), std::max(rest, kAroundOpened)));
  }
  if (broken_) [[unlikely]]
    return Received::kBroken;
  const IoResult result = stream_->receive(room);
  if (result.kind == IoResult::kBlocked) return Received::kNothing;
  if (result.kind == IoResult::kEnd) return end_of_stream();
  if (result.kind == IoResult::kBroken) {
    error_ = result.error;
    return Received::kBroken;
  }
  reads_short_ = staging_.staged().empty() && result.bytes < kMaxReadShort && rings_ == nullptr;
  staging_.filled(result.bytes);
  incoming_.bytes += result.bytes;
  if (inbound != nullptr) {
    deliver(*inbound, work);
  } else {
    note_incoming();
    incoming_.mid_frame = incoming_.staged < needed();
    if (!incoming_.mid_frame) return Received::kFirst;
    work -= std::min(work, result.bytes);
  }
  const bool filled = ahead ? result.bytes == room.size() : staging_.was_filled();
  return filled ? Received::kMore : Received::kNothing;
}

Link::Received IwarpLink::end_of_stream() noexcept {
  incoming_.torn = receiver_.mid_fpdu() && !stream_->ended_on_purpose();
  return Received::kEnd;
}

// Delivers messages from the ring, where the peer has written them.
Link::Quick IwarpLink::take_short(iwarp::Inbound& inbound) noexcept {
  if (!in_place_ || !staging_.staged().empty()) return Quick::kElse;
  const std::size_t used = receiver_.feed_plain(rings_->only_input(), inbound);
  if (used == 0) return Quick::kElse;
  rings_->drop(used, receiver_.placed());
  incoming_.bytes += used;
  incoming_.frames = receiver_.fpdus();
  if (receiver_.waits() || receiver_.state() != iwarp::Receiver::State::kOpen) [[unlikely]]
    note_state();
  return Quick::kDelivered;
}

// Reads into a small buffer on the stack. So a read that finds nothing, as most reads do while a
// program polls, costs little more than the system call. Requires memory for staging to be at hand
// (can_start()), because bytes that were read must not be lost.
Link::Quick IwarpLink::read_short(iwarp::Inbound& inbound) noexcept {
  if (!reads_short_ || !staging_.staged().empty() || receiver_.opened() || !staging_.can_start())
    return Quick::kElse;
  std::array<std::byte, kMaxReadShort> room;
  const IoResult result = stream_->receive(room);
  if (result.kind == IoResult::kBlocked) [[likely]]
    return Quick::kNothing;
  if (result.kind == IoResult::kEnd) return Quick::kElse;  // receive() finds it again
  if (result.kind == IoResult::kBroken) return break_at_read(result.error);
  reads_short_ = result.bytes != room.size();
  incoming_.bytes += result.bytes;
  std::span<const std::byte> bytes(room.data(), result.bytes);
  bytes = bytes.subspan(receiver_.feed_plain(bytes, inbound));
  incoming_.frames = receiver_.fpdus();
  if (receiver_.waits() || receiver_.state() != iwarp::Receiver::State::kOpen) [[unlikely]]
    note_state();
  if (bytes.empty()) [[likely]]
    return reads_short_ ? Quick::kDelivered : Quick::kRead;
  if (!staging_.reserve(bytes.size())) return break_at_read(ENOMEM);
  std::memcpy(staging_.room().data(), bytes.data(), bytes.size());
  staging_.filled(bytes.size());
  return Quick::kRead;
}

Link::Quick IwarpLink::break_at_read(int error) noexcept {
  error_ = error;
  broken_ = true;
  return Quick::kElse;
}

// Reads the next bytes of an opened segment straight into their destination.
Link::Received IwarpLink::fill_opened(iwarp::Inbound& inbound, std::size_t& work) noexcept {
  if (!staging_.reserve(kAroundOpened)) return Received::kNoMemory;
  const std::span<std::byte> behind = staging_.room().first(kAroundOpened);
  StreamPayload payload(*stream_, receiver_.open_bytes(), behind);
  receiver_.fill(inbound, payload);
  const IoResult& result = payload.result();
  if (result.kind == IoResult::kEnd) return end_of_stream();
  if (result.kind == IoResult::kBroken) {
    error_ = result.error;
    return Received::kBroken;
  }
  incoming_.bytes += result.bytes;
  work -= std::min(work, result.bytes);
  if (payload.staged() != 0) staging_.filled(payload.staged());
  deliver(inbound, work);
  if (in_place_ && result.kind == IoResult::kDone) return Received::kMore;
  return payload.was_filled() || (result.bytes == 0 && receiver_.open_bytes() == 0)
             ? Received::kMore
             : Received::kNothing;
}

// Delivers in slices, and returns the room of each to the peer. Returns true if anything was
// delivered.
bool IwarpLink::deliver_in_place(ByteStream::Input input, iwarp::Inbound& inbound,
                                 std::size_t& work) noexcept {
  in_place_ = true;
  receiver_.set_in_place(input.lent_follows ? kMinLentOpened : 0);
  bool any = false;
  while (work != 0 && !input.bytes.empty()) {
    std::size_t left = std::min(work, kSlice);
    work -= left;
    const std::size_t used = receiver_.feed(input.bytes, inbound, left);
    work += left;
    if (used == 0) break;
    any = true;
    stream_->drop(used, receiver_.placed());
    input.bytes = input.bytes.subspan(used);
    incoming_.bytes += used;
  }
  note_incoming();
  return any;
}

// Called when only the front of a frame is available, usually because the peer is about to write
// the rest. Returns true if the front must be staged: because the rest takes too long, the ring
// wraps within the frame, or the peer waits for room.
bool IwarpLink::front_is_stuck(std::size_t bytes) noexcept {
  if (receiver_.stalled()) return false;
  if (bytes != cut_bytes_) {
    cut_bytes_ = bytes;
    cut_looks_ = 0;
  }
  return ++cut_looks_ > kPatientLooks || stream_->cut();
}

void IwarpLink::deliver(iwarp::Inbound& inbound, std::size_t& work) noexcept {
  staging_.drop(receiver_.feed(staging_.staged(), inbound, work));
  note_incoming();
}

bool IwarpLink::release(iwarp::Inbound& inbound) noexcept {
  const bool moved = receiver_.release(inbound);
  note_incoming();
  return moved;
}

void IwarpLink::refuse_held() noexcept {
  receiver_.refuse_held();
  note_incoming();
}

void IwarpLink::drop_held() noexcept {
  receiver_.drop_held();
  note_incoming();
}

void IwarpLink::offer_receive(MrTable& memory, const Offer& offer, std::uint64_t qp) noexcept {
  if (direct_access_ == nullptr || !direct_access_->peer_reaches() || receiver_.waits()) return;
  shm::Grants* const grants = direct_access_->grants(memory);
  if (grants == nullptr) return;
  memory.offer({offer.memory, offer.before, receiver_.next_send() + offer.ahead, offer.at_once, qp},
               *grants);
}

void IwarpLink::end_offers(MrTable& memory) noexcept {
  shm::Grants* const grants = direct_access_ != nullptr ? direct_access_->grants(memory) : nullptr;
  if (grants != nullptr) memory.end_offers(*grants);
}

void IwarpLink::note_incoming() noexcept {
  note_state();
  stream_->placed(receiver_.placed());
}

void IwarpLink::note_state() noexcept {
  Incoming& in = incoming_;
  in.waits = receiver_.waits();
  in.full = receiver_.stalled();
  in.failed = receiver_.state() == iwarp::Receiver::State::kFailed;
  in.failed_in_answer = receiver_.failed_in_answer();
  in.staged = staging_.staged().size();
  in.mid_frame = (in.staged != 0 || receiver_.opened()) && in.staged < receiver_.needed();
  in.frames = receiver_.fpdus();
}

}  // namespace udapl::soft
