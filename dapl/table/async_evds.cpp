// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/table/async_evds.h"

#include "dapl/events/evd.h"
#include "dapl/objects/ia.h"
#include "dapl/table/provider.h"

#include <cstring>
#include <type_traits>

namespace udapl::dapl {

AsyncEvds& AsyncEvds::instance() noexcept {
  static constinit AsyncEvds all;
  // Outlives every static destructor, and needs no memory.
  static_assert(std::is_trivially_destructible_v<AsyncEvds>);
  return all;
}

void AsyncEvds::join(Ia& ia, Evd* evd) noexcept {
  const ScopedLock lock(lock_);
  ia.async_evd_ = Use<Evd>(evd);
  ia.serial_ = ++serials_;
  Ia** link = &first_;
  while (*link != nullptr) link = &(*link)->next_open_;
  *link = &ia;
}

void AsyncEvds::leave(Ia& ia, const Evd* own) noexcept {
  const ScopedLock lock(lock_);
  ia.async_evd_ = Use<Evd>();
  for (Ia** link = &first_; *link != nullptr; link = &(*link)->next_open_) {
    if (*link == &ia) {
      *link = ia.next_open_;
      break;
    }
  }
  if (own == nullptr) return;
  for (Ia* other = first_; other != nullptr; other = other->next_open_)
    if (other->async_evd_.get() == own) other->async_evd_ = Use<Evd>();
}

Evd* AsyncEvds::of(const Ia& ia) noexcept {
  const ScopedLock lock(lock_);
  return ia.async_evd_.get();
}

Ia* AsyncEvds::next_after(std::uint64_t serial, const char* name) noexcept {
  const auto feeds = [name](const Ia& ia) {
    return ia.async_evd_ && std::strcmp(ia.owner().info().ia_name, name) == 0;
  };
  for (Ia* ia = first_; ia != nullptr; ia = ia->next_open_) {
    if (ia->serial_ <= serial || !feeds(*ia)) continue;
    const Ia* earlier = first_;
    while (earlier != ia && !(feeds(*earlier) && earlier->async_evd_.get() == ia->async_evd_.get()))
      earlier = earlier->next_open_;
    if (earlier == ia) return ia;
  }
  return nullptr;
}

void AsyncEvds::post(const Ia& source, const DAT_EVENT& event) noexcept {
  const char* const name = source.owner().info().ia_name;
  std::uint64_t serial = 0;
  for (;;) {
    Upcall upcall;  // runs between two rounds, without the lock
    const ScopedLock lock(lock_);
    Ia* const next = next_after(serial, name);
    if (next == nullptr) return;
    serial = next->serial_;
    upcall = next->async_evd_->post(event);
  }
}

}  // namespace udapl::dapl
