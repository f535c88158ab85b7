// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/shm/grants.h"

#include "common/fd.h"
#include "common/not_cancelled.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

// The peer, before an access, stores `user` and then reads `stag`. The owner, to revoke, stores
// `stag` and then reads `user`. All four accesses are sequentially consistent, so at least one side
// sees the other's store.

namespace udapl::soft::shm {

// ---- the peer's process -------------------------------------------------------------------------

namespace {

using Text = std::array<char, 512>;

// Reads the beginning of a file below /proc. Returns 0 or an error.
int read_text(const char* path, Text& text) noexcept {
  const NotCancelled scope;
  text = Text{};
  const Fd file = Fd::made(::open(path, O_RDONLY | O_CLOEXEC));
  if (!file.valid() || ::read(file.get(), text.data(), text.size() - 1) < 0) return errno;
  return 0;
}

constexpr char kNone = '\0';
constexpr char kUnknown = '?';

struct ThreadStatus {
  char state = kUnknown;  // as /proc shows it; kNone: there is no such thread
  unsigned long long start = 0;
};

// /proc/PID/stat has the name of the process in parentheses, and the name may contain any
// character. The state follows it, and 19 fields later the start time (proc(5)).
ThreadStatus parse_status(const Text& text) noexcept {
  constexpr int kFieldsBetween = 19;
  ThreadStatus status;
  const char* at = std::strrchr(text.data(), ')');
  if (at == nullptr || at[1] != ' ') return status;
  at += 2;
  const char state = *at;
  for (int i = 0; i < kFieldsBetween; ++i) {
    at = std::strchr(at, ' ');
    if (at == nullptr) return status;
    ++at;
  }
  status.start = std::strtoull(at, nullptr, 10);
  status.state = state;
  return status;
}

using Path = std::array<char, 64>;

// Only ENOENT and ESRCH mean that there is no such thread. Other errors have local reasons, such as
// the lack of a descriptor.
ThreadStatus status_at(const Path& path) noexcept {
  Text text;
  const int error = read_text(path.data(), text);
  if (error == 0) return parse_status(text);
  return {.state = error == ENOENT || error == ESRCH ? kNone : kUnknown};
}

ThreadStatus status_of(pid_t pid) noexcept {
  Path path;
  std::snprintf(path.data(), path.size(), "/proc/%d/stat", static_cast<int>(pid));
  return status_at(path);
}

// Whether process `pid` has a thread `tid`, or has ended and is still in the table of processes.
// The peer may have written any number into the slot; for a number that no thread can have, the
// kernel would report another error than ESRCH.
bool exists(pid_t pid, std::uint32_t tid) noexcept {
  constexpr int kNoSignal = 0;
  if (tid == 0 || tid > std::numeric_limits<pid_t>::max()) return false;
  return ::syscall(SYS_tgkill, pid, static_cast<pid_t>(tid), kNoSignal) == 0 || errno != ESRCH;
}

bool has_gone(char state) noexcept { return state == kNone || state == 'Z' || state == 'X'; }

// Whether a thread that a signal has stopped in process_vm_readv or process_vm_writev has finished
// the copy: a signal stops a thread on its way back from a system call, not before or within it.
bool stopped_behind_copy(pid_t pid, std::uint32_t tid) noexcept {
  Path path;
  std::snprintf(path.data(), path.size(), "/proc/%d/task/%u/syscall", static_cast<int>(pid), tid);
  Text call;
  if (read_text(path.data(), call) != 0) return false;
  char* end = nullptr;
  const long number = std::strtol(call.data(), &end, 10);
  return end != call.data() && (number == SYS_process_vm_readv || number == SYS_process_vm_writev);
}

// Whether /proc shows processes under the pids of our own pid namespace. It may be mounted for
// another one.
bool proc_is_ours() noexcept {
  Path self{};
  return ::readlink("/proc/self", self.data(), self.size() - 1) > 0 &&
         std::strtol(self.data(), nullptr, 10) == ::getpid();
}

// Returns 0 if there is no such process, or it belongs to another user.
pid_t pid_at_end_of(int socket) noexcept {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return 0;
  return peer.uid == ::geteuid() ? peer.pid : 0;
}

}  // namespace

bool is_of_our_user(int socket) noexcept { return pid_at_end_of(socket) != 0; }

Process Process::at_end_of(int socket) noexcept {
  Process process;
  const pid_t pid = pid_at_end_of(socket);
  if (pid == 0 || !proc_is_ours()) return process;
  const ThreadStatus status = status_of(pid);
  if (has_gone(status.state) || status.state == kUnknown) return process;
  process.pid_ = pid;
  process.start_ = status.start;
  return process;
}

// A process that is missing in /proc may only be hidden (hidepid=, systemd's ProtectProc=): the
// process, or this one, may have changed its user since the process was found.
bool Process::may_still_copy(std::uint32_t tid) const noexcept {
  if (!exists(pid_, tid)) return false;
  if (!proc_is_ours()) return true;
  const ThreadStatus process = status_of(pid_);
  if (process.state == kUnknown || process.state == kNone) return true;
  if (process.start != start_) return false;
  Path path;
  std::snprintf(path.data(), path.size(), "/proc/%d/task/%u/stat", static_cast<int>(pid_), tid);
  const char state = status_at(path).state;
  if (has_gone(state)) return state == kNone;
  // State 't' does not count: a debugger may also stop a thread before the system call.
  return state != 'T' || !stopped_behind_copy(pid_, tid);
}

void Users::keep_gone() noexcept {
  const auto end = users_.begin() + static_cast<std::ptrdiff_t>(count_);
  const auto kept = std::remove_if(users_.begin(), end, [](const User& user) {
    return user.process.may_still_copy(user.thread);
  });
  count_ = static_cast<std::size_t>(kept - users_.begin());
}

bool Users::contain(const Process& process, std::uint32_t thread) const noexcept {
  return std::any_of(
      users_.begin(), users_.begin() + static_cast<std::ptrdiff_t>(count_),
      [&](const User& user) { return user.thread == thread && user.process == process; });
}

// ---- grants -------------------------------------------------------------------------------------

Grants::Grants(GrantSlots& slots, OfferSlots& offers, const Process& peer) noexcept : peer_(peer) {
  for (std::size_t i = 0; i < kGrantSlots; ++i) grants_[i].slot = &slots[i];
  for (std::uint32_t i = 0; i < kOffers; ++i) offer_for(i).slot = &offers[i];
  for (Grant& grant : grants_) grant.owner = this;
}

bool Grants::has(std::uint32_t stag) const noexcept {
  const std::size_t first = grant_places(stag);
  for (std::size_t i = first; i < first + kGrantPlaces; ++i) {
    if (grants_[i].stag.load(std::memory_order_relaxed) == stag) return true;
  }
  return false;
}

Grants::Grant* Grants::place_for(std::uint32_t stag) noexcept {
  const std::size_t first = grant_places(stag);
  for (std::size_t i = first; i < first + kGrantPlaces; ++i) {
    if (grants_[i].stag.load(std::memory_order_relaxed) == 0) return &grants_[i];
  }
  for (std::size_t i = 0; i < kGrantPlaces; ++i) {
    Grant& grant = grants_[first + victim_++ % kGrantPlaces];
    if (grant.withdrawn) continue;
    withdraw(grant);
    if (!in_use(grant, {})) return &grant;
    grant.withdrawn = false;
    grant.slot->stag.store(grant.stag.load(std::memory_order_relaxed), std::memory_order_seq_cst);
  }
  return nullptr;
}

void Grants::give(Grant& grant, std::uint32_t stag, std::uint32_t entry,
                  const Range& range) noexcept {
  GrantSlot& slot = *grant.slot;
  slot.to.store(range.to, std::memory_order_relaxed);
  slot.length.store(range.length, std::memory_order_relaxed);
  slot.address.store(range.address, std::memory_order_relaxed);
  slot.rights.store(range.rights, std::memory_order_relaxed);
  grant.stag.store(stag, std::memory_order_relaxed);
  grant.entry = entry;
  grant.withdrawn = false;
  ++given_;
  slot.stag.store(stag, std::memory_order_seq_cst);
}

void Grants::withdraw(Grant& grant) noexcept {
  grant.withdrawn = true;
  grant.slot->stag.store(0, std::memory_order_seq_cst);
}

bool Grants::in_use(const Grant& grant, const Users& gone) noexcept {
  const std::uint32_t user = grant.slot->user.load(std::memory_order_seq_cst);
  return user != 0 && !gone.contain(grant.owner->peer_, user);
}

void Grants::add_user(const Grant& grant, Users& users) noexcept {
  const std::uint32_t user = grant.slot->user.load(std::memory_order_seq_cst);
  if (user != 0) users.add(grant.owner->peer_, user);
}

void Grants::free(Grant& grant) noexcept {
  grant.stag.store(0, std::memory_order_relaxed);
  grant.next = nullptr;
  --given_;
}

}  // namespace udapl::soft::shm
