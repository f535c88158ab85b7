// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "common/signal_handlers.h"

#include "common/fd.h"
#include "common/not_cancelled.h"

#include <array>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>

#include <fcntl.h>
#include <unistd.h>

namespace udapl {

namespace {

constexpr int kSetxid = 33;  // the C library's own, by which threads change the user together

using Signals = std::uint64_t;  // as /proc shows them
using Text = std::array<char, 4096>;

constexpr Signals only(int signal) noexcept { return Signals{1} << (signal - 1); }

constexpr Signals kNotCounted = only(SIGSEGV) | only(SIGBUS) | only(SIGFPE) | only(SIGILL) |
                                only(SIGTRAP) | only(SIGSYS) | only(SIGABRT) | only(kSetxid);

bool read_status(Text& text) noexcept {
  const NotCancelled scope;
  text = Text{};
  const Fd file = Fd::made(::open("/proc/thread-self/status", O_RDONLY | O_CLOEXEC));
  return file.valid() && ::read(file.get(), text.data(), text.size() - 1) > 0;
}

std::optional<Signals> field(const Text& text, const char* name) noexcept {
  const char* at = std::strstr(text.data(), name);
  if (at == nullptr) return std::nullopt;
  return std::strtoull(at + std::strlen(name), nullptr, 16);
}

}  // namespace

bool handler_may_have_run() noexcept {
  Text text;
  if (!read_status(text)) return true;
  const std::optional<Signals> blocked = field(text, "\nSigBlk:");
  const std::optional<Signals> handled = field(text, "\nSigCgt:");
  return !blocked || !handled || (*handled & ~*blocked & ~kNotCounted) != 0;
}

}  // namespace udapl
