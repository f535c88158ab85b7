// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/prefetch.h"
#include "providers/soft/io/byte_stream.h"
#include "providers/soft/io/ring_stream.h"
#include "providers/soft/iwarp/frame_end.h"
#include "providers/soft/iwarp/mpa_negotiation.h"
#include "providers/soft/iwarp/receiver.h"
#include "providers/soft/iwarp/sender.h"
#include "providers/soft/link.h"
#include "providers/soft/staging.h"

#include <memory>
#include <utility>

namespace udapl::soft {

// The iWARP stream: a link over a stream of bytes.
class IwarpLink final : public Link {
 public:
  // Allocates what a connection needs. `owner`: the object named by traces. Throws std::bad_alloc.
  IwarpLink(const iwarp::Agreed& agreed, StagingPool& staging, const void* owner);
  // Takes the stream. Must be called before all other functions.
  void start(std::unique_ptr<ByteStream> stream) noexcept;

  // Returns the stream of a link that the Connection has refused; only the destructor may follow.
  [[nodiscard]] std::unique_ptr<ByteStream> release_stream() noexcept { return std::move(stream_); }

  // ---- Link -------------------------------------------------------------------------------------
  Status watch(Handler& handler) noexcept override { return stream_->watch(0, handler); }
  [[nodiscard]] transport::Endpoints endpoints() const noexcept override {
    return stream_->endpoints();
  }
  [[nodiscard]] bool answer(std::span<const std::byte> reply) noexcept override;
  void finish_output() noexcept override { stream_->shutdown_write(); }
  [[nodiscard]] bool prepare_end() noexcept override;
  void close(Close how) noexcept override;

  void begin_write(std::uint32_t stag, std::uint64_t to, Payload payload,
                   std::uint32_t length) noexcept override {
    choose_frames(length, true);
    if (rings_ != nullptr) rings_->note_write();
    sender_.begin_write(stag, to, payload, length);
  }
  void begin_send(iwarp::Opcode opcode, std::uint32_t invalidate_stag, Payload payload,
                  std::uint32_t length) noexcept override {
    choose_frames(length, true);
    if (length >= kMinSharedSend && rings_ != nullptr) share_send(payload);
    sender_.begin_send(opcode, invalidate_stag, payload, length);
  }
  [[nodiscard]] bool puts_off_send(std::uint32_t length) noexcept override {
    return length >= kMinSharedInSeries && rings_ != nullptr &&
           rings_->puts_off_send(sender_.next_send(), length);
  }
  void begin_immediate(const iwarp::ImmediateBytes& data, bool solicited) noexcept override {
    sender_.begin_immediate(data, solicited);
  }
  void begin_read_request(const iwarp::ReadRequest& request) noexcept override {
    sender_.begin_read_request(request);
  }
  void begin_atomic_request(const iwarp::AtomicRequest& request) noexcept override {
    sender_.begin_atomic_request(request);
  }
  void begin_read_response(std::uint32_t stag, std::uint64_t to, Payload payload,
                           std::uint32_t length) noexcept override {
    choose_frames(length, false);
    if (rings_ != nullptr) rings_->note_write();
    sender_.begin_read_response(stag, to, payload, length);
  }
  void begin_atomic_response(const iwarp::AtomicResponse& response) noexcept override {
    sender_.begin_atomic_response(response);
  }
  [[nodiscard]] std::uint32_t next_send() const noexcept override { return sender_.next_send(); }
  void begin_terminate(const iwarp::Terminate& reason) noexcept override;

  [[nodiscard]] bool send_short(const Short& message) noexcept override;
  Flushed flush_short() noexcept override;
  [[nodiscard]] bool send_at_once(const Short& message) noexcept override;
  bool build(std::size_t limit) noexcept override;
  Flushed flush() noexcept override;
  void end_pass() noexcept override {
    batch_.shrink();
    if (all_sent() && !sender_.busy()) piece_ = kFirstPiece;
  }
  void collect_returned() noexcept override { count_sent(stream_->collect_returned()); }
  void recall(Close how) noexcept override {
    collect_returned();
    if (how == Close::kReset) stream_->abort_on_close();
    stream_->recall();
  }
  [[nodiscard]] std::size_t unacknowledged() const noexcept override {
    return stream_->unacknowledged();
  }
  [[nodiscard]] std::size_t undelivered() const noexcept override { return stream_->undelivered(); }

