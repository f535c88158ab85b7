// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/io/ring_stream.h"

#include "common/prefetch.h"
#include "providers/soft/mr_table.h"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include <sys/socket.h>

namespace udapl::soft {

namespace {

constexpr std::size_t kMaxPieces = 64;  // of local memory in one direct access
// An RDMA Write of at least this size may be shared by both sides.
constexpr std::uint32_t kMinShared = 384 * 1024;

// The least number of other outstanding requests with which messages take less time than direct
// copies: both sides work on messages at the same time, but this side makes direct copies one by
// one. A Read takes two messages.
constexpr std::uint64_t fewest_others(bool write, std::uint32_t length) noexcept {
  constexpr std::uint64_t kFew = 2;
  constexpr std::uint64_t kMany = 12;
  constexpr std::uint32_t kShortWrite = 6 * 1024;
  constexpr std::uint32_t kShortRead = 1536;
  return length <= (write ? kShortWrite : kShortRead) ? kFew : kMany;
}

}  // namespace

RingStream::RingStream(std::unique_ptr<TcpStream> tcp, shm::Rings rings, bool direct) noexcept
    : DirectAccess(rings.their_greeting().reaches),
      reactor_(tcp->reactor()),
      tcp_(std::move(tcp)),
      rings_(std::move(rings)),
      writer_(rings_.writer()),
      reader_(rings_.reader()),
      lender_(rings_.lender()),
      borrower_(rings_.borrower()),
      bell_(rings_.bell()),
      peer_memory_(rings_.their_greeting(), rings_.our_greeting(), rings_.granted_by_them(),
                   rings_.their_offers(), rings_.bell()),
      direct_(direct),
      idle_pages_(reactor_, handler_) {
  if (direct_ && shm::is_of_our_user(rings_.bell())) shm::greet(rings_.our_greeting());
}

// The peer has its own mapping of the rings, so it can read later what was sent.
RingStream::~RingStream() {
  sleep_unawares(false);
  idle_pages_.stop();
  if (!rings_.valid()) return;
  if (handler_ != nullptr) reactor_.unwatch(rings_.bell(), *handler_);
  if (aborts_) finish(shm::RingEnd::kReset);
  end_loans();
  // With unread input, the stream ends with a reset, as that of a socket does.
  if (!finished_) finish(has_input() ? shm::RingEnd::kReset : shm::RingEnd::kFinished);
  ::shutdown(rings_.bell(), SHUT_RDWR);  // a child that was just forked may still hold it open
  end_grants();
}

void RingStream::end_gently_as(std::unique_ptr<ByteStream> self, KeptBytes) noexcept {
  finish(shm::RingEnd::kFinished);
  self.reset();
}

std::unique_ptr<TcpStream> RingStream::take_apart(shm::Rings& rings) noexcept {
  rings = std::exchange(rings_, shm::Rings());
  return std::move(tcp_);
}

void RingStream::lose_peer() noexcept {
  if (std::exchange(peer_gone_, true)) return;
  if (handler_ != nullptr) handler_->sign->watch(nullptr);
  lost_ = reader_.end() != shm::RingEnd::kFinished && writer_.unread() != 0;
}

void RingStream::finish(shm::RingEnd how) noexcept {
  finished_ = true;
  if (writer_.finish(how)) bell_.ring();
}

IoResult RingStream::answer(std::span<const std::byte> reply) noexcept {
  return tcp_->answer(reply);
}

bool RingStream::ended_on_purpose() const noexcept {
  return reader_.end() == shm::RingEnd::kFinished;
}

// ---- waiting ------------------------------------------------------------------------------------

Status RingStream::watch(std::uint32_t events, Handler& handler) noexcept {
  events_ = events;
  handler_ = &handler;
  const Status status = reactor_.watch(rings_.bell(), EPOLLIN | EPOLLRDHUP | EPOLLET, handler,
                                       Reactor::Kind::kPoller);
  if (!status.ok()) handler_ = nullptr;
  if (handler_ != nullptr) show_sign();
  return status;
}

void RingStream::set_events(std::uint32_t events) noexcept {
  if (handler_ == nullptr || events == events_) return;
  events_ = events;
  show_sign();
  if (rests_ && !rest()) reactor_.request_call(*handler_);
}

// ---- the peer's confirmation of what it has placed ----------------------------------------------

void RingStream::await_placed(std::uint64_t position, CompletionDemand& demand) noexcept {
  if (awaited_ != 0 && answered() >= awaited_) habit_.came_with_answer();
  sleep_unawares(false);
  awaited_ = position;
  demand_ = &demand;
  if (handler_ == nullptr) return;
  show_placed(position != 0 && habit_.looks());
  if (position != 0 && rests_ && !rest_until_placed()) reactor_.request_call(*handler_);
}

void RingStream::completion_wanted() noexcept {
  if (unaware_ && !rest_until_placed()) reactor_.request_call(*handler_);
}

// Prepares for a rest until the awaited position is placed. If no thread waits for the completion,
// the peer is not asked to ring: the bell would only wake the service thread, which would take the
// processor from threads that poll. Their polls look for the confirmation instead. Returns false if
// a thread waits and the confirmation has arrived.
bool RingStream::rest_until_placed() noexcept {
  if (awaited_ == 0) return true;
  sleep_unawares(true);
  if (!demand_->wanted.load(std::memory_order_seq_cst)) {
    show_placed(true);
    reactor_.call_when_polled(*handler_);
    return true;
  }
  sleep_unawares(false);
  return writer_.may_sleep_until(awaited_);
}

void RingStream::sleep_unawares(bool on) noexcept {
  if (on == unaware_) return;
  unaware_ = on;
  demand_->sleepers.fetch_add(on ? 1U : ~0U, std::memory_order_seq_cst);
}

// Sets whether polls look for the confirmation.
void RingStream::show_placed(bool on) noexcept {
  handler_->sign->also(on ? &writer_.delivered_word() : nullptr, awaited_);
}

std::uint32_t RingStream::ready(std::uint32_t reported) noexcept {
  stay_awake();
  if (reported != 0 && !bell_.on_report()) lose_peer();
  if ((reported & ~EPOLLIN) != 0 && bell_.ended()) lose_peer();
  return look();
}

std::uint32_t RingStream::look() noexcept {
  std::uint32_t placed = 0;
  if (awaited_ != 0 && peer_placed() >= awaited_) {
    placed = kPlaced;
    if (answered() < awaited_) habit_.came_alone();
  }
  if (only_input_matters()) [[likely]]
    return has_input() ? placed | EPOLLIN : placed;
  if (rests_) stay_awake();
  if (idle_pages_.due()) [[unlikely]]
    release_pages();
  std::uint32_t now = placed;
  if (wants(EPOLLIN) && (peer_gone_ || has_input())) now |= EPOLLIN;
  const bool lent_enough = lender_.any() && lender_.room() < awaited_loans_;
  if (wants(EPOLLOUT) && (peer_gone_ || (!lent_enough && writer_.has_room()))) now |= EPOLLOUT;
  if (!peer_gone_ && (lender_.needs_collect() || (awaits_turn() && turn_has_come())))
    now |= EPOLLOUT;  // even if it is not awaited
  if (wants(EPOLLRDHUP) && (peer_gone_ || reader_.end() != shm::RingEnd::kNone)) now |= EPOLLRDHUP;
  if (lost_ || reader_.end() == shm::RingEnd::kReset) [[unlikely]]
    now |= EPOLLERR;
  return now;
}

// If input is the only possible event, sets the handler's sign, by which the reactor detects input
// without calling the handler. The sign does not show that the peer has ended the stream; that is
// found later, which is soon enough.
void RingStream::show_sign() noexcept {
  const bool only_input = events_ == EPOLLIN && !idle_pages_.due() && !lender_.any() &&
                          !borrower_.is_next(reader_.position());
  handler_->sign->seen(reader_.position());
  handler_->sign->watch(only_input && !peer_gone_ ? &reader_.written() : nullptr);
}

void RingStream::prepare() const noexcept {
  prefetch_bytes(this, sizeof *this);
  writer_.prepare();
  reader_.prepare();
  borrower_.prepare();
}

void RingStream::stay_awake() noexcept {
  if (!std::exchange(rests_, false)) return;
  sleep_unawares(false);
  reader_.stay_awake();
  writer_.stay_awake();
  // The reactor may have begun this call for the previous stream of the handler. It then takes this
  // stream for resting, but the peer would not ring the bell. This can only happen in the first
  // call after watch(), so that one requests another call.
  if (std::exchange(never_woken_, false) && handler_ != nullptr) reactor_.request_call(*handler_);
}

// Does not rest with an event pending once the peer is gone: nothing would wake this side.
bool RingStream::rest() noexcept {
  if (!bell_.on_rest()) lose_peer();
  if (idle_pages_.due() || (peer_gone_ && look() != 0)) return false;
  rests_ = true;
  const bool lent_next = borrower_.is_next(reader_.position());  // there may be input behind it
  const bool asleep = lent_next ? reader_.may_sleep_until_end() : reader_.may_sleep();
  const bool input = !wants(EPOLLIN) || (asleep && !has_input());
  const bool end = !wants(EPOLLRDHUP) || wants(EPOLLIN) || reader_.may_sleep_until_end();
  const bool room = !wants(EPOLLOUT) || writer_.may_sleep();
  const bool unplaced = rest_until_placed();
  // The peer does not ring the bell when it returns a loan. So loans are called in before this side
  // rests.
  const bool lends = lender_.any() && !peer_gone_;
  if (lends) lender_.call_in();
  if (input && end && room && unplaced && !lends) return true;
  stay_awake();
  return false;
}

// ---- direct access to the peer's memory ---------------------------------------------------------

bool RingStream::prefers_message(bool write, std::uint32_t length, std::uint64_t others) noexcept {
  if (others == 0) habit_of_series_.ended();
  if (length > most_frame() || others < fewest_others(write, length) || peer_gone_ ||
      writer_.reader_sleeps())
    return false;
  return habit_of_series_.tries(put_, others, [this] { return peer_placed(); });
}

// The peer must have processed everything that was sent before, or the access would overtake it.
bool RingStream::reach(const Reach& what, std::span<const iwarp::IoSpan> local) noexcept {
  share_ = {};
  const std::uint32_t right = what.write ? kRemoteWrite : kRemoteRead;
  const shm::PeerMemory::Access access{what.write, what.stag, what.to, what.length, right};
  if (!direct_ || !peer_memory_.suits(access, writer_.reader_sleeps()) || peer_gone_ ||
      writer_.delivered() != put_)
    return false;
  const bool large = what.write && what.length >= kMinShared;
  if (large && shares(access, local)) return false;
  std::array<iovec, kMaxPieces> pieces;
  if (local.size() > pieces.size()) return false;
  for (std::size_t i = 0; i != local.size(); ++i)
    pieces[i] = {const_cast<void*>(local[i].data), local[i].size};
  const bool copied = peer_memory_.copy(access, {pieces.data(), local.size()});
  if (large) habit_of_sharing_.posted();
  return copied;
}

shm::Grants* RingStream::grants(MrTable& memory) noexcept {
  if (!direct_ || memory_ != nullptr) [[likely]]
    return grants_.get();
  const shm::Process peer = shm::Process::at_end_of(rings_.bell());
  if (peer.valid())
    grants_.reset(new (std::nothrow)
                      shm::Grants(rings_.granted_by_us(), rings_.our_offers(), peer));
  memory_ = &memory;
  if (grants_ != nullptr && !asked_) ask_for_loans();  // for the peer's large RDMA Writes
  return grants_.get();
}

// The grants keep the shared pages, because the peer may still be accessing some of the memory.
void RingStream::end_grants() noexcept {
  if (grants_ == nullptr) return;
  grants_->keep(rings_.take_region());
  memory_->end_grants(std::move(grants_));
}

// Only the writer of a ring may free its pages, and only when the peer has read everything.
void RingStream::release_pages() noexcept {
  if (!idle_pages_.end_wait(put_)) return;
  if (!lender_.any()) lender_.reclaim();
  const bool all_read = writer_.unread() == 0 && lender_.all_returned();
  idle_pages_.released(put_, all_read);
  if (all_read) rings_.release_pages();
}

}  // namespace udapl::soft
