// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/io/lingering_close.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <new>
#include <span>
#include <thread>
#include <utility>

#include "common/annotations.h"
#include "common/fork.h"
#include "common/immortal.h"
#include "common/mutex.h"
#include "common/not_cancelled.h"
#include "providers/soft/io/descriptor_limit.h"

#include <boost/intrusive/list.hpp>

namespace udapl::soft {

namespace {

constexpr std::size_t kMaxStrangers = 128;
constexpr auto kLook = std::chrono::microseconds(500);

std::size_t most(LingerKind kind) noexcept {
  const std::size_t limit = descriptor_limit();
  const std::size_t share =
      kind == LingerKind::kStranger ? std::min(limit / 16, kMaxStrangers) : limit / 4;
  return std::max<std::size_t>(share, 1);
}

class Lingerer : public boost::intrusive::list_base_hook<> {
 public:
  explicit Lingerer(LingerKind kind) noexcept : kind_(kind) {}
  [[nodiscard]] LingerKind kind() const noexcept { return kind_; }
  // Closes the descriptor at once. REQUIRES: the lock of Lingering.
  virtual void cut_off() noexcept = 0;
  [[nodiscard]] virtual bool belongs_to(const Reactor& reactor) const noexcept = 0;
  // Whether the peer's host has not acknowledged everything. REQUIRES: the lock of Lingering.
  [[nodiscard]] virtual bool is_unfinished() noexcept = 0;
  // Sends what the socket accepts, and reads what has arrived. REQUIRES: the lock of Lingering.
  virtual void leave() noexcept = 0;

 protected:
  ~Lingerer() = default;

 private:
  const LingerKind kind_;
};

// The lingering streams of all adapters of this process, oldest first. The lock also protects the
// streams themselves; only the reactor's lock is acquired while it is held. Never destroyed.
class Lingering {
 public:
  static Lingering& instance() noexcept {
    static Immortal<Lingering> all;
    return all.object;
  }
  Mutex lock;

  void enter(Lingerer& closing) noexcept UDAPL_REQUIRES(lock);
  void remove(Lingerer& closing) noexcept UDAPL_REQUIRES(lock);
  // Whether a connection of `reactor` is unfinished; null: of any reactor.
  [[nodiscard]] bool any_unfinished(const Reactor* reactor) noexcept UDAPL_REQUIRES(lock);
  // Calls leave() for all connections.
  void leave_all() noexcept UDAPL_REQUIRES(lock);
  // Whether the streams belong to the parent process: a fork has copied the lists.
  [[nodiscard]] bool are_copies() const noexcept {
    return generation_.load(std::memory_order_relaxed) != forks::generation();
  }

 private:
  using List = boost::intrusive::list<Lingerer>;
  List& connections() noexcept UDAPL_REQUIRES(lock) {
    return of_kind_[static_cast<std::size_t>(LingerKind::kConnection)];
  }

  List of_kind_[2] UDAPL_GUARDED_BY(lock);
  std::atomic<unsigned> generation_{0};  // forks::generation() when the last stream entered
};

void Lingering::enter(Lingerer& closing) noexcept {
  auto& queue = of_kind_[static_cast<std::size_t>(closing.kind())];
  queue.push_back(closing);
  generation_.store(forks::generation(), std::memory_order_relaxed);
  if (queue.size() <= most(closing.kind())) return;
  Lingerer& oldest = queue.front();
  queue.pop_front();
  oldest.cut_off();
}

void Lingering::remove(Lingerer& closing) noexcept {
  auto& queue = of_kind_[static_cast<std::size_t>(closing.kind())];
  if (closing.is_linked()) queue.erase(queue.iterator_to(closing));
}

bool Lingering::any_unfinished(const Reactor* reactor) noexcept {
  return std::ranges::any_of(connections(), [reactor](Lingerer& closing) {
    return (reactor == nullptr || closing.belongs_to(*reactor)) && closing.is_unfinished();
  });
}

void Lingering::leave_all() noexcept {
  for (Lingerer& closing : connections()) closing.leave();
}

// A stream that lingers. Called by the driving thread only, so it may dismiss itself at any time;
// cut_off(), is_unfinished() and leave() may be called by any thread.
class LingeringClose final : public Adopted, public Lingerer, private Handler {
 public:
  LingeringClose(std::unique_ptr<TcpStream> stream, LingerKind kind, Clock::duration limit,
                 KeptBytes rest) noexcept
      : Lingerer(kind),
        reactor_(stream->reactor()),
        limit_(limit),
        stream_(std::move(stream)),
        rest_(std::move(rest)),
        begin_(reactor_, Call::to<&LingeringClose::begin>(this)),
        timer_(reactor_, Call::to<&LingeringClose::time_is_over>(this)),
        dismiss_(reactor_, Call::to<&LingeringClose::dismiss>(this)) {}
  ~LingeringClose() override {
    const ScopedLock guard(Lingering::instance().lock);
    Lingering::instance().remove(*this);
    leave();
    stream_.reset();
  }

  static void launch(std::unique_ptr<LingeringClose> closing) noexcept {
    LingeringClose& launched = *closing;
    launched.reactor_.adopt(std::move(closing));
    const ScopedLock guard(Lingering::instance().lock);
    launched.begin_.post();
    Lingering::instance().enter(launched);
  }

