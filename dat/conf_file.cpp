// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dat/conf_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/errno_text.h"
#include "common/fd.h"
#include "common/nonblocking/await_input.h"

#ifndef DAT_SYSCONFDIR
#error "DAT_SYSCONFDIR must name the folder of the system's dat.conf"
#endif

namespace udapl::dat {

namespace {

// No real file is that large. The limit is needed if DAT_OVERRIDE names an endless device.
constexpr std::size_t kMaxFileSize = std::size_t{16} << 20;
constexpr const char* kNoInputInTime = "it is a pipe or a device that delivered no data in time";

std::string describe(int error) { return ErrnoText(error).c_str(); }

// Whether a resource of the process or the system that is needed to open a file is exhausted,
// perhaps temporarily.
bool is_want(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM; }

// Appends the whole file to `text`. Returns the reason if that fails, else an empty string. Only
// reads forward, so that pipes work, as long as their input arrives by `until`: a FIFO may have no
// writer, and a terminal no user.
std::string read_file(const std::string& path, Clock::time_point until, std::string& text,
                      bool& resources_exhausted) {
  const Fd file = Fd::made(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  struct stat status {};
  if (!file.valid() || ::fstat(file.get(), &status) != 0) {
    resources_exhausted = is_want(errno);
    return describe(errno);
  }
  // Without this wait, a FIFO that has no writer yet would seem to be empty.
  if (S_ISFIFO(status.st_mode) && !await_input(file.get(), until)) return kNoInputInTime;
  constexpr std::size_t kPiece = 16384;  // not on the stack, which may be small
  for (;;) {
    const std::size_t before = text.size();
    text.resize(before + kPiece);
    const ssize_t got = ::read(file.get(), text.data() + before, kPiece);
    text.resize(before + static_cast<std::size_t>(got > 0 ? got : 0));
    if (got == 0) return {};
    if (got < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) return describe(errno);
      if (!await_input(file.get(), until)) return kNoInputInTime;
      continue;
    }
    if (text.size() > kMaxFileSize) return "larger than 16 MiB";
  }
}

}  // namespace

std::vector<std::string> conf_locations() {
  // secure_getenv: the user who starts a set-uid program must not choose the libraries it loads.
  const char* chosen = ::secure_getenv("DAT_OVERRIDE");
  if (chosen != nullptr && *chosen != '\0') return {chosen};
  std::vector<std::string> locations;
  for (const char* path : {DAT_SYSCONFDIR "/dat.conf", "/etc/dat.conf", "/etc/rdma/dat.conf"})
    if (std::find(locations.begin(), locations.end(), path) == locations.end())
      locations.emplace_back(path);
  return locations;
}

ConfFile read_configuration() {
  ConfFile file = read_conf_file(conf_locations());
  const char* wanted = std::getenv("DAT_OVERRIDE");
  if (wanted != nullptr && *wanted != '\0' && ::secure_getenv("DAT_OVERRIDE") == nullptr)
    file.attempts.insert(file.attempts.begin(),
                         {wanted,
                          "DAT_OVERRIDE is ignored, as this program has more rights than "
                          "the user who runs it"});
  return file;
}

ConfFile read_conf_file(const std::vector<std::string>& locations, Clock::duration limit) {
  ConfFile result;
  const Clock::time_point until = Clock::now() + limit;
  for (const std::string& path : locations) {
    std::string text;
    std::string failure = read_file(path, until, text, result.resources_exhausted);
    const bool read = failure.empty();
    result.attempts.push_back({path, std::move(failure)});
    if (result.resources_exhausted) break;
    if (!read) continue;
    result.conf = parse_conf(text);
    break;
  }
  return result;
}

}  // namespace udapl::dat
