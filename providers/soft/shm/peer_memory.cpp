// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/shm/peer_memory.h"

#include "common/errno_text.h"
#include "common/fd.h"
#include "common/not_cancelled.h"
#include "common/placement.h"
#include "common/thread_id.h"
#include "common/tracing/trace.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <mutex>

#include <fcntl.h>
#include <sys/personality.h>
#include <sys/random.h>
#include <unistd.h>

namespace udapl::soft::shm {

namespace {

// The maximum that one call copies, because revocation waits for the call, and the lock of the QP
// is held during it.
constexpr std::size_t kMaxAtOnce = 512 * 1024;
constexpr std::size_t kMaxPieces = kMaxLocalPieces - 1;  // of local memory in one call
constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();
// Below this address, programs have memory at the addresses that they were linked for. Above it,
// all addresses are random.
constexpr std::uint64_t kRandomFrom = std::uint64_t{1} << 32U;

// ---- our identity -------------------------------------------------------------------------------

// The random number of this process. A forked child stores another number at the same address.
struct Nonce {
  std::array<std::uint64_t, 2> value{};
  pid_t owner = 0;
};

const std::array<std::uint64_t, 2>* nonce() noexcept {
  static std::mutex lock;
  static Nonce ours;
  const std::scoped_lock guard(lock);
  const pid_t self = ::getpid();
  if (ours.owner != self) {
    const NotCancelled scope;
    if (::getrandom(ours.value.data(), sizeof ours.value, GRND_NONBLOCK) !=
        static_cast<ssize_t>(sizeof ours.value))
      return nullptr;
    ours.owner = self;
  }
  return &ours.value;
}

// Whether address randomisation is off, for this process or for the system.
bool has_fixed_addresses() noexcept {
  static const bool fixed = [] {
    const NotCancelled scope;
    constexpr unsigned long kQuery = 0xffffffff;
    const int persona = ::personality(kQuery);
    if (persona != -1 && (persona & ADDR_NO_RANDOMIZE) != 0) return true;
    const Fd file = Fd::made(::open("/proc/sys/kernel/randomize_va_space", O_RDONLY | O_CLOEXEC));
    char digit = '2';
    return file.valid() && ::read(file.get(), &digit, 1) == 1 && digit != '2';
  }();
  return fixed;
}

// ---- pieces of local memory ---------------------------------------------------------------------

// Iterates over a list of spans.
class Cursor {
 public:
  explicit Cursor(std::span<const iovec> list) noexcept : list_(list) {}

  // Appends the next `bytes` bytes to `out`, in pieces, and returns their number: fewer if there is
  // no room for more pieces.
  std::size_t take(std::size_t bytes, std::span<iovec> out, std::size_t& pieces) noexcept {
    std::size_t taken = 0;
    while (taken != bytes && pieces != out.size() && at_ != list_.size()) {
      const iovec& from = list_[at_];
      const std::size_t size = std::min(bytes - taken, from.iov_len - offset_);
      if (size != 0) out[pieces++] = {static_cast<std::byte*>(from.iov_base) + offset_, size};
      taken += size;
      offset_ += size;
      if (offset_ != from.iov_len) continue;
      ++at_;
      offset_ = 0;
    }
    return taken;
  }

 private:
  std::span<const iovec> list_;
  std::size_t at_ = 0;
  std::size_t offset_ = 0;
};

// The last bytes of an access: up to eight, in as many pieces.
struct Tail {
  alignas(kPlacedLast) std::array<std::byte, kPlacedLast> bytes{};
  std::array<iovec, kPlacedLast> places{};
  std::size_t count = 0;
  std::size_t size = 0;

