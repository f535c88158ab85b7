// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// TCP sockets with TCP_NODELAY, for comparison. Not thread-safe. Failures throw Trouble.
#pragma once

#include "plan.h"

#include <span>
#include <utility>

namespace datperf {

class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  ~Socket();

  [[nodiscard]] int descriptor() const { return descriptor_; }
  void send_at_once() const;

  /** Writes all of the bytes. */
  void write(std::span<const std::byte> bytes, Waiting waiting) const;
  /** Reads all of the bytes. Returns false if the peer has closed before the first one. */
  [[nodiscard]] bool read(std::span<std::byte> bytes, Waiting waiting) const;

 private:
  int descriptor_;
};

/** Throws Trouble with the text "what: why", where errno is the reason. */
[[noreturn]] void fail_socket(const char* what);

}  // namespace datperf
