// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/soft/io/bell.h"
#include "providers/soft/io/byte_stream.h"
#include "providers/soft/io/confirmation_habit.h"
#include "providers/soft/io/idle_pages.h"
#include "providers/soft/io/sharing_habit.h"
#include "providers/soft/io/tcp_stream.h"
#include "providers/soft/shm/rings.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace udapl::soft {

// The stream to a peer on this host: rings in shared memory. The TCP connection over which the
// rings were agreed stays open and idle, and provides the addresses.
//
// The handler is a poller of the reactor: while it is awake, it checks the rings; before it rests,
// it asks the peer to ring the bell.
class RingStream final : public ByteStream, private Confirmations, private DirectAccess {
 public:
  // Takes ownership of `tcp` and `rings`. `direct`: each side may access the other's memory
  // directly.
  RingStream(std::unique_ptr<TcpStream> tcp, shm::Rings rings, bool direct) noexcept;
  ~RingStream() override;

  // Undoes the constructor. No other function may have been called before; only the destructor may
  // follow.
  [[nodiscard]] std::unique_ptr<TcpStream> take_apart(shm::Rings& rings) noexcept;

  // ---- ByteStream -------------------------------------------------------------------------------
  Status watch(std::uint32_t events, Handler& handler) noexcept override;
  void set_events(std::uint32_t events) noexcept override;
  [[nodiscard]] std::uint32_t ready(std::uint32_t reported) noexcept override;
  [[nodiscard]] std::uint32_t look() noexcept override;
  [[nodiscard]] bool rest() noexcept override;
  IoResult send(std::span<const iwarp::IoSpan> spans, std::size_t kept) noexcept override;
  [[nodiscard]] std::size_t most_frame() const noexcept override;
  [[nodiscard]] bool takes_frame(std::size_t bytes, bool write) noexcept override;
  void put_frame(std::span<const std::byte> front, std::span<const std::byte> payload,
                 std::span<const std::byte> trailer) noexcept override;
  void show_frames() noexcept override;
  IoResult collect_returned() noexcept override;
  void recall() noexcept override;
  IoResult receive(std::span<std::byte> room) noexcept override;
  IoResult receive_both(std::span<std::byte> room, std::span<std::byte> behind) noexcept override;
  [[nodiscard]] Input input() noexcept override;
  void drop(std::size_t bytes, std::uint64_t placed) noexcept override;
  [[nodiscard]] bool cut() const noexcept override {
    return peer_gone_ || lent_follows_ || reader_.cut();
  }
  void placed(std::uint64_t position) noexcept override {
    writer_.acknowledge(position);
    if (reader_.delivered(position)) bell_.ring();
  }
  [[nodiscard]] RingStream* rings() noexcept override { return this; }
  [[nodiscard]] Confirmations* confirmations() noexcept override { return this; }
  [[nodiscard]] DirectAccess* direct_access() noexcept override { return direct_ ? this : nullptr; }
  IoResult answer(std::span<const std::byte> reply) noexcept override;
  void shutdown_write() noexcept override { finish(shm::RingEnd::kFinished); }
  void abort_on_close() noexcept override { aborts_ = true; }
  [[nodiscard]] bool ends_anywhere() const noexcept override { return true; }
  [[nodiscard]] bool ended_on_purpose() const noexcept override;
  [[nodiscard]] std::uint32_t effective_mss() const noexcept override;
  [[nodiscard]] std::uint32_t lent_mss() const noexcept override;
  [[nodiscard]] std::size_t unacknowledged() noexcept override { return writer_.unread(); }
  [[nodiscard]] const transport::Endpoints& endpoints() const noexcept override {
    return tcp_->endpoints();
  }

  // ---- a Send of which both sides copy a part (docs/adr/0080) -----------------------------------
  // Called before a Send of at least kMinSharedSend bytes, with all before it handed over. Shares
  // its last segment if those before it are short. Returns the payload sizes of its frames, or
  // zeros. After frames were built, share_until() and then send() must follow, with it pinned.
  static constexpr std::size_t kSharedAtOnce = 1024 * 1024;
  struct SharedFrames {
    std::size_t first = 0;
    std::size_t others = 0;
  };
  [[nodiscard]] SharedFrames share_send(std::uint32_t number,
                                        std::span<const iwarp::IoSpan> payload) noexcept;
  void share_until(std::uint64_t end) noexcept;
  void note_write() noexcept { wrote_ = true; }  // called for messages that name their destination
  // Whether a large Send could be shared after the peer has returned loans. EPOLLOUT reports that.
  [[nodiscard]] bool puts_off_send(std::uint32_t number, std::uint32_t length) noexcept;

  // ---- a single short frame ---------------------------------------------------------------------
  // Fast path of takes_frame(), put_frame() and show_frames() for a frame of a known size.
  // frame_room(): where to build it; null if those are needed instead. send_frame() publishes it.
  [[nodiscard]] std::byte* frame_room(std::size_t bytes, bool write) noexcept;
  void send_frame(std::size_t bytes) noexcept;
  // Like input(), but empty if anything else may be pending; look() then returns what is.
  [[nodiscard]] std::span<const std::byte> only_input() noexcept;
  // Prefetches this object and the cache lines of the rings.
  void prepare() const noexcept;