  [[nodiscard]] unsigned ready(std::uint32_t events) noexcept override;
  [[nodiscard]] unsigned look() noexcept override;
  [[nodiscard]] bool rest() noexcept override { return stream_->rest(); }
  void prepare() const noexcept override {
    prefetch_bytes(this, sizeof *this);
    if (rings_ != nullptr) return rings_->prepare();
    prefetch_bytes(stream_.get(), sizeof(TcpStream));
    batch_.prepare();
  }

  Received receive(iwarp::Inbound* inbound, std::size_t& work) noexcept override;
  [[nodiscard]] Quick receive_short(iwarp::Inbound& inbound) noexcept override {
    return rings_ != nullptr ? take_short(inbound) : read_short(inbound);
  }
  void deliver(iwarp::Inbound& inbound, std::size_t& work) noexcept override;
  void end_receive_pass() noexcept override {
    staging_.end_pass(receiver_.needed(), receiver_.stalled());
    incoming_.buffer = staging_.capacity();
  }
  bool release(iwarp::Inbound& inbound) noexcept override;
  void refuse_held() noexcept override;
  void drop_held() noexcept override;
  void offer_receive(MrTable& memory, const Offer& offer, std::uint64_t qp) noexcept override;
  void end_offers(MrTable& memory) noexcept override;
  void fail(const iwarp::Terminate& reason) noexcept override { receiver_.fail(reason); }
  [[nodiscard]] const iwarp::Terminate& failure() const noexcept override {
    return receiver_.failure();
  }

 private:
  // Sets the frame size for a message of `length` bytes.
  void choose_frames(std::uint32_t length, bool may_lend) noexcept {
    if (length > kMinChosen)
      sender_.set_emss(may_lend ? stream_->lent_mss() : stream_->effective_mss());
  }
  void share_send(Payload payload) noexcept;
  void count_sent(const IoResult& result) noexcept;
  [[nodiscard]] Received end_of_stream() noexcept;
  [[nodiscard]] bool put_short(const Short& message) noexcept;
  [[nodiscard]] bool send_copy(const Short& message) noexcept;
  [[nodiscard]] Quick take_short(iwarp::Inbound& inbound) noexcept;
  [[nodiscard]] Quick read_short(iwarp::Inbound& inbound) noexcept;
  [[nodiscard]] Quick break_at_read(int error) noexcept;
  void wait_for(unsigned what) noexcept override;
  [[nodiscard]] static unsigned meaning(std::uint32_t events) noexcept;
  void note_incoming() noexcept;
  void note_state() noexcept;
  Received fill_opened(iwarp::Inbound& inbound, std::size_t& work) noexcept;
  bool deliver_in_place(ByteStream::Input input, iwarp::Inbound& inbound,
                        std::size_t& work) noexcept;
  [[nodiscard]] bool front_is_stuck(std::size_t bytes) noexcept;

  static constexpr std::uint32_t kMinChosen = 16 * 1024;
  // With a CRC, only about this much of a message is built after a pause before it is sent, so that
  // the peer can begin early. Each further piece is longer by kMorePiece, because fewer calls cost
  // less.
  static constexpr std::size_t kFirstPiece = 32 * 1024;
  static constexpr std::size_t kMorePiece = 64 * 1024;

  std::unique_ptr<ByteStream> stream_;
  iwarp::Sender sender_;
  // Has the minimum size at first, because there may be many idle connections. Grows when needed.
  iwarp::TxBatch batch_;
  iwarp::FrameEnd frame_end_;
  KeptBytes rest_;  // the rest of the last frame, see prepare_end()
  iwarp::Receiver receiver_;
  Staging staging_;
  RingStream* rings_ = nullptr;      // stream_, if it is a RingStream
  bool shares_ = false;              // the message being built is a shared Send
  std::uint32_t emss_behind_ = 0;    // its EMSS after the first frame; 0 once that frame is built
  std::size_t piece_ = kFirstPiece;  // the size of the next piece
  bool in_frames_ = false;           // short messages are put into the stream without the batch
  bool in_place_ = false;      // the stream has input(); stages only frames that are cut off there
  std::size_t cut_bytes_ = 0;  // size of the incomplete frame at the last check
  int cut_looks_ = 0;          // checks since that size changed
  bool reads_short_ = false;   // the last read was short, and not the rest of a frame
  bool broken_ = false;        // read_short() has found the stream broken: receive() reports it
};

}  // namespace udapl::soft
