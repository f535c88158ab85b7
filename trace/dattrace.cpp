// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// dattrace: shows and changes the trace levels of a running process of the same user.
//
// Each uDAPL library keeps its levels in a page of memory that has a descriptor
// (common/tracing/trace.cpp). Through /proc, the kernel allows only the same user to open another
// process's descriptors. The process itself is not involved, so it may be busy, stopped or stuck.
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <getopt.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/printable.h"
#include "common/tracing/trace.h"
#include "common/tracing/trace_page.h"

namespace {

using udapl::Fd;
using udapl::trace::Page;

constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr std::string_view kRegistry = "dat";

void usage(FILE* to) {
  std::fputs(
      "usage: dattrace [--dat LEVEL] [--dapl LEVEL] PID\n"
      "\n"
      "Shows the trace levels of a running process that uses uDAPL, after changing those given.\n"
      "  --dat LEVEL    of the registry, libdat2\n"
      "  --dapl LEVEL   of all providers that the process has loaded\n"
      "  --help         this text\n"
      "  --version      the version of udapl\n"
      "LEVEL: 0 off, 1 errors, 3 normal, 5 calls, 7 detail, up to 10. Where the records go was\n"
      "decided when the process began (DAT_TRACE_SINK, DAPL_TRACE_SINK). See udapl-tracing(7).\n"
      "Exit status: 0 done, 1 failed, 2 wrong command line.\n",
      to);
}

std::optional<int> number(const char* text, int least, int most) {
  int value = 0;
  const char* const end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, value);
  if (error != std::errc() || rest != end || value < least || value > most) return std::nullopt;
  return value;
}

struct Request {
  int pid = 0;
  std::optional<int> dat;
  std::optional<int> dapl;
};

// Prints `complaint`; null if getopt_long has already printed one.
[[noreturn]] void wrong_usage(const char* complaint = nullptr) {
  if (complaint != nullptr) std::fprintf(stderr, "dattrace: %s\n", complaint);
  std::fputs("Try 'dattrace --help'.\n", stderr);
  std::exit(kUsage);
}

// Returns the exit status: `status`, or kFailed if the output could not be written.
int ended(int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  std::fprintf(stderr, "dattrace: standard output: %s\n", std::strerror(errno));
  return kFailed;
}

// Ends the program if the arguments are invalid.
Request parse(int argc, char** argv) {
  static const option options[] = {{"dat", required_argument, nullptr, 'r'},
                                   {"dapl", required_argument, nullptr, 'p'},
                                   {"help", no_argument, nullptr, 'h'},
                                   {"version", no_argument, nullptr, 'V'},
                                   {nullptr, 0, nullptr, 0}};
  Request request;
  for (int o; (o = ::getopt_long(argc, argv, "h", options, nullptr)) != -1;) {
    if (o == 'h') {
      usage(stdout);
      std::exit(ended(0));
    }
    if (o == 'V') {
      std::puts("dattrace (udapl) " UDAPL_VERSION);
      std::exit(ended(0));
    }
    if (o != 'r' && o != 'p') wrong_usage();
    const std::optional<int> level = number(optarg, 0, udapl::trace::kMax);
    if (!level) {
      std::fprintf(stderr, "dattrace: \"%s\" is not a level from 0 to %d\n", optarg,
                   int{udapl::trace::kMax});
      std::exit(kUsage);
    }
    (o == 'r' ? request.dat : request.dapl) = level;
  }
  if (optind + 1 != argc)
    wrong_usage(optind == argc ? "the id of a process is missing" : "one process at a time");
  const std::optional<int> pid = number(argv[optind], 1, 1 << 30);
  if (!pid) {
    std::fprintf(stderr, "dattrace: \"%s\" is not the id of a process\n", argv[optind]);
    std::exit(kUsage);
  }
  request.pid = *pid;
  return request;
}

// The levels of one library of the process.
struct Library {
  std::string name;  // "dat", "dapl-soft"
  Page* page;
};

