// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/shm/region.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <utility>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>

namespace udapl::soft::shm {

namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// Only a memfd can have these seals. A memfd of huge pages is refused, because other rules apply to
// its size and mapping.
bool cannot_change(int fd, std::size_t size) noexcept {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) return false;
  struct statfs system {};
  if (::fstatfs(fd, &system) != 0 || system.f_type != TMPFS_MAGIC) return false;
  struct stat file {};
  return ::fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_size >= 0 &&
         static_cast<std::size_t>(file.st_size) == size;
}

// ftruncate() beyond the limit of the file size would kill the process (SIGXFSZ).
bool within_file_limit(std::size_t size) noexcept {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && size <= limit.rlim_cur;
}

std::atomic<std::size_t> mapped_size{0};  // of all regions of the process

// Returns false if all regions together would take more than a quarter of a limited address space
// (ulimit -v, or 32 bits): the rest is left to the program.
bool take_address_space(std::size_t size) noexcept {
  constexpr rlim_t kShare = 4;
  rlimit limit{};
  const std::size_t mapped = mapped_size.fetch_add(size, std::memory_order_relaxed) + size;
  if (::getrlimit(RLIMIT_AS, &limit) == 0 &&
      mapped <= std::min(limit.rlim_cur, rlim_t{SIZE_MAX}) / kShare)
    return true;
  mapped_size.fetch_sub(size, std::memory_order_relaxed);
  errno = ENOMEM;
  return false;
}

void unmap(void* at, std::size_t size) noexcept {
  ::munmap(at, size);
  mapped_size.fetch_sub(size, std::memory_order_relaxed);
}

}  // namespace

Region::Region(Fd memfd, std::span<std::byte> bytes) noexcept
    : memfd_(std::move(memfd)), bytes_(bytes) {}

Region::Region(Region&& other) noexcept
    : memfd_(std::move(other.memfd_)), bytes_(std::exchange(other.bytes_, {})) {}

Region& Region::operator=(Region&& other) noexcept {
  if (this == &other) return *this;
  if (valid()) unmap(bytes_.data(), bytes_.size());
  memfd_ = std::move(other.memfd_);
  bytes_ = std::exchange(other.bytes_, {});
  return *this;
}

Region::~Region() {
  if (valid()) unmap(bytes_.data(), bytes_.size());
}

void Region::release_pages(std::span<std::byte> whole_pages) noexcept {
  ::madvise(whole_pages.data(), whole_pages.size(), MADV_REMOVE);
}

Region Region::make(std::size_t size) noexcept {
  if (!within_file_limit(size)) {
    errno = EFBIG;
    return {};
  }
  Fd memfd = Fd::made(::memfd_create("udapl-soft", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memfd.valid()) return {};
  if (::ftruncate(memfd.get(), static_cast<off_t>(size)) != 0) return {};
  if (::fcntl(memfd.get(), F_ADD_SEALS, kSeals) != 0) return {};
  return map(std::move(memfd), size);
}

Region Region::adopt(Fd memfd, std::size_t size) noexcept {
  if (cannot_change(memfd.get(), size)) return map(std::move(memfd), size);
  memfd.reset();
  errno = EPERM;
  return {};
}

Region Region::map(Fd memfd, std::size_t size) noexcept {
  if (!take_address_space(size)) return {};
  // In a program that has locked its future memory (mlockall), mapping with access would allocate
  // all pages now.
  void* const at = ::mmap(nullptr, size, PROT_NONE, MAP_SHARED, memfd.get(), 0);
  if (at == MAP_FAILED) {
    mapped_size.fetch_sub(size, std::memory_order_relaxed);
    return {};
  }
  ::munlock(at, size);
  // A core dump would contain all pages, and would allocate those that are not used yet.
  ::madvise(at, size, MADV_DONTDUMP);
  if (::mprotect(at, size, PROT_READ | PROT_WRITE) != 0) {
    const int error = errno;
    unmap(at, size);
    errno = error;
    return {};
  }
  return {std::move(memfd), {static_cast<std::byte*>(at), size}};
}

}  // namespace udapl::soft::shm
