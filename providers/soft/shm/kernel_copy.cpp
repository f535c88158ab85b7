// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/shm/kernel_copy.h"

#include "common/copy_bytes.h"
#include "common/tracing/trace.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <optional>

#include <unistd.h>

namespace udapl::soft::shm {

namespace {

constexpr std::size_t kPage = 4096;  // of slow_distance(), whatever the machine's page size is

void* at_address(std::uint64_t address) noexcept {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

// Whether this process can name the memory: a process of 32 bits cannot name all memory of a peer
// of 64 bits. If not, sets errno.
bool can_name(std::uint64_t address, std::size_t size) noexcept {
  constexpr std::uint64_t kBeyond = UINTPTR_MAX;
  if (address <= kBeyond && size <= kBeyond - address) return true;
  errno = EFAULT;
  return false;
}

std::size_t size_of(std::span<const iovec> list) noexcept {
  std::size_t size = 0;
  for (const iovec& piece : list) size += piece.iov_len;
  return size;
}

// A list of spans of which the first is the mark, if there is one.
template <std::size_t kMax>
class Marked {
 public:
  Marked(const Remote& remote, void* mark) noexcept {
    if (remote.mark_at != 0) add({mark, sizeof remote.mark});
  }
  void add(const iovec& span) noexcept { spans_[count_++] = span; }
  [[nodiscard]] const iovec* data() const noexcept { return spans_.data(); }
  [[nodiscard]] std::size_t count() const noexcept { return count_; }

 private:
  std::array<iovec, kMax + 1> spans_;
  std::size_t count_ = 0;
};

// Whether a call has copied the mark and all other bytes. If not, errno is the reason.
bool is_whole(const Remote& remote, ssize_t copied, std::size_t size) noexcept {
  const std::size_t mark = remote.mark_at != 0 ? sizeof remote.mark : 0;
  if (copied == static_cast<ssize_t>(mark + size)) return true;
  if (mark != 0 && copied < 0 && errno == EFAULT) errno = ESRCH;  // there is no mark
  return false;
}

// The kernel looks the process up once per call, so all bytes of a call come from the same memory
// as the mark.
bool read_plainly(const Remote& remote, std::uint64_t address, std::span<const iovec> local,
                  std::size_t size) noexcept {
  if (local.size() > kMaxLocalPieces || !can_name(address, size)) return false;
  Remote::Mark mark;
  Marked<kMaxLocalPieces> to(remote, &mark);
  for (const iovec& piece : local) to.add(piece);
  Marked<1> from(remote, at_address(remote.mark_at));
  from.add({at_address(address), size});
  errno = 0;
  if (!is_whole(remote,
                ::process_vm_readv(remote.pid, to.data(), to.count(), from.data(), from.count(), 0),
                size))
    return false;
  if (remote.mark_at == 0 || mark == remote.mark) return true;
  errno = ESRCH;
  return false;
}

// The kernel writes the pieces in this order: the mark, the body, the last bytes. The mark is
// written over itself. If its address is not mapped, the call ends before it has written anything.
bool write_plainly(const Remote& remote, std::uint64_t address, std::span<const iovec> local,
                   std::size_t size, std::size_t last) noexcept {
  if (local.size() > kMaxLocalPieces || !can_name(address, size)) return false;
  Marked<kMaxLocalPieces> from(remote, const_cast<Remote::Mark*>(&remote.mark));
  for (const iovec& piece : local) from.add(piece);
  Marked<2> to(remote, at_address(remote.mark_at));
  const std::size_t first = size - last;
  if (first != 0) to.add({at_address(address), first});
  if (last != 0) to.add({at_address(address + first), last});
  errno = 0;
  return is_whole(
      remote, ::process_vm_writev(remote.pid, from.data(), from.count(), to.data(), to.count(), 0),
      size);
}

// Whether some of the pieces are copied slowly. Short ones do not matter.
bool is_slow(std::uint64_t address, std::span<const iovec> local, bool write) noexcept {
  constexpr std::size_t kShort = 1024;
  for (const iovec& piece : local) {
    const void* const there = at_address(address);
    if (piece.iov_len > kShort &&
        (write ? slow_distance(there, piece.iov_base) : slow_distance(piece.iov_base, there)))
      return true;
    address += piece.iov_len;
  }
  return false;
}

// Memory of this process whose distance from the peer's bytes is a multiple of the page size, which
// is not a slow distance.
class Detour {
 public:
  // The maximum that is copied at once, without the last bytes of a write.
  static constexpr std::size_t kSize = 32 * 1024;
  static constexpr std::size_t kMaxLast = 64;

  Detour() noexcept : bytes_(new (std::nothrow) std::byte[kSize + kMaxLast + 2 * kPage]) {}
  [[nodiscard]] bool valid() const noexcept { return bytes_ != nullptr; }
  [[nodiscard]] std::byte* beside(std::uint64_t address) const noexcept {
    const auto start = reinterpret_cast<std::uintptr_t>(bytes_.get());
    return bytes_.get() + (address - start) % kPage;
  }

 private:
  std::unique_ptr<std::byte[]> bytes_;
};

// Iterates over a list of spans.
class Pieces {
 public:
  explicit Pieces(std::span<const iovec> list) noexcept : list_(list) {}

  // Calls `copy` with the memory of the next `bytes` bytes, and their offset among them.
  template <class Copy>
  void each(std::size_t bytes, const Copy& copy) noexcept {
    for (std::size_t done = 0; done != bytes;) {
      const iovec& piece = list_.front();
      const std::size_t size = std::min(bytes - done, piece.iov_len - offset_);
      if (size != 0) copy(static_cast<std::byte*>(piece.iov_base) + offset_, done, size);
      done += size;
      offset_ += size;
      if (offset_ != piece.iov_len) continue;
      list_ = list_.subspan(1);
      offset_ = 0;
    }
  }

 private:
  std::span<const iovec> list_;
  std::size_t offset_ = 0;
};

// ---- calibration --------------------------------------------------------------------------------

// Returns the time of the fastest run: other load on the machine only makes runs slower.
template <class Run>
double best_us(int runs, Run run) noexcept {
  double best = std::numeric_limits<double>::max();
  for (int i = 0; i < runs; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  return best;
}

CopyCosts measure() {
  constexpr std::size_t kSize = 64 * 1024;
  constexpr std::size_t kSlow = 16;
  constexpr double kUnusable = 1e6;
  // `from` and `to` are in one block, so that their distance is known.
  const auto block = std::make_unique<std::byte[]>(2 * kSize + kSlow);
  std::byte* const from = block.get();
  std::byte* const to = from + kSize;
  std::memset(from, 1, 2 * kSize + kSlow);
  bool works = true;
  const auto copy = [&](std::byte* into, std::size_t size) {
    const iovec local{into, size};
    works = read_plainly(Remote{::getpid()}, reinterpret_cast<std::uintptr_t>(from), {&local, 1},
                         size) &&
            works;
  };
  CopyCosts costs;
  costs.call_us = best_us(16, [&] { copy(to, sizeof(std::uint64_t)); });
  costs.per_64k_us = best_us(6, [&] { copy(to, kSize); });
  costs.slow_64k_us = best_us(3, [&] { copy(to + kSlow, kSize); });
  // volatile, because the compiler would otherwise remove a copy whose result is not used.
  void* (*volatile const plain)(void*, const void*, std::size_t) = std::memcpy;
  costs.memcpy_64k_us = best_us(6, [&] { plain(to, from, kSize); });
  if (!works) costs.call_us = costs.per_64k_us = kUnusable;
  return costs;
}

std::optional<CopyCosts> assumed;

CopyCosts measure_once() noexcept {
  if (assumed) return *assumed;
  try {
    const CopyCosts found = measure();
    UDAPL_TRACE(kDetail,
                "process_vm_readv takes %.2f us for 8 bytes, %.1f us for 64 KiB, at a slow "
                "distance %.1f us; memcpy %.1f us",
                found.call_us, found.per_64k_us, found.slow_64k_us, found.memcpy_64k_us);
    return found;
  } catch (const std::bad_alloc&) {
    return CopyCosts{1.5, 6.4, 1.4, 6.4};  // of a typical machine
  }
}

}  // namespace

const CopyCosts& copy_costs() noexcept {
  static const CopyCosts costs = measure_once();
  return costs;
}

void assume_copy_costs(const CopyCosts& costs) noexcept { assumed = costs; }

// ---- copies -------------------------------------------------------------------------------------

bool read_process(const Remote& remote, std::uint64_t address,
                  std::span<const iovec> local) noexcept {
  if (is_slow(address, local, false) && copy_costs().detours_pay())
    return read_by_detour(remote, address, local);
  return read_plainly(remote, address, local, size_of(local));
}

bool write_process(const Remote& remote, std::uint64_t address, std::span<const iovec> local,
                   std::size_t last) noexcept {
  if (is_slow(address, local, true) && copy_costs().detours_pay())
    return write_by_detour(remote, address, local, last);
  return write_plainly(remote, address, local, size_of(local), last);
}

bool read_by_detour(const Remote& remote, std::uint64_t address,
                    std::span<const iovec> local) noexcept {
  const Detour detour;
  const std::size_t size = size_of(local);
  if (!detour.valid()) return read_plainly(remote, address, local, size);
  Pieces pieces(local);
  for (std::size_t done = 0; done != size;) {
    const std::size_t bytes = std::min(size - done, Detour::kSize);
    std::byte* const between = detour.beside(address + done);
    const iovec piece{between, bytes};
    if (!read_plainly(remote, address + done, {&piece, 1}, bytes)) return false;
    pieces.each(bytes, [between](std::byte* to, std::size_t offset, std::size_t count) {
      copy_bytes(to, between + offset, count);
    });
    done += bytes;
  }
  return true;
}

bool write_by_detour(const Remote& remote, std::uint64_t address, std::span<const iovec> local,
                     std::size_t last) noexcept {
  const Detour detour;
  const std::size_t size = size_of(local);
  if (!detour.valid() || last > Detour::kMaxLast)
    return write_plainly(remote, address, local, size, last);
  Pieces pieces(local);
  for (std::size_t done = 0; done != size;) {
    std::size_t bytes = std::min(size - last - done, Detour::kSize);
    const std::size_t behind = done + bytes == size - last ? last : 0;
    bytes += behind;
    std::byte* const between = detour.beside(address + done);
    pieces.each(bytes, [between](const std::byte* from, std::size_t offset, std::size_t count) {
      copy_bytes(between + offset, from, count);
    });
    const iovec piece{between, bytes};
    if (!write_plainly(remote, address + done, {&piece, 1}, bytes, behind)) return false;
    done += bytes;
  }
  return true;
}

}  // namespace udapl::soft::shm
