// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// IwarpLink: set-up, and what is sent.
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

// The last bytes of a frame, which contain its pad and CRC.
constexpr std::size_t kTrailer = 8;
static_assert(kTrailer > 3 + iwarp::kCrcSize);
// A longer RDMA Write may take less time without the peer (DirectAccess).
constexpr std::size_t kMaxShortWrite = 2 * 1024 - 1;

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

// The peer would take a FIN within an FPDU for a broken connection. So keeps the rest of an FPDU
// that is partly sent.
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
  shares_ = false;
  emss_behind_ = 0;
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

// Puts the message into the stream without the batch. A very short message is put in one piece, so
// that the peer may get it with a single cache line.
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

// Builds the frame in the ring, if it is short enough to be published beside the index as well. A
// longer frame reaches the peer sooner if it is built elsewhere and copied into the ring
// (docs/adr/0072).
bool IwarpLink::send_at_once(const Short& message) noexcept {
  const std::size_t length = message.payload.size();
  const bool write = message.opcode == iwarp::Opcode::kWrite;
  const std::size_t header = write ? iwarp::kTaggedHeaderSize : iwarp::kUntaggedHeaderSize;
  const std::size_t size = iwarp::fpdu_size(header + length);
  if (!all_sent() || sender_.busy() || udapl::trace::enabled(udapl::trace::kDetail)) [[unlikely]]
    return false;
  if (rings_ == nullptr) return send_copy(message);
  if (size > shm::kMaxLatest || !in_frames_) return false;
  std::byte* const frame = rings_->frame_room(size, write);
  if (frame == nullptr) [[unlikely]]
    return false;
  // Pad and CRC are zero. The bytes before them within the last 8 are overwritten below.
  std::memset(frame + size - kTrailer, 0, kTrailer);
  std::byte* const front_end = sender_.write_short_front(
      frame, {message.opcode, message.stag, message.to}, static_cast<std::uint32_t>(length));
  copy_bytes(front_end, message.payload.data(), length);
  rings_->send_frame(size);
  batch_.skip(size);
  built_ = sent_ = batch_.sent();
  return true;
}

// Bytes that the stream does not accept stay in the batch.
bool IwarpLink::send_copy(const Short& message) noexcept {
  if (!sender_.adds_short() ||
      !sender_.add_short(batch_, {message.opcode, message.stag, message.to}, message.payload))
    return false;
  built_ = batch_.appended();
  count_sent(stream_->send(batch_.spans(), 0));
  return true;
}

// Prepares a Send of which both sides may copy a part: chooses its frames. build() then builds it
// in large parts.
void IwarpLink::share_send(Payload payload) noexcept {
  if (!all_handed()) return;
  const RingStream::SharedFrames frames = rings_->share_send(sender_.next_send(), payload);
  if (frames.first == 0) return;
  const auto emss = [](std::size_t bytes) {
    return static_cast<std::uint32_t>(iwarp::fpdu_size(iwarp::kUntaggedHeaderSize + bytes));
  };
  sender_.set_emss(emss(frames.first));
  emss_behind_ = emss(frames.others);
  shares_ = true;
}

bool IwarpLink::build(std::size_t limit) noexcept {
  if (!sender_.busy()) return true;  // called again for a Terminate that is already built
  if (shares_) {
    limit = std::max(limit, RingStream::kSharedAtOnce);
    if (emss_behind_ != 0) {
      static_cast<void>(sender_.fill(batch_, 1));
      sender_.set_emss(std::exchange(emss_behind_, 0));
    }
  }
  if (sender_.checksums() && rings_ == nullptr && limit > piece_) limit = piece_;
  const bool done = sender_.fill(batch_, limit) == iwarp::Sender::Fill::kDone;
  if (!done) piece_ += kMorePiece;
  built_ = batch_.appended();
  refers_ = batch_.refers();
  if (shares_) rings_->share_until(built_);
  if (done) shares_ = false;
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

}  // namespace udapl::soft