  void gather() noexcept {
    std::byte* to = bytes.data();
    for (std::size_t i = 0; i != count; ++i) {
      std::memcpy(to, places[i].iov_base, places[i].iov_len);
      to += places[i].iov_len;
    }
  }
  void place() const noexcept {
    const std::byte* from = bytes.data();
    for (std::size_t i = 0; i != count; ++i) {
      place_bytes(static_cast<std::byte*>(places[i].iov_base), {from, places[i].iov_len});
      from += places[i].iov_len;
    }
  }
};

void* at_address(std::uint64_t address) noexcept {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

// Returns the address of the bytes in the owner's process, or 0 if the access is out of bounds or
// not permitted. The owner may have written any values into the slot; the copy only reaches memory
// of the owner, and the kernel refuses an address that is not mapped.
std::uint64_t place_of(const GrantSlot& slot, const PeerMemory::Access& access) noexcept {
  const std::uint64_t length = slot.length.load(std::memory_order_relaxed);
  const std::uint64_t offset = access.to - slot.to.load(std::memory_order_relaxed);
  if ((slot.rights.load(std::memory_order_relaxed) & access.right) == 0 || offset > length ||
      access.length > length - offset)
    return 0;
  return slot.address.load(std::memory_order_relaxed) + offset;
}

// Marks a slot as in use by this thread, for a scope.
class Use {
 public:
  Use(GrantSlot& slot, std::uint32_t stag, std::uint32_t thread) noexcept : slot_(slot) {
    slot_.user.store(thread, std::memory_order_seq_cst);
    granted_ = slot_.stag.load(std::memory_order_seq_cst) == stag;
  }
  // release: the copy is complete before the owner sees the 0.
  ~Use() { slot_.user.store(0, std::memory_order_release); }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  [[nodiscard]] bool granted() const noexcept { return granted_; }

 private:
  GrantSlot& slot_;
  bool granted_ = false;
};

}  // namespace

// ---- thresholds ---------------------------------------------------------------------------------

// A copy through the ring costs one memcpy on each side, one after the other, and a fraction of a
// microsecond for each cache line that the two sides exchange. An RDMA Read needs two messages.
Thresholds thresholds(const CopyCosts& costs) noexcept {
  // The cost of the ring, in memcpy copies within the caches. A direct copy costs 4 to 5 on Zen 3,
  // some 2 on Intel processors.
  constexpr double kRingCopies = 3.5;
  constexpr double kQuickCall = 0.9;  // us, less than two messages of a ring
  // us. A peer wakes within 25 us if its processor is idle, but needs a millisecond or more if the
  // processor is busy, which cannot be known in advance.
  constexpr double kWakeUp = 100;
  constexpr std::size_t kSize = 64 * 1024;
  Thresholds found{kNever, kNever, kNever, kNever};
  if (costs.per_64k_us <= kRingCopies * costs.memcpy_64k_us) {
    const bool quick = costs.call_us <= kQuickCall;
    found.write_from = quick ? 2048 : 4096;
    found.read_from = quick ? 0 : 4096;
    found.borrow_from = 8192;
  } else {
    const double extra_us_per_byte = (costs.per_64k_us - costs.memcpy_64k_us) / kSize;
    found.asleep_most = std::max(kSize, static_cast<std::size_t>(kWakeUp / extra_us_per_byte));
  }
  return found;
}

void greet(Greeting& ours) noexcept {
  const auto* const number = nonce();
  if (number == nullptr) return;
  for (std::size_t i = 0; i < number->size(); ++i)
    ours.nonce[i].store((*number)[i], std::memory_order_relaxed);
  ours.fixed.store(has_fixed_addresses() ? 1 : 0, std::memory_order_relaxed);
  ours.nonce_at.store(reinterpret_cast<std::uintptr_t>(number->data()), std::memory_order_release);
}

// ---- a peer -------------------------------------------------------------------------------------

void PeerMemory::give_up(const char* why, int error) noexcept {
  state_ = State::kOutOfReach;
  std::array<char, 32> process{"the peer"};
  if (peer_.pid != 0)
    std::snprintf(process.data(), process.size(), "process %d", static_cast<int>(peer_.pid));
  UDAPL_TRACE(
      kNormal, "RDMA Reads and Writes need %s to take part: %s%s%s%s", process.data(), why,
      error != 0 ? ": " : "", error != 0 ? ErrnoText(error).c_str() : "",
      error == EPERM ? "; try: kernel.yama.ptrace_scope=0, or the capability SYS_PTRACE" : "");
}

// The user is checked first: a peer of another user offers no direct access either, but the trace
// must name the user as the reason.
void PeerMemory::try_once() noexcept {
  constexpr char kHidden[] = "it belongs to another user or is not visible from here";
  if (!is_of_our_user(bell_)) return give_up(kHidden, 0);
  const std::uint64_t at = theirs_.nonce_at.load(std::memory_order_acquire);
  if (at == 0)
    return give_up("it offers no direct access: direct=off, or it does not see this process", 0);
  if (at > UINTPTR_MAX) return give_up("it has addresses of 64 bits, and this process of 32", 0);
  const Process peer = Process::at_end_of(bell_);
  peer_.pid = peer.pid();
  if (!peer.valid()) return give_up(kHidden, 0);
  Remote::Mark found{};
  const iovec local{found.data(), sizeof found};
  const iovec remote{at_address(at), sizeof found};
  if (::process_vm_readv(peer_.pid, &local, 1, &remote, 1, 0) != static_cast<ssize_t>(sizeof found))
    return give_up("process_vm_readv", errno);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] != theirs_.nonce[i].load(std::memory_order_relaxed))
      return give_up("the process found is not the peer", 0);
  }
  unmarked_.pid = peer_.pid;
  peer_.mark_at = at;
  peer_.mark = found;
  thresholds_ = thresholds(copy_costs());
  state_ = State::kReached;
  ours_.reaches.store(1, std::memory_order_release);
  UDAPL_TRACE(kNormal, "RDMA Reads and Writes reach process %d without its threads",
              static_cast<int>(peer_.pid));
}

