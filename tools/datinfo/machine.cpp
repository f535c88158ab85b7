// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "machine.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <system_error>

namespace datinfo {

namespace {

namespace fs = std::filesystem;

constexpr rlim_t kMinFiles = 256;
constexpr rlim_t kMinLockedMemory = rlim_t{64} << 20;

std::string address_of(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes =
      address->sa_family == AF_INET
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(address)->sin_addr)
          : &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  return ::inet_ntop(address->sa_family, bytes, text.data(), text.size());
}

// The sorted names in a folder; none if it cannot be read.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    names.push_back(at->path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

// The part of an ELF header that must match for a process to load a library: class, byte order,
// processor.
struct ElfKind {
  std::array<unsigned char, EI_NIDENT> ident{};
  Elf64_Half type = 0;  // Elf32_Ehdr starts with the same fields
  Elf64_Half machine = 0;
};

bool read_kind(const std::string& path, ElfKind& kind) {
  std::ifstream in(path, std::ios::binary);
  in.read(reinterpret_cast<char*>(&kind), sizeof kind);
  return in.good() && std::memcmp(kind.ident.data(), ELFMAG, SELFMAG) == 0;
}

std::string why_not_loadable(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return "is not a file here";
  if (::access(path.c_str(), R_OK) != 0) return "cannot be read";
  ElfKind kind;
  if (!read_kind(path, kind) || kind.type != ET_DYN) return "is not a shared library";
  ElfKind ours;
  if (read_kind("/proc/self/exe", ours) &&
      (kind.ident[EI_CLASS] != ours.ident[EI_CLASS] || kind.ident[EI_DATA] != ours.ident[EI_DATA] ||
       kind.machine != ours.machine))
    return "is for another processor";
  return {};
}

[[noreturn]] void try_to_load(const std::string& library, int answer_fd) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  constexpr unsigned kPatience = 10;  // seconds; a library may run code while it is loaded
  ::alarm(kPatience);
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  ::dup2(nowhere, STDOUT_FILENO);
  ::dup2(nowhere, STDERR_FILENO);
  std::string text = "loaded";
  void* const loaded = ::dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (loaded == nullptr) {
    text = ::dlerror();
    if (const std::string prefix = library + ": "; text.starts_with(prefix))
      text.erase(0, prefix.size());
    text = "cannot be loaded: " + text;
  } else if (::dlsym(loaded, "dat_provider_init") == nullptr) {
    text = "has no function dat_provider_init, so it is not a provider";
  }
  const ssize_t written = ::write(answer_fd, text.data(), text.size());
  ::_exit(written > 0 ? 0 : 1);
}

// Loads the library in a child process.
std::string why_not_usable(const std::string& library) {
  std::array<int, 2> answer{-1, -1};
  if (::pipe2(answer.data(), O_CLOEXEC) != 0) return {};
  const pid_t pid = ::fork();
  if (pid == 0) try_to_load(library, answer[1]);
  ::close(answer[1]);
  std::string text;
  std::array<char, 512> buffer;
  for (ssize_t got = 1; pid > 0 && got != 0;) {
    got = ::read(answer[0], buffer.data(), buffer.size());
    if (got < 0 && errno != EINTR) break;
    if (got > 0) text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  ::close(answer[0]);
  while (pid > 0 && ::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (pid < 0 || text == "loaded") return {};
  return text.empty() ? "cannot be loaded: the process that tried has ended" : text;
}

// "4: ACTIVE" -> "ACTIVE"
std::string state_of(const fs::path& port) {
  const std::string text = first_line(port / "state");
  const std::size_t colon = text.find(": ");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

// The GID table names the interface whose addresses make up the GIDs. If it does not, use the
// interface of the same parent device that has this port number.
std::string netdev_of(const fs::path& device, int port) {
  const fs::path ndevs = device / "ports" / std::to_string(port) / "gid_attrs" / "ndevs";
  for (const std::string& index : names_in(ndevs))
    if (std::string name = first_line(ndevs / index); !name.empty()) return name;
  const fs::path net = device / "device" / "net";
  const std::vector<std::string> names = names_in(net);
  for (const std::string& name : names) {
    const std::string number = first_line(net / name / "dev_port");
    if (std::atoi(number.c_str()) == port - 1) return name;
  }
  if (names.size() == 1) return names.front();
  return first_line(device / "parent");  // software devices
}

// Whether an interface of that name has an IP address.
bool has_address(const std::string& name) {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return false;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, ::freeifaddrs);
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next)
    if (one->ifa_addr != nullptr && name == one->ifa_name &&
        (one->ifa_addr->sa_family == AF_INET || one->ifa_addr->sa_family == AF_INET6))
      return true;
  return false;
}

// Wildcards, which can be bound to but belong to no host.
bool is_no_host(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const auto bits = ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr);
    return bits == INADDR_ANY || bits == INADDR_BROADCAST || IN_MULTICAST(bits);
  }
  const in6_addr& six = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  return IN6_IS_ADDR_UNSPECIFIED(&six) || IN6_IS_ADDR_MULTICAST(&six);
}

