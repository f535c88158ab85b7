// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include "common/annotations.h"
#include "common/mutex.h"
#include "dapl/events/evd.h"
#include "dapl/objects/object.h"

#include <cstdint>

namespace udapl::dapl {

// The open IAs of this library and the async EVD of each. An async event of an adapter is posted to
// the async EVDs of all IAs that were opened by the adapter's name. Several IAs may share one async
// EVD, even IAs of different adapters: programs pass one variable to several calls of dat_ia_open.
// Thread-safe; its lock comes after those of Ia and Ep and before those of an Evd. One per library.
class AsyncEvds {
 public:
  // The list element of an open IA. Owned by the IA; its contents are guarded by the lock.
  class Open {
   public:
    explicit Open(Ia& ia) noexcept : ia_(ia) {}

   private:
    friend class AsyncEvds;

    Ia& ia_;
    Use<Evd> evd_;
    Open* next_ = nullptr;
    std::uint64_t serial_ = 0;
  };

  static AsyncEvds& instance() noexcept;

  // Registers a newly opened IA; `evd` is its async EVD, which counts this as a use, or null.
  void join(Open& open, Evd* evd) noexcept UDAPL_EXCLUDES(lock_);
  // Removes an IA which is closing and destroys `own`, the async EVD that it created (or null):
  // other opens that use `own` have no async EVD from now on. Does nothing if `open` did not join.
  void leave(Open& open, const Evd* own) noexcept UDAPL_EXCLUDES(lock_);

  [[nodiscard]] Evd* of(const Open& open) noexcept UDAPL_EXCLUDES(lock_);
  // Whether `ia` is an open IA of this library.
  [[nodiscard]] bool knows(const Ia& ia) noexcept UDAPL_EXCLUDES(lock_);

  // Queues `event` once on every async EVD of the adapter that `source` opened. Calls proxy agents.
  // REQUIRES: no lock held.
  void post(const Ia& source, const DAT_EVENT& event) noexcept UDAPL_EXCLUDES(lock_);

 private:
  // The first open of the adapter `name` after number `serial` whose EVD no earlier open of that
  // adapter has.
  [[nodiscard]] Open* next_after(std::uint64_t serial, const char* name) noexcept
      UDAPL_REQUIRES(lock_);

  Mutex lock_;
  Open* first_ UDAPL_GUARDED_BY(lock_) = nullptr;  // in the order of opening
  std::uint64_t serials_ UDAPL_GUARDED_BY(lock_) = 0;
};

// Posts a copy of an async event to every async EVD of the adapter of `ia`. `object`: the object
// that the event concerns; null for the IA itself. REQUIRES: no lock held.
void report_async(Ia& ia, DAT_EVENT_NUMBER number, ObjectHeader* object, DAT_COUNT reason) noexcept;

}  // namespace udapl::dapl
