// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include "common/annotations.h"
#include "common/mutex.h"

#include <cstdint>

namespace udapl::dapl {

class Evd;
class Ia;

// The open IAs of this process with the async EVD of each: an async event of an adapter is posted
// to the async EVDs of all opens of its name, including one that belongs to another open.
// Thread-safe; its lock comes after those of Ia and Ep and before those of an Evd. One per process.
class AsyncEvds {
 public:
  static AsyncEvds& instance() noexcept;

  // Registers the newly opened `ia`; `evd` is its async EVD, which counts this as a use, or null.
  void join(Ia& ia, Evd* evd) noexcept UDAPL_EXCLUDES(lock_);
  // Removes `ia`, which is closing and destroys `own`, the async EVD that it created (or null):
  // other opens that use `own` have no async EVD from now on. Does nothing if `ia` did not join.
  void leave(Ia& ia, const Evd* own) noexcept UDAPL_EXCLUDES(lock_);

  [[nodiscard]] Evd* of(const Ia& ia) noexcept UDAPL_EXCLUDES(lock_);

  // Queues `event` once on every async EVD of the adapter that `source` opened. Calls proxy agents.
  // REQUIRES: no lock held.
  void post(const Ia& source, const DAT_EVENT& event) noexcept UDAPL_EXCLUDES(lock_);

 private:
  // The first open after `serial` of the adapter `name` whose EVD no earlier open shares.
  [[nodiscard]] Ia* next_after(std::uint64_t serial, const char* name) noexcept
      UDAPL_REQUIRES(lock_);

  Mutex lock_;
  Ia* first_ UDAPL_GUARDED_BY(lock_) = nullptr;  // in the order of opening
  std::uint64_t serials_ UDAPL_GUARDED_BY(lock_) = 0;
};

}  // namespace udapl::dapl