 private:
  // ---- Confirmations ----------------------------------------------------------------------------
  // At most put_: the peer may claim anything, but cannot confirm bytes that were not sent.
  [[nodiscard]] std::uint64_t peer_placed() const noexcept override {
    return std::min(writer_.delivered(), put_);
  }
  [[nodiscard]] std::uint64_t answered() const noexcept override {
    return std::min(reader_.acknowledged(), put_);
  }
  void await_placed(std::uint64_t position, CompletionDemand& demand) noexcept override;
  void completion_wanted() noexcept override;

  // ---- DirectAccess -----------------------------------------------------------------------------
  [[nodiscard]] bool reach(const Reach& what,
                           std::span<const iwarp::IoSpan> local) noexcept override;
  [[nodiscard]] bool prefers_message(bool write, std::uint32_t length,
                                     std::uint64_t others) noexcept override;
  shm::Grants* grants(MrTable& memory) noexcept override;
  [[nodiscard]] bool assist() noexcept override;
  void settle() noexcept override;
  [[nodiscard]] bool shares(const shm::PeerMemory::Access& access,
                            std::span<const iwarp::IoSpan> local) noexcept;
  [[nodiscard]] bool write_shared(std::span<const std::byte> bytes) noexcept;
  [[nodiscard]] bool write_loans(const shm::Lender::Part& part) noexcept;
  void assist_send() noexcept;
  [[nodiscard]] bool may_share(const shm::PeerMemory::Access& access) noexcept;
  [[nodiscard]] bool claims(std::uint64_t from) noexcept;
  [[nodiscard]] bool turn_has_come() const noexcept { return peer_placed() >= turn_; }
  [[nodiscard]] bool awaits_turn() const noexcept;

  void end_gently_as(std::unique_ptr<ByteStream> self, KeptBytes rest) noexcept override;
  void end_grants() noexcept;
  void end_loans() noexcept;
  [[nodiscard]] std::size_t append(std::span<const std::byte> piece, std::size_t& hidden) noexcept;
  [[nodiscard]] bool may_lend() const noexcept;
  [[nodiscard]] IoResult count_sent() noexcept;
  [[nodiscard]] IoResult send_to_nobody() noexcept;
  void collect_loans() noexcept;
  void expect_next(std::size_t bytes) noexcept;
  IoResult receive_into(std::span<std::byte> room, std::span<std::byte> behind,
                        bool in_place) noexcept;
  IoResult borrow(std::span<std::byte> room, std::span<std::byte> behind, bool in_place) noexcept;
  IoResult read(std::span<std::byte> room) noexcept;
  void ask_for_loans() noexcept;
  [[nodiscard]] bool has_input() noexcept;
  void lose_peer() noexcept;
  void finish(shm::RingEnd how) noexcept;
  void stay_awake() noexcept;
  [[nodiscard]] bool rest_until_placed() noexcept;
  void sleep_unawares(bool on) noexcept;
  void show_placed(bool on) noexcept;
  void show_sign() noexcept;
  void release_pages() noexcept;
  [[nodiscard]] bool wants(std::uint32_t event) const noexcept { return (events_ & event) != 0; }
  // Whether nothing but input can be ready. The end of the stream is found when the input is read.
  [[nodiscard]] bool only_input_matters() const noexcept {
    return events_ == EPOLLIN && !rests_ && !lender_.any() && !peer_gone_ && !idle_pages_.due();
  }

  Reactor& reactor_;
  std::unique_ptr<TcpStream> tcp_;
  shm::Rings rings_;
  shm::RingWriter writer_;
  shm::RingReader reader_;
  shm::Lender lender_;
  shm::Borrower borrower_;
  Bell bell_;
  shm::PeerMemory peer_memory_;
  // The access and the source of the RDMA Write that share_ describes, or of the shared Send.
  shm::PeerMemory::Access shared_;
  const std::byte* shared_from_ = nullptr;
  shm::Lender::Part shared_send_;       // the Send's place in the stream; empty: no Send is shared
  std::size_t shared_frame_ = 0;        // the payload size of its frames
  std::uint32_t left_to_peer_ = 0;      // the number of its next loans that are lent unclaimed
  std::uint64_t read_before_send_ = 0;  // the reader's position at the last large Send
  bool shares_sends_ = true;
  std::size_t awaited_loans_ = 0;  // see puts_off_send()
  bool wrote_ = false;             // see note_write()
  SharingHabit habit_of_sharing_;
  MrTable* memory_ = nullptr;            // set by the first grants()
  std::unique_ptr<shm::Grants> grants_;  // null: the peer gets no grants
  const bool direct_;
  Handler* handler_ = nullptr;
  std::uint32_t events_ = 0;
  bool rests_ = true, never_woken_ = true;  // like new rings
  bool peer_gone_ = false, lost_ = false;   // lost_: the peer had not read all that we sent
  bool finished_ = false, aborts_ = false;
  bool asked_ = false, lent_follows_ = false;  // see ask_for_loans(), Input::lent_follows
  std::uint64_t put_ = 0;                      // bytes of the stream that were written or lent
  std::uint64_t sent_ = 0;                     // bytes of it whose memory may be reused
  std::uint64_t awaited_ = 0;                  // see await_placed()
  CompletionDemand* demand_ = nullptr;         // of the CQ whose completion awaits that
  bool unaware_ = false;                       // rests, and asks for no wake-up at awaited_
  ConfirmationHabit habit_;
  SeriesHabit habit_of_series_;
  std::uint64_t turn_ = 0;  // once the peer has placed this much, we may write shared_send_
  IdlePages idle_pages_;    // last: its timer calls the handler
};

}  // namespace udapl::soft
