// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <cstddef>
#include <span>

#include "common/fd.h"

namespace udapl::soft::shm {

// Memory that two processes share: a mapped memfd whose size is sealed. The memfd has no name, so
// nothing stays behind when both processes are killed.
//
// The peer may write anything into the memory at any time. It cannot shrink the memfd, because the
// size is sealed, so no access within bytes() raises SIGBUS.
class Region {
 public:
  Region() noexcept = default;
  Region(Region&& other) noexcept;
  Region& operator=(Region&& other) noexcept;
  ~Region();

  // Creates `size` bytes of zeros. On failure returns an invalid region and sets errno.
  [[nodiscard]] static Region make(std::size_t size) noexcept;
  // Maps a memfd that a peer has sent. Invalid with errno EPERM unless it is a memfd of ordinary
  // pages, of exactly `size` bytes, and its size and its seals can never change.
  [[nodiscard]] static Region adopt(Fd memfd, std::size_t size) noexcept;

  [[nodiscard]] bool valid() const noexcept { return !bytes_.empty(); }
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return bytes_; }
  [[nodiscard]] int fd() const noexcept { return memfd_.get(); }
  void close_fd() noexcept { memfd_.reset(); }  // the memory stays mapped
  // Discards the contents of a part and frees its pages. The part then reads as zeros, and its
  // pages are allocated again when they are used. May have no effect, e.g. if memory is locked.
  static void release_pages(std::span<std::byte> whole_pages) noexcept;

 private:
  Region(Fd memfd, std::span<std::byte> bytes) noexcept;
  [[nodiscard]] static Region map(Fd memfd, std::size_t size) noexcept;

  Fd memfd_;
  std::span<std::byte> bytes_;
};

}  // namespace udapl::soft::shm
