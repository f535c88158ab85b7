// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/io/lingering_close.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <new>
#include <utility>

#include "common/annotations.h"
#include "common/immortal.h"
#include "common/mutex.h"
#include "providers/soft/io/descriptor_limit.h"

#include <boost/intrusive/list.hpp>

namespace udapl::soft {

namespace {

constexpr std::size_t kMostStrangers = 128;

std::size_t most(LingerKind kind) noexcept {
  const std::size_t limit = descriptor_limit();
  const std::size_t share =
      kind == LingerKind::kStranger ? std::min(limit / 16, kMostStrangers) : limit / 4;
  return std::max<std::size_t>(share, 1);
}

class Lingerer : public boost::intrusive::list_base_hook<> {
 public:
  explicit Lingerer(LingerKind kind) noexcept : kind_(kind) {}
  [[nodiscard]] LingerKind kind() const noexcept { return kind_; }
  // Closes the descriptor at once. REQUIRES: the lock of Lingering.
  virtual void cut_off() noexcept = 0;

 protected:
  ~Lingerer() = default;

 private:
  const LingerKind kind_;
};

// The lingering streams of this process, of all adapters, oldest first. The lock protects the
// streams themselves as well; only the reactor's lock is acquired inside it. Never destroyed.
class Lingering {
 public:
  static Lingering& instance() noexcept {
    static Immortal<Lingering> all;
    return all.object;
  }
  Mutex lock;

  void enter(Lingerer& closing) noexcept UDAPL_REQUIRES(lock);
  void remove(Lingerer& closing) noexcept UDAPL_REQUIRES(lock);

 private:
  boost::intrusive::list<Lingerer> of_kind_[2] UDAPL_GUARDED_BY(lock);
};

void Lingering::enter(Lingerer& closing) noexcept {
  auto& queue = of_kind_[static_cast<std::size_t>(closing.kind())];
  queue.push_back(closing);
  if (queue.size() <= most(closing.kind())) return;
  Lingerer& oldest = queue.front();
  queue.pop_front();
  oldest.cut_off();
}

void Lingering::remove(Lingerer& closing) noexcept {
  auto& queue = of_kind_[static_cast<std::size_t>(closing.kind())];
  if (closing.is_linked()) queue.erase(queue.iterator_to(closing));
}

// Called by the driving thread, so it may dismiss itself at any time; cut_off() is called by any
// thread.
class LingeringClose final : public Adopted, public Lingerer, private Handler {
 public:
  LingeringClose(std::unique_ptr<TcpStream> stream, LingerKind kind, Clock::duration limit) noexcept
      : Lingerer(kind),
        reactor_(stream->reactor()),
        limit_(limit),
        stream_(std::move(stream)),
        begin_(reactor_, Call::to<&LingeringClose::begin>(this)),
        timer_(reactor_, Call::to<&LingeringClose::finish>(this)),
        dismiss_(reactor_, Call::to<&LingeringClose::dismiss>(this)) {}
  ~LingeringClose() override {
    const ScopedLock guard(Lingering::instance().lock);
    Lingering::instance().remove(*this);
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

 private:
  void begin() noexcept {
    bool over = false;
    {
      const ScopedLock guard(Lingering::instance().lock);
      if (stream_ == nullptr) return;
      stream_->shutdown_write();
      over = !stream_->watch(EPOLLIN, *this).ok();
    }
    if (over) return dismiss();
    timer_.start_after(limit_);
  }

  // A peer that keeps sending is cut off by the time limit.
  void on_ready(std::uint32_t) noexcept override {
    {
      const ScopedLock guard(Lingering::instance().lock);
      if (stream_ == nullptr) return;
      std::array<std::byte, 16 * 1024> dropped;
      const IoResult result = stream_->receive(dropped);
      if (result.kind != IoResult::kEnd && result.kind != IoResult::kBroken) return;
    }
    dismiss();
  }

  void finish() noexcept { dismiss(); }
  void dismiss() noexcept { reactor_.dismiss(*this); }

  Reactor& reactor_;
  const Clock::duration limit_;
  std::unique_ptr<TcpStream> stream_;  // null: cut off
  Deferred begin_;
  Timer timer_;
  Deferred dismiss_;
};

}  // namespace

void close_gently(std::unique_ptr<TcpStream> stream, LingerKind kind,
                  Clock::duration limit) noexcept {
  if (stream == nullptr) return;
  stream->unwatch();
  std::unique_ptr<LingeringClose> closing(new (std::nothrow)
                                              LingeringClose(std::move(stream), kind, limit));
  if (closing != nullptr) LingeringClose::launch(std::move(closing));  // else closed at once
}

}  // namespace udapl::soft
