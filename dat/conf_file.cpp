// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dat/conf_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

#include <fcntl.h>
#include <unistd.h>

#include "common/errno_text.h"
#include "common/fd.h"

#ifndef DAT_SYSCONFDIR
#error "DAT_SYSCONFDIR must name the folder of the system's dat.conf"
#endif

namespace udapl::dat {

namespace {

// Nobody writes such a file; the limit is for an override that names an endless device.
constexpr std::size_t kMaxFileSize = std::size_t{16} << 20;

std::string describe(int error) { return ErrnoText(error).c_str(); }

// The process or the system has used up what it takes to open a file, and may have it again.
bool is_want(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM; }

// Appends the whole file to `text`. Returns why not, or an empty string. Only reads forward, so
// pipes will do.
std::string read_file(const std::string& path, std::string& text, bool& starved) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) {
    starved = is_want(errno);
    return describe(errno);
  }
  std::array<char, 16384> buffer;
  for (;;) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got == 0) return {};
    if (got < 0) {
      if (errno == EINTR) continue;
      return describe(errno);
    }
    text.append(buffer.data(), static_cast<std::size_t>(got));
    if (text.size() > kMaxFileSize) return "larger than 16 MiB";
  }
}

}  // namespace

std::vector<std::string> conf_locations() {
  // secure_getenv: whoever starts a set-uid program must not choose the libraries it loads.
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

ConfFile read_conf_file(const std::vector<std::string>& locations) {
  ConfFile result;
  for (const std::string& path : locations) {
    std::string text;
    std::string failure = read_file(path, text, result.starved);
    const bool read = failure.empty();
    result.attempts.push_back({path, std::move(failure)});
    if (result.starved) break;
    if (!read) continue;
    result.conf = parse_conf(text);
    break;
  }
  return result;
}

}  // namespace udapl::dat
