// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/events/async_evds.h"

#include "common/tracing/trace.h"
#include "dapl/objects/ia.h"

#include <cstring>
#include <type_traits>

namespace udapl::dapl {

AsyncEvds& AsyncEvds::instance() noexcept {
  static constinit AsyncEvds all;
  // No static destructor ends it, and its construction needs no memory.
  static_assert(std::is_trivially_destructible_v<AsyncEvds>);
  return all;
}

void AsyncEvds::join(Open& open, Evd* evd) noexcept {
  const ScopedLock lock(lock_);
  open.evd_ = Use<Evd>(evd);
  open.serial_ = ++serials_;
  Open** link = &first_;
  while (*link != nullptr) link = &(*link)->next_;
  *link = &open;
}

void AsyncEvds::leave(Open& open, const Evd* own) noexcept {
  const ScopedLock lock(lock_);
  open.evd_ = Use<Evd>();
  for (Open** link = &first_; *link != nullptr; link = &(*link)->next_) {
    if (*link == &open) {
      *link = open.next_;
      break;
    }
  }
  if (own == nullptr) return;
  for (Open* other = first_; other != nullptr; other = other->next_)
    if (other->evd_.get() == own) other->evd_ = Use<Evd>();
}

Evd* AsyncEvds::of(const Open& open) noexcept {
  const ScopedLock lock(lock_);
  return open.evd_.get();
}

bool AsyncEvds::knows(const Ia& ia) noexcept {
  const ScopedLock lock(lock_);
  const Open* open = first_;
  while (open != nullptr && &open->ia_ != &ia) open = open->next_;
  return open != nullptr;
}

AsyncEvds::Open* AsyncEvds::next_after(std::uint64_t serial, const char* name) noexcept {
  const auto feeds = [name](const Open& open) {
    return open.evd_ && std::strcmp(open.ia_.name(), name) == 0;
  };
  for (Open* open = first_; open != nullptr; open = open->next_) {
    if (open->serial_ <= serial || !feeds(*open)) continue;
    const Open* earlier = first_;
    while (earlier != open && !(feeds(*earlier) && earlier->evd_.get() == open->evd_.get()))
      earlier = earlier->next_;
    if (earlier == open) return open;
  }
  return nullptr;
}

void AsyncEvds::post(const Ia& source, const DAT_EVENT& event) noexcept {
  std::uint64_t serial = 0;
  for (;;) {
    Upcall upcall;  // runs between two rounds, without the lock
    const ScopedLock lock(lock_);
    Open* const next = next_after(serial, source.name());
    if (next == nullptr) return;
    serial = next->serial_;
    upcall = next->evd_->post(event);
  }
}

void report_async(Ia& ia, DAT_EVENT_NUMBER number, ObjectHeader* object,
                  DAT_COUNT reason) noexcept {
  UDAPL_TRACE(kNormal, "async event 0x%x, object %p, reason %d", static_cast<unsigned>(number),
              static_cast<void*>(object), reason);
  DAT_EVENT event{};
  event.event_number = number;
  DAT_ASYNCH_ERROR_EVENT_DATA& data = event.event_data.asynch_error_event_data;
  data.dat_handle = object == nullptr ? ia.handle() : object;
  data.reason = reason;
  AsyncEvds::instance().post(ia, event);
}

}  // namespace udapl::dapl
