// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/iwarp_link.h"

#include "common/copy_bytes.h"
#include "common/tracing/trace.h"
#include "providers/soft/io/ring_stream.h"
#include "providers/soft/iwarp/wire.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace udapl::soft {

namespace {

// The number of bytes that are delivered in place before their room is returned to the peer.
constexpr std::size_t kSlice = 32 * 1024;
// The number of checks that may find an incomplete frame unchanged before its front is staged.
constexpr int kPatientLooks = 64;
// The number of bytes that are read ahead before a frame is opened, and behind an opened segment.
// Payload among them is copied once more.
constexpr std::size_t kAroundOpened = 1024;
// Pad and CRC of a frame are in its last bytes.
constexpr std::size_t kTrailer = 8;
static_assert(kTrailer > 3 + iwarp::kCrcSize);
// Longer RDMA Writes may be faster without the peer (DirectAccess).
constexpr std::size_t kMaxShortWrite = 2 * 1024 - 1;
// If the bytes that follow are lent, a segment is opened if at least this much of it is missing.
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

IwarpLink::IwarpLink(const iwarp::Agreed& agreed, StagingPool& staging, const void* owner)
    : sender_(iwarp::SenderConfig{
          .crc = agreed.crc, .markers = agreed.markers_to_send, .owner = owner}),
      batch_(0, 0),
      frame_end_(agreed.markers_to_send),
      receiver_(agreed.crc, owner, &staging),
      staging_(staging) {}

void IwarpLink::start(std::unique_ptr<ByteStream> stream) noexcept {
  stream_ = std::move(stream);
  sender_.set_emss(stream_->effective_mss());
  if (stream_->receives_in_place()) receiver_.set_in_place();
  if (!sender_.checksums()) sender_.copy_below(stream_->copied_first());
  confirmations_ = stream_->confirmations();
  direct_access_ = stream_->direct_access();
  rings_ = stream_->rings();
  in_frames_ = stream_->most_frame() != 0 && sender_.builds_plainly();
  if (in_frames_) {
    most_short_send_ = stream_->most_frame();
    most_short_write_ = std::min(most_short_send_, kMaxShortWrite);
  } else if (sender_.adds_short()) {
    most_short_send_ = most_short_write_ = iwarp::Sender::kCopyLimit;
  }
}

// A FIN after an incomplete FPDU would look like an accident, so that one is completed first.
bool IwarpLink::prepare_end() noexcept {
  const std::size_t size = stream_->ends_anywhere() ? 0 : frame_end_.missing(batch_);
  if (size == 0) return true;
  rest_.bytes.reset(new (std::nothrow) std::byte[size]);
  if (rest_.bytes == nullptr) return false;
  for (const iwarp::IoSpan& span : batch_.spans()) {
    const std::size_t part = std::min(span.size, size - rest_.size);
    std::memcpy(rest_.bytes.get() + rest_.size, span.data, part);
    rest_.size += part;
    if (rest_.size == size) break;
  }
  return true;
}

void IwarpLink::close(Close how) noexcept {
  if (how == Close::kGently) return ByteStream::end_gently(std::move(stream_), std::move(rest_));
  stream_->abort_on_close();
  stream_.reset();
}

bool IwarpLink::answer(std::span<const std::byte> reply) noexcept {
  const IoResult sent = stream_->answer(reply);
  return sent.kind == IoResult::kDone && sent.bytes == reply.size();
}

// ---- outgoing -----------------------------------------------------------------------------------

// The Terminate is sent after the FPDUs that are already in the batch.
void IwarpLink::begin_terminate(const iwarp::Terminate& reason) noexcept {
  if (sender_.busy()) sender_.abandon();
  sender_.begin_terminate(reason);
}

bool IwarpLink::send_short(const Short& message) noexcept {
  if (sender_.busy() || udapl::trace::enabled(udapl::trace::kDetail)) return false;
  if (in_frames_) return put_short(message);
  if (!sender_.add_short(batch_, {message.opcode, message.stag, message.to}, message.payload))
    return false;
  built_ = batch_.appended();
  return true;
}

// Puts the message into the stream without the batch. The smallest ones are put as one piece, which
// the peer may receive with a single cache line.
bool IwarpLink::put_short(const Short& message) noexcept {
  constexpr std::size_t kMaxInOne = iwarp::Sender::kCopyLimit;
  constexpr std::array<std::byte, 8> kZeros{};
  static_assert(kZeros.size() > 3 + iwarp::kCrcSize);
  const std::span<const std::byte> payload = message.payload;
  const std::size_t length = payload.size();
  if (!stream_->takes_frame(iwarp::fpdu_size(iwarp::kUntaggedHeaderSize + length),
                            message.opcode == iwarp::Opcode::kWrite))
    return false;
  std::array<std::byte,
             iwarp::kFpduLengthSize + iwarp::kUntaggedHeaderSize + kMaxInOne + kZeros.size()>
      frame;
  std::byte* const front_end = sender_.write_short_front(
      frame.data(), {message.opcode, message.stag, message.to}, static_cast<std::uint32_t>(length));
  const auto front = static_cast<std::size_t>(front_end - frame.data());
  const std::size_t size = iwarp::fpdu_size(front - iwarp::kFpduLengthSize + length);
  if (length <= kMaxInOne) {
    std::memcpy(front_end, payload.data(), length);
    std::memcpy(front_end + length, kZeros.data(), kZeros.size());
    stream_->put_frame({frame.data(), size}, {}, {});
  } else {
    stream_->put_frame({frame.data(), front}, payload, {kZeros.data(), size - front - length});
  }
  batch_.skip(size);
  built_ = sent_ = batch_.sent();
  return true;
}

Link::Flushed IwarpLink::flush_short() noexcept {
  if (!in_frames_) return flush();
  stream_->show_frames();
  return Flushed::kDone;
}

// Builds the frame where the peer will read it. Longer ones than the peer reads beside the index
// are there sooner if they are copied into the ring (docs/adr/0072).
bool IwarpLink::send_at_once(const Short& message) noexcept {
  const std::size_t length = message.payload.size();
  const bool write = message.opcode == iwarp::Opcode::kWrite;
  const std::size_t header = write ? iwarp::kTaggedHeaderSize : iwarp::kUntaggedHeaderSize;
  const std::size_t size = iwarp::fpdu_size(header + length);
  if (size > shm::kMaxLatest || rings_ == nullptr || !in_frames_ || !all_sent() || sender_.busy() ||
      udapl::trace::enabled(udapl::trace::kDetail)) [[unlikely]]
    return false;
  std::byte* const frame = rings_->frame_room(size, write);
  if (frame == nullptr) [[unlikely]]
    return false;
  // The last 8 bytes contain pad and CRC, which are zero, and maybe some of what precedes them.
  std::memset(frame + size - kTrailer, 0, kTrailer);
  std::byte* const front_end = sender_.write_short_front(
      frame, {message.opcode, message.stag, message.to}, static_cast<std::uint32_t>(length));
  copy_bytes(front_end, message.payload.data(), length);
  rings_->send_frame(size);
  batch_.skip(size);
  built_ = sent_ = batch_.sent();
  return true;
}

bool IwarpLink::build(std::size_t limit) noexcept {
  if (!sender_.busy()) return true;  // a Terminate that is complete, called again
  const bool done = sender_.fill(batch_, limit) == iwarp::Sender::Fill::kDone;
  built_ = batch_.appended();
  refers_ = batch_.refers();
  return done;
}

Link::Flushed IwarpLink::flush() noexcept {
  const IoResult result = stream_->send(batch_.spans(), batch_.kept());
  if (result.kind == IoResult::kBroken) {
    const bool ended =
        result.error == EPIPE || result.error == ECONNRESET || result.error == ETIMEDOUT;
    return ended ? Flushed::kNoReader : Flushed::kBroken;
  }
  count_sent(result);
  if (result.kind == IoResult::kEnd) return Flushed::kNoReader;
  return result.kind == IoResult::kDone ? Flushed::kDone : Flushed::kBlocked;
}

void IwarpLink::count_sent(const IoResult& result) noexcept {
  if (result.bytes != 0 && result.bytes != batch_.pending_bytes() && !stream_->ends_anywhere())
    frame_end_.advance(batch_, result.bytes);
  batch_.consume(result.bytes);
  sent_ = batch_.sent();
  lent_ = result.lent;
  refers_ = batch_.refers();
}

// ---- waiting ------------------------------------------------------------------------------------

void IwarpLink::wait_for(unsigned what) noexcept {
  std::uint32_t events = 0;
  if ((what & kRoom) != 0) events |= EPOLLOUT;
  if ((what & kInput) != 0) events |= EPOLLIN;
  if ((what & kPeerEnd) != 0) events |= EPOLLRDHUP;
  stream_->set_events(events);
}

unsigned IwarpLink::ready(std::uint32_t events) noexcept { return meaning(stream_->ready(events)); }

unsigned IwarpLink::look() noexcept { return meaning(stream_->look()); }

unsigned IwarpLink::meaning(std::uint32_t events) noexcept {
  unsigned what = 0;
  if ((events & EPOLLOUT) != 0) what |= kRoom;
  if ((events & ~(EPOLLOUT | ByteStream::kPlaced)) != 0) what |= kInput;
  if ((events & ByteStream::kPlaced) != 0) what |= kPlaced;
  if ((events & EPOLLRDHUP) != 0) what |= kPeerEnd;
  if ((events & (EPOLLHUP | EPOLLERR)) != 0) what |= kBroken;
  return what;
}

// ---- incoming -----------------------------------------------------------------------------------

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
  // If the Receiver has not seen the staged bytes, it does not know how many are needed.
  const auto needed = [&] {
    const std::span<const std::byte> bytes = staging_.staged();
    if (inbound != nullptr || bytes.size() < iwarp::kFpduLengthSize) return receiver_.needed();
    return iwarp::fpdu_size(iwarp::load16(bytes.data()));
  };
  if (!staging_.reserve(needed())) return Received::kNoMemory;
  std::span<std::byte> room = staging_.room();
  // Read only the frame that is not contiguous in the ring.
  if (in_place_ && inbound != nullptr && needed() > staging_.staged().size())
    room = room.first(std::min(room.size(), needed() - staging_.staged().size()));
  const bool ahead = inbound != nullptr && receiver_.expects_large();
  if (ahead) {
    const std::size_t rest = needed() - std::min(needed(), staging_.staged().size());
    room = room.first(std::min(room.size(), std::max(rest, kAroundOpened)));
  }
  const IoResult result = stream_->receive(room);
  if (result.kind == IoResult::kBlocked) return Received::kNothing;
  if (result.kind == IoResult::kEnd) return end_of_stream();
  if (result.kind == IoResult::kBroken) {
    error_ = result.error;
    return Received::kBroken;
  }
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

// Delivers the messages in place, from where the peer has written them.
bool IwarpLink::receive_short(iwarp::Inbound& inbound) noexcept {
  if (rings_ == nullptr || !in_place_ || !staging_.staged().empty()) return false;
  const std::size_t used = receiver_.feed_plain(rings_->only_input(), inbound);
  if (used == 0) return false;
  rings_->drop(used, receiver_.placed());
  incoming_.bytes += used;
  incoming_.frames = receiver_.fpdus();
  if (receiver_.waits() || receiver_.state() != iwarp::Receiver::State::kOpen) [[unlikely]]
    note_state();
  return true;
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

// Delivers in slices, after each of which the peer has room for more. Returns true if anything was
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
// the rest. Returns true if that takes too long, or if the ring wraps there or the peer waits for
// room: then the front must be staged.
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
