// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/cq_channel.h"

#include <cerrno>
#include <utility>

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
    : adapter_(adapter), reactor_(adapter.reactor()), channel_(channel) {
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
  if (is_own()) give_back_descriptors();
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
  if (!open_ || !set_.valid()) return false;
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

// The reactor also reports an event that has arrived before it watches the channel.
void CqChannel::hide_all() noexcept {
  if (is_own()) given_up_.store(true, std::memory_order_seq_cst);
  if (set_.valid()) ::epoll_ctl(set_.get(), EPOLL_CTL_DEL, channel_->fd, nullptr);
  if (!watch()) UDAPL_TRACE(kError, "completions may be noticed late: a channel cannot be watched");
}

bool CqChannel::give_up() noexcept {
  const ScopedLock guard(lock_);
  if (given_up()) return false;
  hide_all();
  return true;
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

Cq* CqChannel::next_event() noexcept {
  ibv_cq* cq = nullptr;
  void* ours = nullptr;
  if (ibv_get_cq_event(channel_.get(), &cq, &ours) == 0) return static_cast<Cq*>(ours);
  if (errno == EAGAIN || errno == EINTR) return nullptr;
  UDAPL_TRACE(kNormal, "no more completion events: %s", ErrnoText(errno).c_str());
  failed_.store(true, std::memory_order_relaxed);
  const ScopedLock guard(lock_);
  unwatch();
  return nullptr;
}

// Stops reading once no CQ is armed, to save a read that finds nothing.
void CqChannel::read_events(Where where) noexcept {
  do {
    Cq* const cq = next_event();
    if (cq == nullptr) return;
    if (was_left(*cq))
      cq->on_left_event();
    else if (where == Where::kDriving)
      cq->on_event();
    else
      cq->on_event_in_call();
  } while (armed_cqs_.load(std::memory_order_relaxed) > 0);
}

void CqChannel::begin_armed(Cq& cq) noexcept {
  const ScopedLock guard(armed_lock_);
  only_armed_ = armed_cqs_.load(std::memory_order_relaxed) == 0 ? &cq : nullptr;
  armed_cqs_.fetch_add(1, std::memory_order_relaxed);
}

void CqChannel::end_armed() noexcept {
  const ScopedLock guard(armed_lock_);
  armed_cqs_.fetch_sub(1, std::memory_order_relaxed);
  only_armed_ = nullptr;
}

void CqChannel::forget(const Cq& cq) noexcept {
  const ScopedLock guard(armed_lock_);
  if (only_armed_ == &cq) only_armed_ = nullptr;
  if (left_.load(std::memory_order_relaxed) == &cq) left_.store(nullptr, std::memory_order_relaxed);
}

// Never leaves an event on a channel with a descriptor, which would stay readable. The event may
// not be that of the only armed CQ, for example while another one is destroyed. Then the armed one
// was notified in vain, and the event stays on the channel until a thread sleeps there and reads
// it.
bool CqChannel::leave_input(WaitWord& word) noexcept {
  if (set_.valid()) return false;
  {
    const ScopedLock guard(armed_lock_);
    if (only_armed_ == nullptr || left_.load(std::memory_order_relaxed) != nullptr ||
        !only_armed_->leave_event(word))
      return false;
    left_.store(std::exchange(only_armed_, nullptr), std::memory_order_relaxed);
    armed_cqs_.fetch_sub(1, std::memory_order_relaxed);
  }
  adapter_.idle_cqs().on_completion();
  return true;
}

bool CqChannel::was_left(const Cq& cq) noexcept {
  if (left_.load(std::memory_order_relaxed) != &cq) return false;
  const ScopedLock guard(armed_lock_);
  if (left_.load(std::memory_order_relaxed) != &cq) return false;
  left_.store(nullptr, std::memory_order_relaxed);
  return true;
}

// Other events that are read on the way are handled as usual.
void CqChannel::take_left() noexcept {
  const NotCancelled scope;
  while (left_.load(std::memory_order_relaxed) != nullptr) {
    Cq* const cq = next_event();
    if (cq == nullptr) {
      const ScopedLock guard(armed_lock_);
      left_.store(nullptr, std::memory_order_relaxed);
    } else if (was_left(*cq)) {
      cq->on_left_event();
    } else {
      cq->note_event();
    }
  }
}

}  // namespace udapl::verbs