bool PeerMemory::suits(const Access& access, bool asleep) noexcept {
  if (state_ == State::kUntried) [[unlikely]]
    try_once();
  if (state_ != State::kReached) return false;
  if (asleep) return access.length <= thresholds_.asleep_most;
  return access.length >= (access.write ? thresholds_.write_from : thresholds_.read_from);
}

std::size_t PeerMemory::borrows_from() noexcept {
  if (state_ == State::kUntried) try_once();
  return state_ == State::kReached && thresholds_.borrow_from != kNever ? thresholds_.borrow_from
                                                                        : 0;
}

// A mark costs a fifth of a short copy. It is left out for random addresses: a new program with the
// same pid would have memory there only by chance, so the kernel refuses the copy (docs/adr/0044).
const Remote& PeerMemory::process_for(std::uint64_t address) const noexcept {
  return address < kRandomFrom || theirs_.fixed.load(std::memory_order_relaxed) != 0 ? peer_
                                                                                     : unmarked_;
}

bool PeerMemory::fetch(std::uint64_t address, std::span<const iovec> local) noexcept {
  if (state_ != State::kReached) return false;  // a loan that this side has not asked for
  if (read_process(process_for(address), address, local)) [[likely]]
    return true;
  if (errno == ESRCH) return false;  // the process is gone, which is reported elsewhere
  UDAPL_TRACE(kNormal, "messages of process %d have to be copied twice: process_vm_readv%s%s",
              static_cast<int>(peer_.pid), errno != 0 ? ": " : " read only a part",
              errno != 0 ? ErrnoText(errno).c_str() : "");
  return false;
}

GrantSlot* PeerMemory::find(const Access& access) noexcept {
  if (access.stag == 0) return nullptr;  // the mark of an empty slot
  const std::span<GrantSlot> places =
      access.receive ? std::span(offers_).subspan(access.stag % kOffers, 1)
                     : std::span(granted_).subspan(grant_places(access.stag), kGrantPlaces);
  for (GrantSlot& slot : places) {
    if (slot.stag.load(std::memory_order_acquire) == access.stag) return &slot;
  }
  return nullptr;
}

bool PeerMemory::copy(const Access& access, std::span<const iovec> local) noexcept {
  GrantSlot* const slot = find(access);
  return slot != nullptr && copy_some(*slot, access, local);
}

bool PeerMemory::granted(const Access& access) noexcept {
  const GrantSlot* const slot = find(access);
  return slot != nullptr && place_of(*slot, access) != 0;
}

// Copies in steps of at most kMaxAtOnce bytes. The last step includes the tail.
bool PeerMemory::copy_some(GrantSlot& slot, const Access& access,
                           std::span<const iovec> local) noexcept {
  const auto thread = static_cast<std::uint32_t>(thread_id());
  const std::size_t tail_size = std::min<std::size_t>(access.length, kPlacedLast);
  std::size_t left = access.length - tail_size;
  std::size_t done = 0;
  Cursor cursor(local);
  Tail tail;
  for (bool last = false; !last;) {
    std::array<iovec, kMaxPieces + 1> pieces;
    std::size_t count = 0;
    const std::size_t body =
        cursor.take(std::min(left, kMaxAtOnce), {pieces.data(), kMaxPieces}, count);
    left -= body;
    last = left == 0;
    if (body == 0 && !last) return false;  // the list is shorter than the access
    if (last) {
      tail.size = cursor.take(tail_size, tail.places, tail.count);
      if (tail.size != tail_size) return false;
      if (access.write) tail.gather();
      pieces[count++] = {tail.bytes.data(), tail_size};
    }
    const Use use(slot, access.stag, thread);
    const std::uint64_t place = use.granted() ? place_of(slot, access) : 0;
    if (place == 0) return false;
    const std::span<const iovec> memory(pieces.data(), count);
    const Remote& process = process_for(place + done);
    const bool copied = access.write ? write_process(process, place + done, memory, tail.size)
                                     : read_process(process, place + done, memory);
    if (!copied) {
      if (errno == EPERM || errno == ESRCH || errno == ENOSYS)
        give_up("direct access is no longer possible", errno);
      return false;
    }
    done += body;
  }
  if (!access.write) tail.place();
  return true;
}

}  // namespace udapl::soft::shm