std::string limit_text(rlim_t limit) {
  return limit == RLIM_INFINITY ? "unlimited" : std::to_string(limit / 1024) + " KiB";
}

}  // namespace

std::vector<Netdev> netdevs() {
  std::vector<Netdev> found;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return found;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, ::freeifaddrs);
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
      if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != family ||
          (one->ifa_flags & IFF_UP) == 0)
        continue;
      if (std::any_of(found.begin(), found.end(),
                      [&](const Netdev& other) { return other.name == one->ifa_name; }))
        continue;
      found.push_back(
          {one->ifa_name, address_of(one->ifa_addr), (one->ifa_flags & IFF_LOOPBACK) != 0});
    }
  }
  std::stable_partition(found.begin(), found.end(),
                        [](const Netdev& one) { return !one.loopback; });
  return found;
}

bool is_of_this_machine(const std::string& device) {
  // Not if_nametoindex(), which takes "lo:1" for lo.
  if (has_address(device)) return true;
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(device.c_str(), nullptr, &hints, &found) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (is_no_host(one->ai_addr)) continue;
    // Only addresses of this machine can be bound to.
    const int fd = ::socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    const bool bound = ::bind(fd, one->ai_addr, one->ai_addrlen) == 0;
    ::close(fd);
    if (bound) return true;
  }
  return false;
}

std::string library_obstacle(const std::string& library) {
  if (library.find('/') != std::string::npos)
    if (std::string why = why_not_loadable(library); !why.empty()) return why;
  return why_not_usable(library);
}

std::vector<RdmaPort> rdma_ports(const fs::path& sysfs) {
  std::vector<RdmaPort> found;
  const fs::path all = sysfs / "class" / "infiniband";
  for (const std::string& device : names_in(all)) {
    std::vector<int> ports;
    for (const std::string& name : names_in(all / device / "ports"))
      if (const int port = std::atoi(name.c_str()); port > 0) ports.push_back(port);
    std::sort(ports.begin(), ports.end());
    for (const int port : ports) {
      const fs::path folder = all / device / "ports" / std::to_string(port);
      found.push_back({device, port, state_of(folder), first_line(folder / "link_layer"),
                       netdev_of(all / device, port)});
    }
  }
  return found;
}

std::vector<std::string> obstacles(const fs::path& dev, bool has_rdma) {
  std::vector<std::string> lines;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < kMinFiles)
    lines.push_back("this process may open only " + std::to_string(limit.rlim_cur) +
                    " files; try: ulimit -n 1024");
  if (!has_rdma) return lines;
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur < kMinLockedMemory)
    lines.push_back("this process may lock only " + limit_text(limit.rlim_cur) +
                    " of memory, which RDMA hardware needs for every LMR and queue; try: ulimit -l "
                    "unlimited (memlock in limits.conf)");
  const std::vector<std::string> files = names_in(dev / "infiniband");
  bool has_verbs = false;
  for (const std::string& name : files) {
    has_verbs = has_verbs || name.starts_with("uverbs");
    if (!name.starts_with("uverbs") && name != "rdma_cm") continue;
    const fs::path path = dev / "infiniband" / name;
    if (::access(path.c_str(), R_OK | W_OK) != 0)
      lines.push_back(path.string() + ": " + std::strerror(errno) +
                      "; try: as a member of its group, or a udev rule that opens it");
  }
  if (!has_verbs)
    lines.push_back("there are RDMA devices but no " + (dev / "infiniband").string() +
                    "/uverbs*; try: modprobe ib_uverbs, or pass the files into the container");
  return lines;
}

}  // namespace datinfo