// Returns null, with the reason on stderr, for anything that a uDAPL library would not have made: a
// file that could be truncated while it is mapped, or a page of another version.
Page* map_page(const std::string& path, const std::string& name) {
  const Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct stat status {};
  if (!file.valid() || ::fstat(file.get(), &status) != 0) {
    std::fprintf(stderr, "dattrace: %s: %s\n", name.c_str(), std::strerror(errno));
    return nullptr;
  }
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  if (status.st_size != static_cast<off_t>(sizeof(Page)) || seals < 0 ||
      (seals & F_SEAL_SHRINK) == 0) {
    std::fprintf(stderr, "dattrace: %s: not a page of trace levels\n", name.c_str());
    return nullptr;
  }
  void* const memory =
      ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) {
    std::fprintf(stderr, "dattrace: %s: %s\n", name.c_str(), std::strerror(errno));
    return nullptr;
  }
  auto* const page = static_cast<Page*>(memory);
  if (page->magic == udapl::trace::kPageMagic && page->version == udapl::trace::kPageVersion)
    return page;
  std::fprintf(stderr, "dattrace: %s: of another version of uDAPL\n", name.c_str());
  ::munmap(memory, sizeof(Page));
  return nullptr;
}

int complain_about(int pid, int error) {
  std::fprintf(stderr, "dattrace: process %d: %s\n", pid,
               error == ENOENT || error == ESRCH ? "there is no such process"
               : error == EACCES || error == EPERM
                   ? "it is not yours, or has more privileges than you"
                   : std::strerror(error));
  return kFailed;
}

// Returns 0 or an errno value.
int find_libraries(int pid, std::vector<Library>& libraries) {
  const std::string folder = "/proc/" + std::to_string(pid) + "/fd";
  DIR* const directory = ::opendir(folder.c_str());
  if (directory == nullptr) return errno;
  const std::string prefix = std::string("/memfd:") + udapl::trace::kPageName;
  constexpr std::string_view kSuffix = " (deleted)";
  while (const dirent* const entry = ::readdir(directory)) {
    const std::string path = folder + '/' + entry->d_name;
    char target[128];
    const ssize_t length = ::readlink(path.c_str(), target, sizeof target);
    if (length <= 0) continue;
    std::string_view name(target, static_cast<std::size_t>(length));
    if (!name.starts_with(prefix)) continue;
    name.remove_prefix(prefix.size());
    if (name.ends_with(kSuffix)) name.remove_suffix(kSuffix.size());
    std::string shown(name);  // chosen by the process, so not trusted
    udapl::make_printable(shown.data(), shown.size());
    Page* const page = map_page(path, shown);
    if (page != nullptr) libraries.push_back({std::move(shown), page});
  }
  ::closedir(directory);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const Request request = parse(argc, argv);
  std::vector<Library> libraries;
  if (const int error = find_libraries(request.pid, libraries); error != 0)
    return complain_about(request.pid, error);
  if (libraries.empty()) {
    std::fprintf(stderr,
                 "dattrace: process %d has no trace levels: it does not use this uDAPL (yet), or "
                 "has closed all its descriptors\n",
                 request.pid);
    return kFailed;
  }
  bool provider = false;
  for (const Library& library : libraries) {
    const bool is_registry = library.name == kRegistry;
    provider = provider || !is_registry;
    const std::optional<int> level = is_registry ? request.dat : request.dapl;
    if (level) library.page->set_text_level(*level);
    std::printf(
        "%s %d%s\n", library.name.c_str(), library.page->text_level.load(std::memory_order_relaxed),
        library.page->probe_level.load(std::memory_order_relaxed) >= 0 ? " (and LTTng)" : "");
  }
  if (!request.dapl || provider) return ended(0);
  std::fprintf(stderr, "dattrace: process %d has not loaded a provider yet\n", request.pid);
  return kFailed;
}
