// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/cq_channel.h"

#include <cerrno>

#include "common/errno_text.h"
#include "common/not_cancelled.h"
#include "common/standard_fds.h"
#include "common/tracing/trace.h"
#include "providers/verbs/adapter.h"
#include "providers/verbs/channels.h"
#include "providers/verbs/cq.h"
#include "providers/verbs/trace_points.h"

namespace udapl::verbs {

CqChannel::CqChannel(Adapter& adapter, ibv_comp_channel* channel) noexcept
    : reactor_(adapter.reactor()), channel_(channel) {
  watch_slot.only_reads = true;
}

Result<std::shared_ptr<CqChannel>> CqChannel::create(Adapter& adapter) {
  const StandardFdsTaken none_of_these;
  std::unique_ptr<ibv_comp_channel, Close> made(
      point::made("ibv_create_comp_channel", ibv_create_comp_channel(adapter.context())));
  if (made == nullptr) return no_resources("ibv_create_comp_channel");
  if (!make_nonblocking(made->fd))
    return no_resources("cannot make a completion channel non-blocking");
  auto channel = std::make_shared<CqChannel>(adapter, made.get());
  made.release();
  return Result<std::shared_ptr<CqChannel>>(std::move(channel));
}

Result<std::shared_ptr<CqChannel>> CqChannel::create_watched(Adapter& adapter) {
  auto made = create(adapter);
  if (!made.ok()) return made.status();
  CqChannel& channel = **made;
  const ScopedLock guard(channel.lock_);
  if (!channel.watch()) return failure(DAT_INSUFFICIENT_RESOURCES);
  return made;
}

Result<std::shared_ptr<CqChannel>> CqChannel::create_shown(Adapter& adapter, int signal) {
  auto made = create(adapter);
  if (!made.ok()) return made.status();
  CqChannel& channel = **made;
  channel.set_ = Fd::made(::epoll_create1(EPOLL_CLOEXEC));
  if (!channel.set_.valid() || !channel.add_to_set(signal) ||
      !channel.add_to_set(channel.get()->fd))
    return no_resources("cannot make the descriptor of a CNO");
  const ScopedLock guard(channel.lock_);
  channel.open_ = true;
  return made;
}

CqChannel::~CqChannel() {
  {
    const ScopedLock guard(lock_);
    unwatch();
  }
  reactor_.quiesce(*this);
}

void CqChannel::begin_prompt() noexcept {
  prompt_cqs_.fetch_add(1, std::memory_order_seq_cst);
  reactor_.attend();
}

// ---- the descriptor ----------------------------------------------------------------------------

bool CqChannel::add_to_set(int fd) noexcept {
  epoll_event event{};
  event.events = EPOLLIN;
  return ::epoll_ctl(set_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

bool CqChannel::watch() noexcept {
  watched_ = watched_ || reactor_.watch(channel_->fd, EPOLLIN, *this).ok();
  return watched_;
}

void CqChannel::unwatch() noexcept {
  if (watched_) reactor_.unwatch(channel_->fd, *this);
  watched_ = false;
}

bool CqChannel::show(std::atomic<bool>& shown) noexcept {
  if (shown.load(std::memory_order_seq_cst)) return true;
  const ScopedLock guard(lock_);
  if (!open_) return false;
  if (hidden_ == 1) {
    if (!add_to_set(channel_->fd)) return false;
    unwatch();
  }
  --hidden_;
  shown.store(true, std::memory_order_seq_cst);
  return true;
}

void CqChannel::hide(std::atomic<bool>& shown) noexcept {
  if (!shown.load(std::memory_order_seq_cst)) return;
  const ScopedLock guard(lock_);
  if (!shown.exchange(false, std::memory_order_seq_cst) || !open_) return;
  if (++hidden_ == 1) hide_all();
}

// An event that has arrived is reported to the reactor, too.
void CqChannel::hide_all() noexcept {
  ::epoll_ctl(set_.get(), EPOLL_CTL_DEL, channel_->fd, nullptr);
  if (!watch()) UDAPL_TRACE(kError, "completions of a CNO with a descriptor may be noticed late");
}

void CqChannel::close_descriptor() noexcept {
  const ScopedLock guard(lock_);
  if (hidden_ == 0) hide_all();
  open_ = false;
  set_.reset();
}

// ---- events ------------------------------------------------------------------------------------

void CqChannel::take_events() noexcept {
  if (armed_cqs_.load(std::memory_order_relaxed) <= 0) return;
  const NotCancelled scope;
  read_events(Where::kCaller);
}

// Stops reading once no CQ is armed, to save a read that finds nothing.
void CqChannel::read_events(Where where) noexcept {
  ibv_cq* cq = nullptr;
  void* ours = nullptr;
  do {
    if (ibv_get_cq_event(channel_.get(), &cq, &ours) != 0) {
      if (errno == EAGAIN || errno == EINTR) return;
      UDAPL_TRACE(kNormal, "no more completion events: %s", ErrnoText(errno).c_str());
      const ScopedLock guard(lock_);
      return unwatch();
    }
    if (where == Where::kDriving)
      static_cast<Cq*>(ours)->on_event();
    else
      static_cast<Cq*>(ours)->on_event_in_call();
  } while (armed_cqs_.load(std::memory_order_relaxed) > 0);
}

}  // namespace udapl::verbs