  void cut_off() noexcept override {
    stream_->abort_on_close();
    stream_.reset();
    dismiss_.post();
  }
  [[nodiscard]] bool belongs_to(const Reactor& reactor) const noexcept override {
    return &reactor == &reactor_;
  }
  [[nodiscard]] bool is_unfinished() noexcept override {
    return stream_ != nullptr && waits_for_peer();
  }
  // Reads the input: with unread input, close() would send RST, and what the peer's host has not
  // acknowledged would be lost.
  void leave() noexcept override {
    constexpr int kMaxReads = 1024;  // the peer may be sending all the time
    const NotCancelled scope;
    if (stream_ == nullptr || !finish_output()) return;
    for (int i = 0; i != kMaxReads && drop_input() == IoResult::kDone; ++i) {
    }
  }

 private:
  void begin() noexcept {
    bool over = false;
    {
      const ScopedLock guard(Lingering::instance().lock);
      if (stream_ == nullptr) return;
      over = !finish_output() || !stream_->watch(events(), *this).ok();
    }
    if (over) return dismiss();
    timer_.start_after(limit_);
  }

  // A peer that keeps sending is cut off by the time limit.
  void on_ready(std::uint32_t) noexcept override {
    {
      const ScopedLock guard(Lingering::instance().lock);
      if (stream_ == nullptr) return;
      bool over = !finish_output();
      if (!over && !peer_ended_) over = drop_input() == IoResult::kBroken;
      if (!over && (!peer_ended_ || rest_sent_ != rest_.size)) return stream_->set_events(events());
    }
    dismiss();
  }

  // Sends what is left, and FIN behind it. Returns false if the connection is lost.
  bool finish_output() noexcept {
    while (rest_sent_ != rest_.size) {
      const IoResult result = stream_->send(
          std::span<const std::byte>(rest_.bytes.get() + rest_sent_, rest_.size - rest_sent_));
      if (result.kind == IoResult::kBroken) return false;
      if (result.kind == IoResult::kBlocked) return true;
      rest_sent_ += result.bytes;
    }
    if (!std::exchange(finished_, true)) stream_->shutdown_write();
    return true;
  }

  IoResult::Kind drop_input() noexcept {
    std::array<std::byte, 16 * 1024> dropped;
    const IoResult result = stream_->receive(dropped);
    if (result.kind == IoResult::kEnd) peer_ended_ = true;
    return result.kind;
  }

  [[nodiscard]] std::uint32_t events() const noexcept {
    return (peer_ended_ ? 0U : std::uint32_t{EPOLLIN}) |
           (rest_sent_ != rest_.size ? std::uint32_t{EPOLLOUT} : 0U);
  }
  [[nodiscard]] bool waits_for_peer() noexcept {
    return rest_sent_ != rest_.size || stream_->unacknowledged() != 0;
  }

  void time_is_over() noexcept {
    {
      const ScopedLock guard(Lingering::instance().lock);
      if (stream_ == nullptr) return;
      if (kind() == LingerKind::kConnection && ++limits_passed_ < kMaxLimits && waits_for_peer())
        return timer_.start_after(limit_);
    }
    dismiss();
  }
  void dismiss() noexcept { reactor_.dismiss(*this); }

  static constexpr int kMaxLimits = 30;

  Reactor& reactor_;
  const Clock::duration limit_;
  std::unique_ptr<TcpStream> stream_;  // null: cut off
  const KeptBytes rest_;
  std::size_t rest_sent_ = 0;
  bool finished_ = false;    // FIN was sent
  bool peer_ended_ = false;  // the peer's was received
  int limits_passed_ = 0;
  Deferred begin_;
  Timer timer_;
  Deferred dismiss_;
};

}  // namespace

void close_gently(std::unique_ptr<TcpStream> stream, LingerKind kind, Clock::duration limit,
                  KeptBytes rest) noexcept {
  if (stream == nullptr) return;
  stream->unwatch();
  std::unique_ptr<LingeringClose> closing(
      new (std::nothrow) LingeringClose(std::move(stream), kind, limit, std::move(rest)));
  if (closing != nullptr) LingeringClose::launch(std::move(closing));  // otherwise closed at once
}

void await_lingering(const Reactor& reactor, Clock::duration limit) noexcept {
  const NotCancelled scope;
  const auto unfinished = [&reactor] {
    const ScopedLock guard(Lingering::instance().lock);
    return Lingering::instance().any_unfinished(&reactor);
  };
  for (auto looks = limit / kLook; looks > 0 && unfinished(); --looks)
    std::this_thread::sleep_for(kLook);
}

void await_lingering_at_exit(Clock::duration limit) noexcept {
  Lingering& all = Lingering::instance();
  if (all.are_copies()) return;
  const NotCancelled scope;
  for (auto looks = limit / kLook; looks > 0; --looks) {
    if (all.lock.try_lock()) {
      const bool over = !all.any_unfinished(nullptr);
      if (over) all.leave_all();
      all.lock.unlock();
      if (over) return;
    }
    std::this_thread::sleep_for(kLook);
  }
}

}  // namespace udapl::soft
